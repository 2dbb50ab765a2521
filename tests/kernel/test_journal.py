from __future__ import annotations

from pathlib import Path

from hermes.kernel.effects import Append, CallRecord, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.journal import MemoryLog, MemoryStore
from hermes.kernel.messages import Text, ToolCall, ToolResult
from hermes.kernel.sessions import SessionStore
from hermes.testing.store_conformance import StoreConformance
from hermes.testing.store_reference import SetClock, call, result, said, user


class TestMemoryStore(StoreConformance):
    durable = False

    def open_store(self, directory: Path, clock: SetClock) -> SessionStore:
        return MemoryStore(clock=clock)


def test_messages_stay_the_same_objects_so_that_prefixes_are_found_by_identity() -> None:
    store = MemoryStore()
    log = store.open(store.create(directory="/", model="m"))
    message = user("hi")
    log.record(log.begin_turn(None), [Append((message,))], iterations=0, attempts=0)
    assert log.load().messages[0] is message
    assert log.load().messages[0] is store.open(log.id).load().messages[0]


def test_a_log_adopted_from_a_snapshot_goes_on_where_the_failed_store_was() -> None:
    store = MemoryStore()
    log = store.open(store.create(directory="/", model="m", title="t"))
    turn = log.begin_turn(None)
    steer = log.put_inbox("steer", (Text("s"),))
    log.record(turn, [Append((user("x"), said("", call("c1"))))], iterations=1, attempts=1)
    snapshot = log.load()
    adopted = MemoryLog.adopt(snapshot, calls={"c1": CallRecord("c1", "started", {"a": 1})})
    assert adopted.load() == snapshot
    assert adopted.finish_call(result("c1", todo=[1]))
    assert not adopted.finish_call(result("c1", "again"))
    adopted.record(turn, [Append((said("s"),), taken=(steer,))], iterations=2, attempts=2)
    adopted.record(turn, [TurnEnded(EndReason.COMPLETED, "s")], iterations=2, attempts=2)
    after = adopted.load()
    assert (after.info.id, after.info.title, after.info.end_reason) == (log.id, "t", "completed")
    assert (len(after.messages), after.state, after.inbox) == (3, {"todo": [1]}, ())
    assert adopted.begin_turn(None) == turn + 1


def test_an_adopted_log_believes_what_the_failed_store_wrote_after_the_snapshot() -> None:
    store = MemoryStore()
    log = store.open(store.create(directory="/", model="m"))
    adopted = MemoryLog.adopt(log.load())
    adopted.record(1, [Append((user("x"),), taken=(7,))], iterations=1, attempts=1)
    assert adopted.finish_call(ToolResult("c9", "ok", (Text("r"),)))
    assert not adopted.finish_call(ToolResult("c9", "ok", (Text("r"),)))
    adopted.start_calls(1, [ToolCall("c10", "look", {})])
    assert adopted.put_inbox("steer", (Text("s"),)) > 7
    open_turn = adopted.load().open_turn
    assert open_turn is not None
    assert open_turn.id == 1


def test_delegated_sessions_are_not_searched() -> None:
    store = MemoryStore()
    top = store.create(directory="/", model="m")
    child = store.open(store.create(directory="/", model="m", parent=top))
    child.record(child.begin_turn(None), [Append((user("heron"),))], iterations=0, attempts=0)
    assert store.search("heron", limit=3) == []
