"""What is done about a fault of a provider: the table, the waits, and what a plugin may choose."""

from __future__ import annotations

import pytest
from conversations import some
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.effects import Fault, FaultKind, RecoveryChoice
from hermes.kernel.endings import EndReason
from hermes.kernel.recovery import (
    LONGEST_WAIT_S,
    LONGEST_WAIT_WITH_NEXT_S,
    POLICIES,
    Decision,
    GiveUp,
    NextTarget,
    Retry,
    Tries,
    decide,
    obey,
)

K = FaultKind
RETRIED = {K.RATE_LIMIT, K.OVERLOADED, K.SERVER_ERROR, K.TIMEOUT, K.STALL, K.CONNECTION, K.INVALID_REPLY}
TWICE = {K.UNKNOWN, K.PLUGIN}
STAYS = {K.PLUGIN, K.CONTEXT_OVERFLOW, K.BODY_TOO_LARGE, K.BUDGET}
"""Another target would not help, or must not be paid for."""

ENDS = {
    K.INVALID_REPLY: EndReason.INVALID_RESPONSES,
    K.PLUGIN: EndReason.PLUGIN,
    K.BILLING: EndReason.BILLING,
    K.AUTH: EndReason.AUTH,
    K.PERMISSION: EndReason.AUTH,
    K.CONTEXT_OVERFLOW: EndReason.CONTEXT_FULL,
    K.BODY_TOO_LARGE: EndReason.CONTEXT_FULL,
    K.CONTENT_POLICY: EndReason.REFUSED,
    K.BUDGET: EndReason.BUDGET_TOKENS,
}


def decided(kind: FaultKind, *, times: int = 1, has_next: bool = False, retry_after_s: float | None = None) -> Decision:
    tries = Tries()
    fault = Fault(kind, retry_after_s=retry_after_s)
    for _ in range(times):
        tries.add(fault)
    return decide(fault, tries, attempts=3, has_next=has_next, seed="s:1")


KEYED = (K.RATE_LIMIT, K.BILLING, K.AUTH)


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("has_next", [True, False])
def test_another_key_is_tried_at_once_and_is_no_attempt_of_the_target(kind: FaultKind, has_next: bool) -> None:
    tries = Tries()
    for left in (2, 1):
        tries.add(Fault(kind, retry_after_s=3600, other_keys=left))
        assert decide(Fault(kind), tries, attempts=1, has_next=has_next, seed="s") == Retry(0.0)
    assert (tries.on_target, tries.in_all) == (0, 2)
    tries.add(Fault(kind, retry_after_s=3600))
    last = decide(Fault(kind, retry_after_s=3600), tries, attempts=1, has_next=has_next, seed="s")
    assert last == (NextTarget() if has_next else GiveUp(POLICIES[kind].ends))


def test_keys_that_rest_too_short_are_tried_once_each() -> None:
    tries = Tries()
    fault = Fault(K.RATE_LIMIT, retry_after_s=0, other_keys=2)
    for _ in range(20):
        tries.add(fault)
    assert (tries.on_target, tries.in_all) == (18, 20)
    tries.next_target()
    tries.add(fault)
    assert tries.goes_on


def test_spec_11314_13636_one_key_and_a_chain_falls_back_as_the_table_says() -> None:
    tries = Tries()
    tries.add(Fault(K.BILLING))
    assert decide(Fault(K.BILLING), tries, attempts=3, has_next=True, seed="s") == NextTarget()


def test_every_kind_of_fault_has_a_policy() -> None:
    assert set(POLICIES) == set(FaultKind)


@pytest.mark.parametrize("kind", FaultKind)
def test_only_what_may_pass_is_tried_again(kind: FaultKind) -> None:
    assert isinstance(decided(kind), Retry) == (kind in RETRIED | TWICE)
    assert isinstance(decided(kind, times=2), Retry) == (kind in RETRIED)
    assert not isinstance(decided(kind, times=3), Retry)


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_that_is_not_tried_again_ends_with_its_own_reason(kind: FaultKind) -> None:
    assert decided(kind, times=3) == GiveUp(ENDS.get(kind, EndReason.PROVIDER_FAILED))


@pytest.mark.parametrize("kind", FaultKind)
def test_the_next_target_is_taken_where_another_provider_may_help(kind: FaultKind) -> None:
    assert isinstance(decided(kind, times=3, has_next=True), NextTarget) == (kind not in STAYS)


BEFORE_NEXT = {K.RATE_LIMIT: 1, K.INVALID_REPLY: 1, K.OVERLOADED: 2, K.TIMEOUT: 2, K.STALL: 2}


