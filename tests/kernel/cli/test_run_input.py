"""Where the prompt comes from, what a person at the terminal answers, what signals do."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.kernel.cli.prompt_input import read_prompt
from hermes.kernel.errors import UsageError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and terminals as POSIX has them")
DEADLINE_S = 20


def told_nothing(text: str) -> None:
    raise AssertionError(f"told: {text}")


@pytest.fixture
def stdin_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Make a descriptor the standard input of this process."""
    opened = []

    def set_stdin(descriptor: int) -> None:
        stream = open(descriptor, encoding="utf-8")  # noqa: SIM115
        opened.append(stream)
        monkeypatch.setattr(sys, "stdin", stream)

    yield set_stdin
    for stream in opened:
        stream.close()


def pipe_of(data: bytes) -> int:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


# ---- The prompt -----------------------------------------------------------------------------------------------------


def test_several_words_are_joined(stdin_of) -> None:
    stdin_of(os.open(os.devnull, os.O_RDONLY))
    assert read_prompt(("what", "is", "this"), None, told_nothing) == "what is this"


def test_a_pipe_alone_is_the_prompt(stdin_of) -> None:
    stdin_of(pipe_of("frage: ◕‿◕\n".encode()))
    assert read_prompt((), None, told_nothing) == "frage: ◕‿◕"


def test_a_pipe_beside_a_prompt_is_context(stdin_of) -> None:
    stdin_of(pipe_of(b"line\n"))
    assert read_prompt(("review this",), None, told_nothing) == "review this\n\n<stdin>\nline\n</stdin>"


def test_an_empty_pipe_beside_a_prompt_adds_nothing(stdin_of) -> None:
    stdin_of(pipe_of(b"\n"))
    assert read_prompt(("review",), None, told_nothing) == "review"


def test_a_file_is_the_prompt(stdin_of, tmp_path: Path) -> None:
    stdin_of(os.open(os.devnull, os.O_RDONLY))
    file = tmp_path / "task.md"
    file.write_bytes("\ufeffdo ◕ it\r\n".encode())  # B022: UTF-8 with a mark, whatever the locale
    assert read_prompt((), str(file), told_nothing) == "do ◕ it"


def test_words_come_before_a_file_and_a_pipe_after(stdin_of, tmp_path: Path) -> None:
    stdin_of(pipe_of(b"piped"))
    (tmp_path / "f").write_text("from file", encoding="utf-8")
    text = read_prompt(("words",), str(tmp_path / "f"), told_nothing)
    assert text == "words\n\nfrom file\n\n<stdin>\npiped\n</stdin>"


def test_minus_is_standard_input(stdin_of) -> None:
    stdin_of(pipe_of(b"piped\n"))
    assert read_prompt((), "-", told_nothing).strip() == "piped"


def test_B022_a_file_that_is_not_utf_8_is_an_error_that_names_it(stdin_of, tmp_path: Path) -> None:
    (tmp_path / "latin1.txt").write_bytes("é".encode("cp1252"))
    with pytest.raises(UsageError, match=r"latin1\.txt: not UTF-8 at byte 0"):
        read_prompt((), str(tmp_path / "latin1.txt"), told_nothing)


def test_a_file_that_is_missing_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: cannot be read: No such file"):
        read_prompt((), str(tmp_path / "absent"), told_nothing)


def test_B062_words_that_are_no_text_are_cleaned(stdin_of) -> None:
    stdin_of(os.open(os.devnull, os.O_RDONLY))
    assert read_prompt((os.fsdecode(b"a\xff"),), None, told_nothing) == "a\ufffd"


