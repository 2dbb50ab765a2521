"""One schema node after the other as a dialect takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hermes.kernel.messages import Json

from .dialects import Dialect
from .errors import Unsendable
from .kinds import part_for, type_of_value, types_of
from .objects import flattened
from .repairs import repaired
from .walking import mapped, union_of

MOST_LEVELS = 60
_NOTED = (
    *("const", "enum", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "default"),
)
"""Constraints that are told in the description when they cannot be sent."""
_MOST_NOTED_CHARS = 80


def rewritten(schema: Json, dialect: Dialect, level: int = 0) -> dict[str, Json]:
    """A schema and all inside it as the dialect takes them, on a copy. Raises Unsendable."""
    if level > MOST_LEVELS:
        raise Unsendable("it is nested too deeply")
    node = _without_null(repaired(schema), dialect)
    if dialect.plain_unions:
        node = _with_plain_union(node)
    node = _with_known_keywords(node, dialect, [] if _takes_enum(node, dialect) else ["enum"])
    node = _with_type(node, dialect)
    node = _with_known_names(node, dialect)
    return mapped(node, lambda inner: rewritten(inner, dialect, level + 1))


# ---- Null -----------------------------------------------------------------------------------------------------------


def _without_null(node: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    if dialect.null == "keep":
        return node
    node, was_null = _null_taken_out(node)
    if was_null and node.get("default", "") is None:
        del node["default"]
    return {**node, "nullable": True} if was_null and dialect.null == "mark" else node


def _null_taken_out(node: dict[str, Json]) -> tuple[dict[str, Json], bool]:
    """The node without null among its types, alternatives and values, and whether it was there."""
    types = types_of(node)
    was_null = len(types) > 1 and "null" in types
    if was_null:
        others = [kind for kind in types if kind != "null"]
        node["type"] = others[0] if len(others) == 1 else others
    for key in ("anyOf", "oneOf"):
        branches = node.get(key, ())
        others = [branch for branch in branches if not _is_null(branch)]
        if len(others) == len(branches) or not others:
            continue
        was_null = True
        node[key] = others
        if len(others) == 1:
            del node[key]
            node, _ = _null_taken_out({**repaired(others[0]), **node})
    values = [value for value in node.get("enum", ()) if value is not None]
    if values and len(values) < len(node["enum"]):
        node["enum"], was_null = values, True
    return node, was_null


def _is_null(schema: Json) -> bool:
    return isinstance(schema, Mapping) and (
        types_of(schema) == ["null"] or schema.get("enum") == [None] or schema.get("const", "") is None
    )


# ---- Unions ---------------------------------------------------------------------------------------------------------


def _with_plain_union(node: dict[str, Json]) -> dict[str, Json]:
    """`anyOf` alone, with what stood beside it in each alternative, and one type a node."""
    if "allOf" in node:
        node = _with_all(node)
    if "properties" in node and ("anyOf" in node or "oneOf" in node):
        return _with_plain_union(repaired(flattened(node, node)))
    branches = node.pop("anyOf", None) or node.pop("oneOf", None)
    node.pop("oneOf", None)
    if branches is None:
        types = types_of(node)
        if len(types) < 2:
            return node
        branches = [{"type": kind} for kind in types]
    beside = {key: value for key, value in node.items() if key != "description"}
    union = union_of([repaired(_beside(branch, beside)) for branch in branches])
    if set(union) != {"anyOf"}:  # one alternative is none
        return _with_plain_union(repaired({**union, **node}))
    if node.get("description"):
        first = union["anyOf"][0]
        union["anyOf"][0] = {**first, "description": f"{node['description']} {first.get('description', '')}".strip()}
    return dict(union)


def _beside(branch: Json, beside: Mapping[str, Json]) -> dict[str, Json]:
    """An alternative with what its union says of all."""
    if not isinstance(branch, Mapping):
        return dict(beside)
    types = types_of(branch) or types_of(beside)
    common = part_for(beside, types[0]) if len(types) == 1 else beside
    return {**common, **branch}


def _with_all(node: dict[str, Json]) -> dict[str, Json]:
    branches = [repaired(branch) for branch in node["allOf"]]
    if any("properties" in branch for branch in branches):
        return repaired(flattened(node, node))
    del node["allOf"]
    for branch in branches:
        node = {**branch, **node}
    return node


# ---- Keywords -------------------------------------------------------------------------------------------------------


def _takes_enum(node: dict[str, Json], dialect: Dialect) -> bool:
    """Bring the values into the dialect's form, and say whether it takes them; what they tell of the type stays."""
    if dialect.keywords is not None and "const" in node:
        node["enum"] = [node.pop("const")]
    if "enum" not in node:
        return True
    kinds = {type_of_value(value) for value in node["enum"]}
    if dialect.enums == "texts":
        node["enum"] = [value for value in node["enum"] if value != ""]
    fits = _fits(node["enum"], types_of(node), dialect)
    if dialect.any_value and not types_of(node) and len(kinds) == 1 and "null" not in kinds:
        node["type"] = kinds.pop()
    return fits


def _fits(values: Sequence[Json], types: Sequence[str], dialect: Dialect) -> bool:
    if dialect.enum_refuses and any(dialect.enum_refuses in value for value in values if isinstance(value, str)):
        return False
    if dialect.enums == "any":
        return True
    kinds = {type_of_value(value) for value in values}
    allowed = {*types, "integer"} if "number" in types else set(types)
    if types and not kinds <= allowed:
        return False
    return kinds == {"string"} or (dialect.enums == "plain" and kinds <= {"integer", "number"})


def _with_known_keywords(node: dict[str, Json], dialect: Dialect, unknown: list[str]) -> dict[str, Json]:
    """`unknown`: what is to be left out beside the keywords that the dialect does not know."""
    known = dialect.keywords
    unknown += [key for key in node if key in dialect.refused or (known is not None and key not in known)]
    kind = next(iter(types_of(node)), "")
    formats = dialect.formats
    if formats is not None and "format" in node and node["format"] not in formats.get(kind, ()):
        unknown.append("format")
    if known is not None and "properties" not in node:
        node.pop("required", None)  # names nothing here
    if not dialect.sends_no_properties and node.get("properties") == {}:
        del node["properties"]
    if dialect.bare_arrays and node.get("items") == {}:
        del node["items"]
    return _noted(node, unknown)


def _noted(node: dict[str, Json], left_out: list[str]) -> dict[str, Json]:
    """The node without these keywords; the constraints among them are told in the description where they are short."""
    texts = [f"{key}: {json.dumps(node[key], ensure_ascii=False)}" for key in _NOTED if key in left_out and key in node]
    note = "; ".join(text for text in texts if len(text) <= _MOST_NOTED_CHARS)
    out = {key: value for key, value in node.items() if key not in left_out}
    if note:
        out["description"] = f"{out.get('description') or ''} ({note})".strip()
    return out


def _with_type(node: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    if not dialect.any_value or "anyOf" in node or types_of(node):
        return node
    if "properties" in node:
        return {"type": "object", **node}
    if "items" in node:
        return {"type": "array", **node}
    first, *others = dialect.any_value
    return {"anyOf": [{"type": first, **node}, *({"type": kind} for kind in others)]}


def _with_known_names(node: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    names = dialect.property_name
    unknown = {name for name in node.get("properties", ()) if names is not None and not names.fullmatch(name)}
    if not unknown:
        return node
    if needed := unknown & set(node.get("required", ())):
        raise Unsendable(f"it needs an argument named {sorted(needed)[0]!r}")
    return {**node, "properties": {k: v for k, v in node["properties"].items() if k not in unknown}}
