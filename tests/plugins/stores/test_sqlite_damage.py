"""Files whose bytes have changed anywhere: errors of the store and no others, and what can be read stays as it is."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.effects import Append, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionNotFound, StoreError
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult
from hermes.kernel.providers import ToolSchema
from hermes.kernel.sessions import Epoch
from hermes.plugins.stores.sqlite.store import SqliteStore

CASES = 60
SESSIONS = 4
PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[str]]:
    """The bytes of a database with sessions of every kind of row, and their ids."""
    path = tmp_path_factory.mktemp("whole") / "s.db"
    store = SqliteStore(path, sync="normal")
    ids = [store.create(directory="/w", model="m", title=f"title {n}") for n in range(SESSIONS)]
    for number, session in enumerate(ids):
        _fill(store, session, f"c{number}")
    store.close()
    return path.read_bytes(), ids


def _fill(store: SqliteStore, session: str, call_id: str) -> None:
    log = store.open(session)
    turn = log.begin_turn({"messages": [1, 2], "known": {"a": "b"}})
    row = log.put_inbox("input", (Text("where is the heron?"),))
    call, result = ToolCall(call_id, "look", {"path": "a"}), ToolResult(call_id, "ok", (Text("seen"),), {"cwd": "/x"})
    epoch = Epoch(1, "a system prompt " * 30, (ToolSchema("look", "Look.", {"type": "object"}),), "begin")
    asked = Append((Message("user", (Text("where is the heron?"),)), Message("assistant", (call,))), (row,))
    log.record(turn, [asked], iterations=1, attempts=1, epoch=epoch, outcomes=[{"a": 1}], starting=[call])
    log.finish_call(result)
    answered = Append((Message("tool", (result,)), Message("assistant", (Text("In the reeds. " * 30),))))
    log.record(turn, [answered, TurnEnded(EndReason.COMPLETED, "In the reeds.")], iterations=2, attempts=2)
    log.put_inbox("steer", (Text("later"),))


def _hurt(data: bytearray, dice: random.Random) -> None:
    """What disks and people do to a file."""
    place, length = dice.randrange(len(data)), dice.choice((1, 16, 200, 4096))
    match dice.choice(("bit", "bytes", "letters", "zeros", "text", "cut")):
        case "bit":
            data[place] ^= 1 << dice.randrange(8)
        case "bytes":
            for _ in range(dice.randint(2, 80)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        case "letters":  # rows that SQLite reads as before, and that are no JSON any more
            for at in (dice.randrange(len(data)) for _ in range(60)):
                if 32 <= data[at] < 127:
                    data[at] = dice.randrange(32, 127)
        case "zeros":
            data[place : place + length] = bytes(len(data[place : place + length]))
        case "text":
            data[place : place + length] = b"x" * len(data[place : place + length])
        case "cut":
            del data[place:]


def _readable(path: Path) -> Mapping[int, Any]:
    """Every message by id, from a copy; none where the trees of pages are broken: a write may take more with it there,
    and SQLite finds that out only by reading all of the file."""
    copy = path.with_name("look.db")
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    connection.text_factory = bytes
    try:
        if connection.execute("PRAGMA quick_check").fetchall() != [(b"ok",)]:
            return {}
        return {row[0]: row for row in connection.execute("SELECT id, session, role, body FROM messages")}
    except (sqlite3.Error, UnicodeDecodeError):
        return {}
    finally:
        connection.close()
        copy.unlink()


def _uses(store: SqliteStore, session: str) -> list[Callable[[], object]]:
    """What a run, a listing and a search do with a store, each apart."""
    log = store.open(session)
    call = ToolCall("new", "look", {})
    said = Append((Message("user", (Text("and the egret?"),)), Message("assistant", (call,))))
    return [
        lambda: store.list(children=True),
        lambda: store.recent(limit=3),
        lambda: store.find(session),
        lambda: store.info(session),
        lambda: store.children(session),
        lambda: store.messages(session),
        lambda: store.search("heron", limit=3),
        lambda: log.claim(),
        lambda: log.load(),
        lambda: log.calls(["c0", "c1", "c2", "c3"]),
        lambda: log.waiting("steer"),
        lambda: log.beginning(1),
        lambda: log.outcomes(1),
        lambda: log.put_inbox("input", (Text("and the egret?"),)),
        lambda: log.begin_turn({}),
        lambda: log.record(2, [said], iterations=1, attempts=1, starting=[call]),
        lambda: log.finish_call(ToolResult("new", "ok", (Text("seen"),))),
        lambda: log.release(),
        lambda: store.fork(session),
        lambda: store.create(directory="/", model="m"),
    ]


def _use(path: Path, ids: list[str]) -> list[str]:
    """Use the store in every way; gives what StoreErrors say. Anything else but SessionNotFound passes through."""
    said: list[str] = []
    try:
        store = SqliteStore(path, sync="normal")
    except StoreError as error:
        return [str(error)]
    for session in ids[:2]:
        try:
            uses = _uses(store, session)
        except (StoreError, SessionNotFound):
            continue
        for use in uses:
            try:
                use()
            except SessionNotFound:
                pass
            except StoreError as error:
                said.append(str(error))
    store.close()
    return said


def test_a_file_with_changed_bytes_raises_store_errors_alone_and_is_not_damaged_further(
    whole: tuple[bytes, list[str]], tmp_path: Path
) -> None:
    data, ids = whole
    first = random.SystemRandom().randrange(1 << 30)
    whole_ones = 0
    for seed in range(first, first + CASES):
        path = tmp_path / f"{seed}.db"
        hurt = bytearray(data)
        _hurt(hurt, random.Random(seed))
        path.write_bytes(hurt)
        before = _readable(path)
        try:
            said = _use(path, ids)
            after = _readable(path)
            assert [text for text in said if "\n" in text] == []
            assert {i: after.get(i) for i in before} == before
            whole_ones += bool(before)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        for file in tmp_path.glob(f"{seed}*"):
            file.unlink()
    assert whole_ones > CASES // 10, first  # else nothing was compared


def test_a_file_that_has_shown_itself_damaged_is_written_no_more(
    whole: tuple[bytes, list[str]], tmp_path: Path
) -> None:
    data, ids = whole
    path = tmp_path / "s.db"
    hurt = bytearray(data)
    page = data.rindex(b"In the reeds. ") // PAGE_BYTES * PAGE_BYTES
    hurt[page] ^= 0xFF  # what kind of page it is
    path.write_bytes(hurt)
    store = SqliteStore(path)
    log = store.open(ids[0])
    with pytest.raises(StoreError, match="damaged"):
        log.load()
    for write in (log.claim, lambda: log.begin_turn({}), lambda: store.create(directory="/", model="m")):
        with pytest.raises(StoreError, match=r"s\.db: .* damaged: move it away"):
            write()
    assert len(store.list()) == SESSIONS
    store.close()
    assert path.read_bytes() == hurt