def test_a_terminal_a_device_and_a_closed_stdin_are_not_read(stdin_of, monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    for descriptor in (slave, os.open(os.devnull, os.O_RDONLY)):
        stdin_of(descriptor)
        assert read_prompt((), None, told_nothing) == ""
    os.close(master)
    monkeypatch.setattr(sys, "stdin", None)
    assert read_prompt(("x",), None, told_nothing) == "x"


def test_an_open_socket_beside_a_prompt_is_not_waited_for(stdin_of) -> None:
    ours, theirs = socket.socketpair()  # what Node gives its children for standard input, and never closes
    with ours:
        stdin_of(theirs.detach())
        assert read_prompt(("x",), None, told_nothing) == "x"


def test_a_slow_pipe_is_waited_for_and_says_so() -> None:
    script = (
        "from hermes.kernel.cli import prompt_input as room; room._HINT_AFTER_S = 0.01; "
        "print(room.read_prompt(('x',), None, lambda text: print('told', text, flush=True)))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True, encoding="utf-8") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert "waiting for standard input" in process.stdout.readline()
        process.stdin.write("late\n")
        process.stdin.close()
        assert process.stdout.read() == "x\n\n<stdin>\nlate\n</stdin>\n"


def test_too_much_input_is_refused(stdin_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.kernel.cli.prompt_input.INPUT_BYTES", 10)
    (tmp_path / "big").write_text("x" * 11, encoding="utf-8")
    with pytest.raises(UsageError, match="holds more than"):
        read_prompt((), str(tmp_path / "big"), told_nothing)
    stdin_of(pipe_of(b"x" * 11))
    with pytest.raises(UsageError, match="standard input holds more than"):
        read_prompt((), None, told_nothing)


# ---- A person at a terminal -----------------------------------------------------------------------------------------

PERSON = """
import fcntl, os, sys, termios, threading
if TERMINAL: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from hermes.kernel.cli.person import TerminalPerson
from hermes.kernel.effects import ApprovalRequest
from hermes.kernel.messages import ToolCall
person = TerminalPerson()
request = ApprovalRequest(ToolCall("c", "terminal", {}), "it deletes files", "rm -rf build")
"""


def at_terminal(script: str, typed: bytes) -> tuple[str, str]:
    """Run the script with a terminal of its own; what it printed, and what stood on the terminal."""
    master, slave = pty.openpty()
    code = PERSON.replace("TERMINAL", "True") + textwrap.dedent(script)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=slave, stdout=-1, stderr=slave, start_new_session=True, text=True
    ) as process:
        os.close(slave)
        os.write(master, typed)
        printed, _ = process.communicate(timeout=DEADLINE_S)
    shown = b""
    while select.select([master], [], [], 0)[0]:
        try:
            shown += os.read(master, 4096)
        except OSError:  # Linux: the other side is closed
            break
    os.close(master)
    return printed.strip(), shown.decode()


def test_a_choice_can_be_given_by_its_number() -> None:
    printed, shown = at_terminal("print(person.question('Which?', ['red', 'blue']))", b"2\n")
    assert printed == "blue"
    assert "  1. red\r\n  2. blue" in shown


def test_an_answer_in_own_words_is_taken_as_it_is() -> None:
    assert at_terminal("print(person.question('Which?', ['red']))", b"green\n")[0] == "green"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [(b"y\n", "once"), (b"s\n", "session"), (b"always\n", "always"), (b"n\n", "deny"), (b"what\nN\n", "deny")],
)
def test_an_approval_is_once_session_always_or_deny(typed: bytes, answer: str) -> None:
    printed, shown = at_terminal("print(person.approve(request))", typed)
    assert printed == answer
    assert "terminal: rm -rf build" in shown
    assert "it deletes files" in shown


def test_the_end_of_the_input_is_nobody() -> None:
    assert at_terminal("print(person.approve(request))", b"\x04")[0] == "nobody"


def test_a_question_that_stands_is_given_up_when_the_run_is_stopped() -> None:
    script = """
        threading.Timer(0.2, person.stop).start()
        print(person.approve(request), person.question("more?"))
    """
    assert at_terminal(script, b"")[0] == "stopped None"


def test_without_a_terminal_there_is_nobody() -> None:
    code = PERSON.replace("TERMINAL", "False") + "print(person.question('x'), person.approve(request))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout.decode().strip() == "None nobody"
    assert done.stderr == b""


# ---- Signals --------------------------------------------------------------------------------------------------------

SIGNALS = """
import os, signal, sys, threading
from hermes.kernel.cli.signals import StopSignals
stopped = threading.Event()
def stop(reason):
    print(reason, flush=True)
    stopped.set()
"""


def as_from_a_terminal() -> None:
    """A runner in the background, or under nohup, ignores signals, and so would what it starts."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            signal.signal(number, signal.SIG_DFL)


def run_signals(script: str) -> subprocess.CompletedProcess[str]:
    code = SIGNALS + textwrap.dedent(script)
    restored = None if os.name == "nt" else as_from_a_terminal
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, encoding="utf-8", timeout=DEADLINE_S, preexec_fn=restored,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reason"), [("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "hangup")]
)
def test_the_first_signal_stops_with_its_reason(name: str, reason: str) -> None:
    done = run_signals(f"""
        with StopSignals(stop):
            os.kill(os.getpid(), signal.{name})
            assert stopped.wait(10)
        print("went on")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{reason}\nwent on\n", "")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_the_second_signal_exits_at_once_even_in_the_middle_of_c_code(name: str, code: int) -> None:
    done = run_signals(f"""
        with StopSignals(stop):
            os.kill(os.getpid(), signal.SIGINT)
            stopped.wait(10)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.{name})).start()
            import sqlite3  # years of C code in which no handler runs
            sqlite3.connect(":memory:").execute(
                "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"
            )
    """)
    assert done.returncode == code


def test_handlers_are_put_back() -> None:
    done = run_signals("""
        with StopSignals(stop):
            pass
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.set_wakeup_fd(-1))
    """)
    assert done.stdout == "True -1\n"


def test_a_signal_that_was_ignored_from_the_start_stays_ignored() -> None:
    done = run_signals("""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        with StopSignals(stop):
            os.kill(os.getpid(), signal.SIGHUP)
            print(stopped.wait(0.1))
    """)
    assert done.stdout == "False\n"
