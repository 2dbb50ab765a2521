"""The interrupt of a turn: one token, set from any thread, seen at once by whoever waits, linked to the parent's."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hermes.kernel.endings import EndReason


class Token:
    """The interrupt of one turn; a `Cancelled` for tools. The first reason stays."""

    def __init__(self, parent: Token | None = None) -> None:
        self.reason: EndReason | None = None
        self.detail = ""
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._unlink: Callable[[], None] | None = None
        if parent is not None:
            self._unlink = parent.on_cancel(lambda: self.set(parent.reason or EndReason.INTERRUPTED, parent.detail))

    def set(self, reason: EndReason = EndReason.INTERRUPTED, detail: str = "") -> None:
        with self._lock:
            if self.reason is not None:
                return
            self.reason, self.detail = reason, detail
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def __call__(self) -> bool:
        return self.reason is not None

    def wait(self, timeout_s: float) -> bool:
        return self._event.wait(max(timeout_s, 0.0))

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def close(self) -> None:
        """Drop the link to the parent, so that a long-lived parent does not keep every child's token."""
        if self._unlink is not None:
            self._unlink()
            self._unlink = None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
