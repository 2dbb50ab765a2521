"""Which schemas a server can hold a model to word for word."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Json

from .kinds import types_of
from .walking import NAMED, keywords, mapped

_KEYWORDS = keywords(
    "type properties required additionalProperties items enum const anyOf $ref $defs definitions description title "
    "pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems"
)
_FORMATS = keywords("date-time time date duration email hostname ipv4 ipv6 uuid")
_MOST_LEVELS = 10
_MOST_PROPERTIES = 5000


def is_strict_schema(schema: Json) -> bool:
    """Whether `strict` may be set (B141): OpenAI's structured outputs guide, supported schemas, November 2026.

    Every object closes itself and needs all its properties, the root is an object and no union.
    """
    if not isinstance(schema, Mapping) or types_of(schema) != ["object"] or "anyOf" in schema:
        return False
    todo: list[tuple[Json, int]] = [(schema, 1)]
    properties = 0
    while todo:
        node, level = todo.pop()
        if not isinstance(node, Mapping) or level > _MOST_LEVELS or not _is_strict_node(node):
            return False
        properties += len(node.get("properties", ()))
        inside: list[Json] = []
        mapped(node, inside.append)
        todo += [(inner, level + 1) for inner in inside]
    return properties <= _MOST_PROPERTIES


def _is_strict_node(node: Mapping[str, Json]) -> bool:
    if not set(node) <= _KEYWORDS or not all(isinstance(node.get(key, {}), Mapping) for key in NAMED):
        return False
    if node.get("format", "date") not in _FORMATS:
        return False
    if "object" not in types_of(node):
        return bool({"type", "anyOf", "$ref", "enum", "const"} & set(node))
    required = node.get("required", [])
    names = set(node.get("properties", ()))
    return node.get("additionalProperties") is False and isinstance(required, list) and set(required) == names
