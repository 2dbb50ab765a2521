"""Looking into earlier sessions: the four shapes, over both of our stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.effects import Append
from hermes.kernel.errors import ToolError
from hermes.kernel.journal import MemoryStore
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult
from hermes.kernel.sessions import SessionStore
from hermes.kernel.tools.session_search import TOOL
from hermes.plugins.stores.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Callable[[], float]) -> Iterator[SessionStore]:
    made = MemoryStore(clock=clock) if request.param == "memory" else SqliteStore(tmp_path / "s.db", clock=clock)
    yield made
    made.close()


def talk(store: SessionStore, *texts: str, **fields: Any) -> str:
    """A session in which user and assistant say these texts in turn."""
    session = store.create(directory="/d", model="m", **fields)
    log = store.open(session)
    turn = log.begin_turn({})
    roles = ("user", "assistant")
    messages = tuple(Message(roles[n % 2], (Text(text),)) for n, text in enumerate(texts))  # type: ignore[arg-type]
    log.record(turn, [Append(messages)], iterations=1, attempts=1)
    return session


def test_browse_lists_the_latest_sessions_without_the_current_one(call: Any, store: SessionStore) -> None:
    first, second = talk(store, "a", "b", title="First"), talk(store, "c", "d")
    told = call(TOOL)
    assert told["mode"] == "browse"
    assert [row["session_id"] for row in told["results"]] == [second, first]
    assert told["results"][1]["title"] == "First"
    assert call.context.session_id not in str(told)
    assert call(TOOL, query="  ", limit=1)["count"] == 1


def test_discover_shows_hit_neighbours_and_both_ends_each_message_once(call: Any, store: SessionStore) -> None:
    session = talk(store, *(f"message {n}" + (" zebra" if n == 20 else "") for n in range(40)))
    (row,) = call(TOOL, query="zebra")["results"]
    assert row["session_id"] == session
    assert (row["matched_role"], row["messages_before"], row["messages_after"]) == ("user", 15, 14)
    assert [m["text"].split()[1] for m in row["bookend_start"]] == ["0", "1", "2"]
    assert [m["text"].split()[1] for m in row["bookend_end"]] == ["37", "38", "39"]
    assert [m["text"].split()[1] for m in row["messages"]] == [str(n) for n in range(15, 26)]
    (anchor,) = [m for m in row["messages"] if m.get("anchor")]
    assert anchor["id"] == row["match_message_id"]


def test_discover_gives_each_session_once_and_at_most_the_limit(call: Any, store: SessionStore) -> None:
    for n in range(12):
        talk(store, f"zebra {n}", "zebra again")
    assert call(TOOL, query="zebra")["count"] == 3
    assert call(TOOL, query="zebra", limit=99)["count"] == 10
    assert call(TOOL, query="zebra", limit="2")["count"] == 2
    assert call(TOOL, query="zebra", limit="many")["count"] == 3


def test_one_session_full_of_hits_does_not_hide_the_others(call: Any, store: SessionStore) -> None:
    old = talk(store, "zebra", "yes")
    new = talk(store, *("zebra" for _ in range(100)))
    assert [row["session_id"] for row in call(TOOL, query="zebra")["results"]] == [new, old]


def test_jobs_come_after_people_and_the_order_of_time_is_by_wish(call: Any, store: SessionStore) -> None:
    person = talk(store, "zebra", "a")
    job = talk(store, "zebra", "b", source="cron")
    later = talk(store, "zebra", "c")
    assert [r["session_id"] for r in call(TOOL, query="zebra")["results"]] == [later, person, job]
    assert [r["session_id"] for r in call(TOOL, query="zebra", sort="oldest")["results"]] == [person, later, job]
    assert [r["session_id"] for r in call(TOOL, query="zebra", sort="Newest")["results"]] == [later, person, job]


def test_an_exact_title_comes_first(call: Any, store: SessionStore) -> None:
    titled = talk(store, "nothing", "of it", title="Zebra plan")
    talk(store, "the zebra plan", "ok")
    rows = call(TOOL, query='"zebra PLAN"')["results"]
    assert (rows[0]["session_id"], rows[0]["matched"]) == (titled, "title")
    assert len(rows) == 2


def test_delegated_children_are_hidden(call: Any, store: SessionStore) -> None:
    parent = talk(store, "hello", "hi")
    talk(store, "zebra", "x", parent=parent, parent_call="call_9", source="subagent")
    told = call(TOOL, query="zebra")
    assert told["count"] == 0
    assert "other words" in told["hint"]


def test_read_gives_a_short_session_whole_and_a_long_one_by_its_ends(call: Any, store: SessionStore) -> None:
    short, long = talk(store, "a", "b"), talk(store, *(f"m{n}" for n in range(50)))
    assert [m["text"] for m in call(TOOL, session_id=short)["messages"]] == ["a", "b"]
    told = call(TOOL, session_id=long, query="ignored")
    assert told["message_count"] == 50
    assert [m["text"] for m in told["messages"]] == [f"m{n}" for n in (*range(20), *range(40, 50))]
    assert told["truncated"].startswith("20 messages after id ")


def test_scroll_shows_the_messages_around_one(call: Any, store: SessionStore) -> None:
    session = talk(store, *(f"m{n}" for n in range(50)))
    ids = [row.id for row in store.messages(session)]
    told = call(TOOL, session_id=session, around_message_id=str(ids[25]), window=2)
    assert [m["text"] for m in told["messages"]] == ["m23", "m24", "m25", "m26", "m27"]
    assert (told["messages_before"], told["messages_after"]) == (23, 22)
    assert len(call(TOOL, session_id=session, around_message_id=ids[25], window=500)["messages"]) == 41
    with pytest.raises(ToolError, match=rf"no message 999999 \(ids {ids[0]} to {ids[-1]}\)"):
        call(TOOL, session_id=session, around_message_id=999999)


def test_what_is_in_the_context_already_is_not_read_again(call: Any, store: SessionStore) -> None:
    log = store.open(call.context.session_id)
    log.record(log.begin_turn({}), [Append((Message("user", (Text("zebra"),)),))], iterations=0, attempts=0)
    (row,) = store.messages(call.context.session_id)
    with pytest.raises(ToolError, match="in your context"):
        call(TOOL, session_id=call.context.session_id)
    with pytest.raises(ToolError, match="in your context"):
        call(TOOL, session_id=call.context.session_id, around_message_id=row.id)
    assert call(TOOL, query="zebra")["count"] == 0


def test_an_unknown_session_is_a_clear_error(call: Any) -> None:
    with pytest.raises(ToolError, match="no session nowhere; search by query"):
        call(TOOL, session_id="nowhere")


def test_calls_are_named_and_tool_output_is_left_out_of_the_neighbours(call: Any, store: SessionStore) -> None:
    session = talk(store, "find the zebra", "done")
    log = store.open(session)
    asked = Message("assistant", (ToolCall("c1", "read_file", {"path": "x"}),))
    result = Message("tool", (ToolResult("c1", "ok", (Text("y" * 9000),)),))
    more = (Message("user", (Text("again"),)), asked, result, Message("assistant", (Text("over"),)))
    log.record(1, [Append(more)], iterations=2, attempts=2)
    (row,) = call(TOOL, query="zebra")["results"]
    assert [m["text"] for m in row["messages"]] == ["find the zebra", "done", "again", "[called read_file]", "over"]
    assert len(call(TOOL, session_id=session)["messages"][4]["text"]) <= 1500


@pytest.mark.parametrize(
    "query", ["it's", "gateway/run.py", "50%", '"unclosed', "*", "NEAR(", ".", "-x", "x" * 5000, "\ud800"]
)
def test_B020_no_query_is_an_error(call: Any, store: SessionStore, query: str) -> None:
    talk(store, "hello", "hi")
    assert call(TOOL, query=query)["mode"] == "discover"
