"""The file itself: made once, private, brought up to date, refused when it is not ours, and never damaged."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hermes.kernel.config.settings import SessionSettings
from hermes.kernel.effects import Append
from hermes.kernel.errors import StoreError
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult
from hermes.plugins.stores.sqlite import register_session_stores
from hermes.plugins.stores.sqlite.database import Database
from hermes.plugins.stores.sqlite.schema import MIGRATIONS
from hermes.plugins.stores.sqlite.store import SqliteStore


def say(store: SqliteStore, session: str, text: str) -> None:
    log = store.open(session)
    log.record(log.begin_turn(None), [Append((Message("user", (Text(text),)),))], iterations=0, attempts=0)


def test_the_file_is_private_and_so_is_the_home_that_it_makes(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    (factory,) = register_session_stores()
    store = factory.open_store(SessionSettings(), home)
    say(store, store.create(directory="/", model="m"), "x")  # type: ignore[arg-type]
    assert store.path() == str(home / "sessions.db")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for file in home.iterdir():  # -wal and -shm too
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    store.close()


def test_sessions_path_names_another_file(tmp_path: Path) -> None:
    (factory,) = register_session_stores()
    store = factory.open_store(SessionSettings(path=str(tmp_path / "mine.sqlite")), tmp_path / "home")
    store.close()
    assert (tmp_path / "mine.sqlite").exists()
    assert not (tmp_path / "home").exists()


def test_a_file_of_a_newer_hermes_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"s\.db was written by a newer Hermes \(format 99"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (x)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        SqliteStore(path)


@pytest.mark.parametrize("content", [b"not a database at all, not at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_one_clear_line_and_is_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"s\.db: .*(damaged|another program|move it away)") as refused:
        SqliteStore(path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("path", ["/proc/nope/sessions.db", "/dev/null/sessions.db", "/proc"])
def test_a_place_that_cannot_be_written_is_one_clear_line(path: str) -> None:
    with pytest.raises(StoreError, match=r"sessions\.path") as refused:
        SqliteStore(Path(path))
    assert path in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_full_disk_refuses_the_write_and_keeps_what_was_stored(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = store.create(directory="/", model="m")
    say(store, session, "kept")
    with store._database.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    store._database._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full: free some space"):
        say(store, session, "x" * 100_000)
    stored = len(store.open(session).load().messages)
    store._database._connection.execute("PRAGMA max_page_count = 100000")
    say(store, session, "again")
    messages = store.open(session).load().messages
    assert messages[0].text == "kept"
    assert len(messages) == stored + 1
    store.close()


def test_a_migration_goes_forward_in_one_transaction_after_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    session = store.create(directory="/", model="m")
    say(store, session, "old")
    store.close()
    newer = [*MIGRATIONS, ("ALTER TABLE sessions ADD COLUMN pinned INTEGER", "UPDATE sessions SET pinned = 1")]
    broken = [*MIGRATIONS, ("ALTER TABLE sessions ADD COLUMN pinned INTEGER", "UPDATE nowhere SET x = 1")]
    with pytest.raises(StoreError):
        Database(path, migrations=broken)
    database = Database(path, migrations=newer)
    with database.read() as connection:
        assert connection.execute("SELECT pinned FROM sessions").fetchall() == [(1,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
    database.close()
    backup = tmp_path / f"s.db.format{len(MIGRATIONS)}.backup"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    old = SqliteStore(backup)
    assert [m.text for m in old.open(session).load().messages] == ["old"]
    old.close()
    assert {p.name for p in tmp_path.iterdir()} == {"s.db", backup.name}


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.list()


def test_opening_an_existing_file_imports_and_checks_next_to_nothing(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "s.db").close()
    code = (
        "import sys, hermes.plugins.stores.sqlite.store as s, pathlib\n"
        f"s.SqliteStore(pathlib.Path({str(tmp_path / 's.db')!r})).close()\n"
        "print(*[m for m in ('asyncio', 'openai', 'yaml', 'click', 'ctypes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == []


def test_a_deleted_session_refuses_further_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = store.create(directory="/", model="m")
    log = store.open(session)
    store.delete(session)
    with pytest.raises(StoreError, match="deleted"):
        log.begin_turn(None)
    with pytest.raises(StoreError, match="deleted"):
        log.load()
    with store._database.read() as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        left = {t: connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}
    store.close()
    assert {t: n for t, n in left.items() if n and t != "sqlite_sequence"} == {}


def test_B062_lone_surrogates_are_stored_as_the_replacement_character(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    bad = os.fsdecode(b"/dir\xff")
    session = store.create(directory=bad, model="m\udc80", title="t\ud835")
    say(store, session, "bold \ud835 text, a pair \ud83c\udf78")
    log = store.open(session)
    log.put_inbox("steer", (Text("x\ud800"),))
    log.set_title("y\udfff")
    snapshot = log.load()
    assert snapshot.messages[0].text == "bold � text, a pair \U0001f378"
    assert snapshot.inbox[0].text == "x�"
    assert snapshot.info.directory == "/dir�"
    assert store.search("bold\ud835", limit=3) is not None
    assert [i.id for i in store.list(directory=bad)] == [session]
    store.close()


def test_B085_a_write_that_failed_is_not_stored_twice_when_it_is_repeated(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    log = store.open(store.create(directory="/", model="m"))
    turn = log.begin_turn(None)
    row = log.put_inbox("input", (Text("question"),))
    change = Append(tuple(Message("user", (Text(f"{n}"),)) for n in range(10)), taken=(row,))
    store._database._connection.execute(
        "CREATE TRIGGER stop BEFORE INSERT ON messages WHEN (SELECT count(*) FROM messages) = 7"
        " BEGIN SELECT RAISE(ABORT, 'disk trouble'); END"
    )
    with pytest.raises(StoreError, match="disk trouble"):
        log.record(turn, [change], iterations=0, attempts=0)
    assert log.load().messages == ()
    store._database._connection.execute("DROP TRIGGER stop")
    log.record(turn, [change], iterations=0, attempts=0)
    with pytest.raises(StoreError, match="not waiting"):
        log.record(turn, [change], iterations=0, attempts=0)
    assert [m.text for m in log.load().messages] == [str(n) for n in range(10)]
    store.close()


def test_keep_days_deletes_what_nobody_touched_since_and_nothing_without_it(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    days = 86_400.0
    for keep_days in (None, 30):
        store = SqliteStore(tmp_path / "s.db", keep_days=keep_days, clock=lambda: now[0])
        old = store.create(directory="/", model="m", title="old")
        touched = store.create(directory="/", model="m", title="touched")
        now[0] += 20 * days
        say(store, touched, "still here")
        now[0] += 20 * days
        new = store.create(directory="/", model="m", title="new")
        kept = [i.id for i in store.list()]
        store.close()
        assert (old in kept) is (keep_days is None)
        assert touched in kept
        assert new in kept


def test_a_thousand_messages_are_loaded_well_within_what_a_person_notices(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", sync="normal")
    log = store.open(store.create(directory="/", model="m"))
    turn = log.begin_turn(None)
    calls = [ToolCall(f"c{n}", "look", {"path": f"src/{n}.py"}) for n in range(500)]
    results = [ToolResult(call.id, "ok", (Text("x" * 2000),)) for call in calls]
    pairs = [
        m for c, r in zip(calls, results, strict=True) for m in (Message("assistant", (c,)), Message("tool", (r,)))
    ]
    log.record(turn, [Append(tuple(pairs))], iterations=0, attempts=0)
    started = time.perf_counter()
    snapshot = log.load()
    seconds = time.perf_counter() - started
    store.close()
    assert len(snapshot.messages) == 1000
    assert len(snapshot.call_ids) == 500
    assert seconds < 2.0  # the goal is 0.2


def test_a_message_that_cannot_be_read_is_a_store_error_and_hurts_no_other_session(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    bad, good = (store.create(directory="/", model="m") for _ in range(2))
    for session in (bad, good):
        say(store, session, "heron")
    with store._database.write() as connection:
        connection.execute("UPDATE messages SET body = '{\"parts\":' WHERE id = 1")
    with pytest.raises(StoreError, match="cannot be read"):
        store.open(bad).load()
    assert [m.text for m in store.open(good).load().messages] == ["heron"]
    assert [hit.session.id for hit in store.search("heron", limit=5)] == [good]
    store.delete(bad)
    store.close()
