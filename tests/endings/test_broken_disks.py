"""Disks that are full, read-only or damaged, and databases that another process holds, each through a whole run: the
answer is given, one line says which file and what to do, and nothing that was stored is hurt."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.testing import call, text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="starts its runs by fork")

PAGE_BYTES = 4096


def _can(*command: str) -> bool:
    """Whether this machine lets a test make mounts of its own, which end with the process that made them."""
    tried = ["unshare", "-rm", *command]
    return shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not _can("mount", "-t", "tmpfs", "none", "/tmp"), reason="may not mount")


@pytest.fixture
def stored(hermes: Any) -> Path:
    """The database, with one session in it, closed and at rest."""
    hermes.server.add(text("I will."))
    done = hermes.run("--session", "old", "remember the heron")
    assert done.code == 0, done.stderr
    assert {file.name for file in hermes.home.glob("sessions.db*")} == {"sessions.db"}
    path: Path = hermes.home / "sessions.db"
    return path


def bodies(path: Path) -> dict[int, str]:
    """Every message that can still be read, by id; read from a copy, so that nothing is changed by looking."""
    copy = path.with_name("look.db")
    shutil.copy(path, copy)
    if (log := path.with_name(f"{path.name}-wal")).exists():
        shutil.copy(log, f"{copy}-wal")
    connection = sqlite3.connect(copy)
    try:
        return dict(connection.execute("SELECT id, body FROM messages").fetchall())
    finally:
        connection.close()
        for file in path.parent.glob("look.db*"):
            file.unlink()


def told_once(done: Any, *words: str) -> None:
    """One line of stderr names the file and says what to do, and nothing is a traceback."""
    lines = [line for line in done.stderr.splitlines() if "sessions.db" in line]
    assert len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines
    assert "Traceback" not in done.stderr


def answered_in_memory(hermes: Any, *words: str) -> Any:
    hermes.server.add(text("Done."))
    done = hermes.run("-o", "json", "do it")
    assert (done.code, done.json["answer"], done.json["stored"]) == (0, "Done.", False), done.stderr
    told_once(done, *words)
    return done


# ---- Full and read-only ---------------------------------------------------------------------------------------------

FULL = """
set -e
mount -t tmpfs -o size=4m,mode=0700 none "$DISK"
cp -r "$SEED/." "$DISK"
head -c 5000000 /dev/zero > "$DISK/ballast" 2> "$OUT/full.txt" || true
if [ "$FREE" -gt 0 ]; then truncate -s "-$FREE" "$DISK/ballast"; fi
code=0
"$PYTHON" -m hermes run -o json "do it" > "$OUT/stdout.txt" 2> "$OUT/stderr.txt" || code=$?
rm "$DISK/ballast"
cp "$DISK"/sessions.db* "$OUT"
exit $code
"""
"""A disk of its own, filled up but for $FREE bytes; what is on it at the end goes to $OUT before it is gone."""


@needs_mounts
@pytest.mark.parametrize("free_pages", [0, 20])
def test_a_full_disk_costs_neither_the_answer_nor_what_was_stored(
    hermes: Any, stored: Path, tmp_path: Path, free_pages: int
) -> None:
    before = bodies(stored)
    disk, out = tmp_path / "disk", tmp_path / "out"
    disk.mkdir()
    out.mkdir()
    (hermes.work / "a.txt").write_text("x\n" * 30_000, encoding="utf-8")
    hermes.server.add(call("read_file", path="a.txt"), text("Done."))
    environ = {"DISK": disk, "SEED": hermes.home, "OUT": out, "PYTHON": sys.executable, "HERMES_HOME": disk}
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", FULL],
        env={**os.environ, **{k: str(v) for k, v in environ.items()}, "FREE": str(free_pages * PAGE_BYTES)},
        cwd=hermes.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    stderr = (out / "stderr.txt").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr + stderr
    stdout = (out / "stdout.txt").read_text(encoding="utf-8")
    assert '"answer": "Done."' in stdout or '"answer":"Done."' in stdout, stdout
    assert "free some space" in stderr or "check the disk and its free space" in stderr
    assert "Traceback" not in stderr
    after = bodies(out / "sessions.db")
    assert {i: after[i] for i in before} == before
    connection = sqlite3.connect(out / "sessions.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from hermes.__main__ import main
sys.exit(main())
"""
"""A process that can make no file longer than so many bytes, as under a quota: works where mounts do not."""


@pytest.mark.parametrize("limit_bytes", [30_000, 90_000])
def test_a_limit_on_file_sizes_costs_neither_the_answer_nor_what_was_stored(
    hermes: Any, stored: Path, limit_bytes: int
) -> None:
    before = bodies(stored)
    hermes.server.add(call("read_file", path="absent"), call("read_file", path="absent too"), text("Done."))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit_bytes), "run", "-o", "json", "do it"],
        cwd=hermes.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Done." in done.stdout
    told_once(done, "check the disk")
    after = bodies(stored)
    assert {i: after[i] for i in before} == before


READ_ONLY = """
set -e
mount --bind "$HERMES_HOME" "$HERMES_HOME"
mount -o remount,ro,bind "$HERMES_HOME"
exec "$@"
"""


