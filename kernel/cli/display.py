"""What a run shows on stderr while it runs: notices, tool lines, and on a terminal a spinner."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from hermes.kernel import events
from hermes.kernel.redact import redact

_CONTROLS = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]"
)
_FRAME_S = 0.12
_FRAMES = "|/-\\"
_NOTICED_WAIT_S = 5.0
"""A wait shorter than this is ordinary; only the spinner shows it."""
_PROGRESS_LINE_S = 10.0
_ARGUMENTS_CHARS = 80
_FULL_LINES = 12


def harmless(text: str) -> str:
    """Take control characters out, line ends and tabs stay: what a model or a tool wrote must not drive a terminal."""
    return _CONTROLS.sub("", text)


def plain(text: str) -> str:
    """Make one line of it."""
    return " ".join(harmless(text).split())


@dataclass(frozen=True, slots=True)
class Look:
    """How much is shown. `live`: stderr is a terminal that can be redrawn. `tools` is none, line or full."""

    live: bool = False
    quiet: bool = False
    verbosity: int = 0
    tools: str = "line"
    reasoning: bool = False
    color: bool = False


class Display:
    """Safe to call from any thread. A stderr that went away silences it and nothing else."""

    def __init__(self, stream: TextIO, look: Look) -> None:
        self._stream, self._look = stream, look
        self._lock = threading.RLock()
        self._spinner = _Spinner(self._lock, self._raw) if look.live and not look.quiet else None
        self._session = ""
        self._arguments: dict[str, str] = {}
        self._progress: dict[str, float] = {}
        self._inside_line = False
        self._handlers: dict[type[events.Event], Callable[[Any], None]] = {
            events.SessionStarted: self._session_started,
            events.ModelCallStarted: lambda event: self.status("thinking"),
            events.ModelCallEnded: self._model_call_ended,
            events.ThinkingDelta: self._thinking,
            events.ToolStarted: self._tool_started,
            events.ToolProgress: lambda event: self.status(event.text),
            events.ToolEnded: self._tool_ended,
            events.Progress: self._progressed,
            events.Waiting: self._waiting,
            events.Notice: lambda event: self.notice(event.text),
            events.TurnFinished: self._turn_finished,
        }

    def on_event(self, event: events.Event) -> None:
        if handler := self._handlers.get(type(event)):
            handler(event)

    def notice(self, text: str) -> None:
        """One line that a person should see, whatever stderr is; `-q` silences it."""
        if not self._look.quiet:
            self.line(f"hermes: {plain(redact(text))}")

    def line(self, text: str, *, faint: bool = False) -> None:
        with self._lock:
            if self._spinner:
                self._spinner.erase()
            start = "\n" if self._inside_line else ""
            self._inside_line = False
            self._raw(start + (f"\x1b[2m{text}\x1b[0m" if faint and self._look.color else text) + "\n")

    def status(self, text: str | None) -> None:
        """What the spinner says; None takes it off the screen."""
        if self._spinner:
            self._spinner.say(plain(text) if text else None)

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Hold the spinner while somebody else uses the screen."""
        if not self._spinner:
            yield
            return
        before = self._spinner.say(None)
        try:
            yield
        finally:
            self._spinner.say(before)

    def close(self) -> None:
        if self._spinner:
            self._spinner.close()

    def _raw(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a stderr that is gone or closed
            self._stream.write(text)
            self._stream.flush()

    # ---- One event each ---------------------------------------------------------------------------------------------

    def _session_started(self, event: events.SessionStarted) -> None:
        self._session = self._session or event.session
        if self._look.verbosity and event.session == self._session:
            self.notice(f"session {event.session}, model {event.provider}:{event.model}")

    def _model_call_ended(self, event: events.ModelCallEnded) -> None:
        self.status(None)
        if self._look.verbosity:
            how = f"fault {event.fault}" if event.fault else event.stop_reason
            self.notice(f"model call {event.attempt}: {how}, {event.seconds:.1f} s, {event.usage.total_tokens} tokens")

    def _thinking(self, event: events.ThinkingDelta) -> None:
        if self._look.reasoning and self._look.live and not self._look.quiet and event.session == self._session:
            with self._lock:
                self.status(None)
                self._inside_line = True
                text = harmless(event.text)
                self._raw(f"\x1b[2m{text}\x1b[0m" if self._look.color else text)

    def _tool_started(self, event: events.ToolStarted) -> None:
        self._arguments[event.call_id] = plain(redact(_arguments_line(event.arguments)))
        self.status(f"{event.name} {self._arguments[event.call_id]}")

    def _tool_ended(self, event: events.ToolEnded) -> None:
        arguments = self._arguments.pop(event.call_id, "")
        self.status("thinking")
        if self._look.quiet or self._look.tools == "none" or not (self._look.live or self._look.verbosity):
            return
        indent = "    " if event.session and self._session and event.session != self._session else "  "
        self.line(f"{indent}{event.name} {arguments}  {event.status}, {event.seconds:.1f} s", faint=True)
        if self._look.tools == "full" or self._look.verbosity > 1:
            for text in harmless(redact(event.text)).splitlines()[:_FULL_LINES]:
                self.line(f"{indent}  {text}", faint=True)

    def _progressed(self, event: events.Progress) -> None:
        text = event.what if event.share is None else f"{event.what} {event.share:.0%}"
        self.status(text)
        now = time.monotonic()
        if not self._look.live and now - self._progress.get(event.what, -_PROGRESS_LINE_S) >= _PROGRESS_LINE_S:
            self._progress[event.what] = now
            self.notice(text)

    def _waiting(self, event: events.Waiting) -> None:
        self.status(f"waiting {event.seconds:.0f} s: {event.why}")
        if event.seconds >= _NOTICED_WAIT_S:
            self.notice(f"waiting {event.seconds:.0f} s: {event.why}")

    def _turn_finished(self, event: events.TurnFinished) -> None:
        if event.session == self._session:
            self.status(None)


def _arguments_line(arguments: dict[str, Any]) -> str:
    """The first arguments as `key=value`, one line, cut."""
    text = " ".join(f"{key}={value}" for key, value in arguments.items())
    return text if len(text) <= _ARGUMENTS_CHARS else text[: _ARGUMENTS_CHARS - 1] + "…"


class _Spinner:
    """One redrawn line, on a thread that starts with the first status."""

    def __init__(self, lock: threading.RLock, write: Callable[[str], None]) -> None:
        self._lock, self._write = lock, write
        self._text: str | None = None
        self._since = 0.0
        self._drawn = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def say(self, text: str | None) -> str | None:
        """Returns what it said before."""
        with self._lock:
            before, self._text = self._text, text
            if text is None:
                self.erase()
            elif text != before:
                self._since = time.monotonic()
            if text is not None and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hermes-spinner", daemon=True)
                self._thread.start()
            return before

    def erase(self) -> None:
        with self._lock:
            if self._drawn:
                self._drawn = False
                self._write("\r\x1b[K")

    def close(self) -> None:
        self.say(None)
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        frame = 0
        while not self._closed.wait(_FRAME_S):
            frame += 1
            with self._lock:
                if self._text is None:
                    continue
                seconds = time.monotonic() - self._since
                text = f"{_FRAMES[frame % len(_FRAMES)]} {self._text}" + (f" {seconds:.0f} s" if seconds >= 1 else "")
                width = shutil.get_terminal_size().columns
                self._drawn = True
                self._write(f"\r\x1b[K{text[: width - 1]}")
