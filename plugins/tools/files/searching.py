"""The tool search_files: lines of files by a regular expression, or files by name; by ripgrep where it is installed."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Literal

from hermes import ToolContext, ToolError, tool
from hermes.plugins.tools.files import ripgrep, walking
from hermes.plugins.tools.files.access import check_read, protecting, shown
from hermes.plugins.tools.files.ledger import ledger_of
from hermes.plugins.tools.files.walking import Line, Stop

LIMIT_MAX = 500
AROUND_MAX = 20
LINE_MAX_CHARS = 500
RESULT_MAX_CHARS = 40_000
DEADLINE_S = 60.0
FOUND_MAX = 20_000
"""So many findings are gathered at most before a page of them is shown."""


@tool(reads="path:{path}", idempotent=True)
def search_files(
    pattern: str,
    call: ToolContext,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    file_glob: str = "",
    limit: int = 50,
    offset: int = 0,
    output_mode: Literal["content", "files_only", "count"] = "content",
    context: int = 0,
) -> str:
    """Search in files (target=content: pattern is a regular expression, applied line by line) or for files by name
    (target=files: pattern is a glob such as *.py). Hidden, ignored and binary files are left out.

    Args:
        path: directory or file to search
        file_glob: search only files with such names, as *.py
        limit: most results to show
        offset: results to skip
        output_mode: the lines, only the files, or the number of lines in each
        context: lines to show around each line found
    """
    if not pattern:
        raise ToolError("pattern is empty")
    root = check_read(path, call)
    if not root.exists():
        raise ToolError(f"{path} does not exist; the working directory is {call.cwd}")
    limit, offset = min(max(1, limit), LIMIT_MAX), max(0, offset)
    stop = Stop(time.monotonic() + float(call.settings.get("search_deadline_s") or DEADLINE_S), call.cancelled)
    guard = _Guard(call)
    if target == "files":
        page = _files_page(pattern, root, file_glob, guard, stop, limit, offset)
    else:
        around = min(max(0, context), AROUND_MAX) if output_mode == "content" else 0
        found = [
            line
            for line in islice(_lines(pattern, root, file_glob, around, stop), FOUND_MAX)
            if guard.passes(line.path)
        ]
        page = _PAGES[output_mode](found, call, limit, offset)
        if not found and "\\n" in pattern:
            page += "\n[the search is line by line: a pattern with \\n fits nothing]"
        if len(found) >= FOUND_MAX:
            page += f"\n[stopped after {FOUND_MAX} lines: narrow the search]"
    if guard.omitted:
        page += f"\n[{guard.omitted} files are protected by approval.protect_paths and were left out]"
    if stop():
        page += "\n[the search was cut off by its deadline: these results are not all; narrow path or file_glob]"
    return _watch_repeats((pattern, target, str(root), file_glob, limit, offset, output_mode, context), page, call)


def _watch_repeats(search: tuple[object, ...], page: str, call: ToolContext) -> str:
    times = ledger_of(call.session_id).row((search, page))
    if times >= 4:
        raise ToolError(
            f"already searched {times - 1} times with this very result: use it, or search for something else"
        )
    return page if times < 3 else f"{page}\n[warning: the third time with the same result]"


class _Guard:
    """Leaves out what is protected; asked once a file."""

    def __init__(self, call: ToolContext) -> None:
        self.call, self._known = call, dict[str, bool]()

    def passes(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = protecting(Path(os.path.realpath(path)), self.call) is None
        return self._known[path]

    @property
    def omitted(self) -> int:
        return sum(not passes for passes in self._known.values())


def _lines(pattern: str, root: Path, glob: str, around: int, stop: Stop) -> Iterator[Line]:
    if rg := ripgrep.program():
        try:
            yield from ripgrep.lines(rg, pattern, root, glob, around, stop)
            return
        except ripgrep.CannotSearch:
            pass  # Python's expressions know more, and its message names the mistake
    try:
        regex = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ToolError(
            f"pattern is not a regular expression ({problem}); put \\ before . ( ) [ ] {{ }} + * ? | ^ $ "
            "that are meant as such"
        ) from None
    paths = (p for p in walking.files(root, stop) if root.is_file() or walking.name_fits(p, root, glob))
    yield from walking.lines(regex, paths, around, stop)


def _files_page(pattern: str, root: Path, glob: str, guard: _Guard, stop: Stop, limit: int, offset: int) -> str:
    rg = ripgrep.program()
    paths = ripgrep.files(rg, root, stop) if rg else walking.files(root, stop)
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    found = [
        p for p in paths if walking.name_fits(p, root, wanted) and walking.name_fits(p, root, glob) and guard.passes(p)
    ]
    found.sort(key=lambda p: (-_changed(p), p))
    names = [shown(Path(p), guard.call) for p in found]
    return _page(names, "files", limit, offset)


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


# ---- Pages ----------------------------------------------------------------------------------------------------------


def _page(rows: Sequence[str], what: str, limit: int, offset: int) -> str:
    part = list(rows[offset : offset + limit])
    if not part:
        return f"no {what} found" if not rows else f"no {what} at offset {offset}: there are {len(rows)}"
    return "\n".join(part) + _more(len(part), len(rows), what, offset)


def _more(count: int, total: int, what: str, offset: int) -> str:
    if offset + count >= total:
        return "" if not offset else f"\n[{what} {offset + 1} to {total} of {total}]"
    return f"\n[{what} {offset + 1} to {offset + count} of {total}; go on with offset={offset + count}]"


def _content_page(found: Sequence[Line], call: ToolContext, limit: int, offset: int) -> str:
    """Lines under the path of their file: `N:text` for what was found, `N-text` for what stands around it."""
    total = sum(line.hit for line in found)
    shown_lines = list(_hits_between(found, offset, offset + limit))
    if not shown_lines:
        return "no matches found" if not total else f"no matches at offset {offset}: there are {total}"
    out: list[str] = []
    used = hits = 0
    for path, lines in groupby(shown_lines, key=lambda line: line.path):
        out.append(shown(Path(path), call))
        before = 0
        for line in lines:
            if before and line.number > before + 1 and any(not li.hit for li in shown_lines):
                out.append("--")
            before = line.number
            text = line.text if len(line.text) <= LINE_MAX_CHARS else line.text[:LINE_MAX_CHARS] + " … [line cut]"
            out.append(f"{line.number}{':' if line.hit else '-'}{text}")
            hits += line.hit
            used += len(out[-1])
        if used > RESULT_MAX_CHARS:
            break
    return "\n".join(out) + _more(hits, total, "matches", offset)


def _hits_between(found: Iterable[Line], start: int, stop: int) -> Iterator[Line]:
    """The hits from `start` to before `stop`, with the lines around them."""
    hits = 0
    waiting: list[Line] = []
    for line in found:
        if line.hit:
            hits += 1
            if hits > stop:
                return
            if hits > start:
                yield from waiting
                yield line
            waiting = []
        elif hits > start:
            yield line
        elif hits == start:
            waiting.append(line)


def _files_only_page(found: Sequence[Line], call: ToolContext, limit: int, offset: int) -> str:
    return _page([shown(Path(p), call) for p in dict.fromkeys(line.path for line in found)], "files", limit, offset)


def _count_page(found: Sequence[Line], call: ToolContext, limit: int, offset: int) -> str:
    counts = Counter(line.path for line in found if line.hit)
    return _page([f"{shown(Path(p), call)}: {n}" for p, n in counts.items()], "files", limit, offset)


_PAGES: dict[str, Callable[[Sequence[Line], ToolContext, int, int], str]] = {
    "content": _content_page,
    "files_only": _files_only_page,
    "count": _count_page,
}
