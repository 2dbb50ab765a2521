"""The JSON Schema of an answer as constrained output takes it: in the Messages API (`output_config.format`) and in
Converse (`textFormat`)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.kernel.messages import Json

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)  # fmt: skip
_PLAIN = frozenset(("type", "enum", "const", "$ref", "required", "title", "description", "default"))
_SCHEMAS = ("items", "anyOf", "allOf")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
"""What constrained output takes besides closed objects and `minItems` of 0 or 1 (pages on structured outputs of
Anthropic and of Bedrock's user guide, and the SDK's own transformation, November 2026)."""
_SAYS_WHAT = frozenset(("type", "enum", "const", "$ref", "anyOf", "allOf"))
"""One of them must be there."""


def constrained(schema: Mapping[str, Json]) -> dict[str, Json]:
    """A copy that the server takes: objects closed, `oneOf` as `anyOf`; what it has no word for is told in words.

    The answer is held against the schema as it was, so nothing is lost.
    """
    out: dict[str, Json] = {}
    told: dict[str, Json] = {}
    for key, value in schema.items():
        name = "anyOf" if key == "oneOf" else key
        if name in _NAMED_SCHEMAS and isinstance(value, Mapping):
            out[name] = {each: _inner(inner) for each, inner in value.items()}
        elif name in _SCHEMAS:
            out[name] = [_inner(inner) for inner in value] if isinstance(value, list) else _inner(value)
        elif _is_taken(name, value):
            out[name] = value
        elif name not in ("$schema", "$id", "additionalProperties"):
            told[name] = value
    if _is_object(out):
        out["additionalProperties"] = False
    elif not _SAYS_WHAT & set(out):
        out["anyOf"] = [{"type": kind} for kind in ("string", "number", "boolean", "null")]
    if told:
        words = json.dumps(told, ensure_ascii=False)
        out["description"] = f"{out['description']}\n\n{words}" if out.get("description") else words
    return out


def _inner(value: Json) -> Json:
    return constrained(value) if isinstance(value, Mapping) else value


def _is_taken(name: str, value: Json) -> bool:
    if name == "format":
        return value in _FORMATS
    if name == "minItems":
        return value in (0, 1)
    return name in _PLAIN


def _is_object(schema: Mapping[str, Json]) -> bool:
    kind = schema.get("type")
    return "properties" in schema or kind == "object" or (isinstance(kind, list) and "object" in kind)
