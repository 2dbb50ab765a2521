"""Keep what a command puts out in bounded memory: decoded, without control sequences, its head and its tail."""

from __future__ import annotations

import codecs
import re
from collections import deque
from pathlib import Path
from typing import BinaryIO

HEAD_SHARE = 0.4
"""Specification of tools 1.1: 40 % of what is kept is the beginning, where the errors of a build start."""

SPILL_MAX_BYTES = 20_000_000
"""How much of a long output is put into a file."""

_HELD_MAX_CHARS = 4096
_BINARY_SHARE, _BINARY_LEAST = 0.1, 64

# CSI, OSC and the other strings up to their end, then escapes of two characters (ECMA-48, 5.3 to 5.6).
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]"
    r"|\x1b(?=\x1b)"
)
_OPEN_SEQUENCE = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*)\Z")
_OPEN_AT_END = re.compile(r"(?:\x1b\[[0-?]*[ -/]*|\x1b[ -/]*|\x9b[0-?]*[ -/]*)\Z")
_OVERSTRUCK = re.compile(r"[^\n\b]\x08")
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Output:
    """Takes bytes as they come. At most `max_chars` characters are kept, and at most SPILL_MAX_BYTES go to `spill`,
    a file that is made as soon as something has to be left out.
    """

    def __init__(self, max_chars: int, spill: Path | None = None) -> None:
        self.total_bytes = 0
        self.spilled = False
        self._head_max = int(max_chars * HEAD_SHARE)
        self._tail_max = max_chars - self._head_max
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._head_chars = self._tail_chars = self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # the end of what came: a line, or a sequence, that is not complete yet
        self._chars = self._odd = 0
        self._spill_path = spill
        self._spill_file: BinaryIO | None = None
        self._early = bytearray()
        self._first = b""

    def feed(self, data: bytes) -> None:
        self._first = self._first or data[:16]
        self.total_bytes += len(data)
        self._to_file(data)
        self._take(self._decoder.decode(data), is_last=False)

    def close(self) -> None:
        """Nothing more comes: take what was held back, and close the file."""
        self._take(self._decoder.decode(b"", final=True), is_last=True)
        if self._spill_file is not None:
            self._spill_file.close()

    def text(self) -> str:
        """What is kept, with a line that says what was left out; a summary when it is no text."""
        if self._odd >= _BINARY_LEAST and self._odd > self._chars * _BINARY_SHARE:
            return (
                f"[binary output, {self.total_bytes} bytes, begins with {self._first.hex(' ')}; it is not shown. "
                "Put it into a file, or look at it with `file` or `xxd | head`]"
            )
        head, tail = "".join(self._head), "".join(self._tail)
        if not self._left_out:
            return head + tail
        where = f"; the first {SPILL_MAX_BYTES} bytes at most are in {self._spill_path}" if self.spilled else ""
        return f"{head}\n[… {self._left_out} characters left out of {self.total_bytes} bytes{where} …]\n{tail}"

    def _take(self, decoded: str, *, is_last: bool) -> None:
        self._chars += len(decoded)
        if not decoded.isascii():
            self._odd += decoded.count("\ufffd")
        text, self._held = self._held + decoded, ""
        if "\x1b" in text or "\x9b" in text:
            text = _SEQUENCE.sub("", text)
        if is_last:
            self._keep(self._plain(_OPEN_AT_END.sub("", text)))
            return
        open_sequence = _OPEN_SEQUENCE.search(text, max(0, len(text) - _HELD_MAX_CHARS))
        cut = open_sequence.start() if open_sequence else len(text)
        line = text.rfind("\n", 0, cut) + 1
        last = _overwritten(text[line:cut]) + text[cut:]
        if len(last) <= _HELD_MAX_CHARS:  # a line that may be overwritten yet
            text, self._held = text[:line], last
        else:
            text, self._held = text[:cut], text[cut:]
        self._keep(self._plain(text))

    def _plain(self, text: str) -> str:
        if "\b" in text:
            text = _OVERSTRUCK.sub("", text)
        if "\r" in text:
            text = "\n".join(_overwritten(line).rstrip("\r") for line in text.split("\n"))
        if "\0" in text:
            text = text.replace("\0", " ")  # divides names in find -print0 and in /proc
        text, count = _CONTROL.subn("", text)
        self._odd += count
        return text

    def _keep(self, text: str) -> None:
        room = self._head_max - self._head_chars
        if room > 0 and text:
            self._head.append(text[:room])
            self._head_chars += len(self._head[-1])
            text = text[room:]
        if not text:
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while (over := self._tail_chars - self._tail_max) > 0:
            dropped = min(over, len(self._tail[0]))
            if dropped == len(self._tail[0]):
                self._tail.popleft()
            else:
                self._tail[0] = self._tail[0][dropped:]
            self._tail_chars -= dropped
            self._left_out += dropped

    def _to_file(self, data: bytes) -> None:
        """Hold the beginning in memory until it is too long to be shown, then put all of it into the file."""
        if self._spill_path is None:
            return
        if self._spill_file is None:
            self._early += data
            if len(self._early) <= self._head_max + self._tail_max:
                return
            data, self._early = bytes(self._early), bytearray()
            self._spill_file = _open(self._spill_path)
            if self._spill_file is None:
                self._spill_path = None
                return
            self.spilled = True
        room = SPILL_MAX_BYTES - self._spill_file.tell()
        try:
            self._spill_file.write(data[: max(room, 0)])
        except OSError:  # a full disk: what is kept in memory has to do
            self._spill_file.close()
            self._spill_path, self.spilled = None, False


def _overwritten(line: str) -> str:
    """What a terminal shows of a line after its carriage returns; those at its end stay, since more may come."""
    shown = line.rstrip("\r")
    return line[shown.rfind("\r") + 1 :]


def _open(path: Path) -> BinaryIO | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path.open("wb")
    except OSError:
        return None
