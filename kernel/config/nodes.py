"""A settings value that still knows where it was written, and how its mistakes are told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands in the settings: names of keys, and places in lists."""


class Origin(NamedTuple):
    """Who set a value. `name` is a file's path, a variable's or a flag's name; `line` and `column` count from 1."""

    kind: Literal["default", "file", "variable", "flag"]
    name: str = ""
    line: int = 0
    column: int = 0

    @property
    def where(self) -> str:
        """What a problem's line begins with: `file:line:column`, `HERMES_X`, `flag limits.iterations`."""
        if self.kind == "file":
            return f"{self.name}:{self.line}:{self.column}"
        return {"variable": self.name, "flag": f"flag {self.name}"}.get(self.kind, "default")

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.kind == "file" else self.where


DEFAULT = Origin("default")


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One value: a scalar, a list of nodes, or a dict of nodes by key.

    `key` is where the key of a mapping's item was written (the value's own place for everything else). `raw` is how a
    number was written, so that a key which wants text can have it unchanged. `outside`: the text came from a
    reference, a variable or a flag, and the schema decides what it becomes. `hidden`: no message ever shows it.
    `broken`: it could not be filled in, which has been reported, so nothing more is said of it.
    """

    value: Any
    origin: Origin
    key: Origin
    raw: str | None = None
    outside: bool = False
    hidden: bool = False
    broken: bool = False

    @classmethod
    def of(cls, value: Any, origin: Origin, *, outside: bool = False, hidden: bool = False) -> Node:
        """Wrap a plain value and everything in it."""
        if isinstance(value, dict):
            value = {k: cls.of(v, origin, outside=outside, hidden=hidden) for k, v in value.items()}
        elif isinstance(value, (list, tuple)):
            value = [cls.of(v, origin, outside=outside, hidden=hidden) for v in value]
        return cls(value, origin, origin, outside=outside and isinstance(value, str), hidden=hidden)

    def plain(self) -> Any:
        """Give back the value as ordinary JSON."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class Problem(NamedTuple):
    """One mistake. Its text shows no secret."""

    origin: Origin
    path: Path
    text: str

    def __str__(self) -> str:
        parts = (self.origin.where, key_of(self.path), self.text)
        return ": ".join(part for part in parts if part)


def key_of(path: Path) -> str:
    """Write a path as people do: `approval.rules[0].decide`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def merge(weak: Node, strong: Node) -> Node:
    """Lay `strong` over `weak`: mappings key by key, anything else as a whole. Neither is changed."""
    if not (isinstance(weak.value, dict) and isinstance(strong.value, dict)):
        return strong
    merged = dict(weak.value)
    for key, node in strong.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return Node(merged, strong.origin, strong.key)


def leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every value that is not a filled mapping, in the order of the document; a list is one value."""
    if isinstance(node.value, dict) and (node.value or not path):
        for key, child in node.value.items():
            yield from leaves(child, (*path, key))
    else:
        yield path, node


def texts(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every text in the tree, those in lists too."""
    if isinstance(node.value, str):
        yield path, node
    elif isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from texts(child, (*path, key))
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from texts(child, (*path, index))
