"""What models write in the wrong place: calls into the text, answers into the reasoning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hermes.kernel.messages import Part, Refusal, Text, Thinking, ToolCall

_LEAKED_CALL = re.compile(r"(?:(?<=[\s|>])|^)(?:assistant\s+)?to=functions\.\w+[^{}]{0,200}\{")
"""A call in the notation in which the model writes calls inside: `to=functions.NAME`, some words, an object."""
_ANSWER = re.compile(r"<response>\s*(.+?)\s*(?:</response>\s*)?\Z", re.DOTALL)
"""The mark that Grok puts before an answer at the end of its reasoning."""


def without_leaked_call(parts: Sequence[Part]) -> list[Part] | None:
    """The parts up to a call that leaked into a text; None when none did, or when there are calls as they should be.

    The model meant to go on, so what is left is no answer.
    """
    if any(isinstance(part, ToolCall) for part in parts):
        return None
    for place, part in enumerate(parts):
        if isinstance(part, Text) and (leak := _LEAKED_CALL.search(part.text)):
            before = part.text[: leak.start()].rstrip()
            return [*parts[:place], *([Text(before)] if before.strip() else [])]
    return None


def with_answer(parts: Sequence[Part]) -> list[Part]:
    """The same parts; an answer that stands in the last thinking is a text, when the reply has nothing else to say."""
    if any(isinstance(part, (Text, Refusal, ToolCall)) for part in parts) or not parts:
        return list(parts)
    last = parts[-1]
    found = _ANSWER.search(last.text) if isinstance(last, Thinking) else None
    if found is None or not isinstance(last, Thinking):
        return list(parts)
    thinking = replace(last, text=last.text[: found.start()].rstrip())
    kept = [thinking] if thinking.text or thinking.replay else []
    return [*parts[:-1], *kept, Text(found[1])]
