"""Find the place that a model means by a text it remembers: nine matchers, the strictest first.

Each takes the file's text and the text looked for, and gives spans (start, end). The first matcher that finds
anything decides; what it found more than once is for the caller to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

Span = tuple[int, int]

_BLANKS = re.compile(r"[ \t]+")
_PLAIN_FORMS = {
    "‘": "'", "’": "'", "‚": "'", "′": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-",
    "‐": "-", "‑": "-", "−": "-", "…": "...", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u200b": "",
}  # fmt: skip
_CHANGED = re.compile("|".join(map(re.escape, _PLAIN_FORMS)))
_ESCAPE = re.compile(r"\\([ntr\"'\\])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}

BLOCK_SIMILARITY = 0.5
CONTEXT_SHARE = 0.5
"""How much of the lines between two anchors, or of all lines, must be as given (spec tools 1.6)."""


def find(text: str, wanted: str, *, whole_lines: bool = False) -> tuple[str, list[Span]]:
    """The name of the first matcher that finds `wanted`, and where, in order; ("", []) when none does.

    With `whole_lines` a place in the middle of a line does not count.
    """
    for name, matcher in MATCHERS.items():
        spans = [s for s in matcher(text, wanted) if not whole_lines or _is_whole(text, *s)]
        if spans:
            return name, spans
    return "", []


def _is_whole(text: str, start: int, end: int) -> bool:
    return (start == 0 or text[start - 1] == "\n") and (end == len(text) or "\n" in (text[end], text[end - 1]))


def _exact(text: str, wanted: str) -> Iterator[Span]:
    at = text.find(wanted)
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + len(wanted))


def _by_lines(key: Callable[[str], str]) -> Callable[[str, str], Iterator[Span]]:
    """Compare line by line, each made the same by `key`."""

    def matcher(text: str, wanted: str) -> Iterator[Span]:
        wanted_keys = [key(line) for line in wanted_lines(wanted)]
        if any(wanted_keys):
            lines = text.split("\n")
            keys = [key(line) for line in lines]
            yield from _windows(lines, wanted, lambda at, count: keys[at : at + count] == wanted_keys)

    return matcher


def wanted_lines(wanted: str) -> list[str]:
    return wanted.removesuffix("\n").split("\n")


def _windows(lines: list[str], wanted: str, fits: Callable[[int, int], bool]) -> Iterator[Span]:
    """The spans of all runs of as many lines as are wanted that fit; runs do not overlap."""
    count, next_free = len(wanted_lines(wanted)), 0
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for at in range(len(lines) - count + 1):
        if at >= next_free and fits(at, count):
            next_free = at + count
            end = starts[at + count] - 1
            yield starts[at], min(end + 1, starts[-1] - 1) if wanted.endswith("\n") else end


def _decoded(text: str, wanted: str) -> Iterator[Span]:
    """The text was escaped once too often: `\\n` for a line end, `\\"` for a quote."""
    plain = decode_escapes(wanted)
    if plain != wanted and plain.strip():
        yield from _exact(text, plain)


def decode_escapes(text: str, only: str = "ntr\"'\\") -> str:
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]) if m[1] in only else m[0], text)


def _edges_trimmed(text: str, wanted: str) -> Iterator[Span]:
    """Blank lines around, and blanks at the outer ends of, the first and last line count for nothing."""
    core = wanted.strip()
    if core and core != wanted:
        yield from _exact(text, core)


def _normalised(text: str, wanted: str) -> Iterator[Span]:
    """Typographic quotes, dashes, ellipses and blanks count as their plain forms."""
    plain, places = plain_form(text)
    plain_wanted, _ = plain_form(wanted)
    if plain_wanted.strip():
        for start, end in _exact(plain, plain_wanted):
            yield places[start], places[end]


def plain_form(text: str) -> tuple[str, list[int]]:
    """The text with plain punctuation, and for each of its places (and its end) the place in the original."""
    pieces: list[str] = []
    places: list[int] = []
    last = 0
    for match in _CHANGED.finditer(text):
        pieces.append(text[last : match.start()])
        places.extend(range(last, match.start()))
        plain = _PLAIN_FORMS[match.group()]
        pieces.append(plain)
        places.extend([match.start()] * len(plain))
        last = match.end()
    pieces.append(text[last:])
    places.extend(range(last, len(text) + 1))
    return "".join(pieces), places


def _anchored(text: str, wanted: str) -> Iterator[Span]:
    """The first and the last line are right, and what is between is alike."""
    inner = [line.strip() for line in wanted_lines(wanted)]
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    if len(inner) < 3 or not inner[0] or not inner[-1]:
        return

    def fits(at: int, count: int) -> bool:
        if stripped[at] != inner[0] or stripped[at + count - 1] != inner[-1]:
            return False
        between = "\n".join(stripped[at + 1 : at + count - 1]), "\n".join(inner[1:-1])
        return SequenceMatcher(None, *between, autojunk=False).ratio() >= BLOCK_SIMILARITY

    yield from _windows(lines, wanted, fits)


def _alike(text: str, wanted: str) -> Iterator[Span]:
    """At least half of three or more lines are right, the first or the last among them; only the best place counts."""
    inner = [line.strip() for line in wanted_lines(wanted)]
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    if len(inner) < 3:
        return

    def score(at: int) -> int:
        if inner[0] != stripped[at] and inner[-1] != stripped[at + len(inner) - 1]:
            return 0
        return sum(bool(a) and a == b for a, b in zip(inner, stripped[at : at + len(inner)], strict=True))

    scores = [score(at) for at in range(len(lines) - len(inner) + 1)]
    best = max(scores, default=0)
    if best >= CONTEXT_SHARE * sum(map(bool, inner)) and best >= 2:
        yield from _windows(lines, wanted, lambda at, _count: scores[at] == best)


MATCHERS: dict[str, Callable[[str, str], Iterator[Span]]] = {
    "exact": _exact,
    "blanks at line ends ignored": _by_lines(str.rstrip),
    "runs of blanks taken as one": _by_lines(lambda line: _BLANKS.sub(" ", line.rstrip())),
    "indentation ignored": _by_lines(lambda line: _BLANKS.sub(" ", line.strip())),
    "escapes decoded": _decoded,
    "blanks around ignored": _edges_trimmed,
    "punctuation made plain": _normalised,
    "first and last line": _anchored,
    "similar lines": _alike,
}
