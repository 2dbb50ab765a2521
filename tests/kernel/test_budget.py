"""The ledger that a tree of agents shares."""

from __future__ import annotations

import threading

import pytest
from conversations import some
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.budget import BudgetLimits, Ledger
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Usage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_limits_nothing_is_refused() -> None:
    ledger = Ledger()
    assert ledger.reserve(10**9) is None
    ledger.commit(10**9, Usage(10**9, cost_usd=10.0**6))
    assert ledger.exhausted() is None
    assert ledger.seconds_left() is None


def test_a_call_that_would_go_over_the_tokens_is_refused_and_sets_nothing_aside() -> None:
    ledger = Ledger(BudgetLimits(max_tokens=100))
    assert ledger.reserve(60) is None
    assert ledger.reserve(60) is EndReason.BUDGET_TOKENS
    assert ledger.reserved_tokens == 60
    assert ledger.exhausted() is None, "what is set aside is not yet used"
    ledger.commit(60, Usage(20, 10))
    assert ledger.reserve(60) is None


def test_what_all_buckets_hold_counts_as_tokens() -> None:
    ledger = Ledger(BudgetLimits(max_tokens=100))
    ledger.commit(0, Usage(20, 20, 20, 20, 20))
    assert ledger.exhausted() is EndReason.BUDGET_TOKENS


def test_the_closing_request_may_go_over_the_limit() -> None:
    ledger = Ledger(BudgetLimits(max_tokens=100))
    ledger.commit(0, Usage(100))
    assert ledger.reserve(50) is EndReason.BUDGET_TOKENS
    assert ledger.reserve(50, overdraw=True) is None
    ledger.commit(50, Usage(40))
    assert ledger.reserved_tokens == 0
    assert ledger.used.total_tokens == 140


def test_money_is_bounded_once_it_is_known() -> None:
    ledger = Ledger(BudgetLimits(max_cost_usd=1.0))
    ledger.commit(0, Usage(10**6))
    assert ledger.exhausted() is None
    ledger.commit(0, Usage(1, cost_usd=1.0))
    assert ledger.exhausted() is EndReason.BUDGET_COST
    assert ledger.reserve(0) is EndReason.BUDGET_COST


def test_time_counts_from_the_making_of_the_ledger_waiting_included() -> None:
    clock = Clock()
    ledger = Ledger(BudgetLimits(max_seconds=10.0), clock)
    clock.now += 4
    assert ledger.seconds_left() == 6.0
    assert ledger.exhausted() is None
    clock.now += 6
    assert ledger.exhausted() is EndReason.BUDGET_TIME
    assert ledger.reserve(1) is EndReason.BUDGET_TIME


@some
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 90), st.booleans()), max_size=20), st.data())
def test_reserve_and_commit_never_go_negative_and_never_over_the_limit_unasked(
    calls: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    ledger = Ledger(BudgetLimits(max_tokens=200))
    running: list[tuple[int, int]] = []
    for tokens, cost, overdraw in calls:
        before = ledger.reserved_tokens
        if ledger.reserve(tokens, overdraw=overdraw) is None:
            running.append((tokens, cost))
            assert overdraw or ledger.used.total_tokens + ledger.reserved_tokens <= 200
        else:
            assert not overdraw
            assert ledger.reserved_tokens == before
        if running and data.draw(st.booleans()):
            ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
            ledger.commit(ended[0], Usage(ended[1]))
        assert ledger.reserved_tokens == sum(tokens for tokens, _ in running)
    for tokens, cost in running:
        ledger.commit(tokens, Usage(cost))
    assert ledger.reserved_tokens == 0


@pytest.mark.parametrize("threads", [8])
def test_children_on_many_threads_cannot_reserve_the_same_tokens(threads: int) -> None:
    ledger = Ledger(BudgetLimits(max_tokens=1000))
    ready = threading.Barrier(threads)
    granted: list[int] = []

    def child() -> None:
        ready.wait()
        granted.extend(7 for _ in range(100) if ledger.reserve(7) is None)

    workers = [threading.Thread(target=child) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(granted) == ledger.reserved_tokens
    assert 1000 - 7 <= sum(granted) < 1000
