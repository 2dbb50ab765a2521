"""Nothing of a command outlives it, and no call outlives its time: timeouts, stops, children that stay or run away."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.plugins.tools.terminal.processes import read_process, session_of

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found in /proc")


def test_a_timeout_gives_what_there_was_and_is_a_failure(run: Any) -> None:
    began = time.monotonic()
    returned = run.returned("echo partial; sleep 61", timeout=1)
    assert time.monotonic() - began < 10
    assert returned.failed
    text = returned.parts[0].text
    assert text.startswith(
        "partial\n[timed out after 1 s: the command and all that it started were ended; exit code 124"
    )
    assert "up to 600" in text


@needs_proc
def test_B038_a_timeout_ends_children_that_left_the_session(
    run: Any, pid_in: Callable[[str], int], tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text(
        "setsid sh -c 'echo $$ > away; sleep 62' &\n"
        "setsid sh -c 'setsid sh -c \"echo \\$\\$ > orphan; sleep 62\" &' &\n"
        "sh -c 'echo $$ > near; sleep 62' &\n"
        "sleep 62\n"
    )
    returned = run.returned("sh job.sh", timeout=1)
    assert returned.failed
    for name in ("away", "orphan", "near"):
        assert read_process(pid_in(name)) is None or not read_process(pid_in(name)).is_alive


@needs_proc
def test_B038_a_child_that_left_without_our_mark_is_found_by_its_parent(
    run: Any, pid_in: Any, alive: Any, tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text("env -i PATH=$PATH setsid sh -c 'echo $$ > away; sleep 62; true'\n")
    run("sh job.sh; true", timeout=1)
    assert not alive(pid_in("away"))


def test_B038_a_command_that_ignores_SIGTERM_is_killed(run: Any, pid_in: Any, alive: Any) -> None:
    began = time.monotonic()
    assert run.returned("""sh -c 'trap "" TERM; echo $$ > pid; sleep 63; sleep 63'""", timeout=1).failed
    assert time.monotonic() - began < 15
    assert not alive(pid_in("pid"))


def test_a_command_may_clean_up_when_its_time_is_over(run: Any) -> None:
    text = run("trap 'echo cleaned; exit 1' TERM; while true; do sleep 0.05; done", timeout=1)
    assert "cleaned\n[timed out" in text


def test_B038_a_child_that_holds_the_output_open_does_not_hold_the_call(run: Any, pid_in: Any, alive: Any) -> None:
    began = time.monotonic()
    text = run("sleep 64 & echo $! > pid; echo done")
    assert time.monotonic() - began < 5
    pid = pid_in("pid")
    assert text == f"done\n[exit code 0]\n[ended with the command, which had left it running: sleep ({pid})]"
    assert not alive(pid)


def test_a_child_that_writes_for_ever_does_not_hold_the_call(run: Any, pid_in: Any, alive: Any) -> None:
    began = time.monotonic()
    text = run("yes & echo $! > pid")
    assert time.monotonic() - began < 6
    assert "[exit code 0]" in text
    assert not alive(pid_in("pid"))


def test_a_child_that_writes_elsewhere_is_ended_too(run: Any, pid_in: Any, alive: Any) -> None:
    assert "had left it running" in run("sleep 65 > log 2>&1 & echo $! > pid")
    assert not alive(pid_in("pid"))


@needs_proc
def test_B134_a_daemon_with_a_session_of_its_own_survives_the_end_of_its_command(
    run: Any, pid_in: Any, alive: Any, tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text(
        "setsid sh -c 'echo $$ > pid; exec sleep 66' > log 2>&1 &\nwhile [ ! -s pid ]; do sleep 0.01; done\n"
    )
    assert run("sh job.sh") == "[exit code 0]"
    pid = pid_in("pid")
    assert alive(pid)
    os.killpg(pid, 9)
    while alive(pid):
        time.sleep(0.01)


def test_output_that_comes_after_the_shell_has_ended_is_still_read(run: Any) -> None:
    assert run("exec > >(sleep 0.1; cat); echo late") == "late\n[exit code 0]"


def test_stopping_the_turn_ends_the_command_at_once(run: Any, pid_in: Any, alive: Any) -> None:
    def stop() -> None:
        pid_in("pid")
        stopped.append(time.monotonic())
        run.bench.turn.stop()

    stopped: list[float] = []
    thread = threading.Thread(target=stop)
    thread.start()
    returned = run.returned("echo partial; echo $$ > pid; sleep 67", timeout=60)
    assert time.monotonic() - stopped[0] < 2
    thread.join()
    assert returned.failed
    assert returned.parts[0].text.startswith("partial\n[stopped by the user after ")
    assert not alive(pid_in("pid"))


def test_stopping_the_turn_kills_what_ignores_it(run: Any, pid_in: Any, alive: Any) -> None:
    def stop() -> None:
        pid_in("pid")
        run.bench.turn.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    run("""trap "" TERM; echo $$ > pid; sleep 68; sleep 68""", timeout=60)
    thread.join()
    assert not alive(pid_in("pid"))


def test_a_turn_that_is_stopped_already_runs_next_to_nothing(run: Any) -> None:
    run.bench.turn.stop()
    began = time.monotonic()
    assert run.returned("sleep 69").failed
    assert time.monotonic() - began < 5


def test_the_time_of_the_whole_run_bounds_a_command(run: Any) -> None:
    run.bench.with_deadline(time.monotonic() + 1.5)
    began = time.monotonic()
    assert run.returned("sleep 70").failed
    assert time.monotonic() - began < 10


def test_no_descriptor_and_no_process_is_left_behind(run: Any) -> None:
    run("true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        run("echo x | cat")
    run("sleep 71", timeout=1)
    assert len(os.listdir("/dev/fd")) == before


@needs_proc
def test_a_process_is_read_whatever_its_name(tmp_path: Path) -> None:
    mine = read_process(os.getpid())
    assert mine is not None
    assert (mine.parent, mine.group, mine.session) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert mine.is_alive
    assert read_process(2**22 + 1) is None
    assert all(p.pid != os.getpid() for p in session_of(os.getpid()))


def test_commands_of_several_sessions_run_side_by_side(run: Any, bench: Any) -> None:
    texts: list[str] = []
    sessions = [type(run)(bench.other_session()) for _ in range(8)]
    threads = [
        threading.Thread(target=lambda s=s, n=n: texts.append(s(f"sleep 0.1; echo {n}")))
        for n, s in enumerate(sessions)
    ]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(texts) == [f"{n}\n[exit code 0]" for n in range(8)]
