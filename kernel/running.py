"""Tool calls that run: a daemon thread each, a deadline that stands still while a person is asked, a way to stop."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hermes.kernel.effects import CallEnd
from hermes.kernel.endings import EndReason
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Text, ToolCall

GRACE_S = 0.150
"""How long a stopped turn waits for its tools to end (architecture, section 3)."""

GRACE_PER_LEVEL_S = 0.050
"""What each level above the lowest adds for a call with children, whose turns must end before it can."""

DEEPEST = 4


@dataclass(slots=True)
class Running:
    """One call in its own thread. `deadline` is in `time.monotonic()`; None never passes. `has_children`: it waits for
    turns that have calls of their own."""

    call: ToolCall
    token: Token
    deadline: float | None
    began: float = field(default_factory=time.monotonic)
    asking_since: float | None = None
    is_left: bool = False
    has_children: bool = False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let the deadline stand still while a person is asked."""
        self.asking_since = time.monotonic()
        try:
            yield
        finally:
            # the deadline first: between the two, the turn's thread may look whether it has passed
            if self.deadline is not None and self.asking_since is not None:
                self.deadline += time.monotonic() - self.asking_since
            self.asking_since = None

    def seconds_left(self, now: float) -> float | None:
        if self.deadline is None or self.asking_since is not None:
            return None
        return self.deadline - now


class Workers:
    """The running calls of one batch. Never an executor: its threads are joined at exit and a stuck tool held it."""

    def __init__(self, token: Token, depth: int) -> None:
        self._token = token
        self._levels_below = max(DEEPEST - depth, 0)
        self._ended: queue.SimpleQueue[CallEnd | None] = queue.SimpleQueue()
        self._running: dict[str, Running] = {}

    def start(self, running: Running, work: Callable[[Running], CallEnd]) -> None:
        self._running[running.call.id] = running
        name = f"hermes-tool-{running.call.name}"
        threading.Thread(target=self._run, args=(running, work), name=name, daemon=True).start()

    def _run(self, running: Running, work: Callable[[Running], CallEnd]) -> None:
        end = work(running)
        if not running.is_left:
            self._ended.put(end)

    def next(self) -> CallEnd | None:
        """The next call that ended or missed its deadline; None when the turn was stopped and the grace is over."""
        forget = self._token.on_cancel(lambda: self._ended.put(None))
        try:
            while not self._token():
                try:
                    end = self._ended.get(timeout=self._until_next_deadline())
                except queue.Empty:
                    if late := self._late():
                        return late
                    continue
                if end is not None and end.call_id in self._running:
                    del self._running[end.call_id]
                    return end
        finally:
            forget()
        return self._within_grace()

    def _until_next_deadline(self) -> float | None:
        now = time.monotonic()
        left = [s for r in self._running.values() if (s := r.seconds_left(now)) is not None]
        # a person being asked may end the standstill at any time: look again soon
        asked = 0.25 if any(r.asking_since is not None for r in self._running.values()) else None
        shortest = min(left, default=None)
        if shortest is None:
            return asked
        return max(min(shortest, asked or shortest), 0.0)

    def _late(self) -> CallEnd | None:
        now = time.monotonic()
        for running in self._running.values():
            left = running.seconds_left(now)
            if left is not None and left <= 0:
                self._leave(running)
                seconds = now - running.began
                text = f"{running.call.name} did not end within its deadline and was left after {seconds:.1f} s."
                return CallEnd(running.call.id, "timeout", (Text(text),))
        return None

    def _within_grace(self) -> CallEnd | None:
        end_of_grace = time.monotonic() + self.grace_s()
        while self._running and (left := end_of_grace - time.monotonic()) > 0:
            try:
                end = self._ended.get(timeout=left)
            except queue.Empty:
                break
            if end is not None and end.call_id in self._running:
                del self._running[end.call_id]
                return end
        for running in list(self._running.values()):
            self._leave(running)
        return None

    def grace_s(self) -> float:
        """How long a stopped turn waits for the calls that run now."""
        has_children = any(running.has_children for running in self._running.values())
        return GRACE_S + GRACE_PER_LEVEL_S * self._levels_below * has_children

    def _leave(self, running: Running) -> None:
        """Tell the tool to stop and wait for it no more; what it gives later changes nothing."""
        running.is_left = True
        del self._running[running.call.id]
        running.token.set(self._token.reason or EndReason.BUDGET_TIME)
        running.token.close()
