"""From an exception to an exit code and one line on stderr: the only place that does it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import shell_complete

from hermes.kernel.endings import EndReason
from hermes.kernel.errors import HermesError, SettingsError, StopRun

COMPLETE_VARIABLE = "_HERMES_COMPLETE"
BROKEN_PIPE_EXIT_CODE = 141
"""128 + SIGPIPE, as a shell shows it for programs that let the signal kill them."""


def run_click(command: click.Command, arguments: list[str], *, debug: bool = False, **context: Any) -> int:
    """Run a click command to its exit code; whatever it raises becomes one line on stderr.

    With `debug` the traceback is printed before that line. `context` goes to the click context (obj, default_map). This
    stands in for `command.main(standalone_mode=False)`, which would hide a closed pipe behind an exit code of 1.
    """
    try:
        if instruction := os.environ.get(COMPLETE_VARIABLE):
            return shell_complete(command, context, "hermes", COMPLETE_VARIABLE, instruction)
        with command.make_context("hermes", arguments, **context) as click_context:
            code = command.invoke(click_context)
        sys.stdout.flush()
    except BaseException as error:  # the last guard of the process: SystemExit, Ctrl-C and a plugin's own too
        if debug and not isinstance(error, (click.exceptions.Exit, SystemExit)):
            import traceback

            traceback.print_exc()
        return exit_code_of(error, debug=debug)
    return code if isinstance(code, int) else 0


def exit_code_of(error: BaseException, *, debug: bool = False) -> int:
    """Tell the user what happened in one line, and give the exit code for it."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case BrokenPipeError():
            _let_go_of_stdout()
            return BROKEN_PIPE_EXIT_CODE
        case SystemExit():
            return _code_of_system_exit(error)
        case click.Abort() | KeyboardInterrupt():
            _say("interrupted")
            return EndReason.INTERRUPTED.exit_code
        case StopRun():
            _say(f"stopped by a plugin: {error.why or 'no reason was given'}")
            return EndReason.INTERRUPTED.exit_code
        case click.ClickException():
            error.show()
            return EndReason.USAGE.exit_code if isinstance(error, click.UsageError) else error.exit_code
        case SettingsError():
            for problem in error.problems:
                _say(problem)
            return error.reason.exit_code
        case HermesError():
            _say(str(error))
            return error.reason.exit_code
        case _:
            hint = "" if debug else "; --debug shows the traceback"
            _say(f"internal: {type(error).__name__}: {error}{hint}")
            return EndReason.INTERNAL.exit_code


def _code_of_system_exit(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    _say(str(error.code))
    return EndReason.INTERNAL.exit_code


def _say(text: str) -> None:
    with suppress(BrokenPipeError):
        print(f"hermes: {text}", file=sys.stderr)


def _let_go_of_stdout() -> None:
    """Point stdout at nothing, else the interpreter's flush at exit prints a traceback of its own."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
