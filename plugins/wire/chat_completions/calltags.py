"""A call that leaks into the text as `<function name="…">…</function>`, taken out while it streams (67318)."""

from __future__ import annotations

import re

_BEGIN = "<function"
_OPENING = re.compile(r"<function\s+name\s*=\s*[\"'][^\"'<>]*[\"'][^<>]*>")
_CLOSING = "</function>"
_FENCE = "```"
_LONGEST = 200
"""No opening tag is longer; what is longer is prose."""


class CallTagFilter:
    """Feed it the text in pieces of any size; it gives back the text without such tags and what is in them.

    A tag counts only at the beginning of a line, with a name, and outside a code fence: prose about tags stays.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_in_tag = False
        self._is_at_line_start = True
        self._is_in_fence = False
        self._ticks = ""

    def feed(self, piece: str) -> str:
        self._held += piece
        out: list[str] = []
        while self._held and self._step(out):
            pass
        return "".join(out)

    def rest(self) -> str:
        """What was held back; a call that was never closed is dropped to its end."""
        held, self._held = self._held, ""
        return "" if self._is_in_tag else held

    def _step(self, out: list[str]) -> bool:
        """Settle what can be settled; False when more must come first."""
        if self._is_in_tag:
            _, closing, after = self._held.partition(_CLOSING)
            self._is_in_tag = not closing
            self._held = after if closing else self._held[-len(_CLOSING) :]
            return bool(closing)
        before = self._held.partition("<")[0]
        if before:
            self._give(before, out)
        elif self._is_at_line_start and not self._is_in_fence and (opening := _OPENING.match(self._held)):
            self._is_in_tag, self._held = True, self._held[opening.end() :]
        elif self._is_at_line_start and not self._is_in_fence and self._may_open():
            return False
        else:
            self._give("<", out)
        return True

    def _may_open(self) -> bool:
        begun = self._held[: len(_BEGIN)]
        return _BEGIN.startswith(begun) and ">" not in self._held and len(self._held) < _LONGEST

    def _give(self, text: str, out: list[str]) -> None:
        """Pass the beginning of what is held on, and see where it leads."""
        out.append(text)
        self._held = self._held[len(text) :]
        _, line_break, line = text.rpartition("\n")
        self._is_at_line_start = (bool(line_break) or self._is_at_line_start) and not line.strip()
        ticks = self._ticks + text
        self._is_in_fence ^= ticks.count(_FENCE) % 2 == 1
        self._ticks = "`" * ((len(ticks) - len(ticks.rstrip("`"))) % len(_FENCE))
