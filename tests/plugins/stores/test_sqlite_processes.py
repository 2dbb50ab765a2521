"""Several processes and threads on one file."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hermes.kernel.effects import Append
from hermes.kernel.errors import SessionBusy, StoreError
from hermes.kernel.messages import Message, Text, ToolResult
from hermes.plugins.stores.sqlite.database import Database
from hermes.plugins.stores.sqlite.processes import Holder, this_process
from hermes.plugins.stores.sqlite.store import SqliteStore

_WRITER = """
import sys
from pathlib import Path
from hermes.kernel.effects import Append
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult
from hermes.plugins.stores.sqlite.store import SqliteStore
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(path)
shared = sys.argv[4] if len(sys.argv) > 4 else store.create(directory="/", model="m", title=name)
log = store.open(shared)
turn = log.begin_turn(None) if len(sys.argv) <= 4 else 1
for n in range(count):
    log.record(turn, [Append((Message("user", (Text(f"{name} {n}"),)),))], iterations=n, attempts=n)
    call = ToolCall(f"{name}-{n}", "look", {})
    log.start_calls(turn, [call])
    assert log.finish_call(ToolResult(call.id, "ok", (Text("r"),)))
    if n % 10 == 0:
        assert store.search(f"{name} 0", limit=1)
store.close()
print("done", flush=True)
"""

_CLAIMER = """
import sys
from pathlib import Path
from hermes.plugins.stores.sqlite.store import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
log = store.open(sys.argv[2])
log.claim()
print("claimed", flush=True)
sys.stdin.readline()
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_together(path: Path, *arguments: object) -> None:
    """Start four writers, let them go at the same moment, and see all of them end well."""
    processes = [start(_WRITER, path, f"p{number}", *arguments) for number in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "done\n", "")


def test_B084_four_processes_make_and_write_one_new_file_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run_together(path, 40)
    store = SqliteStore(path)
    assert {i.title: i.messages for i in store.list()} == {f"p{n}": 40 for n in range(4)}
    for info in store.list():
        snapshot = store.open(info.id).load()
        assert [m.text for m in snapshot.messages] == [f"{info.title} {n}" for n in range(40)]
        assert len(snapshot.call_ids) == 40
    assert len(store.search("p2", limit=100)) == 40
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_B084_four_processes_that_meet_a_damaged_index_at_once_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "s-search.db").write_bytes(b"rubbish " * 5000)
    run_together(tmp_path / "s.db", 12)
    store = SqliteStore(tmp_path / "s.db")
    assert sorted(i.messages for i in store.list()) == [12] * 4
    for number in range(4):
        assert len(store.search(f"p{number}", limit=100)) == 12
    store.close()


