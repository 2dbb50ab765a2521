"""Replace a text in a file by another, so that only what the model meant to change changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches

from hermes import ToolError
from hermes.plugins.tools.files.matching import Span, decode_escapes, find, plain_form, wanted_lines

_HINT_LINES = 3


@dataclass(frozen=True, slots=True)
class Replaced:
    """`matcher` names how the place was found; "exact" when it was as given."""

    text: str
    count: int
    matcher: str


def replace(text: str, old: str, new: str, replace_all: bool = False) -> Replaced:
    """Replace `old` by `new`; raises ToolError, with what to do, when it is not there or there more than once."""
    if not old:
        raise ToolError("old_string is empty: give the text to replace, or use write_file for a whole file")
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing to change")
    matcher, spans = find(text, old)
    if not spans:
        raise ToolError(f"old_string was not found{closest(text, old)}")
    if matcher == "exact" and not replace_all and len(spans) == 1 and (again := text.find(old, spans[0][0] + 1)) >= 0:
        spans.append((again, again + len(old)))  # "aa" is there twice in "aaa"
    if len(spans) > 1 and not replace_all:
        at = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in spans[:10])
        raise ToolError(
            f"old_string is there {len(spans)} times (lines {at}): give more of the lines around it, "
            "or replace_all=true"
        )
    return Replaced(substituted(text, spans, old, new, matcher), len(spans), matcher)


def substituted(text: str, spans: list[Span], old: str, new: str, matcher: str) -> str:
    """The text with `new`, fitted to each place, in the place of the spans."""
    pieces: list[str] = []
    last = 0
    for start, end in spans:
        region = text[start:end]
        pieces += [text[last:start], new if matcher == "exact" else _fitted(region, old, new, matcher)]
        last = end
    return "".join([*pieces, text[last:]])


def _fitted(region: str, old: str, new: str, matcher: str) -> str:
    for drifted in ('\\"', "\\'"):
        if matcher != "escapes decoded" and drifted in old and drifted in new and drifted not in region:
            raise ToolError(
                f"the file has no {drifted} there, but old_string and new_string have: give both without the backslash"
            )
    if matcher == "escapes decoded":
        return decode_escapes(new, "n\"'\\" + "".join(c for c, real in (("t", "\t"), ("r", "\r")) if real in region))
    if matcher == "blanks around ignored":
        head, tail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
        return new.removeprefix(head).removesuffix(tail)
    if matcher == "punctuation made plain":
        return _with_file_punctuation(region, old, new)
    ends = new.endswith("\n") and (region.endswith("\n") or not old.endswith("\n"))
    return "\n".join(_fitted_lines(region, old, new)) + ("\n" if ends else "")


def _with_file_punctuation(region: str, old: str, new: str) -> str:
    """Where the new text is as the old one was, the file's own characters stay."""
    plain_old, _ = plain_form(old)
    plain_new, new_places = plain_form(new)
    _, places = plain_form(region)
    out: list[str] = []
    for kind, a1, a2, b1, b2 in SequenceMatcher(None, plain_old, plain_new, autojunk=False).get_opcodes():
        if kind == "equal":
            out.append(region[places[a1] : places[a2]])
        elif kind in ("replace", "insert"):
            out.append(new[new_places[b1] : new_places[b2]])
    return "".join(out)


def _fitted_lines(region: str, old: str, new: str) -> Iterator[str]:
    """Lines that the model left as they were stay the file's; the others get the file's indentation."""
    old_lines, new_lines, region_lines = wanted_lines(old), wanted_lines(new), wanted_lines(region)
    shift = _shift(old_lines, region_lines)
    if not new:
        return
    if len(region_lines) != len(old_lines):
        yield from (shift(line) for line in new_lines)
        return
    for kind, a1, a2, b1, b2 in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from region_lines[a1:a2]
        else:
            yield from (shift(line) for line in new_lines[b1:b2])


def _shift(old_lines: list[str], region_lines: list[str]) -> Callable[[str], str]:
    """How to move a line from the indentation that the model wrote to that of the file, told by the first line."""
    pairs = zip(old_lines, region_lines, strict=False)
    given, real = next(((_indent(a), _indent(b)) for a, b in pairs if a.strip() and b.strip()), ("", ""))
    if given == real:
        return lambda line: line

    def shift(line: str) -> str:
        if not line.strip():
            return line
        if line.startswith(given):
            return real + line[len(given) :]
        return real.removesuffix(given.removeprefix(_indent(line))) + line.lstrip()

    return shift


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def closest(text: str, old: str) -> str:
    """Where in the file something alike stands, as a hint for the model; "" when nothing does."""
    lines = text.split("\n")
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    if not first or len(lines) > 50_000:
        return ""
    stripped = [line.strip() for line in lines]
    best = get_close_matches(first, dict.fromkeys(s for s in stripped if s), 1, 0.6)
    if not best:
        return ""
    at = stripped.index(best[0])
    shown = [f"{n}|{lines[n - 1][:200]}" for n in range(max(1, at), min(len(lines), at + _HINT_LINES) + 1)]
    return "; the closest lines are:\n" + "\n".join(shown)
