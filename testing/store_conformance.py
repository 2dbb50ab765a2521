"""What every session store must do: subclass `StoreConformance` in a test file and say how to open yours.

    class TestMyStore(StoreConformance):
        def open_store(self, directory, clock):
            return MyStore(directory / "sessions", clock=clock)

`open_store` is called again on the same directory where a test asks what a later process would find; a store that
keeps nothing sets `durable = False`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from hermes.kernel.effects import Append, Change, Learn, Rewrite, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionBusy, SessionNotFound, StoreError
from hermes.kernel.journal import AmbiguousSession, MemoryStore
from hermes.kernel.messages import Image, Message, Text, ToolCall, ToolResult
from hermes.kernel.providers import ToolSchema
from hermes.kernel.sessions import Epoch, SessionLog, SessionStore
from hermes.testing.store_reference import Both, SetClock, call, result, said, user
from hermes.testing.store_turns import TurnsConformance


class StoreConformance(TurnsConformance):
    """Tests of one store; every one opens it in a directory of its own."""

    durable: ClassVar[bool] = True

    def open_store(self, directory: Path, clock: SetClock) -> SessionStore:
        raise NotImplementedError("say how to open your store")

    @pytest.fixture
    def clock(self) -> SetClock:
        return SetClock()

    @pytest.fixture
    def store(self, tmp_path: Path, clock: SetClock) -> Iterator[SessionStore]:
        store = self.open_store(tmp_path, clock)
        yield store
        store.close()

    @pytest.fixture
    def log(self, store: SessionStore) -> SessionLog:
        return store.open(store.create(directory="/work", model="a:b"))

    # ---- turns and messages

    def test_a_new_session_is_empty_and_has_an_id_with_its_date(self, log: SessionLog) -> None:
        snapshot = log.load()
        assert snapshot.info.id == log.id
        assert [len(part) for part in log.id.split("_")] == [8, 6, 6]
        assert (snapshot.messages, snapshot.call_ids, snapshot.state, snapshot.inbox) == ((), frozenset(), {}, ())
        assert (snapshot.epoch, snapshot.open_turn, snapshot.info.end_reason) == (None, None, "")

    def test_messages_come_back_as_they_were_recorded(self, log: SessionLog) -> None:
        turn = log.begin_turn({"iterations": 0})
        image = Image("image/png", data="aGk=")
        messages = (
            Message("user", (Text("look", origin="context"), image)),
            said("I look", call("c1", path="/é", deep={"a": [1, None, True]})),
            Message("tool", (ToolResult("c1", "error", (Text("no"), image)),)),
            Message("assistant", (Text("half"),), origin="partial"),
        )
        log.record(turn, [Append(messages)], iterations=1, attempts=2)
        snapshot = log.load()
        assert snapshot.messages == messages
        assert snapshot.call_ids == {"c1"}
        assert snapshot.open_turn is not None
        assert (snapshot.open_turn.id, snapshot.open_turn.iterations, snapshot.open_turn.attempts) == (1, 1, 2)

    def test_an_ended_turn_is_no_open_turn_and_gives_the_session_its_reason(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        log.record(turn, [Append((user("hi"),))], iterations=0, attempts=0)
        ending: list[Change] = [Append((said("hello"),)), TurnEnded(EndReason.COMPLETED, "hello")]
        log.record(turn, ending, iterations=1, attempts=1)
        snapshot = log.load()
        assert snapshot.open_turn is None
        assert (snapshot.info.end_reason, snapshot.info.turns, snapshot.info.messages) == ("completed", 1, 2)

    def test_a_turn_that_has_ended_takes_nothing_more(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        log.record(turn, [TurnEnded(EndReason.INTERRUPTED, None)], iterations=0, attempts=0)
        with pytest.raises(StoreError, match="ended"):
            log.record(turn, [Append((user("late"),))], iterations=0, attempts=0)

    def test_a_new_turn_closes_one_that_was_left_open_as_crashed(self, log: SessionLog) -> None:
        assert log.begin_turn(None) == 1
        assert log.begin_turn(None) == 2
        snapshot = log.load()
        assert snapshot.open_turn is not None
        assert snapshot.open_turn.id == 2
        with pytest.raises(StoreError):
            log.record(1, [Append((user("late"),))], iterations=0, attempts=0)

    def test_a_rewrite_supersedes_and_deletes_nothing(self, store: SessionStore, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        old = tuple(user(f"{n}") for n in range(5))
        log.record(turn, [Append(old)], iterations=0, attempts=0)
        log.record(turn, [Rewrite(1, 4, (user("sum"),), "compression")], iterations=0, attempts=0)
        assert log.load().messages == (old[0], user("sum"), old[4])
        stored = store.messages(log.id)
        assert [m.message.text for m in stored if not m.superseded] == ["0", "sum", "4"]
        assert [m.message.text for m in stored] == ["0", "1", "2", "3", "sum", "4"]
        assert len({m.id for m in stored}) == 6

    def test_a_place_can_be_rewritten_and_filled_again_and_again(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        wanted = [user(f"{n}") for n in range(4)]
        log.record(turn, [Append(tuple(wanted))], iterations=0, attempts=0)
        for n in range(40):
            new = user(f"in {n}")
            if n % 3:
                wanted[1:1] = [new]
                log.record(turn, [Rewrite(1, 1, (new,), "repair")], iterations=0, attempts=0)
            else:
                wanted[1:3] = [new, new]
                log.record(turn, [Rewrite(1, 3, (new, new), "repair")], iterations=0, attempts=0)
        assert log.load().messages == tuple(wanted)

    def test_call_ids_of_superseded_messages_stay_known(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        log.record(turn, [Append((user("x"), said("", call("c1"))))], iterations=0, attempts=0)
        log.record(turn, [Rewrite(1, 2, (said("gone"),), "repair")], iterations=0, attempts=0)
        log.start_calls(turn, [call("c2")])
        assert log.load().call_ids == {"c1", "c2"}

    @pytest.mark.parametrize(
        "bad",
        [
            Rewrite(2, 3, (), "beyond the end"),
            Rewrite(1, 0, (), "backwards"),
            Append((user("x"),), taken=(999_999,)),
            Rewrite(0, 1, (), "x", taken=(999_999,)),
        ],
    )
    def test_a_record_is_written_whole_or_not_at_all(self, log: SessionLog, bad: Change) -> None:
        turn = log.begin_turn(None)
        log.record(turn, [Append((user("first"),))], iterations=1, attempts=1)
        before = log.load()
        row = log.put_inbox("steer", (Text("s"),))
        changes: list[Change] = [Append((), taken=(row,)), Learn("key", 1), bad, TurnEnded(EndReason.COMPLETED, None)]
        with pytest.raises(StoreError):
            log.record(turn, changes, iterations=9, attempts=9, epoch=Epoch(1, "s", (), "start"))
        assert replace(log.load(), inbox=()) == before
        assert [r.id for r in log.waiting("steer")] == [row]

    # ---- inbox

    def test_an_inbox_row_is_handed_out_until_a_message_took_it_and_taken_once(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        first, second = (log.put_inbox("steer", (Text(t),)) for t in ("one", "two"))
        question = log.put_inbox("input", (Text("q"), Image(url="https://x/y.png")))
        assert [row.text for row in log.waiting("steer")] == ["one", "two"]
        assert [row.id for row in log.load().inbox] == [first, second, question]
        log.record(turn, [Append((user("one"),), taken=(first,))], iterations=0, attempts=0)
        assert [row.id for row in log.waiting("steer")] == [second]
        with pytest.raises(StoreError):
            log.record(turn, [Append((user("one"),), taken=(first,))], iterations=0, attempts=0)
        assert len(log.load().messages) == 1

    def test_a_row_that_was_given_back_is_not_handed_out_again(self, log: SessionLog) -> None:
        row = log.put_inbox("steer", (Text("never mind"),))
        log.drop_inbox([row])
        log.drop_inbox([row, 12345])
        assert log.waiting("steer") == []
        turn = log.begin_turn(None)
        with pytest.raises(StoreError):
            log.record(turn, [Append((user("x"),), taken=(row,))], iterations=0, attempts=0)

    # ---- calls

    def test_a_call_is_started_once_and_its_first_result_stays(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        log.start_calls(turn, [call("a", x=1), call("b")])
        assert log.finish_call(result("a", "first", todo=["one"]))
        assert not log.finish_call(result("a", "late", todo=["two"], other=1))
        log.link_child("b", "child-session")
        known = log.calls(["a", "b", "c"])
        assert set(known) == {"a", "b"}
        assert (known["a"].status, known["a"].arguments) == ("ok", {"x": 1})
        assert known["a"].result == result("a", "first", todo=["one"])
        assert (known["b"].status, known["b"].result, known["b"].child) == ("started", None, "child-session")
        assert log.load().state == {"todo": ["one"]}

    def test_starting_a_known_call_starts_none_of_them(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        log.start_calls(turn, [call("a")])
        with pytest.raises(StoreError):
            log.start_calls(turn, [call("b"), call("a")])
        with pytest.raises(StoreError):
            log.start_calls(turn, [call("d"), call("d")])
        with pytest.raises(StoreError):
            log.start_calls(7, [call("e")])
        assert set(log.calls(["a", "b", "d", "e"])) == {"a"}

    def test_a_call_that_never_started_has_no_result(self, log: SessionLog) -> None:
        with pytest.raises(StoreError):
            log.finish_call(result("nobody"))
        with pytest.raises(StoreError):
            log.link_child("nobody", "x")

    # ---- state and epochs

    def test_state_expires_by_the_stores_clock_and_none_forgets(self, log: SessionLog, clock: SetClock) -> None:
        turn = log.begin_turn(None)
        learnt = [
            Learn("cool", {"until": "later"}, ttl_s=60),
            Learn("keep", [1]),
            Learn("gone", 1),
            Learn("gone", None),
        ]
        log.record(turn, learnt, iterations=0, attempts=0)
        assert log.load().state == {"cool": {"until": "later"}, "keep": [1]}
        clock.now += 61
        assert log.load().state == {"keep": [1]}

    def test_the_newest_epoch_is_loaded_as_it_was(self, log: SessionLog) -> None:
        turn = log.begin_turn(None)
        tools = (ToolSchema("look", "Looks.", {"type": "object", "properties": {"ü": {"type": "string"}}}),)
        log.record(turn, [], iterations=0, attempts=0, epoch=Epoch(1, "You are.", tools, "start"))
        log.record(turn, [], iterations=0, attempts=0, epoch=Epoch(2, "You were.", tools, "compression"))
        assert log.load().epoch == Epoch(2, "You were.", tools, "compression")

    # ---- who has it

    def test_a_session_is_claimed_by_one_log_at_a_time(self, store: SessionStore, log: SessionLog) -> None:
        other = store.open(log.id)
        log.claim()
        log.claim()
        with pytest.raises(SessionBusy):
            other.claim()
        with pytest.raises(SessionBusy):
            store.delete(log.id)
        other.release()
        with pytest.raises(SessionBusy):
            other.claim()
        log.release()
        other.claim()
        other.release()

    def test_a_claim_ends_with_the_log_that_took_it(self, store: SessionStore) -> None:
        session = store.create(directory="/", model="m")
        store.open(session).claim()
        log = store.open(session)
        log.claim()
        log.release()

    # ---- the store

    def test_the_title_is_the_first_line_of_the_first_input_unless_given(self, store: SessionStore) -> None:
        named = store.open(store.create(directory="/", model="m", title="Mine"))
        unnamed = store.open(store.create(directory="/", model="m"))
        context = Text("plugin text", origin="context")
        first = Message("user", (context, Text(f"\n  fix \x1b the   {'long ' * 20}\nsecond")))
        for log in (named, unnamed):
            turn = log.begin_turn(None)
            log.record(turn, [Append((first,))], iterations=0, attempts=0)
        assert store.info(named.id).title == "Mine"
        title = store.info(unnamed.id).title
        assert title.startswith("fix the long long")
        assert len(title) <= 60
        unnamed.set_title("Other")
        assert store.info(unnamed.id).title == "Other"

    def test_find_takes_an_id_a_unique_prefix_or_a_title(self, store: SessionStore, clock: SetClock) -> None:
        first = store.create(directory="/", model="m", title="one")
        clock.now += 86_400 * 40
        second = store.create(directory="/", model="m", title="two")
        clock.now += 1
        third = store.create(directory="/", model="m", title="two")
        assert store.find(first) == first
        assert store.find(first[:8]) == first
        assert store.find("one") == first
        with pytest.raises(AmbiguousSession) as ambiguous:
            store.find("two")
        assert ambiguous.value.candidates == (third, second)
        assert second in str(ambiguous.value)
        for unknown in ("", "nothing", first + "0", "%", "_"):
            with pytest.raises(SessionNotFound):
                store.find(unknown)

    def test_lists_are_newest_activity_first_and_hide_children(self, store: SessionStore, clock: SetClock) -> None:
        ids = []
        for directory in ("/a", "/b", "/a"):
            clock.now += 1
            ids.append(store.create(directory=directory, model="m"))
        clock.now += 1
        child = store.create(directory="/a", model="m", parent=ids[0], parent_call="c1")
        clock.now += 1
        store.open(ids[0]).begin_turn(None)
        assert [i.id for i in store.list()] == [ids[0], ids[2], ids[1]]
        assert [i.id for i in store.list(directory="/a")] == [ids[0], ids[2]]
        assert [i.id for i in store.list(limit=1)] == [ids[0]]
        assert [i.id for i in store.list(children=True)] == [ids[0], child, ids[2], ids[1]]
        assert [i.id for i in store.children(ids[0])] == [child]
        assert store.info(child).parent_call == "c1"
        assert [i.id for i in store.recent(limit=5, exclude=ids[2])] == [ids[0], ids[1]]
        assert [i.id for i in store.recent(limit=5, exclude=child)] == [ids[2], ids[1]]

    def test_a_fork_has_the_live_messages_at_rest_and_leaves_the_source_alone(self, store: SessionStore) -> None:
        log = store.open(store.create(directory="/w", model="m", title="t"))
        turn = log.begin_turn(None)
        calls = (call("done"), call("running"), call("waiting"))
        changes: list[Change] = [
            Append((user("old"), said("x", *calls))),
            Rewrite(0, 1, (user("new"),), "x"),
            Learn("k", 1),
        ]
        log.record(turn, changes, iterations=0, attempts=0, epoch=Epoch(1, "s", (), "start"))
        log.start_calls(turn, calls[:2])
        log.finish_call(result("done", "yes"))
        before = log.load()
        copy = store.open(store.fork(log.id))
        forked = copy.load()
        assert forked.messages[:2] == before.messages
        results = forked.messages[2].results
        assert [(r.call_id, r.status) for r in results] == [
            ("done", "ok"), ("running", "unknown"), ("waiting", "cancelled")
        ]  # fmt: skip
        assert (forked.messages[-1].role, forked.messages[-1].origin) == ("assistant", "closing")
        assert forked.call_ids == {"done", "running", "waiting"}
        assert (forked.open_turn, forked.epoch, forked.state) == (None, before.epoch, {"k": 1})
        assert forked.info.parent is None
        assert (store.find("t"), store.find("t (fork)")) == (log.id, copy.id)
        assert len(store.messages(copy.id)) == 4
        assert log.load() == before
        copy.record(copy.begin_turn(None), [Append((user("on"),))], iterations=0, attempts=0)
        assert copy.load().messages[-1] == user("on")

    def test_deleting_takes_the_children_and_nothing_else(self, store: SessionStore) -> None:
        top = store.create(directory="/", model="m")
        child = store.create(directory="/", model="m", parent=top)
        below = store.create(directory="/", model="m", parent=child)
        other = store.open(store.create(directory="/", model="m"))
        for session in (below, other.id):
            log = store.open(session)
            log.record(log.begin_turn(None), [Append((user("words"),))], iterations=0, attempts=0)
        store.delete(top)
        for gone in (top, child, below):
            for ask in (store.info, store.open, store.messages, store.delete, store.fork):
                with pytest.raises(SessionNotFound):
                    ask(gone)
        assert other.load().messages == (user("words"),)

    def test_search_finds_superseded_messages_and_tool_names_too(self, store: SessionStore) -> None:
        log = store.open(store.create(directory="/", model="m"))
        turn = log.begin_turn(None)
        changes = [Append((user("the heron flies"), said("ok", ToolCall("c", "grep_files", {"path": "marsh.txt"}))))]
        log.record(turn, changes, iterations=0, attempts=0)
        log.record(turn, [Rewrite(0, 1, (user("a bird"),), "compression")], iterations=0, attempts=0)
        for query in ("heron", "HERON flies", "grep_files", "marsh", '"heron flies"'):
            hits = store.search(query, limit=5)
            assert [hit.session.id for hit in hits] == [log.id], query
        assert store.search("heron bird", limit=5) == []
        assert store.search("heron", limit=5, exclude=log.id) == []
        assert store.search("", limit=5) == []

    def test_a_session_that_is_not_there_is_said_so(self, store: SessionStore) -> None:
        for ask in (store.open, store.info, store.messages, store.delete, store.fork, store.find):
            with pytest.raises(SessionNotFound, match="20000101_000000_abcdef"):
                ask("20000101_000000_abcdef")

    # ---- against the reference

    @pytest.mark.parametrize("seed", range(12))
    def test_any_order_of_operations_leaves_what_the_reference_has(
        self, tmp_path: Path, clock: SetClock, seed: int
    ) -> None:
        reference = MemoryStore(clock=clock)
        store = self.open_store(tmp_path, clock)
        try:
            both = Both(random.Random(seed), clock, reference.open(_new(reference)), store.open(_new(store)))
            for step in range(120):
                both.step()
                if self.durable and both.random.random() < 0.03:
                    store.close()
                    store = self.open_store(tmp_path, clock)
                    both.reopened(store)
                for name, (found, wanted) in both.differences().items():
                    pytest.fail(f"seed {seed}, step {step}: {name} is {found}, the reference has {wanted}")
            assert not both.turns_that_differ(), f"seed {seed}"
            told = [(m.message, m.superseded, m.turn) for m in store.messages(both.tried.id)]
            assert sorted(map(repr, told)) == sorted(
                repr((m.message, m.superseded, m.turn)) for m in reference.messages(both.trusted.id)
            )
        finally:
            store.close()


def _new(store: SessionStore) -> str:
    return store.create(directory="/w", model="m")
