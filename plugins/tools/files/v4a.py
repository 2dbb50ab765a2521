"""The V4A patch format: read it, and apply its hunks to a text.

*** Begin Patch
*** Update File: src/a.py          (*** Move to: src/b.py may follow)
@@ def f():                         a line that stands before the place
 unchanged
-old
+new
*** Add File: new.txt               all lines with +
*** Delete File: old.txt
*** Move File: a.txt -> b.txt
*** End Patch
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from hermes import ToolError
from hermes.plugins.tools.files.matching import find
from hermes.plugins.tools.files.replacing import closest, substituted

_HEADER = re.compile(r"^\*\*\* (Update|Add|Delete|Move) File: (.+?)\s*$")
_MOVE = re.compile(r"^\*\*\* Move to: (.+?)\s*$")
_FRAME = re.compile(r"^\*\*\* (Begin Patch|End Patch|End of File)\s*$")


@dataclass(slots=True)
class Hunk:
    """`hints` are lines that stand before the place, outermost first; `lines` carry their sign."""

    hints: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def old(self) -> str:
        return "\n".join(line[1:] for line in self.lines if line[0] in " -")

    @property
    def new(self) -> str:
        return "\n".join(line[1:] for line in self.lines if line[0] in " +")


@dataclass(slots=True)
class FileChange:
    """`move_to` is "" where the file keeps its name."""

    kind: Literal["Update", "Add", "Delete", "Move"]
    path: str
    move_to: str = ""
    hunks: list[Hunk] = field(default_factory=list)


def targets(patch: str) -> Iterator[str]:
    """Every path that a patch names; for what it touches, before it is read properly."""
    for line in patch.splitlines():
        if header := _HEADER.match(line):
            yield from (part.strip() for part in header[2].split(" -> "))
        elif move := _MOVE.match(line):
            yield move[1]


def parse(patch: str) -> list[FileChange]:
    """Read a patch; raises ToolError that names the line which is wrong."""
    changes: list[FileChange] = []
    for number, line in enumerate(patch.strip("\n").split("\n"), 1):
        line = line.removesuffix("\r")
        if _FRAME.match(line) or (not changes and not line.strip()):
            continue
        if header := _HEADER.match(line):
            changes.append(_change(header[1], header[2]))
        elif not changes:
            raise ToolError(f"line {number} of the patch stands before any '*** Update File: path' header: {line[:80]}")
        elif move := _MOVE.match(line):
            changes[-1].move_to = _checked(move[1])
        else:
            _read_line(changes[-1], line, number)
    if not changes:
        raise ToolError("the patch names no file: begin each with '*** Update File: path', Add, Delete or Move")
    for change in changes:
        change.hunks = [hunk for hunk in change.hunks if hunk.lines]
        if change.kind == "Update" and not (change.hunks or change.move_to):
            raise ToolError(f"the patch changes nothing in {change.path}: give lines with - and +")
    return changes


def _change(kind: str, path: str) -> FileChange:
    source, _, goal = path.partition(" -> ") if kind == "Move" else (path, "", "")
    if kind == "Move" and not goal:
        raise ToolError(f"'*** Move File: {path}' needs '*** Move File: old -> new'")
    return FileChange(kind, _checked(source), _checked(goal) if goal else "")  # type: ignore[arg-type]


def _checked(path: str) -> str:
    path = path.strip()
    if ".." in path.replace("\\", "/").split("/"):
        raise ToolError(f"the patch names {path}: a path with .. is refused, give it from the working directory")
    return path


def _read_line(change: FileChange, line: str, number: int) -> None:
    if change.kind in ("Delete", "Move"):
        if line.strip():
            raise ToolError(f"line {number} of the patch: nothing may follow '*** {change.kind} File'")
        return
    if line.startswith("@@"):
        hint = line[2:].strip().removesuffix("@@").strip()
        if not change.hunks or change.hunks[-1].lines:
            change.hunks.append(Hunk())
        if hint and not re.fullmatch(
            r"-\d+(,\d+)? \+\d+(,\d+)?", hint
        ):  # line numbers of a unified diff say nothing here
            change.hunks[-1].hints.append(hint)
        return
    if not change.hunks:
        change.hunks.append(Hunk())
    if line[:1] in ("+", "-", " "):
        change.hunks[-1].lines.append(line)
    elif not line:
        change.hunks[-1].lines.append("+" if change.kind == "Add" else " ")
    elif change.kind == "Add":
        raise ToolError(f"line {number} of the patch: each line of an added file begins with +: {line[:80]}")
    else:
        raise ToolError(f"line {number} of the patch begins with neither +, - nor a blank: {line[:80]}")


def added_text(change: FileChange) -> str:
    lines = [line[1:] for hunk in change.hunks for line in hunk.lines]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def apply(text: str, change: FileChange) -> tuple[str, set[str]]:
    """The text after all hunks, in order, and the matchers that were needed; raises ToolError when one does not fit."""
    done, rest = "", text
    used: set[str] = set()
    for number, hunk in enumerate(change.hunks, 1):
        _trim(hunk)
        where = f"hunk {number} of {change.path}"
        start = _after_hints(rest, hunk.hints, where)
        if not hunk.old:
            at = start if hunk.hints else len(rest)
            gap = "" if not at or rest[at - 1] == "\n" else "\n"
            done, rest = f"{done}{rest[:at]}{gap}{hunk.new}\n", rest[at:]
            continue
        matcher, spans = find(rest[start:], hunk.old, whole_lines=True)
        if not spans and start:  # the hint may be one of the lines themselves
            start = max(0, rest.rfind("\n", 0, max(0, start - 1)) + 1)
            matcher, spans = find(rest[start:], hunk.old, whole_lines=True)
        if not spans:
            raise ToolError(f"{where} does not fit the file{closest(text, hunk.old)}")
        if len(spans) > 1 and not hunk.hints:
            raise ToolError(f"{where} fits {len(spans)} places: add lines around it, or a line before it after @@")
        used.add(matcher)
        end = start + spans[0][1]
        done += substituted(rest[:end], [(start + spans[0][0], end)], hunk.old, hunk.new, matcher)
        rest = rest[end:]
        if not hunk.new:  # a line that is taken out takes its end along
            rest = rest.removeprefix("\n")
    return done + rest, used


def _trim(hunk: Hunk) -> None:
    """Drop the blank lines at the end that only divide one part of the patch from the next."""
    while len(hunk.lines) > 1 and hunk.lines[-1] == " ":
        hunk.lines.pop()


def _after_hints(text: str, hints: list[str], where: str) -> int:
    start = 0
    for hint in hints:
        for line_start, line in _lines(text, start):
            if line.strip() == hint or (hint in line and len(hint) > 3):
                start = min(len(text), line_start + len(line) + 1)
                break
        else:
            raise ToolError(f"{where}: no line with {hint!r} was found{closest(text, hint)}")
    return start


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    for line in text[start:].split("\n"):
        yield start, line
        start += len(line) + 1