@pytest.mark.parametrize("kind", sorted(RETRIED))
def test_B012_the_next_target_is_taken_before_all_attempts_are_spent(kind: FaultKind) -> None:
    most = BEFORE_NEXT.get(kind, 3)
    assert [isinstance(decided(kind, times=n, has_next=True), Retry) for n in range(1, 4)] == [
        n < most for n in range(1, 4)
    ]


# ---- Waits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(RETRIED))
def test_retry_after_is_kept_to_the_letter(kind: FaultKind) -> None:
    assert decided(kind, retry_after_s=42.5) == Retry(42.5)
    assert decided(kind, retry_after_s=LONGEST_WAIT_S) == Retry(LONGEST_WAIT_S)


def test_a_retry_after_in_the_past_is_no_wait() -> None:
    assert decided(K.RATE_LIMIT, retry_after_s=-3.0) == Retry(0.0)


def test_a_retry_after_that_is_too_long_is_a_wall() -> None:
    assert decided(K.RATE_LIMIT, retry_after_s=LONGEST_WAIT_S + 1) == GiveUp(EndReason.PROVIDER_FAILED)
    assert decided(K.CONNECTION, retry_after_s=LONGEST_WAIT_WITH_NEXT_S, has_next=True) == Retry(120.0)
    assert decided(K.CONNECTION, retry_after_s=LONGEST_WAIT_WITH_NEXT_S + 1, has_next=True) == NextTarget()


@some
@given(st.sampled_from(sorted(RETRIED)), st.integers(1, 40), st.text(max_size=5))
def test_waits_double_with_jitter_of_half_to_whole_and_have_a_cap(kind: FaultKind, times: int, seed: str) -> None:
    tries = Tries()
    for _ in range(times):
        tries.add(Fault(kind))
    chosen = decide(Fault(kind), tries, attempts=100, has_next=False, seed=seed)
    assert isinstance(chosen, Retry)
    whole = min(POLICIES[kind].base_s * 2 ** (times - 1), POLICIES[kind].cap_s)
    assert whole / 2 <= chosen.wait_s <= whole


def test_the_same_seed_waits_the_same_and_another_turn_waits_otherwise() -> None:
    waits = set()
    for seed in ("s:1", "s:1", "s:2"):
        tries = Tries()
        tries.add(Fault(K.STALL))
        chosen = decide(Fault(K.STALL), tries, attempts=3, has_next=False, seed=seed)
        assert isinstance(chosen, Retry)
        waits.add(chosen.wait_s)
    assert len(waits) == 2


def test_a_new_target_begins_to_count_anew() -> None:
    tries = Tries()
    tries.add(Fault(K.STALL))
    tries.next_target()
    tries.add(Fault(K.TIMEOUT))
    assert (tries.on_target, tries.in_all, tries.seen) == (1, 2, [K.STALL, K.TIMEOUT])


# ---- A plugin's choice ----------------------------------------------------------------------------------------------


def obeyed(choice: RecoveryChoice, kind: FaultKind, *, times: int = 1, has_next: bool = False) -> Decision | None:
    tries = Tries()
    for _ in range(times):
        tries.add(Fault(kind))
    return obey(choice, Fault(kind), tries, attempts=3, has_next=has_next)


def test_a_plugin_may_retry_what_the_table_would_not_but_not_more_often_than_the_limit() -> None:
    assert obeyed(RecoveryChoice("retry", 2.0), K.AUTH) == Retry(2.0)
    assert obeyed(RecoveryChoice("retry", 2.0), K.AUTH, times=3) is None


@pytest.mark.parametrize(("asked", "wait_s"), [(-1.0, 0.0), (10.0**9, LONGEST_WAIT_S)])
def test_a_plugin_cannot_make_a_turn_wait_for_ever(asked: float, wait_s: float) -> None:
    assert obeyed(RecoveryChoice("retry", asked), K.STALL) == Retry(wait_s)


@pytest.mark.parametrize("kind", [K.BUDGET, K.BILLING])
def test_spec_31273_a_plugin_cannot_have_tried_again_what_nobody_pays_for(kind: FaultKind) -> None:
    assert obeyed(RecoveryChoice("retry"), kind) is None


def test_a_plugin_may_move_on_only_when_there_is_a_next_target() -> None:
    assert obeyed(RecoveryChoice("fallback"), K.PLUGIN, has_next=True) == NextTarget()
    assert obeyed(RecoveryChoice("fallback"), K.PLUGIN) is None


def test_a_plugin_that_gives_up_ends_with_the_reason_of_the_fault() -> None:
    assert obeyed(RecoveryChoice("give_up"), K.STALL) == GiveUp(EndReason.PROVIDER_FAILED)
