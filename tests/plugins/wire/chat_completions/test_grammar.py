"""The grammar covers every schema, has no loose ends, and lets plain text through only where it is no call."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.providers import ToolSchema
from hermes.plugins.wire.chat_completions.grammar import grammar_for, render_tools_prompt

READ = ToolSchema(
    "read_file",
    "Read a text file. With line numbers.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "mode": {"enum": ["a", 'b"']}},
        "required": ["path"],
    },
)


def rules_of(grammar: str) -> dict[str, str]:
    return dict(line.split(" ::= ", 1) for line in grammar.splitlines())


def used_names(body: str) -> set[str]:
    bare = re.sub(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[0-9,]+\}', " ", body)
    return set(re.findall(r"[A-Za-z][A-Za-z0-9]*", bare))


def assert_closed(grammar: str) -> None:
    rules = rules_of(grammar)
    for name, body in rules.items():
        assert used_names(body) <= set(rules), f"{name} ::= {body}"


def test_required_arguments_come_first_and_the_others_may_be_left_out() -> None:
    rules = rules_of(grammar_for([READ]))
    assert rules["root"] == "call | text"
    [call] = [body for name, body in rules.items() if body.startswith('"{\\"name\\": \\"read_file\\"')]
    assert call.index('\\"path\\"') < call.index('(", " "\\"limit\\": " integer)?') < call.index('\\"mode\\"')


def test_without_tools_only_plain_text_is_allowed() -> None:
    rules = rules_of(grammar_for([]))
    assert rules["root"] == "text"
    assert rules["text"].startswith("[^`{<")


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "array"}]}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}, "minItems": 1}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"$ref": "#/$defs/T"}}},
        {"type": "object", "properties": {'q"\\\n': {"const": {"x": "ü\u0001"}}}, "required": ['q"\\\n']},
        {"type": "object", "properties": {"a": True, "b": {"type": "strange"}, "c": {"enum": [1, None]}}},
    ],
)
def test_every_schema_gives_a_grammar_without_loose_ends(schema: dict[str, Any]) -> None:
    assert_closed(grammar_for([ToolSchema("tool", "", schema)]))


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {}, {"enum": ["x", "y z"]}]),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(st.text(max_size=8), inner)})
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=8), SCHEMAS))
def test_generated_schemas_give_a_closed_grammar_of_one_line_a_rule(properties: dict[str, Any]) -> None:
    assert_closed(grammar_for([ToolSchema("t", "", {"properties": properties})]))


def test_the_prompt_names_each_tool_with_its_arguments_in_one_line() -> None:
    text = render_tools_prompt([READ])
    assert '- read_file(path: string, limit?: integer, mode?: "a"|"b\\"")' in text
    assert "Read a text file" in text
    assert "With line numbers" not in text
    assert render_tools_prompt([]) == ""
