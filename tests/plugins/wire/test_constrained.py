"""Schemas of answers: whatever JSON Schema is asked for becomes one that constrained output takes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.plugins.wire.schemas.constrained import constrained
from hermes.testing.strict_messages import problems

leaves: st.SearchStrategy[Any] = st.sampled_from(
    [{"type": "string", "minLength": 2}, {"type": "integer", "maximum": 9}, {"enum": ["a", 1]}, {"const": None}, {},
     {"type": "string", "format": "uri"}, {"type": "string", "format": "phone"}, {"$ref": "#/$defs/d"}, True]
)  # fmt: skip
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(st.sampled_from("abc"), inner))
        | st.builds(lambda i, n: {"type": "array", "items": i, "minItems": n}, inner, st.integers(0, 3))
        | st.builds(lambda k, s: {k: s}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1))
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), schemas))
def test_every_schema_is_one_that_the_strict_server_takes_and_stays_as_it_was(properties: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": properties, "$defs": {"d": {"properties": {"x": {}}}}}
    before = copy.deepcopy(schema)
    body = {
        "model": "m",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "hi"}],
        "output_config": {"format": {"type": "json_schema", "schema": constrained(schema)}},
    }
    assert problems(body) == []
    assert schema == before
    assert "oneOf" not in json.dumps(body)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "integer", "minimum": 1, "description": "A number."},
         {"type": "integer", "description": 'A number.\n\n{"minimum": 1}'}),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
         {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": '{"maxItems": 2}'}),
        ({"type": ["object", "null"], "additionalProperties": True},
         {"type": ["object", "null"], "additionalProperties": False}),
        ({"oneOf": [{"type": "null"}, {"type": "object", "properties": {}}]},
         {"anyOf": [{"type": "null"}, {"type": "object", "properties": {}, "additionalProperties": False}]}),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}},
         {"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}),
        ({}, {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "null")]}),
    ],
)  # fmt: skip
def test_what_the_dialect_has_no_word_for_is_told_in_the_description(schema: Any, sent: Any) -> None:
    assert constrained(schema) == sent
