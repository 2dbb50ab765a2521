"""What to do about a fault of a provider: retry after a wait, move to the next target, or end with a reason. Pure.

What can be mended in the request is mended before (`repairs.py`); what is left is decided here.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from hermes.kernel.effects import Fault, FaultKind, RecoveryChoice
from hermes.kernel.endings import EndReason

LONGEST_WAIT_S = 600.0
"""A longer `Retry-After` is a wall, not a pause: the turn ends and says when. Buckets of some minutes are common, and a
wait that is cut short is a request for nothing (26293; runtime behaviour specification 8.8)."""

LONGEST_WAIT_WITH_NEXT_S = 120.0
"""Where another target is ready, nobody waits longer for this one."""

COOLS_S = 60.0
"""How long a target that was left is passed over (runtime behaviour specification 8.9.5)."""

LONGEST_COOLS_S = 86_400.0
"""However late a provider says that it may be asked again: somebody may have paid meanwhile (B129)."""

STALLS_OPEN = 5
"""Calls in a row that ended in silence, after which a target is not waited for again (specification 3.7.8)."""

SILENT_S = 30.0
"""A call that had sent nothing for so long when somebody stopped it counts as one that ended in silence (B148)."""

BACKOFF_BASE_S = 1.0
BACKOFF_CAP_S = 30.0
PATIENT_BASE_S = 2.0
"""For rate limits and overload, where a second is never enough (providers' guides ask for exponential backoff)."""

INVALID_BASE_S, INVALID_CAP_S = 5.0, 120.0
"""For replies that are none (runtime behaviour specification, end of 8.8)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a kind of fault is met: is it worth the same request again, how long to wait first, how does it end.

    `before_next` bounds the attempts where another target is ready.
    """

    retries: bool
    ends: EndReason
    base_s: float = BACKOFF_BASE_S
    cap_s: float = BACKOFF_CAP_S
    falls_back: bool = True
    most_attempts: int | None = None
    before_next: int | None = None


_FAILED = EndReason.PROVIDER_FAILED
POLICIES: dict[FaultKind, Policy] = {
    FaultKind.RATE_LIMIT: Policy(True, _FAILED, PATIENT_BASE_S, before_next=1),
    FaultKind.OVERLOADED: Policy(True, _FAILED, PATIENT_BASE_S, before_next=2),
    FaultKind.SERVER_ERROR: Policy(True, _FAILED),
    FaultKind.TIMEOUT: Policy(True, _FAILED, before_next=2),
    FaultKind.STALL: Policy(True, _FAILED, before_next=2),
    FaultKind.CONNECTION: Policy(True, _FAILED),
    FaultKind.INVALID_REPLY: Policy(True, EndReason.INVALID_RESPONSES, INVALID_BASE_S, INVALID_CAP_S, before_next=1),
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


NEVER_PAID = (FaultKind.BUDGET, FaultKind.BILLING)
"""What no plugin may try again: nobody pays for it (31273)."""


def cools_s(fault: Fault) -> float:
    """How long the target that is left for this fault is passed over."""
    return min(max(COOLS_S, fault.retry_after_s or 0.0), LONGEST_COOLS_S)


def passes(kind: str) -> bool:
    """Whether a target that was left for this kind of fault may serve again before its time is over."""
    return POLICIES[FaultKind(kind)].retries


def is_silence(fault: Fault) -> bool:
    """A server that was reached and said nothing; one that answers with a status is alive."""
    return fault.kind in (FaultKind.STALL, FaultKind.TIMEOUT) and fault.status is None


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

    def mended(self) -> None:
        """The request was changed after the last fault: it is no attempt of the target."""
        self.in_all -= 1
        self.seen.pop()
        if not self.goes_on:
            self.on_target -= 1

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
    if has_next:
        most = min(most, policy.before_next or most)
    longest_s = LONGEST_WAIT_WITH_NEXT_S if has_next else LONGEST_WAIT_S
    wait_s = _wait(fault, policy, tries, seed)
    if policy.retries and tries.on_target < most and wait_s <= longest_s:
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
    if tries.on_target < attempts and fault.kind not in NEVER_PAID:
        return Retry(min(choice.wait_s, LONGEST_WAIT_S) if choice.wait_s > 0 else 0.0)  # NaN is no wait either
    return None


def _wait(fault: Fault, policy: Policy, tries: Tries, seed: str) -> float:
    """`Retry-After` when the provider states one, else exponential backoff with jitter of half to whole."""
    if fault.retry_after_s is not None:
        return max(fault.retry_after_s, 0.0)
    whole = min(policy.base_s * 2.0 ** (tries.on_target - 1), policy.cap_s)
    jitter = zlib.crc32(f"{seed}:{tries.in_all}".encode()) / 2**32
    return float(whole * (0.5 + 0.5 * jitter))
