"""Add to a settings file as a person would: one line more, everything else as it was, comments too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from hermes.kernel.config import document
from hermes.kernel.config.nodes import Problem
from hermes.kernel.config.text import flow
from hermes.kernel.config.writing import update
from hermes.kernel.errors import SettingsError


def append(path: Path, key: str, item: Any) -> None:
    """Add `item` at the end of the list `key` (dotted) in the file, which is made when it is not there.

    Read, changed and replaced under one lock. An item that is there already is not added again. Raises SettingsError
    when the file cannot be read as settings or the list cannot be found in it, OSError when it cannot be written.
    """

    def change(old: bytes | None) -> bytes:
        data = old or b""
        before = _plain(data, path)
        wanted = _with_item(before, key.split("."), item, path)
        if wanted == before:
            return data
        new = _edited(data.decode("utf-8-sig"), key.split("."), item)
        if new is None or _plain(new.encode(), path) != wanted:
            raise SettingsError(
                f"{path}: {key}: cannot be added to by hermes as it is written; add {flow(item)} by hand"
            )
        return new.encode()

    update(path, change)


def _plain(data: bytes, path: Path) -> Any:
    problems: list[Problem] = []
    tree = document.parse(data, str(path), problems)
    if tree is None or problems:
        raise SettingsError([str(problem) for problem in problems])
    return tree.plain()


def _with_item(before: Any, keys: Sequence[str], item: Any, path: Path) -> dict[str, Any]:
    """What the file is to mean afterwards."""
    name, rest = keys[0], keys[1:]
    value = before.get(name)
    if not isinstance(value, (dict if rest else list, type(None))):
        raise SettingsError(f"{path}: {name}: must be a {'mapping' if rest else 'list'}; mend it first")
    if rest:
        return {**before, name: _with_item(value or {}, rest, item, path)}
    return before if value and item in value else {**before, name: [*(value or []), item]}


def _edited(text: str, keys: Sequence[str], item: Any) -> str | None:
    """The text with one line or word more; None where it is written in a way that this cannot edit."""
    try:
        root: Any = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:  # this loader has the exact marks, and refuses a tab or two that the fast one takes
        return None
    found: Any = root
    depth = 0
    while depth < len(keys) and isinstance(found, yaml.MappingNode):
        entry = next((pair for pair in found.value if pair[0].value == keys[depth]), None)
        if entry is None:
            return _with_keys(text, found, keys[depth:], item, is_root=found is root)
        found, depth = entry[1], depth + 1
    if root is None or depth < len(keys):
        return _with_keys(text, root, keys[depth:], item, is_root=True) if depth == 0 else None
    if not isinstance(found, yaml.SequenceNode):
        return None
    if found.flow_style:
        end = found.end_mark.index - 1
        return text[:end].rstrip(", \t") + (", " if found.value else "") + flow(item) + text[end:]
    last = found.value[-1]
    indent = " " * found.start_mark.column
    return _with_line(text, _end(last), f"{indent}- {flow(item)}")


def _with_keys(text: str, mapping: Any, keys: Sequence[str], item: Any, *, is_root: bool) -> str | None:
    """Add the missing keys at the end of a mapping."""
    if mapping is None:
        column = 0
    elif mapping.flow_style:
        if len(keys) != 1 and mapping.value:
            return None
        end = mapping.end_mark.index - 1
        inner = f"[{flow(item)}]"
        for key in reversed(keys):
            inner = f"{flow(key)}: {inner}" if key == keys[0] else f"{{{flow(key)}: {inner}}}"
        return text[:end].rstrip(", \t") + (", " if mapping.value else "") + inner + text[end:]
    else:
        column = mapping.start_mark.column
    lines = [f"{' ' * (column + 2 * place)}{flow(key)}:" for place, key in enumerate(keys)]
    lines.append(f"{' ' * (column + 2 * len(keys))}- {flow(item)}")
    place = len(text) if mapping is None or is_root else _end(mapping.value[-1][1])
    return _with_line(text, place, "\n".join(lines))


def _end(node: Any) -> int:
    """Where a node's own text ends; a block's end mark lies behind the blank lines and comments that follow it."""
    while not node.flow_style if isinstance(node, yaml.CollectionNode) else False:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return int(node.end_mark.index)


def _with_line(text: str, place: int, line: str) -> str:
    """Put `line` on a line of its own behind the line that holds `place`."""
    end = text.find("\n", max(0, place - 1) if text[place - 1 : place] == "\n" else place)
    newline = "\r\n" if "\r\n" in text else "\n"
    head, tail = (text, "") if end < 0 else (text[: end + 1], text[end + 1 :])
    if head and not head.endswith("\n"):
        head += newline
    return head + line.replace("\n", newline) + newline + tail
