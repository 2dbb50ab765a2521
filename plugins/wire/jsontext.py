"""JSON as it goes out and comes in on every wire."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.kernel.messages import Json, clean, clean_json


def dumps(value: Json) -> bytes:
    """Compact JSON in UTF-8; lone surrogates are replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(clean_json(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def read_arguments(name: str, raw: str, is_cut: bool) -> tuple[Mapping[str, Json], str | None]:
    """An object by strict JSON, else what the kernel's repair makes of it, or what is wrong with it."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return clean_json(value), None
    from hermes.kernel.arguments import parse_arguments

    return parse_arguments(name, clean(raw), is_cut)


def entries(value: Json) -> list[Json]:
    """A list as it is, one object as a list of it, anything else (null above all) as an empty list."""
    return value if isinstance(value, list) else [value] if isinstance(value, Mapping) else []


def inner(data: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """The object under a key; empty when there is none."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def count(data: Mapping[str, Json], name: str) -> int:
    """A count of tokens; anything that is no count is 0."""
    value = data.get(name)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15 else 0
