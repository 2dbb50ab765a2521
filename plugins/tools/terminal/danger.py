"""Which commands need a person, and which are never run: the rows of `danger_rows.py` over the calls of a command.

A list like this is best effort: it catches mistakes, not malice. What keeps a hostile command in is a sandbox.
`assess` is the whole interface.
"""

from __future__ import annotations

import re

from hermes import Finding
from hermes.plugins.tools.terminal.danger_rows import Row, rows_for
from hermes.plugins.tools.terminal.shell_calls import Call, calls_of
from hermes.plugins.tools.terminal.shell_parts import Unparsable
from hermes.plugins.tools.terminal.shell_paths import Place, absolute, downloaded

_WORDS_MAX = 5_000
"""A command with more words than this is not looked through: it is asked about."""

_REASONS_MAX = 4
"""How many reasons one question names."""


def assess(command: str, cwd: str | None = None) -> Finding | None:
    """What a person must know before this command may run; None when nothing speaks against it.

    Only reads the text: nothing is run, and no file is looked at. `cwd` is where the command would begin.
    """
    try:
        calls, skeleton = calls_of(command)
        if sum(len(call.arguments) for call in calls) > _WORDS_MAX:
            raise Unparsable(f"it has more than {_WORDS_MAX} words")
    except Unparsable as problem:
        return Finding(f"the command cannot be understood: {problem}", subject=command)
    if _is_fork_bomb(skeleton):
        return Finding("a fork bomb", hard_line=True, subject=command)
    place, asked = Place(cwd, cwd), dict[str, None]()
    for call in calls:
        if row := _first_hard_line(call, place, asked):
            return Finding(row.reason, hard_line=True, subject=command)
        _move(call, place)
    return Finding("; ".join(list(asked)[:_REASONS_MAX]), subject=command) if asked else None


def _first_hard_line(call: Call, place: Place, asked: dict[str, None]) -> Row | None:
    """The row that forbids this call; the reasons of the others that fit are put into `asked`."""
    for row in rows_for(call):
        if row.hard_line or row.reason not in asked:
            if not row.fits(call, place):
                continue
            if row.hard_line:
                return row
            asked[row.reason] = None
    return None


_FUNCTION = re.compile(r"(?:function\s+([^\s;&|(){}]{1,40})|([^\s;&|(){}]{1,40})\s{0,9}\()[\s()]{0,9}\{")


def _is_fork_bomb(skeleton: str) -> bool:
    """A function that calls itself, piped into itself, in the background."""
    for found in _FUNCTION.finditer(skeleton):
        name = found[1] or found[2]
        if f"{name}|{name}&" in "".join(skeleton[found.end() : found.end() + 200].split()):
            return True
    return False


def _move(call: Call, place: Place) -> None:
    """Follow `cd`, and remember what was downloaded or made executable."""
    if call.name in ("cd", "pushd"):
        to = call.operands[0] if call.operands else "~"
        is_known = not any(w.computed and not w.text.startswith(("$HOME", "${HOME}")) for w in call.arguments)
        place.cwd = absolute(to, place) if is_known and to != "-" else None
    if call.name in ("curl", "wget"):
        place.fetched.update(name.rpartition("/")[2] for name in downloaded(call))
    if call.name == "chmod" and any(re.search(r"\+\w*x|[1357]", t) for t in call.operands[:1]):
        place.fetched.update(name.rpartition("/")[2] for name in call.operands[1:])
