"""One object at the root: no server takes a union there, nor a schema that is not an object's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.kernel.messages import Json

from .errors import Unsendable
from .kinds import types_of
from .references import target_of
from .walking import union_of

UNIONS = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_ROOT = frozenset({"enum", "const", "not", "nullable", "default", *UNIONS})
_OF_OTHERS = frozenset({"enum", "const", "items", "prefixItems"})
"""What a schema without a type says when it means no object."""
_MOST_NOTE_CHARS = 200
_MOST_LEVELS = 16


def as_object(root: Json) -> dict[str, Json]:
    """The schema of an object that takes what the root takes; raises Unsendable when that is no object.

    Nothing at all, null, and what says only "null" are a tool without arguments (B110).
    """
    if root is None or root is True or root == [] or root == {}:
        return {"type": "object", "properties": {}}
    if not isinstance(root, Mapping):
        raise Unsendable("it is no JSON object")
    if types_of(root) == ["null"]:
        return {"type": "object", "properties": {}}
    merged = flattened(root, root)
    out = {key: value for key, value in merged.items() if key not in _NOT_AT_THE_ROOT}
    properties = out.get("properties")
    out["properties"] = properties if isinstance(properties, Mapping) else {}
    return {"type": "object"} | out | {"type": "object"}


def flattened(schema: Mapping[str, Json], root: Json) -> dict[str, Json]:
    """An object schema with what its unions say about properties put into it. Raises Unsendable for another.

    A property that only some alternatives have is optional; one that differs is a union itself. Which names belong
    together is told in the description.
    """
    merged = _flat(schema, root, 0)
    if merged is None:
        kinds = " or ".join(types_of(schema)) or "some other value"
        raise Unsendable(f"its arguments are no object but {kinds}")
    return merged


def _flat(schema: Mapping[str, Json], root: Json, level: int) -> dict[str, Json] | None:
    """None when it describes no object."""
    if level > _MOST_LEVELS:
        raise Unsendable("its unions are nested too deeply")
    if "$ref" in schema:
        found = target_of(schema["$ref"], root)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _flat({**found, **beside} if isinstance(found, Mapping) else beside, root, level + 1)
    types = types_of(schema)
    if "object" not in types if types else _OF_OTHERS & set(schema):
        return None
    out = {key: value for key, value in schema.items() if key not in UNIONS}
    for key in UNIONS:
        listed = schema.get(key)
        branches = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
        objects = [flat for one in branches if (flat := _flat(one, root, level + 1)) is not None]
        if branches and not objects:
            return None
        _merge(out, objects, is_all=key == "allOf")
    return out


def _merge(out: dict[str, Json], branches: Sequence[Mapping[str, Json]], *, is_all: bool) -> None:
    if not branches:
        return
    own = out.get("properties")
    properties: dict[str, Json] = dict(own) if isinstance(own, Mapping) else {}
    for branch in branches:
        more = branch.get("properties")
        for name, schema in more.items() if isinstance(more, Mapping) else ():
            properties[name] = _both(properties[name], schema, is_all) if name in properties else schema
    needed = [_required(branch) for branch in branches]
    common = [name for name in needed[0] if all(name in other for other in needed)]
    always = [name for one in needed for name in one] if is_all else common
    out["properties"] = properties
    out["required"] = list(dict.fromkeys([*_required(out), *always]))
    for branch in branches if is_all or len(branches) == 1 else ():
        for key, value in branch.items():
            out.setdefault(key, value)
    alternatives = [", ".join(name for name in one if name not in common) for one in needed]
    note = f"Give one of these together: {'; '.join(dict.fromkeys(alternatives))}."
    if not is_all and len(set(alternatives)) > 1 and all(alternatives) and len(note) <= _MOST_NOTE_CHARS:
        out["description"] = f"{out.get('description') or ''} {note}".strip()


def _required(schema: Mapping[str, Json]) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _both(one: Json, other: Json, is_all: bool) -> Json:
    """One property that two say something of."""
    if is_all and isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **other}
    return union_of([one, other])
