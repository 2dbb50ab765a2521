"""What a person types into a search, as an FTS5 expression that is never a syntax error.

FTS5's unicode61 keeps a run of Han, kana or Hangul as one word, and a trigram index has no row for a query of two
characters. So such runs are written as overlapping pairs and single characters, in rows and in queries alike.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from hermes.kernel.messages import clean

_QUERY_MAX_CHARS = 2048
_TERMS_MAX = 32
_SNIPPET_CHARS = 160

_RUN = re.compile(
    "([\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+)"
)
_TERM = re.compile(r'"([^"]*)"|([^\s"]+)')


def spread(text: str, *, query: bool = False) -> str:
    """Write each run of Han, kana and Hangul as pairs, in order, then as single characters.

    A query holds the pairs only (of a run of one character: that one), so that as a phrase it means "these, in a row".
    """
    if text.isascii():
        return text

    def written(match: re.Match[str]) -> str:
        run = match[0]
        pairs = [run[i : i + 2] for i in range(len(run) - 1)]
        return f" {' '.join(pairs if query and pairs else [*pairs, *run])} "

    return _RUN.sub(written, unicodedata.normalize("NFC", text))


@dataclass(frozen=True, slots=True)
class Query:
    """Any of `alternatives` fits when all of its terms do. `expression` is "" when no term has a letter or digit."""

    alternatives: tuple[tuple[str, ...], ...]
    expression: str

    @property
    def rarest(self) -> tuple[str, ...]:
        """The longest term of each alternative: what stands in its place where only one can be looked for."""
        return tuple(max(terms, key=len) for terms in self.alternatives)

    def literally_in(self, text: str) -> bool:
        folded = text.casefold()
        return any(all(term.casefold() in folded for term in terms) for terms in self.alternatives)


def parse(text: str) -> Query | None:
    """Words are joined by AND, `OR` in capitals divides alternatives, "…" is a phrase, a trailing * any ending.

    None when nothing was asked for.
    """
    alternatives: list[list[str]] = [[]]
    expressions: list[list[str]] = [[]]
    for match in list(_TERM.finditer(clean(text[:_QUERY_MAX_CHARS]).replace(chr(0), " ")))[:_TERMS_MAX]:
        term = match[1] if match[1] is not None else match[2]
        if match[0] == "OR":
            alternatives.append([])
            expressions.append([])
        elif term.strip() and match[0] != "AND":
            alternatives[-1].append(term.strip("*").strip() or term.strip())
            expressions[-1] += _phrases(term, phrase=match[1] is not None)
    wanted = tuple(tuple(terms) for terms in alternatives if terms)
    if not wanted:
        return None
    expression = " OR ".join(f"({' AND '.join(parts)})" for parts in expressions if parts)
    return Query(wanted, expression)


def _phrases(term: str, *, phrase: bool) -> list[str]:
    """The FTS5 phrases that stand for one term; empty when it has no letter and no digit."""
    # Latin glued to Han: each on its own
    pieces = [term] if phrase else _RUN.split(unicodedata.normalize("NFC", term))
    return [
        f'"{spread(piece, query=True).strip()}"' + ("*" if piece.endswith("*") and not phrase else "")
        for piece in pieces
        if any(c.isalnum() for c in piece)
    ]


def snippet(text: str, query: Query) -> str:
    """A line of the text around the first word that was asked for, which stands between >>> and <<<."""
    flat = " ".join(text.split())
    words = sorted({w for terms in query.alternatives for t in terms for w in (t, *re.findall(r"\w+", t))}, key=len)
    for word in reversed(words):
        if found := re.search(re.escape(word), flat, re.IGNORECASE):
            start = max(found.start() - _SNIPPET_CHARS // 2, 0)
            stop = min(found.end() + _SNIPPET_CHARS // 2, len(flat))
            marked = f"{flat[start : found.start()]}>>>{found[0]}<<<{flat[found.end() : stop]}"
            return f"{'…' if start else ''}{marked}{'…' if stop < len(flat) else ''}"
    return flat[:_SNIPPET_CHARS] + ("…" if len(flat) > _SNIPPET_CHARS else "")
