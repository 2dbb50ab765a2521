"""Calls that a model wrote as text: bare JSON, JSON in a code fence, or JSON inside `<tool_call>` tags.

Small models do this even when they know the call syntax of their API. Found is only what names a tool that was offered
and is whole; JSON in prose that is something else stays prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import TypeAlias

from hermes.kernel.messages import Json

WrittenCall: TypeAlias = tuple[str, str]
"""Name of the tool, and its arguments as JSON text: what `arguments.py` takes."""

_ARGUMENT_KEYS = ("arguments", "parameters", "input")
_DECODER = json.JSONDecoder(strict=False)  # small models write real line breaks inside strings
_OPENING = re.compile(r"(?:<tool_call>|<function_call>|```[A-Za-z_-]*)\s*$")
_CLOSING = re.compile(r"\s*(?:</tool_call>|</function_call>|```)")
_AT_LINE_START = re.compile(r"(?:^|\n|>)[ \t]*$")


def calls_in(text: str, tool_names: Collection[str]) -> tuple[str, list[WrittenCall]]:
    """Take the calls out of a text; returns what is left (stripped when there were any) and the calls in order.

    An object counts as a call when it has `name` (a tool of `tool_names`) and an object under `arguments`,
    `parameters` or `input`, or no other key than `name`. It must begin a line or follow an opening tag or fence:
    an example quoted in the middle of a sentence is no call. A call that is cut off is none.
    """
    rest: list[str] = []
    calls: list[WrittenCall] = []
    kept = 0
    for start, end, value in _values(text):
        found = [_call(item, tool_names) for item in (value if isinstance(value, list) else [value])]
        whole = [call for call in found if call is not None]
        if not whole or len(whole) != len(found):
            continue
        before, after = _with_wrapping(text, start, end)
        if before is None:
            continue
        rest.append(text[kept:before])
        kept = after
        calls.extend(whole)
    if not calls:
        return text, []
    return "".join((*rest, text[kept:])).strip(), calls


def _values(text: str) -> Iterator[tuple[int, int, Json]]:
    """Every whole JSON object or list, outermost first, with its place."""
    position, failures = 0, 0
    while failures < 200:  # a text of brackets alone must not cost the square of its length
        opening = re.compile(r"[{\[]").search(text, position)
        if opening is None:
            return
        start = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            position, failures = start + 1, failures + 1
            continue
        yield start, end, value
        position = end


def _call(value: Json, tool_names: Collection[str]) -> WrittenCall | None:
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):  # {"type": "function", "function": {…}}
        value = inner
    name = value.get("name")
    if not isinstance(name, str) or name not in tool_names:
        return None
    for key in _ARGUMENT_KEYS:
        arguments = value.get(key)
        if isinstance(arguments, dict):
            return name, json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, str) and _is_object(arguments):
            return name, arguments
    return (name, "{}") if set(value) == {"name"} else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _with_wrapping(text: str, start: int, end: int) -> tuple[int | None, int]:
    """The span of the JSON with its tag or fence around it; no begin when it stands in the middle of a line."""
    if opening := _OPENING.search(text, max(0, start - 40), start):
        closing = _CLOSING.match(text, end)
        return opening.start(), closing.end() if closing else end
    return (start if _AT_LINE_START.search(text, max(0, start - 80), start) else None), end
