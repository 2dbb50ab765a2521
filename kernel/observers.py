"""Observers run beside the loop: one daemon thread a plugin, a bounded queue, in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from hermes.kernel.hookcalls import Implementation
from hermes.kernel.quiet import quiet

QUEUE_LENGTH = 1000
"""Calls that may wait for one plugin; past it the oldest are dropped, and counted."""

Failed = Callable[[Implementation, BaseException | None], None]
"""`failed(implementation, error)`: error None when the call missed its deadline."""


class Observer:
    """The calls that wait for one plugin. `put` returns at once; a call that hangs is left behind with its thread."""

    def __init__(self, name: str, deadline_s: float, failed: Failed) -> None:
        self.dropped = 0
        self._name, self._deadline_s, self._failed = name, deadline_s, failed
        self._waiting: deque[tuple[Implementation, Mapping[str, Any]]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._current: tuple[Implementation, float] | None = None
        self._is_closed = False

    def put(self, implementation: Implementation, arguments: Mapping[str, Any]) -> None:
        with self._changed:
            hung = self._leave_behind_what_hangs()
        if hung is not None:  # told before the next call starts: this may be the failure that benches the plugin
            self._failed(hung, None)
        with self._changed:
            if self._is_closed:
                return
            if len(self._waiting) >= QUEUE_LENGTH:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append((implementation, arguments))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"hermes observer {self._name}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _leave_behind_what_hangs(self) -> Implementation | None:
        if self._current is None or time.monotonic() - self._current[1] <= self._deadline_s:
            return None
        hung, self._current, self._thread = self._current[0], None, None
        return hung

    def drain(self, until: float) -> bool:
        """Take nothing more and wait for the rest until `time.monotonic()` is `until`; False when calls are left."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            while self._waiting or self._current is not None:
                if not self._changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    return False
            return True

    def stop(self) -> None:
        """Drop what waits and take nothing more; for a plugin that is benched."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed and self._thread is me:
                    self._changed.wait()
                if self._thread is not me or not self._waiting:
                    return
                implementation, arguments = self._waiting.popleft()
                self._current = (implementation, time.monotonic())
            error: BaseException | None = None
            try:
                with quiet():
                    implementation.function(**implementation.prune(arguments))
            except BaseException as raised:  # SystemExit too would end this thread without a word
                error = raised
            if self._thread is not me:  # left behind: its failure has been told
                return
            if error is not None:
                self._failed(implementation, error)
            with self._changed:
                if self._thread is not me:
                    return
                self._current = None
                self._changed.notify_all()
            del implementation, arguments, error
