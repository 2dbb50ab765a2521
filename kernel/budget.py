"""Tokens, money and seconds that a tree of agents shares: reserve before each real call, commit after it.

Iterations belong to the turn, not to this ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Usage


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """None is no limit. `max_seconds` counts from the ledger's making, waiting included."""

    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_seconds: float | None = None


@dataclass(slots=True)
class Ledger:
    """One for a tree of agents; every method may be called from any thread."""

    limits: BudgetLimits = field(default_factory=BudgetLimits)
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    used: Usage = field(default_factory=Usage)
    reserved_tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def reserve(self, tokens: int, *, overdraw: bool = False) -> EndReason | None:
        """Set aside what a call will need at least; the budget that refuses, or None when it is set aside.

        With `overdraw` it is always set aside: the closing request of a turn may go over the limit once.
        """
        with self._lock:
            refused = self._over(self.reserved_tokens + tokens)
            if refused and not overdraw:
                return refused
            self.reserved_tokens += tokens
            return None

    def commit(self, tokens: int, usage: Usage) -> None:
        """Give back what was reserved and count what the call really cost."""
        with self._lock:
            self.reserved_tokens -= tokens
            self.used = self.used + usage

    def exhausted(self) -> EndReason | None:
        with self._lock:
            return self._over(0)

    def seconds_left(self) -> float | None:
        if self.limits.max_seconds is None:
            return None
        return self.started + self.limits.max_seconds - self.clock()

    def _over(self, more_tokens: int) -> EndReason | None:
        limits, used = self.limits, self.used
        if limits.max_tokens is not None and used.total_tokens + more_tokens >= limits.max_tokens:
            return EndReason.BUDGET_TOKENS
        if limits.max_cost_usd is not None and (used.cost_usd or 0.0) >= limits.max_cost_usd:
            return EndReason.BUDGET_COST
        if limits.max_seconds is not None and self.clock() - self.started >= limits.max_seconds:
            return EndReason.BUDGET_TIME
        return None
