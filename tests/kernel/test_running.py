"""Calls that run: each in a thread of its own, left when its time is over, stopped with the turn."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from hermes.kernel.effects import CallEnd
from hermes.kernel.endings import EndReason
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Text, ToolCall
from hermes.kernel.running import Running, Workers

PATIENCE_S = 20.0


def running(token: Token, name: str = "one", deadline: float | None = None) -> Running:
    return Running(ToolCall(name, "work", {}), Token(token), deadline)


def ok(call_id: str) -> CallEnd:
    return CallEnd(call_id, "ok", (Text("done"),))


@pytest.fixture
def token() -> Token:
    return Token()


@pytest.fixture
def gate():
    """An event that the tools of a test wait for; set at its end, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()


def test_calls_are_given_out_as_they_end(token: Token, gate: threading.Event) -> None:
    workers = Workers(token, 0)
    for name in ("slow", "quick"):
        workers.start(running(token, name), lambda r: (r.call.id == "slow" and gate.wait(PATIENCE_S), ok(r.call.id))[1])
    first = workers.next()
    gate.set()
    second = workers.next()
    assert [first and first.call_id, second and second.call_id] == ["quick", "slow"]


def test_a_call_that_misses_its_deadline_is_left_told_to_stop_and_what_it_gives_later_is_nothing(
    token: Token, gate: threading.Event
) -> None:
    workers, ended = Workers(token, 0), threading.Event()
    late = running(token, "late", time.monotonic() + 0.01)

    def work(r: Running) -> CallEnd:
        gate.wait(PATIENCE_S)
        ended.set()
        return ok(r.call.id)

    workers.start(late, work)
    end = workers.next()
    assert end is not None
    assert (end.call_id, end.status) == ("late", "timeout")
    assert "deadline" in end.parts[0].text
    assert late.token.reason is EndReason.BUDGET_TIME
    assert not token()
    gate.set()
    assert ended.wait(PATIENCE_S)
    workers.start(running(token, "next"), lambda r: ok(r.call.id))
    assert workers.next() == ok("next")


def test_a_deadline_stands_still_while_a_person_is_asked(
    token: Token, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("hermes.kernel.running.time", SimpleNamespace(monotonic=lambda: now[0]))
    workers, asking = Workers(token, 0), threading.Event()
    asked = Running(ToolCall("asked", "work", {}), Token(token), 10.0, 0.0)

    def work(r: Running) -> CallEnd:
        with r.asking():
            asking.set()
            gate.wait(PATIENCE_S)
        return ok(r.call.id)

    workers.start(asked, work)
    assert asking.wait(PATIENCE_S)
    now[0] = 1000.0
    threading.Timer(0.01, gate.set).start()
    assert workers.next() == ok("asked")
    assert asked.deadline == 1010.0


def test_the_end_of_a_question_never_shows_the_old_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("hermes.kernel.running.time", SimpleNamespace(monotonic=lambda: now[0]))
    seen: list[float | None] = []

    class Watched(Running):
        def __setattr__(self, name: str, value: object) -> None:
            Running.__setattr__(self, name, value)
            if hasattr(self, "asking_since"):
                seen.append(self.seconds_left(now[0]))

    watched = Watched(ToolCall("one", "work", {}), Token(), 10.0, 0.0)
    with watched.asking():
        now[0] = 1000.0
    assert seen[-1] == 10.0
    assert all(left in (None, 10.0) for left in seen)


def test_a_stop_gives_a_tool_a_moment_to_end_and_takes_its_result(token: Token) -> None:
    workers, begun = Workers(token, 0), threading.Event()

    def work(r: Running) -> CallEnd:
        begun.set()
        r.token.wait(PATIENCE_S)
        return ok(r.call.id)

    workers.start(running(token), work)
    assert begun.wait(PATIENCE_S)
    token.set()
    assert workers.next() == ok("one")
    assert workers.next() is None


def test_a_tool_that_ignores_a_stop_is_left_within_the_grace(token: Token, gate: threading.Event) -> None:
    workers = Workers(token, 0)
    deaf = running(token)
    workers.start(deaf, lambda r: (gate.wait(PATIENCE_S), ok(r.call.id))[1])
    stopper = threading.Timer(0.01, token.set)
    stopper.start()
    began = time.monotonic()
    assert workers.next() is None
    assert time.monotonic() - began < 3.5  # ten times the grace of the highest level
    assert deaf.is_left
    assert deaf.token()


def test_a_parent_waits_longer_than_its_child_and_for_a_tool_without_children_nobody_does(
    token: Token, gate: threading.Event
) -> None:
    graces = []
    for depth in range(5):
        workers, call = Workers(token, depth), running(token)
        workers.start(call, lambda r: (gate.wait(PATIENCE_S), ok(r.call.id))[1])
        assert workers.grace_s() == pytest.approx(0.150)
        call.has_children = True
        graces.append(workers.grace_s())
    assert graces == sorted(set(graces), reverse=True)
    assert graces[-1] == pytest.approx(0.150)


def test_a_stop_before_the_look_gives_nothing_to_wait_for(token: Token) -> None:
    token.set()
    assert Workers(token, 0).next() is None


def test_the_stop_leaves_no_callback_behind(token: Token) -> None:
    workers = Workers(token, 0)
    for number in range(20):
        call = running(token, f"c{number}")
        workers.start(call, lambda r: (r.token.close(), ok(r.call.id))[1])
        assert workers.next() == ok(f"c{number}")
    assert token._callbacks == []