def test_four_processes_in_one_session_lose_nothing_either(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    session = store.create(directory="/", model="m")
    store.open(session).begin_turn(None)
    run_together(path, 25, session)
    messages = store.open(session).load().messages
    assert sorted(m.text for m in messages) == sorted(f"p{p} {n}" for p in range(4) for n in range(25))
    store.close()


def test_a_writer_waits_for_another_process_and_then_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = store.create(directory="/", model="m")
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    turns: list[int] = []
    thread = threading.Thread(target=lambda: turns.append(store.open(session).begin_turn(None)))
    thread.start()
    thread.join(0.4)
    assert turns == []
    other.execute("COMMIT")
    thread.join(30)
    assert turns == [1]
    other.close()
    store.close()


def test_a_lock_that_is_never_given_back_is_told_in_one_line(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db", wait_s=0.0)
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process holds it"), database.write():
        pass
    other.execute("COMMIT")
    with database.write() as connection:
        connection.execute("DELETE FROM state")
    other.close()
    database.close()


def test_a_claim_of_a_living_process_holds_and_dies_with_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = store.create(directory="/", model="m")
    process = start(_CLAIMER, tmp_path / "s.db", session)
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    log = store.open(session)
    with pytest.raises(SessionBusy, match=f"process {process.pid} "):
        log.claim()
    with pytest.raises(SessionBusy, match=f"process {process.pid} "):
        store.delete(session)
    process.kill()
    process.communicate()
    log.claim()
    log.release()
    store.delete(session)
    store.close()


@pytest.mark.parametrize(
    ("change", "busy"),
    [
        ({"pid": os.getppid(), "started": "1"}, False),  # the number was given to another process since
        ({"host": "elsewhere", "machine": "other-boot pid:[1]"}, True),
        ({"host": "elsewhere", "machine": "other-boot pid:[1]", "since": 1.0}, False),  # still for hours
        ({"machine": "other-boot pid:[1]"}, False),  # this host was started anew
    ],
)
def test_a_claim_is_by_process_not_by_number(tmp_path: Path, change: dict[str, object], busy: bool) -> None:
    now = 1_700_000_000.0
    store = SqliteStore(tmp_path / "s.db", clock=lambda: now)
    session = store.create(directory="/", model="m")
    holder: Holder = replace(this_process("sometoken", now), **change)  # type: ignore[arg-type]
    age = "" if change.get("since") is None else ", updated = 1.0"
    with store._database.write() as connection:
        connection.execute(f"UPDATE sessions SET holder = ?{age}", (json.dumps(asdict(holder)),))
    log = store.open(session)
    if busy:
        with pytest.raises(SessionBusy, match="on elsewhere"):
            log.claim()
    else:
        log.claim()
    store.close()


def test_a_claim_that_no_version_wrote_binds_nobody(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = store.create(directory="/", model="m")
    with store._database.write() as connection:
        connection.execute("UPDATE sessions SET holder = 'junk'")
    store.open(session).claim()
    store.close()


def test_what_was_recorded_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from hermes.kernel.effects import Append\n"
        "from hermes.kernel.messages import Message, Text\n"
        "from hermes.plugins.stores.sqlite.store import SqliteStore\n"
        "store = SqliteStore(pathlib.Path(sys.argv[1]), sync='normal')\n"
        "log = store.open(store.create(directory='/', model='m')); turn = log.begin_turn(None)\n"
        "for n in range(100000):\n"
        "    log.record(turn, [Append((Message('user', (Text(str(n)),)),))], iterations=n, attempts=n)\n"
        "    print(n, flush=True)\n"
    )
    path = tmp_path / "s.db"
    for stop_at in (0, 7, 30):
        process = start(code, path)
        assert process.stdout is not None
        told = -1
        for line in process.stdout:
            told = int(line)
            if told == stop_at:
                process.kill()
        process.communicate()
        store = SqliteStore(path)
        snapshot = store.open(store.list(limit=1)[0].id).load()
        numbers = [int(m.text) for m in snapshot.messages]
        assert numbers == list(range(len(numbers)))
        assert told + 1 <= len(numbers) <= told + 2
        assert snapshot.open_turn is not None
        assert snapshot.open_turn.iterations == numbers[-1]
        store.delete(snapshot.info.id)
        store.close()


def test_B042_a_call_that_was_in_flight_when_the_process_died_is_known_as_started(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from hermes.kernel.effects import Append\n"
        "from hermes.kernel.messages import *\n"
        "from hermes.plugins.stores.sqlite.store import SqliteStore\n"
        "store = SqliteStore(pathlib.Path(sys.argv[1]))\n"
        "log = store.open(store.create(directory='/', model='m')); turn = log.begin_turn({'at': 'start'})\n"
        "calls = tuple(ToolCall(f'c{n}', 'write_file', {'path': 'a'}) for n in range(3))\n"
        "messages = (Message('user', (Text('x'),)), Message('assistant', calls))\n"
        "log.record(turn, [Append(messages)], iterations=1, attempts=1)\n"
        "log.start_calls(turn, calls[:2])\n"
        "log.finish_call(ToolResult('c0', 'ok', (Text('written'),), {'todo': [1]}))\n"
        "log.link_child('c1', 'a-child')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process = start(code, tmp_path / "s.db")
    process.communicate(timeout=60)
    assert process.returncode == -9
    store = SqliteStore(tmp_path / "s.db")
    log = store.open(store.list()[0].id)
    known = log.calls(["c0", "c1", "c2"])
    assert {call: (record.status, record.child) for call, record in known.items()} == {
        "c0": ("ok", None),
        "c1": ("started", "a-child"),
    }
    snapshot = log.load()
    assert [call.id for call in snapshot.messages[-1].calls] == ["c0", "c1", "c2"]
    assert snapshot.state == {"todo": [1]}
    assert snapshot.open_turn is not None
    assert log.finish_call(ToolResult("c1", "unknown", (Text("interrupted"),)))
    store.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_B086_five_hundred_threads_leave_no_descriptor_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", sync="normal")
    session = store.create(directory="/", model="m")
    log = store.open(session)
    turn = log.begin_turn(None)

    def work(number: int) -> None:
        log.record(turn, [Append((Message("user", (Text(f"{number}"),)),))], iterations=0, attempts=0)
        log.load()
        if number % 100 == 0:
            store.search("7", limit=1)

    work(0)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(1, 500):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/fd")) == before
    together = [threading.Thread(target=work, args=(number,)) for number in range(500, 540)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert len(os.listdir("/proc/self/fd")) == before
    assert sorted(int(m.text) for m in log.load().messages) == list(range(540))
    store.close()
    assert len(os.listdir("/proc/self/fd")) < before
