"""Text that other people wrote, on its way into a prompt: read it safely, mark what looks like an attack.

Marking is a hint to the model and to the person, never the protection: such text is framed as data whatever it says.
Nothing is dropped but invisible characters, so that a rule that quotes an attack stays readable.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermes.kernel.messages import clean

OPEN, CLOSE = "⟦", "⟧"
Scope = Literal["files", "memory"]

_GAP = r"[\W_]+"  # line breaks, Markdown and punctuation between two words of an attack
_FILL = r"(?:[\W_]+\w+){0,4}?[\W_]+"  # up to four filler words: "ignore any and all of the prior instructions"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of the table. `scope` memory: only where the text comes back in every session."""

    id: str
    regex: re.Pattern[str]
    scope: Scope = "files"


def _row(identity: str, pattern: str, scope: Scope = "files") -> Pattern:
    return Pattern(identity, re.compile(pattern, re.IGNORECASE), scope)


# Sources: cases B105 and B106 of cases/faults.md; OWASP "LLM01 Prompt Injection" (2025) for the kinds.
PATTERNS: tuple[Pattern, ...] = (
    _row(
        "override",
        rf"\b(?:ignore|disregard|forget|override|bypass|overlook){_FILL}"
        rf"(?:instructions?|prompts?|directives?|guidelines|orders)\b",
    ),
    _row(
        "override",
        rf"\b(?:ignore|disregard|forget|override|bypass){_FILL}(?:previous|prior|earlier|above|system|safety|your)"
        rf"{_GAP}(?:rules|messages|context|policies|restrictions|training)\b",
    ),
    _row(
        "new_identity",
        rf"\byou{_GAP}are{_GAP}now{_FILL}(?:dan|jailbroken|unrestricted|uncensored|developer{_GAP}mode)\b",
    ),
    _row("new_identity", rf"\b(?:pretend|act){_FILL}you{_GAP}(?:have{_GAP}no|are{_GAP}not{_GAP}bound|are{_GAP}free)\b"),
    _row(
        "concealment",
        rf"\b(?:do{_GAP}not|don['’]?t|never|without){_GAP}"
        rf"(?:tell|telling|inform|informing|notify|notifying|alert|alerting){_FILL}(?:user|human|operator|owner)\b",
    ),
    _row(
        "prompt_theft",
        rf"\b(?:reveal|print|output|repeat|leak|send){_FILL}(?:system{_GAP}prompt|hidden{_GAP}instructions)\b",
    ),
    _row("chat_markup", r"<\|[a-z_]{2,24}\|>|\[/?INST\]|<</?SYS>>"),
    _row(
        "exfiltration",
        r"\b(?:curl|wget|nc|http)\b[^\n]{0,200}\$\{?\w*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)",
    ),
    _row(
        "exfiltration",
        r"\b(?:cat|base64|xxd)\b[^\n]{0,120}(?:\.env\b|\.netrc|\.pgpass|id_rsa|id_ed25519|\.aws/credentials)[^\n]{0,40}\|",
    ),
    _row("persistence", r"authorized_keys|\.ssh/(?:config|id_)", "memory"),
    _row(
        "persistence",
        rf"\b(?:from{_GAP}now{_GAP}on|always){_FILL}(?:obey|follow){_FILL}(?:website|page|file|email)",
        "memory",
    ),
)

# Zero-width, bidirectional, soft hyphen, tag characters. Joiners are judged by what stands beside them.
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+")
_DIRECTION = frozenset("\u061c\u200e\u200f")  # ordinary in Arabic and Hebrew text: left out without a word
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,12}\U000e007f")  # the flags of Scotland, Wales, Texas …
_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,4000}={0,2}")


@dataclass(frozen=True, slots=True)
class Marked:
    """The text with suspicious spans inside ⟦ ⟧, and the ids of what was found, each once, in order of the table."""

    text: str
    findings: tuple[str, ...] = ()


