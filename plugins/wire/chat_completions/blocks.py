"""Blocks in which servers wrap texts and reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes.kernel.messages import Json


def add_details(held: list[Json], details: Sequence[Json]) -> None:
    """Join reasoning blocks that OpenRouter streams in pieces; it wants the whole sequence back."""
    for item in details:
        last = held[-1] if held else None
        if not isinstance(item, Mapping):
            continue
        if last is None or (last.get("type"), last.get("index")) != (item.get("type"), item.get("index")):
            held.append(dict(item))
            continue
        for key, value in item.items():
            if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value


def detail_text(detail: Json) -> str:
    """What a reasoning block says in words; servers that send no other field for it (MiniMax)."""
    text = (detail.get("text") or detail.get("summary")) if isinstance(detail, Mapping) else ""
    return text if isinstance(text, str) else ""


def block_text(block: Mapping[str, Json]) -> str:
    for name in ("text", "thinking", "output", "content"):
        value = block.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(block_text(item) for item in value if isinstance(item, Mapping))
    return ""
