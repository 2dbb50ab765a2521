"""`hermes run` at a terminal of its own: text as it comes, tool lines, questions."""

from __future__ import annotations

import os
import pty
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hermes.testing import call, text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="terminals as POSIX has them")


class Terminal:
    """The person's side: what stands on the screen, and what is typed."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        self.path = os.ttyname(self._slave)
        self._screen = b""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def screen(self) -> str:
        return self._screen.decode("utf-8", "replace").replace("\r\n", "\n")

    def type_after(self, shown: str, typed: str) -> Callable[[int], None]:
        """For `meanwhile`: wait until this stands on the screen, then type."""

        def act(pid: int) -> None:
            with self._changed:
                assert self._changed.wait_for(lambda: shown in self.screen, 30), self.screen
            os.write(self._master, typed.encode())

        return act

    def _read(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                with self._changed:
                    self._screen += data
                    self._changed.notify_all()
        except OSError:
            return  # Linux says so when the last other side is closed

    def close(self) -> None:
        os.close(self._slave)
        self._reader.join()
        os.close(self._master)


@contextmanager
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    try:
        yield made
    finally:
        made.close()


def test_the_answer_comes_as_it_streams_and_tool_lines_stand_on_stderr(hermes) -> None:
    hermes.server.add(call("read_file", path="absent.txt"), text("Hello\nthere."))
    with terminal() as person:
        done = hermes.run("do it", stdin=person.path, stdout=person.path, stderr=person.path)
    assert done.code == 0
    assert person.screen.count("Hello\nthere.") == 1
    assert person.screen.endswith("there.\n")
    assert "  read_file path=absent.txt  error, " in person.screen


def test_spec_13617_B101_a_question_of_the_model_is_asked_and_answered(hermes) -> None:
    hermes.server.add(call("clarify", question="Which colour?", choices=["red", "blue"]), text("Blue it is."))
    with terminal() as person:
        act = person.type_after("2. blue", "2\n")
        done = hermes.run("-i", "paint", stdin=person.path, stderr=person.path, meanwhile=act)
    assert (done.code, done.stdout) == (0, "Blue it is.\n"), person.screen
    assert '"user_response":"blue"' in str(hermes.server.requests[1].last["content"]).replace(" ", "")


def test_B101_nobody_is_asked_without_interactive_even_at_a_terminal(hermes) -> None:
    hermes.server.add(call("terminal", command="rm -rf ~/everything"), text("I may not."))
    with terminal() as person:
        done = hermes.run("delete it", stdin=person.path, stderr=person.path)
    assert (done.code, done.stdout) == (0, "I may not.\n"), person.screen


def test_spec_13617_B101_a_dangerous_command_is_asked_about_and_runs_when_allowed(hermes) -> None:
    (hermes.work / "build").mkdir()
    hermes.server.add(call("terminal", command="rm -rf build"), text("Gone."))
    with terminal() as person:
        act = person.type_after("allow?", "y\n")
        done = hermes.run("-i", "clean up", stdin=person.path, stderr=person.path, meanwhile=act)
    assert (done.code, done.stdout) == (0, "Gone.\n"), person.screen
    assert not (hermes.work / "build").exists()


def test_B101_ctrl_c_while_a_question_stands_ends_the_run(hermes) -> None:
    hermes.server.add(call("clarify", question="Which colour?"), text("x"))
    with terminal() as person:
        act = person.type_after("Which colour?", "\x03")
        done = hermes.run("-i", "-o", "json", "paint", stdin=person.path, stderr=person.path, meanwhile=act)
    assert (done.code, done.json["reason"]) == (130, "interrupted"), person.screen
    assert hermes.rows()[0]["end_reason"] == "interrupted"
