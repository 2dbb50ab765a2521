"""JSON Schemas as they are asked for, and answers held against them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.errors import UsageError
from hermes.kernel.messages import Message, ModelRequest, Text
from hermes.kernel.providers import ModelRow, Profile, Target
from hermes.kernel.structured import as_object, checked_schema, fitted, for_target

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}

# ---- The schema -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ([1], "an object, not list"),
        ("text", "an object, not str"),
        (True, "an object, not bool"),
        ({"type": "objct"}, "$.type"),
        ({"type": "object", "required": "name"}, "$.required"),
        ({"$ref": "#"}, "without an end"),
        ({"$ref": "https://example.com/schema.json"}, "not in it"),
        ({"properties": {"a": {"$ref": "#/$defs/absent"}}}, "not in it"),
        ({"enum": [float("nan")]}, "not JSON"),
        ({"const": {1, 2}}, "not JSON"),
    ],
)
def test_what_is_no_usable_schema_is_refused_with_the_reason(schema: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("$", r"\$").replace(".", r"\.")):
        checked_schema(schema)


def test_a_checked_schema_is_a_copy_of_plain_json() -> None:
    given = {"type": "object", "properties": {1: {"type": "string"}}}
    checked = checked_schema(given)
    assert checked == {"type": "object", "properties": {"1": {"type": "string"}}}
    assert checked["properties"] is not given["properties"]


def test_a_recursive_schema_is_fine() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    checked_schema(tree)
    assert fitted('{"child": {"child": {}}}', tree) == ({"child": {"child": {}}}, "")
    assert fitted('{"child": {"other": 1}}', tree)[1]


def test_an_object_is_asked_for_as_it_is_and_anything_else_inside_one() -> None:
    assert as_object(PERSON) == PERSON
    assert as_object({"properties": {"a": {}}}) == {"type": "object", "properties": {"a": {}}}
    around = as_object({"type": "array", "items": {"$ref": "#/$defs/p"}, "$defs": {"p": PERSON}})
    assert around["properties"] == {"answer": {"type": "array", "items": {"$ref": "#/$defs/p"}}}
    assert around["$defs"] == {"p": PERSON}
    assert (around["type"], around["required"], around["additionalProperties"]) == ("object", ["answer"], False)


def test_references_to_the_root_follow_it_into_the_object_around() -> None:
    nested = {"type": ["array", "null"], "items": {"$ref": "#"}}
    checked_schema(dict(as_object(nested)))
    assert fitted('{"answer": [[], null]}', nested) == ([[], None], "")
    assert fitted('{"answer": [[1]]}', nested)[1]


# ---- The answer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada"}',
        ' \n{"name": "Ada"}\n',
        '```json\n{"name": "Ada"}\n```',
        '```\n{"name": "Ada"}\n```',
        'Here it is:\n\n```json\n{"name": "Ada"}\n```\nI hope this helps.',
    ],
)
def test_an_answer_is_read_bare_or_from_its_one_fence(text: str) -> None:
    assert fitted(text, PERSON) == ({"name": "Ada"}, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Ada", "not JSON"),
        ("", "not JSON"),
        ('{"name": "Ada"', "not JSON"),
        ('```json\n{"name": "a"}\n```\n```json\n{"name": "b"}\n```', "not JSON"),
        ('{"name": NaN}', "NaN"),
        ('{"name": "Ada", "age": 1e999}', "1e999"),
        ('{"name": "Ada", "age": -Infinity}', "-Infinity"),
        ("[" * 100_000, "too deeply"),
        ('{"name": 1}', r"$.name: 1 is not of type 'string'"),
        ('{"age": 1}', "'name' is a required property"),
        ('["Ada"]', "is not of type 'object'"),
        ('{"name": "Ada", "more": 1}', "'more' was unexpected"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(text: str, says: str) -> None:
    value, problem = fitted(text, PERSON)
    assert value is None
    assert says in problem


def test_what_is_said_of_a_long_misfit_is_bounded() -> None:
    numbers = {"type": "array", "items": {"type": "integer", "description": "x" * 5000}}
    _, problem = fitted(json.dumps({"answer": ["y" * 5000] * 100}), numbers)
    assert 0 < len(problem) < 2000


def test_the_draft_that_a_schema_names_holds() -> None:
    seventh = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "array", "items": [{"type": "string"}]}},
    }
    assert fitted('{"a": [1]}', seventh)[1]
    assert fitted('{"a": ["x"]}', seventh) == ({"a": ["x"]}, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_value_that_fits_comes_back_as_it_is(value: Any) -> None:
    assert fitted(json.dumps({"answer": value}), {"anyOf": [{"const": value}]}) == (value, "")


@given(st.text())
def test_no_text_whatever_makes_it_fail(text: str) -> None:
    value, problem = fitted(text, PERSON)
    assert (value is None) == bool(problem)


# ---- The request ----------------------------------------------------------------------------------------------------

ASKED = ModelRequest((Message("user", (Text("who?"),)),), note="be brief", schema=PERSON)


def target(*, local: bool = False, row: ModelRow | None = None, **quirks: Any) -> Target:
    return Target("p:m", Profile("p", local=local, quirks=quirks), "m", "http://x/v1", "chat_completions", row=row)


def test_a_request_without_a_schema_is_the_same_object() -> None:
    request = ModelRequest(())
    assert for_target(request, target(schema_parameter="none"), has_tools=True) is request


@pytest.mark.parametrize("has_tools", [True, False])
def test_a_schema_goes_into_its_own_field_where_there_is_one(has_tools: bool) -> None:
    assert for_target(ASKED, target(), has_tools=has_tools) is ASKED


TOLD = {
    "no field for it": (target(schema_parameter="none"), ASKED),
    "facts say that the model cannot": (target(row=ModelRow("m", schemas=False)), ASKED),
    "the provider refused it before": (
        target(),
        ModelRequest(ASKED.messages, note=ASKED.note, schema=PERSON, leave_out=("schema",)),
    ),
    "a local server, where it leaves no room for calls": (target(local=True), ASKED),
    "a provider that takes no schema beside tools": (target(schema_beside_tools=False), ASKED),
}


@pytest.mark.parametrize("why", TOLD)
def test_a_schema_is_told_in_words_where_it_cannot_be_sent(why: str) -> None:
    asked = for_target(TOLD[why][1], TOLD[why][0], has_tools=True)
    assert asked.schema is None
    assert asked.note.startswith("be brief\nWhen you give your final answer")
    assert json.dumps(PERSON) in asked.note


def test_a_local_server_holds_the_reply_to_the_schema_once_no_call_can_come() -> None:
    no_calls = ModelRequest(ASKED.messages, may_call=False, schema=PERSON)
    assert for_target(no_calls, target(local=True), has_tools=True) is no_calls
    assert for_target(ASKED, target(local=True), has_tools=False) is ASKED


def test_json_mode_alone_is_asked_for_and_told() -> None:
    asked = for_target(ASKED, target(schema_parameter="json_object"), has_tools=False)
    assert asked.schema == PERSON
    assert "Answer with one JSON value" in asked.note
