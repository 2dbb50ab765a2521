"""The tool terminal: one shell command in the session's working directory, and what came of it."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes import Finding, ToolContext, ToolError, ToolReturn, tool
from hermes.plugins.tools.terminal.danger import assess
from hermes.plugins.tools.terminal.guard import ADVICE, refusal
from hermes.plugins.tools.terminal.meanings import meaning
from hermes.plugins.tools.terminal.output import Output
from hermes.plugins.tools.terminal.shell import Ended, ShellRun

TIMEOUT_S = 180
TIMEOUT_MAX_S = 600
RESULT_MAX_CHARS = 50_000
"""Specification of tools 1.1: 50,000 characters, the notes at the end included."""

_NOTES_CHARS = 2000
_NAMED_MAX = 5
_COMMAND_MAX_BYTES = 128_000  # Linux takes no single argument of 128 KiB
_TIMED_OUT = 124
_MARGIN_S = 1.0

CWD = "cwd"
"""Key of the session state that holds where the last command ended."""


class _Directories:
    """Where each session of this process is: calls of one batch see the state as it was before the batch."""

    def __init__(self, most: int = 1000) -> None:
        self._lock, self._most = threading.Lock(), most
        self._of: OrderedDict[str, str] = OrderedDict()

    def get(self, session_id: str) -> str | None:
        with self._lock:
            return self._of.get(session_id)

    def set(self, session_id: str, path: str) -> None:
        with self._lock:
            self._of[session_id] = path
            self._of.move_to_end(session_id)
            while len(self._of) > self._most:
                self._of.popitem(last=False)


_DIRECTORIES = _Directories()


def current_directory(context: ToolContext) -> tuple[str, str]:
    """Where the session is, and where it ought to be: the first is the nearest directory above when that is gone."""
    told = _DIRECTORIES.get(context.session_id) or context.state.get(CWD)
    wanted = told if isinstance(told, str) and os.path.isabs(told) else str(context.cwd)
    return _nearest(wanted), wanted


def _nearest(path: str) -> str:
    while not (os.path.isdir(path) and os.access(path, os.X_OK)):
        parent = os.path.dirname(path)
        if parent == path:
            return os.path.sep
        path = parent
    return path


def _assess(arguments: Mapping[str, Any], context: ToolContext) -> Finding | None:
    command = arguments.get("command")
    if not isinstance(command, str):
        return None
    workdir = arguments.get("workdir")
    here, _ = current_directory(context)
    return assess(command, os.path.join(here, os.path.expanduser(workdir)) if isinstance(workdir, str) else here)


def _available() -> bool:
    return os.name == "posix"


@tool(exclusive=True, deadline_s=0, assess=_assess, available=_available)
def terminal(
    command: str, context: ToolContext, timeout: int | None = None, workdir: str | None = None, background: bool = False
) -> ToolReturn:
    """Run a command in bash and wait for it. The working directory stays from one command to the next.

    Output and errors come together, then the exit code. There is no input and no terminal: choose options that do not
    ask. Use the file tools to read, write and search files.

    Args:
        command: the command, as in a script: several lines, pipes and && are fine
        timeout: seconds until it is ended with all that it started, at most 600; 180 when left out
        workdir: a directory for this command only
        background: not possible yet
    """
    if background:
        raise ToolError(f"background is not possible yet: it comes with the process tool. {ADVICE}")
    timeout_s = _checked(command, timeout, context)
    here, wanted = current_directory(context)
    where = _workdir(workdir, here)
    if why := refusal(command):
        raise ToolError(f"not run: {why}")
    stop_at = time.monotonic() + timeout_s
    if context.deadline is not None:  # of the whole run: end before we are left alone with the command
        stop_at = min(stop_at, max(context.deadline - _MARGIN_S, time.monotonic() + 0.1))
    output = Output(RESULT_MAX_CHARS - _NOTES_CHARS, _spill_path(context))
    keep = context.settings.get("keep_environment")
    run = ShellRun(
        _shell(context), command, where, stop_at, output, os.environ, keep if isinstance(keep, (list, tuple)) else ()
    )
    try:
        ended = run.run(context.cancelled)
    except OSError as problem:
        raise ToolError(f"{run.shell} could not be started in {where}: {problem.strerror or problem}") from problem
    now = here if ended.cwd is None or (workdir and _same(ended.cwd, where)) else ended.cwd
    _DIRECTORIES.set(context.session_id, now)
    notes = [*_notes(command, ended), *_where_notes(where, now, here, wanted)]
    text = "\n".join(part for part in (output.text().rstrip(), *notes) if part)
    state: dict[str, Any] | None = {CWD: now} if now != context.state.get(CWD, str(context.cwd)) else None
    return ToolReturn(text, state, failed=ended.timed_out or ended.cancelled)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _checked(command: str, timeout: int | None, context: ToolContext) -> int:
    """The seconds that a command gets; raises ToolError for a call that cannot be run."""
    if not command.strip():
        raise ToolError("command is empty: give the command to run")
    if "\0" in command:
        raise ToolError("command holds a NUL character, which no shell can take")
    if len(command.encode("utf-8", "replace")) > _COMMAND_MAX_BYTES:
        raise ToolError(
            f"command is longer than {_COMMAND_MAX_BYTES} bytes: write the text into a file with write_file and use it"
        )
    if timeout is None:
        own = context.settings.get("timeout_s")
        return min(int(own), TIMEOUT_MAX_S) if isinstance(own, (int, float)) and own >= 1 else TIMEOUT_S
    if timeout < 1:
        raise ToolError(f"timeout is {timeout}: give at least 1 second")
    if timeout > TIMEOUT_MAX_S:
        raise ToolError(f"timeout is {timeout}: a command gets at most {TIMEOUT_MAX_S} seconds here. {ADVICE}")
    return timeout


def _workdir(workdir: str | None, here: str) -> str:
    if workdir is None or not workdir.strip():
        return here
    path = os.path.normpath(os.path.join(here, os.path.expanduser(workdir)))
    if "\0" in path or not os.path.isdir(path):
        raise ToolError(f"workdir {workdir!r} is no directory; the session is in {here}")
    return path


def _shell(context: ToolContext) -> str:
    wanted = context.settings.get("shell")
    for name in (wanted if isinstance(wanted, str) and wanted else "bash", "bash", "sh"):
        if found := shutil.which(name):
            return found
    raise ToolError("there is no shell: install bash, or name one in plugins.settings.terminal.shell")


def _spill_path(context: ToolContext) -> Path:
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in context.call_id)[:100]
    return context.home / "results" / context.session_id / f"{name}-output.txt"


def _notes(command: str, ended: Ended) -> list[str]:
    """The lines after the output: how it ended, and what it left running."""
    if ended.timed_out:
        notes = [
            f"[timed out after {ended.seconds:.0f} s: the command and all that it started were ended; exit code "
            f"{_TIMED_OUT}. If it needs longer, give a timeout up to {TIMEOUT_MAX_S}, or do it in parts]"
        ]
    elif ended.cancelled:
        notes = [f"[stopped by the user after {ended.seconds:.1f} s, with all that the command had started]"]
    else:
        told = meaning(command, ended.exit_code) if ended.exit_code else ""
        notes = [f"[exit code {ended.exit_code}{f': {told}' if told else ''}]"]
    if ended.left:
        names = ", ".join(ended.left[:_NAMED_MAX])
        more = f" and {len(ended.left) - _NAMED_MAX} more" if len(ended.left) > _NAMED_MAX else ""
        notes.append(f"[ended with the command, which had left it running: {names}{more}]")
    if ended.stuck:
        notes.append(f"[could not be ended: {', '.join(ended.stuck[:_NAMED_MAX])}]")
    return notes


def _where_notes(where: str, now: str, here: str, wanted: str) -> list[str]:
    notes: list[str] = []
    if here != wanted and where == here:
        notes.append(f"[{wanted[:300]} is gone: this ran in {here[:300]}]")
    if now != here:
        notes.append(f"[now in {now[:300]}]")
    elif not os.path.isdir(now):
        notes.append(f"[{now[:300]} is gone: the next command starts in the nearest directory above it]")
    return notes
