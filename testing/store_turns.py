"""The part of `StoreConformance` about what a replay needs: how a turn began, and what it was told."""

from __future__ import annotations

import pytest

from hermes.kernel.effects import Append, Rewrite
from hermes.kernel.errors import StoreError
from hermes.kernel.sessions import Beginning, SessionLog
from hermes.testing.store_reference import call, said, user


class TurnsConformance:
    """Its tests take the fixture `log` of the class that inherits them."""

    def test_a_turn_is_found_as_it_began_whatever_was_rewritten_since(self, log: SessionLog) -> None:
        first = log.begin_turn({"known": {"é": [1, None]}})
        asked, answered = user("q"), said("half", call("c1"))
        log.record(first, [Append((asked, answered))], iterations=1, attempts=1)
        log.record(first, [Rewrite(1, 2, (said("whole"),), "continuation")], iterations=1, attempts=1)
        second = log.begin_turn({"n": 2})
        log.record(second, [Append((user("more"), said("", call("c2"))))], iterations=1, attempts=1)
        log.record(second, [Rewrite(0, 4, (user("sum"), said("s")), "compression")], iterations=1, attempts=1)
        third = log.begin_turn(None)
        log.record(third, [Rewrite(0, 1, (), "repair")], iterations=0, attempts=0)
        fourth = log.begin_turn(None)
        assert log.beginning(first) == Beginning({"known": {"é": [1, None]}}, (), frozenset())
        assert log.beginning(second) == Beginning({"n": 2}, (asked, said("whole")), frozenset({"c1"}))
        assert log.beginning(third) == Beginning(None, (user("sum"), said("s")), frozenset({"c1", "c2"}))
        assert log.beginning(fourth).messages == (said("s"),)
        for unknown in (0, 5):
            with pytest.raises(StoreError, match=f"no turn {unknown}"):
                log.beginning(unknown)

    def test_outcomes_come_back_in_their_order_and_only_with_their_record(self, log: SessionLog) -> None:
        first, outcomes = log.begin_turn(None), [{"effect": "é", "outcome": [1, None]}, {"life": {"n": 1.5}}]
        log.record(first, [], iterations=0, attempts=0, outcomes=outcomes)
        with pytest.raises(StoreError):
            log.record(first, [Rewrite(2, 3, (), "beyond the end")], iterations=0, attempts=0, outcomes=[{"n": 2}])
        log.record(first, [], iterations=0, attempts=0, outcomes=[{"n": 3}])
        second = log.begin_turn(None)
        log.record(second, [], iterations=0, attempts=0, outcomes=[{"n": 4}])
        assert list(log.outcomes(first)) == [*outcomes, {"n": 3}]
        assert list(log.outcomes(second)) == [{"n": 4}]
        assert list(log.outcomes(3)) == []
