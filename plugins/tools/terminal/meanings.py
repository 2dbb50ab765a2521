"""What the exit code of a program means when it is no failure, or one with a known name."""

from __future__ import annotations

import signal

from hermes.plugins.tools.terminal.shell_calls import calls_of
from hermes.plugins.tools.terminal.shell_parts import Unparsable

# From the manual pages of the programs (grep, diffutils, findutils, curl, git).
_OF_PROGRAM: dict[tuple[str, int], str] = {
    **dict.fromkeys(((n, 1) for n in ("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep")), "no match"),
    ("git grep", 1): "no match",
    ("git diff", 1): "the files differ",
    ("diff", 1): "the files differ",
    ("cmp", 1): "the files differ",
    ("diff", 2): "a file could not be read",
    ("find", 1): "some directories could not be read",
    ("test", 1): "the condition is false",
    ("[", 1): "the condition is false",
    ("[[", 1): "the condition is false",
    ("curl", 6): "the host was not found",
    ("curl", 7): "no connection to the host",
    ("curl", 22): "an HTTP status of 400 or more",
    ("curl", 28): "curl's own timeout",
    ("timeout", 124): "its time was over",
    ("pytest", 1): "some tests failed",
    ("pytest", 5): "no tests were found",
    ("make", 2): "a target failed",
    ("which", 1): "not found",
    ("command", 1): "not found",
}

# From the manual page of bash, EXIT STATUS.
_OF_SHELL: dict[int, str] = {126: "found, but it cannot be run", 127: "command not found"}


def meaning(command: str, exit_code: int) -> str:
    """A few words about an exit code that is not 0; "" when it says no more than that something failed."""
    if exit_code in _OF_SHELL:
        return _OF_SHELL[exit_code]
    for name in _last_programs(command):
        if told := _OF_PROGRAM.get((name, exit_code)):
            return told
    if exit_code > 128:
        try:
            return f"ended by {signal.Signals(exit_code - 128).name}"
        except ValueError:
            return ""
    return ""


def _last_programs(command: str) -> list[str]:
    """The program that gave the exit code, as far as the text tells: the last one, and its first word with it."""
    try:
        calls, _ = calls_of(command)
    except Unparsable:
        return []
    names: list[str] = []
    for call in calls[-1:]:
        names = [f"{call.name} {call.operands[0]}" if call.operands else "", call.name, *call.via[-1:]]
    return names
