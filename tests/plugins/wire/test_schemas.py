"""Tool schemas: whatever an author writes, each server is sent what it takes, and it means the same."""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.providers import Profile, Target, ToolSchema
from hermes.plugins.wire.schemas import answer_schema, is_strict_schema, parameters_of
from hermes.plugins.wire.schemas.dialects import DIALECTS

NAMES = sorted(DIALECTS)
TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}


def target(dialect: str, api_mode: str = "chat_completions") -> Target:
    return Target(f"t:{dialect}", Profile("t", quirks={"schema_dialect": dialect}), "m", "http://x/v1", api_mode)


def sent(schema: Any, dialect: str = "openai") -> Any:
    return parameters_of(ToolSchema("tool", "A tool.", schema), target(dialect))


def properties(schema: Any, dialect: str = "openai") -> Any:
    """What becomes of properties; `schema` is what stands under the name `p`."""
    return sent({"type": "object", "properties": {"p": schema}}, dialect)["properties"]["p"]


# ---- What servers refuse, written from their references -------------------------------------------------------------


def _nodes(schema: Any, path: str = "root") -> Iterator[tuple[str, Any]]:
    """Every schema in a schema with its place."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        for name, inner in (schema.get(key) or {}).items():
            yield from _nodes(inner, f"{path}.{key}.{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for place, inner in enumerate(schema.get(key) or ()):
            yield from _nodes(inner, f"{path}.{key}[{place}]")
    for key in ("items", "additionalProperties", "not", "contains"):
        if isinstance(schema.get(key), dict):
            yield from _nodes(schema[key], f"{path}.{key}")


def refusals(schema: Any, dialect: str) -> list[str]:
    if schema == {} and dialect == "gemini":
        return []
    problems = []
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        problems.append("root: no object with properties")
    problems += [f"root: {key}" for key in ("anyOf", "oneOf", "allOf", "enum", "not", "$ref") if key in schema]
    if dialect == "bedrock":
        problems += [f"root: {key}" for key in set(schema) - {"type", "properties", "required"}]
    if dialect in ("openai", "anthropic", "xai"):
        jsonschema.Draft202012Validator.check_schema(schema)
    for path, node in _nodes(schema):
        if not isinstance(node, dict):
            problems.append(f"{path}: no schema: {node!r}")
            continue
        problems += [f"{path}: {text}" for text in _of_node(node, dialect)]
        if "$ref" in node and not (
            re.fullmatch(r"#/(\$defs|definitions)/\w+", node["$ref"]) and {"$defs", "definitions"} & set(schema)
        ):
            problems.append(f"{path}: reference to {node['$ref']}")
    return problems


def _of_node(node: dict[str, Any], dialect: str) -> Iterator[str]:
    kinds = node.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not set(kinds) <= TYPES:
        yield f"type {kinds}"
    if "array" in kinds and "items" not in node and "prefixItems" not in node and dialect != "moonshot":
        yield "array without items"
    if not set(node.get("required", [])) <= set(node.get("properties", {})) and "properties" in node:
        yield "required names what is not there"
    if node.get("enum") == []:
        yield "empty enum"
    if dialect in ("anthropic", "bedrock", "moonshot", "gemini") and len(kinds) > 1 and "null" in kinds:
        yield "nullable type"
    if dialect in ("anthropic", "bedrock"):
        yield from (f"name {n!r}" for n in node.get("properties", {}) if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", n))
    if dialect == "xai":
        yield from (key for key in ("pattern", "format") if key in node)
        if any(isinstance(v, str) and "/" in v for v in node.get("enum", ())):
            yield "enum with a slash"
    if dialect in ("gemini", "moonshot", "bedrock") and "$ref" in node:
        yield "$ref"
    if dialect == "gemini":
        yield from _of_gemini(node)
    if dialect == "moonshot":
        yield from _of_moonshot(node)


def _of_gemini(node: dict[str, Any]) -> Iterator[str]:
    known = {"type", "format", "description", "nullable", "enum", "items", "properties", "required", "anyOf"}
    known |= {f"{least}{what}" for least in ("min", "max") for what in ("Items", "Length", "Properties")}
    yield from set(node) - known - {"minimum", "maximum", "pattern"}
    if "anyOf" in node:
        if set(node) != {"anyOf"}:
            yield "anyOf is not the only field"
    elif not isinstance(node.get("type"), str):
        yield "no type"
    if "enum" in node and (node.get("type") != "string" or not all(isinstance(v, str) and v for v in node["enum"])):
        yield "enum not of texts"
    if node.get("properties") == {}:
        yield "empty properties"
    if node.get("format") not in (None, "date-time", "enum", "float", "double", "int32", "int64"):
        yield "format"


def _of_moonshot(node: dict[str, Any]) -> Iterator[str]:
    known = {"type", "description", "properties", "required", "additionalProperties", "items", "enum", "anyOf"}
    yield from set(node) - known
    if "anyOf" in node:
        if set(node) - {"anyOf", "description"}:
            yield "keywords beside anyOf"
    elif not isinstance(node.get("type"), str):
        yield "no type"
    if "enum" in node and (
        len({type(v) for v in node["enum"]} - {int}) > 1
        or any(isinstance(v, (bool, type(None), dict, list)) for v in node["enum"])
    ):
        yield "enum of several types"
    if set(node.get("properties", {})) & {"$defs", "$ref", "anyOf", "required", "additionalProperties"}:
        yield "a keyword as name"


# ---- Odd schemas ----------------------------------------------------------------------------------------------------

DEEP: Any = {"type": "string"}
for _ in range(12):
    DEEP = {"type": "object", "properties": {"inner": DEEP}, "required": ["inner"]}

ODD: dict[str, Any] = {
    **json.loads((Path(__file__).parent / "odd_schemas.json").read_text(encoding="utf-8")),
    "twelve levels": {"type": "object", "properties": {"a": DEEP}},
}
"""Forms that public reports show to be refused by one server or another (B025 and its neighbours)."""


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("odd", ODD)
def test_B025_an_odd_schema_is_sent_in_a_form_that_the_server_takes(odd: str, dialect: str) -> None:
    before = copy.deepcopy(ODD[odd])
    schema = sent(ODD[odd], dialect)
    assert schema is not None
    assert refusals(schema, dialect) == []
    assert ODD[odd] == before


@pytest.mark.parametrize("dialect", NAMES)
def test_B025_what_is_no_json_is_not_sent(dialect: str) -> None:
    odd = {"a": {"type": "number", "default": float("inf"), "maximum": float("nan")}, "b": {"const": object()}}
    schema = sent({"type": "object", "properties": odd}, dialect)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema
    assert schema["properties"]["a"] == {"type": "number"}


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize(
    "schema",
    [{"type": "string"}, {"type": "array", "items": {}}, "x", 3, [1], {"anyOf": [{"type": "string"}, {"enum": [1]}]}],
)
def test_B025_a_tool_whose_arguments_are_no_object_is_left_out(schema: Any, dialect: str) -> None:
    assert sent(schema, dialect) is None


def test_B025_a_tool_that_is_left_out_is_named_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    odd = ToolSchema("odd_tool_17", "", {"type": "string"})
    with caplog.at_level(logging.WARNING, "hermes.wire"):
        assert [parameters_of(odd, target("openai")) for _ in range(3)] == [None] * 3
    assert [r.getMessage() for r in caplog.records] == [
        "t:openai is not offered the tool odd_tool_17: its schema cannot be sent: "
        "its arguments are no object but string"
    ]


def test_a_schema_that_is_nested_without_end_or_grows_without_bound_is_left_out() -> None:
    deep: Any = {"type": "string"}
    for _ in range(3000):
        deep = {"type": "object", "properties": {"a": deep}}
    assert sent(deep) is None
    doubling = {f"D{n}": {"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 4}} for n in range(30)}
    assert sent({"type": "object", "properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": doubling}, "gemini") is None
    chain: Any = {"type": "object", "anyOf": []}
    for _ in range(40):
        chain = {"type": "object", "anyOf": [chain]}
    assert sent(chain) is None


def test_a_plain_schema_stays_as_it_is_with_its_order() -> None:
    plain = {
        "type": "object",
        "properties": {"b": {"type": "string", "description": "B.", "pattern": "x"}, "a": {"$ref": "#/$defs/A"}},
        "required": ["b"],
        "additionalProperties": False,
        "$defs": {"A": {"type": ["integer", "null"], "minimum": 1}},
    }
    assert json.dumps(sent(plain)) == json.dumps(plain)
    assert json.dumps(sent(plain, "gemini")) == json.dumps(sent(plain, "gemini"))


# ---- Dialect by dialect ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api_mode", "expected"),
    [
        ("chat_completions", ["string", "null"]),
        ("codex_responses", ["string", "null"]),
        ("anthropic_messages", "string"),
        ("bedrock_converse", "string"),
    ],
)
def test_the_dialect_is_that_of_the_wire_format_unless_a_quirk_names_one(api_mode: str, expected: Any) -> None:
    tool = ToolSchema("t", "", {"type": "object", "properties": {"a": {"type": ["string", "null"]}}})
    plain = Target("t:m", Profile("t"), "m", "http://x", api_mode)
    assert (parameters_of(tool, plain) or {})["properties"]["a"]["type"] == expected
    assert (parameters_of(tool, target("xai", api_mode)) or {})["properties"]["a"]["type"] == ["string", "null"]


@pytest.mark.parametrize("empty", [k for k in ODD if k.startswith("B110")])
def test_B110_a_tool_without_arguments_has_empty_properties_and_for_gemini_no_schema(empty: str) -> None:
    assert sent(ODD[empty]) == {"type": "object", "properties": {}}
    assert sent(ODD[empty], "gemini") == {}


def test_spec_27197_28490_xai_gets_neither_pattern_nor_format_nor_an_enum_with_a_slash_but_is_told() -> None:
    assert properties({"type": "string", "pattern": "^a+$", "format": "uuid", "description": "An id."}, "xai") == {
        "type": "string",
        "description": 'An id. (pattern: "^a+$"; format: "uuid")',
    }
    assert properties({"type": "string", "enum": ["a/b", "c"]}, "xai") == {
        "type": "string",
        "description": '(enum: ["a/b", "c"])',
    }
    assert properties({"type": "string", "enum": ["a", "c"]}, "xai")["enum"] == ["a", "c"]


def test_spec_27907_the_tool_itself_is_never_changed() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "pattern": "x", "enum": ["a/b", None]}},
    }
    tool = ToolSchema("t", "", schema)
    before = copy.deepcopy(schema)
    for dialect in NAMES:
        parameters_of(tool, target(dialect))
    assert tool.parameters == before


def test_spec_3_3_10_nullable_unions_collapse_for_anthropic() -> None:
    union = {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
        "description": "How many.",
        "default": None,
    }
    assert properties(union, "anthropic") == {"type": "integer", "minimum": 1, "description": "How many."}
    assert properties(union, "gemini") == {
        "type": "integer",
        "minimum": 1,
        "description": "How many.",
        "nullable": True,
    }
    assert properties(union) == union


def test_spec_3_3_10_a_union_at_the_root_becomes_one_object_that_says_what_belongs_together() -> None:
    schema = sent(ODD["needs one of"], "anthropic")
    assert schema == {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "description": "Give one of these together: a; b.",
    }
    assert sent(ODD["union at the root"]) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    }
    assert sent(ODD["all of at the root"])["required"] == ["a"]


def test_an_argument_that_alternatives_describe_differently_may_be_either() -> None:
    either = [{"properties": {"v": {"type": kind}}, "required": ["v"]} for kind in ("string", "integer", "string")]
    assert sent({"type": "object", "oneOf": either}) == {
        "type": "object",
        "properties": {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        "required": ["v"],
    }


def test_B140_references_are_put_in_place_before_unions_collapse() -> None:
    schema = sent(ODD["B140 reference into a union"], "anthropic")["properties"]
    assert schema["m"] == {"type": "object", "properties": {"x": {"type": "string"}}}
    assert schema["n"] == {"type": "string"}


def test_B140_a_recursive_reference_ends_in_the_bare_type_where_references_must_go() -> None:
    node = sent(ODD["B140 recursion"], "gemini")["properties"]["tree"]
    assert node["properties"]["children"] == {"type": "array", "items": {"type": "object"}}
    assert sent(ODD["B140 recursion"]) == ODD["B140 recursion"]


def test_what_stands_beside_a_reference_wins_over_what_it_points_to() -> None:
    schema = sent(ODD["reference with more beside it"], "moonshot")
    assert schema["properties"]["a"] == {"type": "string", "description": "this one"}


def test_moonshot_has_types_inside_a_union_and_never_beside_it() -> None:
    union = {
        "type": "string",
        "description": "D.",
        "anyOf": [{"enum": ["x"]}, {"type": "array", "items": {"type": "string"}}],
    }
    assert properties(union, "moonshot") == {
        "anyOf": [
            {"type": "string", "enum": ["x"], "description": "D."},
            {"type": "array", "items": {"type": "string"}},
        ]
    }
    flat = properties(ODD["nested needs one of"]["properties"]["p"], "moonshot")
    assert list(flat["properties"]) == ["a", "b"]
    assert "anyOf" not in flat


def test_a_keyword_that_belongs_to_one_type_goes_into_that_alternative_only() -> None:
    several = {"type": ["string", "array"], "items": {"type": "string"}, "minLength": 1, "description": "D."}
    assert properties(several, "gemini") == {
        "anyOf": [
            {"type": "string", "minLength": 1, "description": "D."},
            {"type": "array", "items": {"type": "string"}},
        ]
    }


def test_an_argument_whose_name_claude_refuses_is_not_offered_and_one_that_is_needed_leaves_the_tool_out() -> None:
    assert list(sent(ODD["odd names"], "anthropic")["properties"]) == ["ok"]
    assert len(sent(ODD["odd names"])["properties"]) == 4
    assert sent({**ODD["odd names"], "required": ["a b"]}, "bedrock") is None


def test_a_required_argument_that_nothing_describes_is_described_as_anything() -> None:
    assert sent(ODD["required names what is not there"]) == {
        "type": "object",
        "properties": {"path": {}},
        "required": ["path"],
    }


def test_the_schema_of_an_answer_is_made_acceptable_too() -> None:
    assert answer_schema({"type": "string"}, target("openai")) is None
    assert answer_schema(
        {"type": "object", "properties": {"a": {"type": "string", "format": "uuid"}}}, target("xai")
    ) == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": '(format: "uuid")'}},
    }


# ---- Strict ---------------------------------------------------------------------------------------------------------

STRICT = {
    "type": "object",
    "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "array", "items": {"$ref": "#/$defs/B"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"B": {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["x"]}]}},
}


def test_B141_a_schema_that_is_closed_and_needs_all_is_strict() -> None:
    assert is_strict_schema(STRICT)


@pytest.mark.parametrize(
    "change",
    [
        {"required": ["a"]},
        {"additionalProperties": True},
        {"additionalProperties": None},
        {"type": "array"},
        {"anyOf": [{"type": "object"}]},
        {"patternProperties": {}},
        {"properties": {"a": {"oneOf": [{"type": "string"}]}, "b": {"type": "string"}}},
        {"properties": {"a": {"type": "string", "minLength": 1}, "b": {"type": "string"}}},
        {"properties": {"a": {"type": "string", "format": "uri"}, "b": {"type": "string"}}},
        {"properties": {"a": {"type": "object", "properties": {}}, "b": {"type": "string"}}},
        {"properties": {"a": {}, "b": {"type": "string"}}},
        {"properties": {"a": True, "b": {"type": "string"}}},
        {"properties": None, "required": []},
        {"properties": {"a": DEEP, "b": {"type": "string"}}},
    ],
)
def test_B141_anything_else_is_not_strict(change: dict[str, Any]) -> None:
    assert not is_strict_schema({**STRICT, **change})


# ---- For every schema -----------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "$ref", "type", "required", "x y"])
kinds = st.sampled_from([*sorted(TYPES), "STRING", "any", None, 3])
literals = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "a/b"]) | st.floats()
pointers = st.sampled_from(["#/$defs/a", "#/definitions/b", "#", "#/properties/a", "#/anyOf/0", "nowhere", 3])


def _wild(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, max_size=3)
    named = st.dictionaries(names, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, max_size=3),
            "properties": named,
            "required": st.lists(names, max_size=2) | literals,
            **{key: several | literals for key in ("anyOf", "oneOf", "allOf", "prefixItems")},
            **{key: inner | literals for key in ("items", "additionalProperties", "not", "if")},
            **{key: named for key in ("$defs", "definitions", "patternProperties")},
            "enum": st.lists(literals, max_size=3) | literals,
            **{key: literals for key in ("const", "default", "minimum", "exclusiveMinimum", "nullable", "description")},
            "$ref": pointers,
            "format": st.sampled_from(["uuid", "date-time", "int32"]),
        },
    )


wild = st.recursive(literals, _wild, max_leaves=8)


@settings(max_examples=60, deadline=None)
@given(wild)
def test_whatever_is_written_each_server_takes_what_it_is_sent(schema: Any) -> None:
    before = repr(schema)
    for dialect in NAMES:
        result = sent(schema, dialect)
        assert result is None or refusals(result, dialect) == []
        json.dumps(result, allow_nan=False)
        assert repr(sent(schema, dialect)) == repr(result)
    assert repr(schema) == before


@st.composite
def described(draw: st.DrawFn, level: int = 0) -> tuple[dict[str, Any], Any]:
    """A schema and a value that fits it."""
    if level > 2:
        return {"type": "string"}, draw(st.sampled_from(["x", "y", ""]))
    form = draw(st.sampled_from(["text", "count", "enum", "list", "object", "union", "optional", "types", "all"]))
    if form == "text":
        return {"type": "string", "pattern": "^x*$", "maxLength": 9, "description": "D."}, "x" * draw(st.integers(0, 9))
    if form == "count":
        return {"type": "integer", "minimum": 0, "exclusiveMaximum": True, "maximum": 9}, draw(st.integers(0, 8))
    if form == "enum":
        values = draw(st.lists(st.sampled_from(["a", "b/c", 1, 2.5, True]), min_size=1, max_size=3, unique_by=repr))
        return {"enum": values}, draw(st.sampled_from(values))
    if form == "types":
        return {"type": ["string", "array"], "items": {"type": "integer"}, "minLength": 1}, draw(
            st.sampled_from(["x", [], [1]])
        )
    schema, value = draw(described(level + 1))
    if form == "list":
        return {"type": "array", "items": schema, "maxItems": 2}, draw(st.sampled_from([[], [value], [value, value]]))
    if form == "optional":
        return {"anyOf": [schema, {"type": "null"}]}, value
    if form == "union":
        other, _ = draw(described(level + 1))
        return {draw(st.sampled_from(["anyOf"])): draw(st.permutations([schema, other])), "description": "U."}, value
    return draw(_objects(level, form))


@st.composite
def _objects(draw: st.DrawFn, level: int, form: str = "object") -> tuple[dict[str, Any], Any]:
    members = {name: draw(described(level + 1)) for name in draw(st.sets(st.sampled_from("abc"), max_size=3))}
    needed = [name for name in members if draw(st.booleans())]
    value = {name: v for name, (_, v) in members.items() if name in needed or draw(st.booleans())}
    schema = {"type": "object", "properties": {name: s for name, (s, _) in members.items()}, "required": needed}
    if form == "all":
        return {"allOf": [schema, {"required": needed[:1]}]}, value
    return schema, value


@settings(max_examples=60, deadline=None)
@given(_objects(0) | described().filter(lambda pair: isinstance(pair[1], dict)))
def test_arguments_that_the_tool_takes_fit_what_is_sent(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    jsonschema.Draft4Validator(schema).validate(value)
    for dialect in NAMES:
        result = sent(schema, dialect)
        assert result is not None
        if result:
            jsonschema.Draft202012Validator(result).validate(value)
