"""Search without ripgrep: walk the directories, read the files."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hermes import Cancelled

_FILE_MAX_BYTES = 20_000_000
_SEARCHED_CHARS = 5000
"""So much of a line is searched: what a regular expression costs can grow with the square of it."""

# Made by tools and not written by people; ripgrep knows them from .gitignore.
_SKIPPED = frozenset({
    "node_modules", "__pycache__", "venv", "site-packages", "dist", "build", "target", "coverage", "bower_components",
    "vendor",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was found (`hit`), or one beside it."""

    path: str
    number: int
    text: str
    hit: bool = True


@dataclass(slots=True)
class Stop:
    """Says when to stop: at the deadline (`time.monotonic()`) or with the turn."""

    deadline: float
    cancelled: Cancelled

    def __call__(self) -> bool:
        return self.cancelled() or time.monotonic() > self.deadline

    def left_s(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


def files(root: Path, stop: Stop) -> Iterator[str]:
    """The paths of all files below `root`, in order, without hidden ones and without following links."""
    if root.is_file():
        yield str(root)
        return
    for directory, names, file_names in os.walk(root):
        if stop():
            return
        names[:] = sorted(n for n in names if not n.startswith(".") and n not in _SKIPPED)
        for name in sorted(file_names):
            if not name.startswith("."):
                yield os.path.join(directory, name)


def lines(regex: re.Pattern[str], paths: Iterable[str], around: int, stop: Stop) -> Iterator[Line]:
    """The lines that fit, with `around` lines before and after each."""
    for path in paths:
        if stop():
            return
        yield from _lines_of(path, regex, around)


def _lines_of(path: str, regex: re.Pattern[str], around: int) -> Iterator[Line]:
    text = _text_of(path)
    if text is None:
        return
    before: deque[Line] = deque(maxlen=around)
    after = 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if regex.search(line[:_SEARCHED_CHARS]):
            yield from before
            before.clear()
            after = around
            yield Line(path, number, line)
        elif after:
            after -= 1
            yield Line(path, number, line, hit=False)
        elif around:
            before.append(Line(path, number, line, hit=False))


def _text_of(path: str) -> str | None:
    """The text of an ordinary text file; None for all else."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _FILE_MAX_BYTES:
            return None
        with open(path, "rb") as file:
            head = file.read(8192)
            if b"\0" in head:
                return None
            text = (head + file.read()).decode("utf-8", "replace")
    except OSError:
        return None
    return text.removesuffix("\n").removeprefix("\ufeff")


def name_fits(path: str, root: Path, glob: str) -> bool:
    """Say whether a file goes by this name: a glob without "/" is about the name, one with it about the path."""
    if not glob:
        return True
    if "/" not in glob:
        return fnmatchcase(os.path.basename(path), glob)
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    return any(fnmatchcase(relative, g) for g in {glob, glob.removeprefix("**/"), glob.replace("/**/", "/")})
