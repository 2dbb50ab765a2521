"""Where a JSON Schema holds further schemas, and where it holds data that must not be taken for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.kernel.messages import Json


def keywords(names: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(names.split())


NAMED = keywords("properties patternProperties $defs definitions dependentSchemas")
"""Keywords whose value is an object of schemas, by names of any kind (a property may be called `$ref`)."""
LISTED = keywords("anyOf oneOf allOf prefixItems")
SINGLE = keywords(
    "items additionalProperties additionalItems contains propertyNames not if then else unevaluatedItems "
    "unevaluatedProperties"
)
DEFINITIONS = ("$defs", "definitions")


def mapped(schema: Mapping[str, Json], change: Callable[[Json], Json]) -> dict[str, Json]:
    """A copy with every schema directly inside changed; true and false where a schema may be stay as they are."""
    out: dict[str, Json] = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, Mapping):
            out[key] = {name: change(inner) for name, inner in value.items()}
        elif (key in LISTED or key == "items") and isinstance(value, list):
            out[key] = [change(inner) for inner in value]
        elif key in SINGLE and not isinstance(value, bool):
            out[key] = change(value)
        else:
            out[key] = value
    return out


def union_of(schemas: list[Json]) -> Json:
    """The schema that fits what any of these fits; equal ones count once."""
    distinct: list[Json] = []
    for schema in schemas:
        inner = schema["anyOf"] if isinstance(schema, Mapping) and set(schema) == {"anyOf"} else [schema]
        distinct.extend(one for one in inner if one not in distinct)
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
