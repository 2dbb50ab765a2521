"""A log that never fails: what the store cannot take is kept in memory, told once, and not lost or done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from hermes.kernel.durable import DurableLog
from hermes.kernel.effects import Append, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionBusy, StoreError
from hermes.kernel.journal import MemoryStore
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult


class Full:
    """A session log on a disk that is full once `is_full` is set; `wait` holds every failing write up."""

    WRITES = ("claim", "release", "begin_turn", "record", "put_inbox", "waiting", "drop_inbox", "start_calls")
    WRITES += ("link_child", "finish_call", "calls", "set_title")

    def __init__(self, log: Any) -> None:
        self._log, self.is_full, self.wait = log, False, lambda: None
        self.id = log.id

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._log, name)
        if name not in self.WRITES:
            return real

        def write(*args: Any, **more: Any) -> Any:
            if self.is_full:
                self.wait()
                raise StoreError("the disk is full")
            return real(*args, **more)

        return write


class Fixture:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.session = self.store.create(directory="/", model="m")
        self.disk = Full(self.store.open(self.session))
        self.told: list[str] = []
        self.log = DurableLog(self.disk, self.disk.load, self.told.append)


@pytest.fixture
def made() -> Fixture:
    return Fixture()


def message(words: str = "go") -> Append:
    return Append((Message("user", (Text(words),)),))


@pytest.mark.parametrize(
    "write",
    [
        lambda log: log.claim(),
        lambda log: log.begin_turn({}),
        lambda log: log.record(1, [message()], iterations=0, attempts=0),
        lambda log: log.put_inbox("input", [Text("x")]),
        lambda log: log.waiting("steer"),
        lambda log: log.drop_inbox([1]),
        lambda log: log.start_calls(1, [ToolCall("a", "t", {})]),
        lambda log: log.link_child("a", "child"),
        lambda log: log.finish_call(ToolResult("a", "ok", (Text("x"),))),
        lambda log: log.calls(["a"]),
        lambda log: log.set_title("x"),
        lambda log: log.release(),
    ],
)
def test_any_write_may_be_the_first_to_fail(made: Fixture, write: Callable[[DurableLog], Any]) -> None:
    made.disk.is_full = True
    write(made.log)
    made.log.put_inbox("steer", [Text("and on")])
    assert (made.told, made.log.stored) == (["the disk is full"], False)


def test_what_waited_on_the_disk_that_failed_waits_on_in_memory(made: Fixture) -> None:
    made.log.load()
    ids = [made.log.put_inbox("input", [Text(words)]) for words in ("placed", "given back", "waiting")]
    turn = made.log.begin_turn({})
    made.log.record(turn, [Append((Message("user", (Text("placed"),)),), (ids[0],))], iterations=0, attempts=0)
    made.log.drop_inbox([ids[1]])
    made.disk.is_full = True
    assert [(row.id, row.text) for row in made.log.waiting("input")] == [(ids[2], "waiting")]


def test_a_session_that_another_process_has_is_no_failure_of_the_store(made: Fixture) -> None:
    other = made.store.open(made.session)
    other.claim()
    with pytest.raises(SessionBusy):
        made.log.claim()
    assert (made.told, made.log.stored) == ([], True)


def test_calls_that_ran_when_the_disk_failed_are_known_in_memory(made: Fixture) -> None:
    turn = made.log.begin_turn({})
    done, running = ToolCall("done", "t", {"x": 1}), ToolCall("running", "t", {})
    made.log.start_calls(turn, [done, running])
    made.log.finish_call(ToolResult("done", "ok", (Text("did"),)))
    made.disk.is_full = True
    assert made.log.finish_call(ToolResult("running", "ok", (Text("did too"),))) is True
    assert made.log.finish_call(ToolResult("running", "ok", (Text("again"),))) is False
    known = made.log.calls(["done", "running"])
    assert [known[i].result.text for i in ("done", "running")] == ["did", "did too"]
    assert known["done"].arguments == {"x": 1}


def test_a_turn_can_end_in_memory_and_the_next_has_the_next_number(made: Fixture) -> None:
    turn = made.log.begin_turn({})
    made.log.record(turn, [message()], iterations=0, attempts=0)
    made.disk.is_full = True
    answer = Append((Message("assistant", (Text("ok"),)),))
    made.log.record(turn, [answer, TurnEnded(EndReason.COMPLETED, "ok")], iterations=1, attempts=1)
    assert [m.text for m in made.log.load().messages] == ["go", "ok"]
    assert made.log.begin_turn({}) == turn + 1


def test_threads_that_meet_a_full_disk_together_all_go_on_and_it_is_told_once(made: Fixture) -> None:
    count = 6
    gate = threading.Barrier(count)
    made.disk.wait = lambda: gate.wait(20)
    made.disk.is_full = True
    ids: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: ids.append(made.log.put_inbox("steer", [Text(str(n))])))
        for n in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(set(ids)) == count
    assert sorted(row.text for row in made.log.waiting("steer")) == [str(n) for n in range(count)]
    assert made.told == ["the disk is full"]


def test_rows_of_the_lost_store_and_of_memory_never_share_an_id(made: Fixture) -> None:
    before = made.log.put_inbox("input", [Text("on disk")])
    made.disk.is_full = True
    after = made.log.put_inbox("steer", [Text("in memory")])
    assert before != after
    turn = made.log.begin_turn({})
    made.log.record(turn, [Append((Message("user", (Text("x"),)),), (before, after))], iterations=0, attempts=0)
    with pytest.raises(StoreError):
        made.log.record(turn, [Append((Message("user", (Text("x"),)),), (before,))], iterations=0, attempts=0)
