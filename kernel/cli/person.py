"""Ask the person at the terminal, for `hermes run --interactive`."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TextIO

from hermes.kernel.cli.display import plain
from hermes.kernel.effects import ApprovalAnswer, ApprovalRequest
from hermes.kernel.redact import redact

_ANSWERS: dict[str, ApprovalAnswer] = {
    "y": "once",
    "yes": "once",
    "o": "once",
    "once": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
    "n": "deny",
    "no": "deny",
    "d": "deny",
    "deny": "deny",
}
_ARGUMENTS_CHARS = 400


class TerminalPerson:
    """Somebody at a terminal. `quiet` is entered while a question stands on the screen (the spinner pauses).

    Reads /dev/tty, since standard input may be a pipe; without one, standard input when that is a terminal. Call
    `stop` from any thread: a question that stands is given up at once, and none is asked after it.
    """

    def __init__(self, quiet: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext) -> None:
        self._quiet = quiet
        self._wake_reader, self._wake_writer = os.pipe()
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        os.write(self._wake_writer, b"x")

    def close(self) -> None:
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def question(self, text: str, choices: Sequence[str] = ()) -> str | None:
        """What the person typed, or the choice whose number or text it was; None when there is nobody."""
        lines = [plain(text), *(f"  {number}. {plain(choice)}" for number, choice in enumerate(choices, 1))]
        said = self._ask("\n".join(lines) + "\n> ")
        if said is not None and said.isdecimal() and 1 <= int(said) <= len(choices):
            return choices[int(said) - 1]
        return said

    def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """`nobody` when nobody can be asked, `stopped` when the run was stopped meanwhile."""
        subject = request.subject or str(dict(request.call.arguments))
        head = f"{request.call.name}: {plain(redact(subject))[:_ARGUMENTS_CHARS]}\n  {plain(request.reason)}\n"
        while True:
            said = self._ask(head + "  allow? (y)es once, for this (s)ession, (a)lways, (n)o > ")
            if said is None:
                return "stopped" if self._stopped else "nobody"
            if answer := _ANSWERS.get(said.lower()):
                return answer
            head = "  please answer y, s, a or n\n"

    def _ask(self, prompt: str) -> str | None:
        if self._stopped:
            return None
        with self._quiet(), _terminal() as stream:
            if stream is None:
                return None
            print(prompt, end="", file=sys.stderr, flush=True)
            return self._line(stream)

    def _line(self, stream: TextIO) -> str | None:
        """One line without its end; None at the end of input or when stopped."""
        if os.name != "nt":
            ready = select.select([stream.fileno(), self._wake_reader], [], [])[0]
            if self._wake_reader in ready:
                print(file=sys.stderr)
                return None
        line = stream.readline()
        return line.strip() if line else None


@contextlib.contextmanager
def _terminal() -> Iterator[TextIO | None]:
    try:
        stream = open("CONIN$" if os.name == "nt" else "/dev/tty", encoding="utf-8", errors="replace")  # noqa: SIM115 closed below
    except OSError:
        yield sys.stdin if sys.stdin is not None and sys.stdin.isatty() else None
        return
    with stream:
        yield stream
