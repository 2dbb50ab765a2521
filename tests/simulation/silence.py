"""Targets that fall silent: the calls in a row that ended so, whichever turn they were made in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.kernel.effects import Answered, Fault, FaultKind, Stopped
from hermes.kernel.messages import Json

MOST_STALLS = 5
SILENT_S = 30.0
BREAKER_S = 60.0
STALLS = (FaultKind.STALL, FaultKind.TIMEOUT)


class Silence:
    """Counts what the turn should count; `clock` is the session's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._before = 0.0
        self._unrecorded = ""

    def of(self, target: str) -> int:
        return self.times.get(target, 0)

    def is_out(self, target: str) -> bool:
        """Whether it fell silent often, or more often than that."""
        return self.of(target) >= MOST_STALLS

    def must_not_be_asked(self, target: str) -> bool:
        return self.is_out(target) and self.clock() - self._last[target] < BREAKER_S

    def heard(self, target: str, outcome: Answered | Fault) -> None:
        """A reply ends the count; a fault with a status is neither."""
        if isinstance(outcome, Answered):
            self._unrecorded = target if self.of(target) else ""
            self.times[target] = 0
        elif outcome.kind in STALLS and outcome.status is None:
            self._fell_silent(target)

    def stopped(self, target: str, stop: Stopped) -> None:
        if stop.silent_s >= SILENT_S:
            self._fell_silent(target)

    def _fell_silent(self, target: str) -> None:
        self.times[target] = self.of(target) + 1
        self._before, self._last[target] = self._last.get(target, 0.0), self.clock()
        self._unrecorded = target

    def recorded(self) -> None:
        self._unrecorded = ""

    def crashed(self, on_disk: Mapping[str, Json]) -> None:
        """What an outcome changed and no Record holds is gone with the process."""
        if target := self._unrecorded:
            self.times[target] = int(on_disk.get(f"stalls:{target}") or 0)
            self._last[target] = self._before
