"""Read an argument of whatever type the model sent, and write results as compact JSON.

The kernel has fitted arguments to the schema before; these functions are total all the same, since a tool is also
called by tests, plugins and replays.
"""

from __future__ import annotations

import json

from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Json, clean


def as_text(value: Json) -> str:
    """Clean text without blank edges; "" for None, JSON for what is neither text nor number."""
    if value is None:
        return ""
    return clean(value if isinstance(value, str) else compact(value)).strip()


def as_flag(value: Json) -> bool:
    """True for true and the text "true"; everything else is False ("false" is not true because it is a text)."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def as_count(value: Json, default: int, lowest: int, highest: int) -> int:
    """A whole number inside the bounds; `default` when it is none."""
    number = as_whole_number(value)
    return default if number is None else max(lowest, min(highest, number))


def as_whole_number(value: Json) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None
    return value if isinstance(value, int) else None


def as_list(value: Json, name: str) -> list[Json] | None:
    """A list, also from its JSON text or from one object; None when nothing was given. Raises ToolError."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"{name} must be a list; it came as a text that is not JSON ({error})") from None
    if value is None:
        return None
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise ToolError(f"{name} must be a list, not {type(value).__name__}: {compact(value)[:80]}")
    return value


def compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def cut(text: str, limit_chars: int) -> str:
    """The text, or its head with a mark that says how much is missing; never longer than the limit (from 40 up)."""
    if len(text) <= limit_chars:
        return text
    return text[: limit_chars - 30].rstrip() + f" … [{len(text) - limit_chars + 30:,} more chars]"
