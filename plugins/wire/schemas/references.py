"""`$ref` in a schema: kept where all point to definitions, else put in place (B140)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from hermes.kernel.messages import Json

from .errors import Unsendable
from .walking import DEFINITIONS, mapped

MOST_SCHEMAS = 5000
"""How large a schema may grow by putting references in place: each use is a copy."""
_MOST_LEVELS = 60


def without_references(root: Json, *, keeps_definitions: bool) -> Json:
    """The same schema with references replaced by what they point to.

    With `keeps_definitions` it stays as it is when each one points to a definition at the root. A reference inside
    what it points to becomes the bare type; one that points nowhere allows anything. Raises Unsendable.
    """
    if not isinstance(root, Mapping):
        return root
    pointers = list(_pointers(root))
    if not pointers or (keeps_definitions and all(_is_definition(pointer, root) for pointer in pointers)):
        return root
    placed = _Placing(root).schema(root, (), 0)
    return {key: value for key, value in placed.items() if key not in DEFINITIONS}


def target_of(pointer: Json, root: Json) -> Json:
    """What a JSON Pointer inside the document (`#/a/b`) points to; None when that is nothing."""
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        return None
    found = root
    for step in unquote(pointer[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, Mapping):
            found = found.get(name)
        else:
            return None
    return found


def _is_definition(pointer: Json, root: Mapping[str, Json]) -> bool:
    prefixes = tuple(f"#/{key}/" for key in DEFINITIONS)
    return isinstance(pointer, str) and pointer.startswith(prefixes) and isinstance(target_of(pointer, root), Mapping)


def _pointers(schema: Json) -> Iterator[Json]:
    """Every reference in a schema and its definitions."""
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping):
            if "$ref" in node:
                yield node["$ref"]
            mapped(node, todo.append)


class _Placing:
    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self._count = 0

    def schema(self, node: Json, inside: tuple[str, ...], level: int) -> Json:
        """`inside`: the references that lead here."""
        if not isinstance(node, Mapping):
            return node
        self._count += 1
        if self._count > MOST_SCHEMAS or level > _MOST_LEVELS:
            raise Unsendable("its references would make it too large")
        beside = {key: value for key, value in node.items() if key != "$ref" and key not in DEFINITIONS}
        out: dict[str, Json] = mapped(beside, lambda inner: self.schema(inner, inside, level + 1))
        if "$ref" not in node:
            return out
        pointer = str(node["$ref"])
        found = target_of(pointer, self._root)
        if not isinstance(found, Mapping):
            return out
        if pointer in inside:
            return {key: found[key] for key in ("type", "description") if key in found} | out
        return self.schema(found, (*inside, pointer), level + 1) | out
