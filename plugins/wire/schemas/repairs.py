"""Forms of older drafts, of OpenAPI and of careless authors, as JSON Schema 2020-12 has them. One node at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.kernel.messages import Json

from .kinds import types_of
from .walking import LISTED, NAMED, SINGLE, keywords, union_of

_OF_DOCUMENTS = keywords("$schema $id $anchor $comment $vocabulary $dynamicAnchor")
"""Say something of the document, nothing of the value."""
_TEXTS = keywords("description title format pattern $ref")
_NUMBERS = keywords("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
_COUNTS = keywords("minLength maxLength minItems maxItems minProperties maxProperties")


def repaired(schema: Json) -> dict[str, Json]:
    """A copy of one node in today's form; what is no schema allows anything."""
    if not isinstance(schema, Mapping):
        return {}
    node = {key: value for key, value in schema.items() if key not in _OF_DOCUMENTS and _is_sound(key, value)}
    _repair_types(node)
    _repair_bounds(node)
    _repair_items(node)
    _repair_properties(node)
    return node


def _is_sound(key: str, value: Json) -> bool:
    """Whether a keyword has a value that it may have; what is no JSON (such as infinity) would spoil the request."""
    if key in NAMED:
        return isinstance(value, Mapping)
    if key in LISTED:
        return isinstance(value, list) and bool(value)
    if key in SINGLE:
        return isinstance(value, (Mapping, bool)) or (key == "items" and isinstance(value, list))
    if key in _TEXTS:
        return isinstance(value, str)
    if key == "enum" and not (isinstance(value, list) and value):
        return False
    if isinstance(value, bool) and key in _COUNTS | _NUMBERS:
        return key.startswith("exclusive")
    if key in _COUNTS:
        return isinstance(value, int) and value >= 0
    if key in _NUMBERS and (not isinstance(value, (int, float)) or (key == "multipleOf" and value <= 0)):
        return False
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _repair_types(node: dict[str, Json]) -> None:
    types = types_of(node)
    if node.pop("nullable", None) is True and types and "null" not in types:
        types.append("null")
    if types:
        node["type"] = types[0] if len(types) == 1 else types
    else:
        node.pop("type", None)


def _repair_bounds(node: dict[str, Json]) -> None:
    """Draft 4 wrote `exclusiveMinimum: true` beside `minimum`."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)


def _repair_items(node: dict[str, Json]) -> None:
    """A tuple is an array of any of its items; an array says of what (OpenAI, Gemini: "missing items")."""
    listed = node.pop("prefixItems", None) or (node["items"] if isinstance(node.get("items"), list) else None)
    if listed:
        more = node.pop("additionalItems", None) or node.get("items")
        node["items"] = union_of([*listed, *([more] if isinstance(more, Mapping) else [])])
    if not isinstance(node.get("items", {} if "array" not in types_of(node) else None), Mapping):
        node["items"] = {}


def _repair_properties(node: dict[str, Json]) -> None:
    """`required` names what there is, each once; draft 3 wrote `required: true` into the property itself."""
    asked = node.get("required")
    names = [name for name in asked if isinstance(name, str)] if isinstance(asked, list) else []
    if "properties" in node:
        properties = {str(name): schema for name, schema in node["properties"].items() if schema is not False}
        names += [
            name
            for name, schema in properties.items()
            if isinstance(schema, Mapping) and schema.get("required") is True
        ]
        node["properties"] = properties | {name: {} for name in names if name not in properties}
    if names:
        node["required"] = list(dict.fromkeys(names))
    else:
        node.pop("required", None)
