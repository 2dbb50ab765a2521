"""Compare settings with their schema: our own small checker, since importing jsonschema would double a cold start.

It knows the keywords in `schema.KEYWORDS` and must agree with jsonschema on every document (a test holds the two
together). `adapt` comes first: it turns text from outside into what the schema wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.kernel.config.nodes import Node, Path, Problem
from hermes.kernel.config.outside import Schema, branches, from_text, types_of
from hermes.kernel.config.wording import not_allowed, shown, unknown_key, wrong_type

_BARE_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def adapt(node: Node, schema: Schema, *, is_secret: bool = False) -> None:
    """Give each value below `node` the type that the schema asks for, where only its writing differs; in place."""
    is_secret = is_secret or bool(schema.get("writeOnly"))
    types = types_of(schema)
    if isinstance(node.value, str) and node.outside:
        node.value = from_text(node.value, schema)
        if isinstance(node.value, list):
            node.value = [Node.of(item, node.origin, hidden=node.hidden) for item in node.value]
        elif isinstance(node.value, str) and is_secret:
            node.value = node.value.strip()
    elif node.raw is not None and "string" in types and not _is_any(node.value, types):
        node.value = node.raw  # 0123 and 1.10 as they were written
    elif isinstance(node.value, float) and "number" not in types and "integer" in types and node.value.is_integer():
        node.value = int(node.value)
    elif node.value is None and "object" in types and "null" not in types and not node.broken:
        node.value = {}  # a section whose every line is commented out
    for _, child, below in _children(node, schema):
        adapt(child, below, is_secret=is_secret)


def check(node: Node, schema: Schema, path: Path = (), *, is_secret: bool = False) -> Iterator[Problem]:
    """Give every mistake below `node`, in the order of the document. Secret and filled-in values are not shown."""
    if node.broken:
        return
    is_secret = is_secret or node.hidden or bool(schema.get("writeOnly"))
    if "anyOf" in schema:
        if problem := _check_any_of(node, schema, path, is_secret):
            yield from problem
            return
        schema = {name: value for name, value in schema.items() if name != "anyOf"}
    if (types := types_of(schema)) and not _is_any(node.value, types):
        yield Problem(node.origin, path, wrong_type(node, types, is_secret))
        return
    yield from _check_scalar(node, schema, path, is_secret)
    yield from _check_keys(node, schema, path)
    for key, child, below in _children(node, schema):
        yield from check(child, below, (*path, key), is_secret=is_secret)


def check_bare_variables(node: Node, schema: Schema, path: Path = (), *, is_secret: bool = False) -> Iterator[Problem]:
    """Give each secret written as `$NAME`, which would be sent as it stands and answered with a 401."""
    is_secret = is_secret or bool(schema.get("writeOnly"))
    is_literal = is_secret and not node.outside and isinstance(node.value, str)
    if is_literal and (match := _BARE_VARIABLE.fullmatch(node.value)):
        text = f"${match[1]} is not filled in and would be sent as it stands; did you mean ${{env:{match[1]}}}"
        yield Problem(node.origin, path, text)
    for key, child, below in _children(node, schema):
        yield from check_bare_variables(child, below, (*path, key), is_secret=is_secret)


def check_value(value: Any, schema: Schema) -> list[Path]:
    """The places of all mistakes in a plain JSON value; for tests and for plugin authors."""
    from hermes.kernel.config.nodes import DEFAULT

    return [problem.path for problem in check(Node.of(value, DEFAULT), schema)]


def _children(node: Node, schema: Schema) -> Iterator[tuple[str | int, Node, Schema]]:
    """What is inside, each with its schema, from whichever alternative speaks of it."""
    if isinstance(node.value, list):
        items: Schema = next((b["items"] for b in branches(schema) if "items" in b), {})
        for index, item in enumerate(node.value):
            yield index, item, items
    elif isinstance(node.value, dict):
        source = next((b for b in branches(schema) if "properties" in b or "additionalProperties" in b), {})
        known, others = source.get("properties", {}), source.get("additionalProperties", {})
        for key, child in node.value.items():
            if key in known:
                yield key, child, known[key]
            elif isinstance(others, Mapping):
                yield key, child, others


def _check_any_of(node: Node, schema: Schema, path: Path, is_secret: bool) -> list[Problem]:
    nearest: list[Problem] = []
    for branch in schema["anyOf"]:
        problems = list(check(node, branch, path, is_secret=is_secret))
        if not problems:
            return []
        if _is_any(node.value, types_of(branch)):
            nearest = nearest or problems
    return nearest or [Problem(node.origin, path, wrong_type(node, types_of(schema), is_secret))]


def _check_scalar(node: Node, schema: Schema, path: Path, is_secret: bool) -> Iterator[Problem]:
    value, written = node.value, shown(node, is_secret)
    if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
        yield Problem(node.origin, path, not_allowed(node, schema["enum"], is_secret))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            yield Problem(node.origin, path, f"{written} is too small; at least {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            yield Problem(node.origin, path, f"{written} is too large; at most {schema['maximum']}")


def _check_keys(node: Node, schema: Schema, path: Path) -> Iterator[Problem]:
    if not isinstance(node.value, dict):
        return
    for name in schema.get("required", ()):
        if name not in node.value:
            yield Problem(node.origin, path, f"{name} is missing")
    if schema.get("additionalProperties", True) is False:
        known = schema.get("properties", {})
        for key, child in node.value.items():
            if key not in known:
                yield Problem(child.key, (*path, key), unknown_key(key, path, known))


def _is_any(value: Any, types: tuple[str, ...]) -> bool:
    return not types or any(_is(value, name) for name in types)


def _is(value: Any, name: str) -> bool:
    """JSON Schema's types: a boolean is no number, and 3.0 is an integer."""
    if isinstance(value, bool) or value is None:
        return name == ("null" if value is None else "boolean")
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "number": (int, float), "array": list, "object": dict}
    return name in kinds and isinstance(value, kinds[name])


def _same(value: Any, allowed: Any) -> bool:
    if isinstance(value, (dict, list)):
        return bool(Node(value, None, None).plain() == allowed)  # type: ignore[arg-type]
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def schema_at(schema: Schema, path: Path) -> tuple[Schema, bool]:
    """The schema of the value at `path`, {} when none speaks of it, and whether it is secret."""
    is_secret = bool(schema.get("writeOnly"))
    for part in path:
        below: Any = {}
        for branch in branches(schema):
            if isinstance(part, int):
                below = branch.get("items", below)
            else:
                below = branch.get("properties", {}).get(part, branch.get("additionalProperties", below))
        schema = below if isinstance(below, Mapping) else {}
        is_secret = is_secret or bool(schema.get("writeOnly"))
    return schema, is_secret
