"""End a process whose run is stuck, when the time that it was given is long over (case B150)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import TracebackType

PATIENCE_S = 30.0
"""After the limit: 20 for the closing request (`modelcalls.CLOSING_GRACE_S`), the rest for tools and the last flush."""

LAST_RESORT_S = 5.0
"""After that: C code that holds the interpreter's lock keeps the watchdog's own thread from running too."""


class Watchdog:
    """While it is entered: calls `expire` on a thread of its own, once, when the limit and the patience are over.

    `expire` ends the process. Where it cannot, the system does, by SIGALRM (exit code 142 in a shell), on systems that
    have it. Without a limit (None) nothing is watched. It is entered and left on the main thread.
    """

    def __init__(self, limit_s: float | None, expire: Callable[[], None], *, patience_s: float = PATIENCE_S) -> None:
        self._limit_s, self._patience_s, self._expire = limit_s, patience_s, expire
        self._lock = threading.Lock()
        self._is_over = False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Watchdog:
        if self._limit_s is not None:
            seconds = self._limit_s + self._patience_s
            self._timer = threading.Timer(seconds, self._bark)
            self._timer.name, self._timer.daemon = "hermes-watchdog", True
            self._timer.start()
            _alarm(seconds + LAST_RESORT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            with self._lock:  # held while `expire` tells the ending: it is not told a second time
                self._is_over = True
            self._timer.cancel()
            self._timer.join()  # a thread that is alive would make the command leave by os._exit
            _alarm(0)

    def _bark(self) -> None:
        with self._lock:
            if not self._is_over:
                self._expire()


def _alarm(seconds: float) -> None:
    """Have the system kill this process then; 0 calls it off. Windows has no such timer."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
