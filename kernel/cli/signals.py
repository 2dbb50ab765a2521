"""Turn Ctrl-C, SIGTERM and SIGHUP into a proper stop; the second one exits at once."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from hermes.kernel.endings import EndReason

REASONS: dict[int, EndReason] = {
    number: reason
    for name, reason in (
        ("SIGINT", EndReason.INTERRUPTED),
        ("SIGTERM", EndReason.TERMINATED),
        ("SIGHUP", EndReason.HANGUP),
    )
    if (number := getattr(signal, name, None)) is not None
}


class StopSignals:
    """Watch for signals on a thread of its own, which also hears them while the main thread is stuck in C code.

    `stop` is called with the reason at the first signal, on the watcher's thread: a handler on the main thread could
    interrupt it while it holds the very lock that stopping needs. The second signal ends the process with its code.
    A signal that was ignored when the process began (nohup, a shell's background job) stays ignored.
    """

    def __init__(self, stop: Callable[[EndReason], None]) -> None:
        self._stop = stop
        self._old: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._reader, self._writer = socket.socketpair()
        self._old_wakeup = -1

    def __enter__(self) -> StopSignals:
        self._writer.setblocking(False)
        self._old_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in REASONS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, _heard)
        threading.Thread(target=self._watch, name="hermes-signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._writer.close()  # the watcher reads the end and goes

    def _watch(self) -> None:
        stopped = False
        with self._reader:
            while data := self._reader.recv(64):
                for number in data:
                    reason = REASONS.get(number)
                    if reason is None:
                        continue
                    if stopped:
                        os._exit(reason.exit_code)
                    stopped = True
                    self._stop(reason)


def _heard(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wakeup socket has told the watcher already."""
