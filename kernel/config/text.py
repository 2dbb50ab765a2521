"""Settings as YAML text: what `config show` and `config init` write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.kernel.config.check import schema_at
from hermes.kernel.config.document import plain_value
from hermes.kernel.config.loading import Loaded
from hermes.kernel.config.nodes import Node, Origin, Path, key_of
from hermes.kernel.config.schema import SCHEMA

MASK = "***"

_BARE = re.compile(r"[A-Za-z_./~][A-Za-z0-9_./~@+-]*(:[A-Za-z0-9_./~@+-]+)*")
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # line breaks to YAML, or refused by it
_SECRET_NAME = re.compile(r"key|token|secret|password|passphrase|credential|authorization", re.IGNORECASE)


def show(loaded: Loaded, defaults: Node, schema: Mapping[str, Any] = SCHEMA, *, with_origin: bool = False) -> str:
    """The settings in effect as YAML; secrets and what was filled in are `***`.

    `defaults` is the parsed shipped file; `with_origin` adds to each line where its value comes from.
    """
    from hermes.kernel.config.nodes import merge

    lines = list(_lines(merge(defaults, loaded.tree), schema, (), loaded.origins if with_origin else None))
    width = min(60, max((len(line) for line, _ in lines), default=0))
    return "".join(f"{line.ljust(width)}  # {origin}\n" if origin else f"{line}\n" for line, origin in lines)


def commented_defaults(text: str) -> str:
    """The shipped file with every setting but `model` commented out: `#key: value`, comments as they were.

    A full copy would pin every value for ever, also those that a later version improves.
    """
    lines = []
    for line in text.splitlines():
        is_kept = not line.strip() or line.lstrip().startswith("#") or line.startswith("model:")
        lines.append(line if is_kept else f"#{line}")
    return "\n".join(lines) + "\n"


def flow(value: Any) -> str:
    """One value on one line. JSON is YAML; a word that means itself is written without quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, str) and _BARE.fullmatch(value) and plain_value(value)[0] == value:
        return value
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _lines(
    node: Node, schema: Mapping[str, Any], path: Path, origins: Mapping[str, Origin] | None
) -> Iterator[tuple[str, Origin | None]]:
    for key, child in node.value.items():
        below = (*path, key)
        indent = "  " * len(path)
        if isinstance(child.value, dict) and child.value:
            yield f"{indent}{flow(key)}:", None
            yield from _lines(child, schema, below, origins)
        else:
            value = _masked(child, schema, below)
            origin = origins.get(key_of(below)) if origins is not None else None
            yield f"{indent}{flow(key)}: {flow(value)}", origin


def _masked(node: Node, schema: Mapping[str, Any], path: Path) -> Any:
    if node.hidden:
        return MASK
    if isinstance(node.value, list):
        return [_masked(item, schema, (*path, index)) for index, item in enumerate(node.value)]
    if isinstance(node.value, dict):
        return {key: _masked(item, schema, (*path, key)) for key, item in node.value.items()}
    if node.value is None or isinstance(node.value, bool):
        return node.value
    described, is_secret = schema_at(schema, path)
    is_free = not described and any(isinstance(part, str) and _SECRET_NAME.search(part) for part in path[-2:])
    return MASK if is_secret or is_free else node.value
