"""Thinking that a model writes into its text as `<think>…</think>`, taken out while it streams."""

from __future__ import annotations

from typing import Literal

_TAGS = ("think", "thinking", "reasoning", "thought", "REASONING_SCRATCHPAD")
_OPENINGS = tuple(f"<{tag}>" for tag in _TAGS)
_LONGEST = max(map(len, _OPENINGS))

Piece = tuple[Literal["text", "thinking"], str]


class ThinkSplitter:
    """Feed it the text in pieces of any size; it gives back the same text, told apart.

    A tag counts only at the beginning of the reply (blanks apart): in the middle it may be part of an answer about
    tags. A beginning that may still become a tag is held back; `rest` gives it out at the end.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "text"] = "start"
        self._held = ""
        self._closing = ""
        self._is_after_thinking = False

    @property
    def is_in_tags(self) -> bool:
        """True inside thinking, and while what came may still become its opening tag."""
        return self._state == "thinking" or bool(self._held)

    def feed(self, piece: str) -> list[Piece]:
        if self._state == "text" and not self._is_after_thinking:
            return [("text", piece)] if piece else []
        self._held += piece
        out: list[Piece] = []
        while self._step(out):
            pass
        return out

    def rest(self) -> list[Piece]:
        """What was held back; thinking that was never closed stays thinking."""
        held, self._held = self._held, ""
        if not held or (self._is_after_thinking and not held.strip()):
            return []
        return [("thinking" if self._state == "thinking" else "text", held)]

    def _step(self, out: list[Piece]) -> bool:
        """Settle what can be settled; False when more must come first."""
        match self._state:
            case "start":
                return self._start(out)
            case "thinking":
                return self._think(out)
            case _:
                return self._text(out)

    def _start(self, out: list[Piece]) -> bool:
        begin = self._held.lstrip()
        if not begin:
            return False
        for tag, opening in zip(_TAGS, _OPENINGS, strict=True):
            if begin.startswith(opening):
                self._state, self._held, self._closing = "thinking", begin[len(opening) :].lstrip("\n"), f"</{tag}>"
                return True
        if len(begin) < _LONGEST and any(opening.startswith(begin) for opening in _OPENINGS):
            return False
        self._state = "text"
        if self._is_after_thinking:
            self._held = begin
        return True

    def _think(self, out: list[Piece]) -> bool:
        thinking, closing, after = self._held.partition(self._closing)
        if closing:
            if thinking.strip():
                out.append(("thinking", thinking.rstrip()))
            # A second block may follow at once; blanks between thinking and text are nobody's.
            self._state, self._held, self._is_after_thinking = "start", after.lstrip(), True
            return bool(self._held)
        keep = _overlap(thinking, self._closing)
        ready, self._held = thinking[: len(thinking) - keep], thinking[len(thinking) - keep :]
        if ready:
            out.append(("thinking", ready))
        return False

    def _text(self, out: list[Piece]) -> bool:
        self._is_after_thinking = False
        if self._held:
            out.append(("text", self._held))
            self._held = ""
        return False


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)
