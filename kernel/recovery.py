"""What to do about a fault of a provider: retry after a wait, move to the next target, or end with a reason. Pure.

Ground floor: retry with backoff and `Retry-After`, the next target of the chain, and a clear end for everything else.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from hermes.kernel.effects import Fault, FaultKind, RecoveryChoice
from hermes.kernel.endings import EndReason

LONGEST_WAIT_S = 120.0
"""A longer `Retry-After` is a wall, not a pause: the next target is taken, or the turn ends and says when."""

BACKOFF_BASE_S = 1.0
BACKOFF_CAP_S = 30.0
PATIENT_BASE_S = 2.0
"""For rate limits and overload, where a second is never enough (providers' guides ask for exponential backoff)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a kind of fault is met: is it worth the same request again, how long to wait first, how does it end."""

    retries: bool
    ends: EndReason
    base_s: float = BACKOFF_BASE_S
    falls_back: bool = True
    most_attempts: int | None = None


_FAILED = EndReason.PROVIDER_FAILED
POLICIES: dict[FaultKind, Policy] = {
    FaultKind.RATE_LIMIT: Policy(True, _FAILED, PATIENT_BASE_S),
    FaultKind.OVERLOADED: Policy(True, _FAILED, PATIENT_BASE_S),
    FaultKind.SERVER_ERROR: Policy(True, _FAILED),
    FaultKind.TIMEOUT: Policy(True, _FAILED),
    FaultKind.STALL: Policy(True, _FAILED),
    FaultKind.CONNECTION: Policy(True, _FAILED),
    FaultKind.INVALID_REPLY: Policy(True, EndReason.INVALID_RESPONSES),
    FaultKind.UNKNOWN: Policy(True, _FAILED, most_attempts=2),
    FaultKind.PLUGIN: Policy(True, EndReason.PLUGIN, falls_back=False, most_attempts=2),
    FaultKind.BILLING: Policy(False, EndReason.BILLING),
    FaultKind.AUTH: Policy(False, EndReason.AUTH),
    FaultKind.PERMISSION: Policy(False, EndReason.AUTH),
    FaultKind.MODEL_NOT_FOUND: Policy(False, _FAILED),
    FaultKind.CONTEXT_OVERFLOW: Policy(False, EndReason.CONTEXT_FULL, falls_back=False),
    FaultKind.OUTPUT_CAP: Policy(False, _FAILED),
    FaultKind.BODY_TOO_LARGE: Policy(False, EndReason.CONTEXT_FULL, falls_back=False),
    FaultKind.IMAGE_REFUSED: Policy(False, _FAILED),
    FaultKind.BAD_REQUEST: Policy(False, _FAILED),
    FaultKind.CONTENT_POLICY: Policy(False, EndReason.REFUSED),
    FaultKind.TLS: Policy(False, _FAILED),
    FaultKind.BUDGET: Policy(False, EndReason.BUDGET_TOKENS, falls_back=False),
}


@dataclass(slots=True)
class Tries:
    """How often the target in use has failed, and in all, within one turn.

    A fault that another key may get past is no attempt of the target (`goes_on`: the next key is to be tried at once).
    That happens at most once for each of the keys that were ready at the first such fault, however short they rest.
    """

    on_target: int = 0
    in_all: int = 0
    seen: list[FaultKind] = field(default_factory=list)
    goes_on: bool = False
    _keys: int = 0
    _keys_tried: int = 0

    def add(self, fault: Fault) -> None:
        self.in_all += 1
        self.seen.append(fault.kind)
        self._keys = self._keys or fault.other_keys
        self.goes_on = fault.other_keys > 0 and self._keys_tried < self._keys
        if self.goes_on:
            self._keys_tried += 1
        else:
            self.on_target += 1

    def next_target(self) -> None:
        self.on_target = self._keys = self._keys_tried = 0


@dataclass(frozen=True, slots=True)
class Retry:
    wait_s: float


@dataclass(frozen=True, slots=True)
class NextTarget:
    pass


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: EndReason


Decision = Retry | NextTarget | GiveUp


def decide(fault: Fault, tries: Tries, *, attempts: int, has_next: bool, seed: str) -> Decision:
    """The table's answer. `attempts` bounds the calls of one target; `seed` makes the jitter differ between turns.

    While another key is ready, it is tried first and without waiting: the fault is the key's, not the target's.
    """
    if tries.goes_on:
        return Retry(0.0)
    policy = POLICIES[fault.kind]
    most = min(attempts, policy.most_attempts or attempts)
    wait_s = _wait(fault, policy, tries, seed)
    if policy.retries and tries.on_target < most and wait_s <= LONGEST_WAIT_S:
        return Retry(wait_s)
    if has_next and policy.falls_back:
        return NextTarget()
    return GiveUp(policy.ends)


def obey(choice: RecoveryChoice, fault: Fault, tries: Tries, *, attempts: int, has_next: bool) -> Decision | None:
    """A plugin's answer, within the table's limits: its retries count against the same `attempts`.

    None when the answer cannot be followed; the table decides then.
    """
    if choice.action == "give_up":
        return GiveUp(POLICIES[fault.kind].ends)
    if choice.action == "fallback":
        return NextTarget() if has_next else None
    if tries.on_target < attempts and fault.kind is not FaultKind.BUDGET:
        return Retry(min(choice.wait_s, LONGEST_WAIT_S) if choice.wait_s > 0 else 0.0)  # NaN is no wait either
    return None


def _wait(fault: Fault, policy: Policy, tries: Tries, seed: str) -> float:
    """`Retry-After` when the provider states one, else exponential backoff with jitter of half to whole."""
    if fault.retry_after_s is not None:
        return max(fault.retry_after_s, 0.0)
    whole = min(policy.base_s * 2.0 ** (tries.on_target - 1), BACKOFF_CAP_S)
    jitter = zlib.crc32(f"{seed}:{tries.in_all}".encode()) / 2**32
    return float(whole * (0.5 + 0.5 * jitter))