@needs_mounts
@pytest.mark.parametrize("is_new", [True, False])
def test_a_read_only_home_costs_no_answer(hermes: Any, stored: Path, is_new: bool) -> None:
    if is_new:
        stored.unlink()
    before = None if is_new else stored.read_bytes()
    hermes.server.add(text("Done."))
    words = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        READ_ONLY,
        "sh",
        sys.executable,
        "-m",
        "hermes",
        "run",
        "-o",
        "json",
        "do it",
    ]
    done = subprocess.run(words, cwd=hermes.work, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Done." in done.stdout
    told_once(done, "sessions.path")
    assert (stored.read_bytes() if stored.exists() else None) == before


# ---- Locked ---------------------------------------------------------------------------------------------------------

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def locked(stored: Path) -> Iterator[None]:
    """The database while another process holds it alone."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(stored)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    yield
    holder.communicate("go\n")


def test_a_database_that_another_process_holds_costs_time_and_no_answer(
    hermes: Any, stored: Path, locked: None
) -> None:
    answered_in_memory(hermes, "another process holds it")


# ---- Damaged --------------------------------------------------------------------------------------------------------


def _header(data: bytearray) -> None:
    data[:16] = bytes(byte ^ 0xFF for byte in data[:16])


def _page_size(data: bytearray) -> None:
    data[16:18] = b"\xff\xff"


def _pages(data: bytearray) -> None:
    for start in range(PAGE_BYTES, len(data), PAGE_BYTES):
        data[start] ^= 0xFF  # what kind of page it is


def _schema(data: bytearray) -> None:
    place = data.index(b"CREATE TABLE sessions")
    data[place : place + 6] = b"\xa8\n\n\n\n\n"


def _prose(data: bytearray) -> None:
    data[:] = b"Dear diary, today I was a text file.\n" * 400


def _half(data: bytearray) -> None:
    del data[len(data) // 2 :]


@pytest.mark.parametrize("damage", [_header, _page_size, _pages, _schema, _prose, _half])
def test_a_damaged_database_costs_no_answer_and_is_left_as_it_is(
    hermes: Any, stored: Path, damage: Callable[[bytearray], None]
) -> None:
    data = bytearray(stored.read_bytes())
    damage(data)
    stored.write_bytes(data)
    answered_in_memory(hermes, "it is damaged", "move it away")
    assert stored.read_bytes() == data
    listed = hermes("sessions", "list")
    assert listed.code == 12, listed.stderr
    told_once(listed, "it is damaged", "move it away")


def test_damage_in_one_session_leaves_the_others_to_be_gone_on_with(hermes: Any, stored: Path) -> None:
    hermes.server.add(text("Noted."))
    hermes.run("--session", "other", "remember the egret")
    data = stored.read_bytes()
    assert b'"remember the egret"' in data
    stored.write_bytes(data.replace(b'"remember the egret"', b'#remember the egret"'))
    hermes.server.add(text("A heron."))
    done = hermes.run("-o", "json", "--session", "old", "what was it?")
    assert (done.code, done.json["answer"], done.json["stored"]) == (0, "A heron.", True), done.stderr
    assert "remember the heron" in str(hermes.server.requests[-1].messages)
    refused = hermes.run("-o", "json", "--session", "other", "what was it?")
    assert (refused.code, refused.json["reason"]) == (12, "store_failed")
    assert "sessions delete" in refused.last_line


def test_a_database_cut_to_nothing_begins_anew(hermes: Any, stored: Path) -> None:
    os.truncate(stored, 0)
    hermes.server.add(text("Done."))
    done = hermes.run("-o", "json", "do it")
    assert (done.json["answer"], done.json["stored"]) == ("Done.", True), done.stderr
    assert len(hermes.rows()) == 1


def _killed(hermes: Any) -> Path:
    """The database as a killed run leaves it: what was last said is in the write-ahead log alone."""
    hermes.server.add(text("never seen").but(hold_after=1))

    def kill(pid: int) -> None:
        hermes.server.wait_for_requests(len(hermes.server.requests) + 1)
        os.kill(pid, 9)

    hermes.run("--session", "cut", "remember the stork", meanwhile=kill)
    log: Path = hermes.home / "sessions.db-wal"
    assert b"remember the stork" in log.read_bytes()
    return log


def test_an_emptied_database_does_not_take_its_log_with_it(hermes: Any, stored: Path) -> None:
    log = _killed(hermes)
    os.truncate(stored, 0)
    before = log.read_bytes()
    answered_in_memory(hermes, "still holds what was stored", "sessions.db-wal")
    assert (stored.read_bytes(), log.read_bytes()) == (b"", before)


def test_a_database_whose_log_is_missing_keeps_what_the_file_has(hermes: Any, stored: Path) -> None:
    before = bodies(stored)
    _killed(hermes).unlink()
    hermes.server.add(text("Done."))
    done = hermes.run("-o", "json", "--session", "old", "go on")
    assert (done.json["answer"], done.json["stored"]) == ("Done.", True), done.stderr
    after = bodies(stored)
    assert {i: after[i] for i in before} == before


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_rubbish_in_the_files_beside_the_database_costs_nothing_that_is_in_it(
    hermes: Any, stored: Path, suffix: str
) -> None:
    before = bodies(stored)
    (hermes.home / f"sessions.db{suffix}").write_bytes(random.Random(1).randbytes(50_000))
    hermes.server.add(text("Done."))
    done = hermes.run("-o", "json", "--session", "old", "go on")
    assert (done.code, done.json["answer"], done.json["stored"]) == (0, "Done.", True), done.stderr
    after = bodies(stored)
    assert {i: after[i] for i in before} == before


@pytest.mark.parametrize("wanted", [("--resume", "old"), ("--continue",)])
def test_a_session_of_a_store_that_cannot_be_opened_is_an_error_of_the_store(
    hermes: Any, stored: Path, wanted: tuple[str, ...]
) -> None:
    stored.write_bytes(b"rubbish " * 4000)
    done = hermes.run("-o", "json", *wanted, "go on")
    assert (done.code, done.json["reason"]) == (12, "store_failed"), done.stderr
    assert "move it away" in done.last_line
