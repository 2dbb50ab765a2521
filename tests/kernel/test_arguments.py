"""Arguments: what is taken, what is refused, and that text which was cut is never completed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.arguments import CUT, coerce, parse_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("raw", [None, "", "  \n", "{}"])
def test_no_arguments_are_an_empty_object(raw: str | None) -> None:
    assert parse_arguments("todo", raw) == ({}, None)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"query":"what\'s up"}', {"query": "what's up"}),
        ("{'query': 'it\"s', 'n': None, 'b': True}", {"query": 'it"s', "n": None, "b": True}),
        ('{"a":1,}', {"a": 1}),
        ('{"s": "a\tb\nc"}', {"s": "a\tb\nc"}),
        (json.dumps(json.dumps({"a": [1, "x"]})), {"a": [1, "x"]}),
        (r"{\"a\": 1}", {"a": 1}),
        (r'{"re":"\d+\.\w*", "q": "a\"\s"}', {"re": r"\d+\.\w*", "q": r'a"\s'}),
        ('{"url": "http://x//y#z", /* c */ "a": 1, # py\n "b": 2 // js\n}', {"url": "http://x//y#z", "a": 1, "b": 2}),
        ('{"a": 1 "b": [1,], c: \'x\'}', {"a": 1, "b": [1], "c": "x"}),
        ('{"a": "x"\n "b": 2}', {"a": "x", "b": 2}),
        ('Here:\n```json\n{"a": "```"}\n```\nDone.', {"a": "```"}),
        ('<tool_call>{"a": 1}</tool_call>', {"a": 1}),
        ('{"a": 1}{"a": 1}', {"a": 1}),
        ('{"a": 1}}', {"a": 1}),
        ('{"a": {"b": [true, "x"]', {"a": {"b": [True, "x"]}}),
        (
            '{"a": NaN, "b": .5, "c": +1., "d": -0x10, "e": -Infinity}',
            {"a": None, "b": 0.5, "c": 1.0, "d": -16, "e": None},
        ),
        ("null", {}),
    ],
)
def test_B060_what_can_be_read_without_guessing_is_read_as_it_was_meant(raw: str, expected: dict[str, Any]) -> None:
    assert parse_arguments("t", raw) == (expected, None)


@pytest.mark.parametrize(
    "raw",
    [
        r'{"re":"\d+","p":"C:\path\new"}',
        r'{"re":"\bword\d"}',
        r'{"p":"C:\Users\x"}',
        r'{"s":"short \u12"}',
        '{"a": 1e999}',
        '{"a": 0123}',
        '{"a": "say "hi" now", "b": 1}',
        '{"a": "x" "b": 2}',
        '{"a": [1 2]}',
        '{"a": hello}',
        '{"a": 1}{"a": 2}',
        '{"a": 1} and so on',
        "{'a': '\\x41'}",
        '{"cmd": "echo "# done" > f"}',
        '{"cmd": "see "// there", "n": 1}',
        '{\n# "path": "a"\n}',
        '"cmd": "a", "path": {"c": 1}}',
        ',"n": {"b": 1}}',
        'cmd": "a", "p": {"c": 1}',
        '{"a": {"x": 1, "y": 2}',
        '{"a": {"x": 1, "x": 2}',
        '{"a": {"x": 1}, "b": 2}}',
        '{"a": {"x": 1} "b": 2}}',
        'text {"a": 1}, "b": 2}',
        "[1]",
        "3",
    ],
)
def test_B060_what_would_need_a_guess_is_refused_and_not_called_cut(raw: str) -> None:
    arguments, problem = parse_arguments("t", raw)
    assert arguments == {}
    assert problem is not None
    assert not problem.startswith(CUT)


@pytest.mark.parametrize(
    "raw",
    [
        '{"path":"a.md","content":"# Title\\n line',
        '{"cmd":"rm -rf /tmp/a',
        "{'cmd': 'rm -rf /tmp/a",
        '{"a": 1',
        '{"a": -',
        '{"a": 1.',
        '{"a": tru',
        '{"a":',
        '{"a"',
        '{"a',
        "{",
        '{"a": [1,',
        '{"a": ["x", ',
        '{"s":"short \\u12',
        '"{\\"a\\": \\"b',
        '{"re": "\\d", "content": "half of',
    ],
)
def test_B004_text_that_ends_in_the_middle_is_cut(raw: str) -> None:
    arguments, problem = parse_arguments("write_file", raw)
    assert arguments == {}
    assert problem is not None
    assert problem.startswith(CUT)
    assert "write_file" in problem


def test_B004_a_cut_reply_makes_every_unreadable_or_missing_text_cut_but_keeps_a_whole_object() -> None:
    assert (parse_arguments("t", "", cut=True)[1] or "").startswith(CUT)
    assert (parse_arguments("t", '{"a": "x"', cut=True)[1] or "").startswith(CUT)
    assert parse_arguments("t", '{"a": "x"}', cut=True) == ({"a": "x"}, None)


@settings(max_examples=150)
@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON, min_size=1, max_size=3), st.data())
def test_B004_no_beginning_of_an_object_is_ever_taken_for_the_object(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut_at = data.draw(st.integers(1, len(text) - 1))
    arguments, problem = parse_arguments("t", text[:cut_at], cut=True)
    assert arguments == {}
    assert problem is not None


@settings(max_examples=300)
@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON, min_size=1, max_size=3), st.data())
def test_B004_of_a_beginning_only_whole_values_are_taken_and_brackets_added(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut_at = data.draw(st.integers(1, len(text) - 1))
    arguments, problem = parse_arguments("t", text[:cut_at])
    assert problem is not None or _is_beginning(arguments, value)


def _is_beginning(part: Any, whole: Any) -> bool:
    """True when `part` is `whole` without what came after some whole value in it."""
    if isinstance(part, dict) and isinstance(whole, dict):
        keys = list(part)
        return keys == list(whole)[: len(keys)] and all(
            _is_beginning(part[k], whole[k]) if k == keys[-1] else part[k] == whole[k] for k in keys
        )
    if isinstance(part, list) and isinstance(whole, list):
        return part[:-1] == whole[: len(part) - 1] and (not part or _is_beginning(part[-1], whole[len(part) - 1]))
    return bool(part == whole)


@settings(max_examples=300)
@given(st.text("{}[]\":,'\\ntrue0.x/*# \n", max_size=30))
def test_reading_ends_with_an_object_or_a_problem_for_any_text(raw: str) -> None:
    arguments, problem = parse_arguments("t", raw)
    assert problem is None or (arguments == {} and problem)


@settings(max_examples=100)
@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=3))
def test_B060_what_python_prints_is_read_back_without_a_change(value: dict[str, Any]) -> None:
    arguments, problem = parse_arguments("t", repr(value))
    assert problem is not None or arguments == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("raw", "place"),
    [('{"names": cronjob_manage}', "column 11"), ("{bad}", "column 5"), ("{bad", "after 4 characters")],
)
def test_B057_B061_an_unreadable_call_says_where_and_quotes_what_came(raw: str, place: str) -> None:
    problem = parse_arguments("t", raw)[1] or ""
    assert place in problem
    assert raw in problem
    assert problem.startswith(CUT) == (raw == "{bad")


def test_the_quote_of_a_long_text_is_bounded() -> None:
    assert len(parse_arguments("t", "x" * 100_000)[1] or "") < 500


def test_deep_nesting_and_huge_numbers_are_refused_not_crashed_on() -> None:
    for raw in (
        '{"a":' * 100_000,
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
        '{"a":' + "1" * 10_000 + "}",
        "{'a': " * 9000,
    ):
        assert parse_arguments("t", raw)[1] is not None


def test_B062_surrogate_pairs_combine_and_lone_halves_are_replaced() -> None:
    assert parse_arguments("t", '{"a": "\\ud83c\\udf78"}')[0] == {"a": "\U0001f378"}
    assert parse_arguments("t", '{"a": "x\\ud800"}')[0] == {"a": "x\ufffd"}
    assert parse_arguments("t", '{"a": "\ud83c\udf78"}')[0] == {"a": "\U0001f378"}


# ---- coerce ---------------------------------------------------------------------------------------------------------


def one(schema: dict[str, Any], value: Any) -> tuple[Any, str | None]:
    out, problem = coerce({"x": value}, {"type": "object", "properties": {"x": schema}})
    return out.get("x"), problem


TAKEN: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "integer"}, "42", 42),
    ({"type": "integer"}, 42.0, 42),
    ({"type": "integer"}, "5.0", 5),
    ({"type": "number"}, "3.14", 3.14),
    ({"type": "number"}, "7", 7),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "False", False),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["integer", "null"]}, "3", 3),
    ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}, "[1]", [1]),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "42", "42"),
    ({"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
    ({"type": "array", "items": {"type": "string"}}, "a", ["a"]),
    ({"type": "array", "items": {"type": "string"}}, "[a-z]*.py", ["[a-z]*.py"]),
    ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
    ({"type": "array", "items": {"type": "object"}}, ['{"a": 1}'], [{"a": 1}]),
    ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": "1"}', {"n": 1}),
    ({"type": "string"}, "true", "true"),
    ({"type": "string"}, "[1]", "[1]"),
    ({}, "42", "42"),
]


@pytest.mark.parametrize(("schema", "value", "expected"), TAKEN)
def test_B114_lossless_changes_of_type_are_made(schema: dict[str, Any], value: Any, expected: Any) -> None:
    got, problem = one(schema, value)
    assert problem is None
    assert got == expected
    assert type(got) is type(expected)


REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "integer"}, "3.14", 'x: must be an integer, not "3.14"'),
    ({"type": "integer"}, "1_000", "x: must be an integer"),
    ({"type": "number"}, "inf", "x: must be a number"),
    ({"type": "number"}, "1e999", "x: must be a number"),
    ({"type": "integer"}, True, "x: must be an integer"),
    ({"type": "boolean"}, "yes", "x: must be true or false"),
    ({"type": "boolean"}, 1, "x: must be true or false"),
    ({"type": "array", "items": {"type": "integer"}}, "a", "x: must be a list"),
    ({"type": "array", "items": {"type": "string"}}, "", "x: must be a list"),
    ({"type": "string"}, 5, "x: must be a string"),
    ({"type": "string", "enum": ["a", "b"]}, "c", 'x: must be one of ["a", "b"]'),
    ({"type": "integer", "minimum": 1}, "0", "x: must be at least 1"),
    ({"type": "object", "required": ["n"]}, {}, "x.n: is missing"),
    ({"type": "array", "items": {"type": "integer"}}, [1, "b"], "x[1]: must be an integer"),
]


@pytest.mark.parametrize(("schema", "value", "words"), REFUSED)
def test_B114_the_rest_is_left_as_it_came_and_reported(schema: dict[str, Any], value: Any, words: str) -> None:
    got, problem = one(schema, value)
    assert words in (problem or "")
    if schema["type"] != "integer" or value != "0":
        assert got == value


def test_B114_an_explicit_null_for_an_optional_argument_is_the_same_as_leaving_it_out() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["string", "null"]}},
        "required": ["a"],
    }
    assert coerce({"a": "x", "b": None, "c": None}, schema) == ({"a": "x", "c": None}, None)
    assert "a: must be a string" in (coerce({"a": None}, schema)[1] or "")


def test_B114_missing_and_unknown_arguments_are_named() -> None:
    schema = {"properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False}
    problem = coerce({"file": "x"}, schema)[1] or ""
    assert "path: is missing" in problem
    assert "file: is unknown; known are path" in problem


def test_references_into_the_schema_are_followed() -> None:
    schema = {"properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": {"type": "object", "required": ["n"]}}}
    assert coerce({"p": '{"n": 1}'}, schema) == ({"p": {"n": 1}}, None)
    assert "p.n: is missing" in (coerce({"p": {}}, schema)[1] or "")


SCHEMAS = st.recursive(
    st.sampled_from(["string", "integer", "number", "boolean", "null"]).map(lambda kind: {"type": kind}),
    lambda inner: (
        inner.map(lambda s: {"type": "array", "items": s})
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=2).map(lambda p: {"type": "object", "properties": p})
        | st.lists(inner, min_size=1, max_size=2).map(lambda s: {"anyOf": s})
    ),
    max_leaves=5,
)
VALUES = JSON | st.sampled_from(["42", "3.5", "true", "null", '["1"]', '{"a": "1"}', "[x]", ["1", "2"], {"a": "1"}])


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), st.dictionaries(st.sampled_from("abc"), SCHEMAS))
def test_coercion_is_idempotent(arguments: dict[str, Any], properties: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": properties}
    once = coerce(arguments, schema)
    assert coerce(once[0], schema) == once


@settings(max_examples=200)
@given(st.text() | st.sampled_from(["42", "true", "null", "[1]", '{"a": 1}', "a, b", "1e5"]))
def test_a_string_is_never_changed_where_the_schema_wants_one(value: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["integer", "string"]},
            "c": {"anyOf": [{"type": "array"}, {"type": "string"}]},
            "d": {"type": "array", "items": {"type": "string"}},
        },
    }
    given_ = {"a": value, "b": value, "c": value, "d": [value]}
    assert coerce(given_, schema)[0] == given_
