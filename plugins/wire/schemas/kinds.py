"""The types that a schema names, whatever its author called them, and the keywords that belong to each."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Json

from .walking import keywords

TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("dict", "map"), "object"),
    **dict.fromkeys(("list", "tuple"), "array"),
    "none": "null",
}
"""Names of Python, Java and OpenAPI that tool authors write; the case of a name does not count (Gemini's upper)."""

_OF_NUMBERS = keywords("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf format")
OWN_KEYWORDS: Mapping[str, frozenset[str]] = {
    "string": keywords("minLength maxLength pattern format"),
    "integer": _OF_NUMBERS,
    "number": _OF_NUMBERS,
    "object": keywords("properties required additionalProperties minProperties maxProperties"),
    "array": keywords("items minItems maxItems uniqueItems"),
}
"""Keywords that say something of one type only."""
_TYPED = frozenset[str]().union(*OWN_KEYWORDS.values())


def types_of(schema: Mapping[str, Json]) -> list[str]:
    """The types that a schema names, in its order; empty when it names none that is known."""
    kind = schema.get("type")
    found = []
    for name in kind if isinstance(kind, list) else [kind]:
        lower = name.lower() if isinstance(name, str) else ""
        known = _OTHER_NAMES.get(lower, lower)
        if known in TYPES and known not in found:
            found.append(known)
    return found


def part_for(schema: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """What a schema of several types says of one of them, its type first."""
    foreign = _TYPED - OWN_KEYWORDS.get(kind, frozenset())
    return {"type": kind} | {key: value for key, value in schema.items() if key not in foreign and key != "type"}


def type_of_value(value: Json) -> str:
    """The type of a literal; "null" for what is no plain value."""
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "null"