def mark(text: str, scope: Scope = "files") -> Marked:
    """Take invisible characters out, put what looks like an injection between ⟦ and ⟧, and keep everything else."""
    text = clean(text).replace(OPEN, "[").replace(CLOSE, "]")
    text, hidden = _without_invisible(text)
    found = {"invisible": None} if hidden else {}
    spans: list[tuple[int, int]] = []
    for start, stop, identity in _spans(text, scope):
        spans.append((start, stop))
        found[identity] = None
    return Marked(_with_marks(text, spans), tuple(found))


def _spans(text: str, scope: Scope) -> Iterator[tuple[int, int, str]]:
    for pattern in PATTERNS:
        if pattern.scope == "files" or scope == "memory":
            for match in pattern.regex.finditer(text):
                yield match.start(), match.end(), pattern.id
    for match in _BASE64.finditer(text):
        decoded = _decoded(match.group())
        if decoded and any(p.regex.search(decoded) for p in PATTERNS):
            yield match.start(), match.end(), "encoded"


def _decoded(run: str) -> str:
    """What a run of base64 says, or "" when it is none."""
    try:
        return base64.b64decode(run[: len(run) // 4 * 4], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _with_marks(text: str, spans: list[tuple[int, int]]) -> str:
    out: list[str] = []
    done = 0
    for start, stop in sorted(spans):
        if stop <= done:
            continue
        if start >= done:
            out += [text[done:start], OPEN, text[start:stop], CLOSE]
        else:  # overlaps the span before it: let that one reach further
            out[-1:] = [text[done:stop], CLOSE]
        done = stop
    out.append(text[done:])
    return "".join(out)


def _without_invisible(text: str) -> tuple[str, bool]:
    """The text without invisible characters that join nothing, and whether any of them was of the hiding kind."""
    if text.isascii():
        return text, False
    flags = {i for match in _FLAG.finditer(text) for i in range(*match.span())}
    out: list[str] = []
    done, hidden = 0, False
    for match in _INVISIBLE.finditer(text):
        start, stop = match.span()
        if start in flags or _joins(text, start, stop):
            continue
        out.append(text[done:start])
        done = stop
        hidden = hidden or not (set(match.group()) <= _DIRECTION or start == 0 == stop - 1)
    out.append(text[done:])
    return "".join(out), hidden


def _joins(text: str, start: int, stop: int) -> bool:
    """Whether one ZWJ or ZWNJ stands where writing needs it: inside an emoji, or between letters that are not Latin."""
    if stop - start != 1 or text[start] not in "\u200c\u200d" or start == 0 or stop == len(text):
        return False
    before, after = text[start - 1], text[stop]
    if text[start] == "\u200d" and _pictures(after) and (_pictures(before) or before in "\ufe0f\u20e3"):
        return True
    return _needs_joiners(before) and (_needs_joiners(after) or after.isspace())


def _pictures(character: str) -> bool:
    return "\u2190" <= character <= "\u2bff" or "\U0001f000" <= character <= "\U0001faff"


def _needs_joiners(character: str) -> bool:
    """Arabic, Syriac, N'Ko and the Indic and South-East Asian scripts, where joiners are spelling."""
    return "\u0600" <= character <= "\u0fff" or "\u1000" <= character <= "\u109f" or "\ufb50" <= character <= "\ufefc"


def read_text(path: Path, *, limit_bytes: int = 2_000_000) -> str | None:
    """Read a text file for a prompt: regular files only (a pipe would hang), UTF-8 or UTF-16 by its BOM, bounded.

    None when there is no such file. What is not text shows as U+FFFD, and a first line says so: never an error, never
    silently empty. Raises OSError when the file is there and cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit_bytes)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        if status.st_size <= limit_bytes:  # else a character was cut at the limit
            text = f"({path.name} is not valid {encoding[:6].upper()}; what could not be read shows as \ufffd.)\n{text}"
    if status.st_size > limit_bytes:
        text += f"\n({path.name} has {status.st_size:,} bytes; only the first {limit_bytes:,} were read.)"
    return text.replace("\r\n", "\n").replace("\r", "\n")
