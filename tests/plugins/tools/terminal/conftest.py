"""Run the terminal tool as the runner does: the state that a call sets is what the next one sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes import ToolReturn
from hermes.kernel.toolspec import call_tool
from hermes.plugins.tools.terminal.processes import read_process
from hermes.plugins.tools.terminal.tool import terminal


class Terminal:
    """One session; `bench` has its context and the turn that can be stopped."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench

    def __call__(self, command: str, **arguments: Any) -> str:
        return text_of(self.returned(command, **arguments))

    def returned(self, command: str, **arguments: Any) -> ToolReturn:
        given = call_tool(terminal, {"command": command, **arguments}, self.bench.context)
        if given.state:
            self.bench.context = replace(self.bench.context, state={**self.bench.context.state, **given.state})
        return given

    def settings(self, **settings: Any) -> Terminal:
        self.bench.context = replace(self.bench.context, settings={**self.bench.context.settings, **settings})
        return self


def text_of(returned: ToolReturn) -> str:
    return "\n".join(p.text for p in returned.parts if not isinstance(p, str) and hasattr(p, "text"))


@pytest.fixture
def run(bench: Any) -> Terminal:
    return Terminal(bench)


@pytest.fixture
def pid_in(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Read the number of a process that a command wrote into a file; what is left of it is ended after the test."""
    seen: list[int] = []

    def read(name: str) -> int:
        until = time.monotonic() + 10
        while not (text := (tmp_path / name).read_text() if (tmp_path / name).exists() else "").endswith("\n"):
            assert time.monotonic() < until, f"{name} was never written"
            time.sleep(0.01)
        seen.append(int(text))
        return seen[-1]

    yield read
    assert not [pid for pid in seen if is_alive(pid)]


def is_alive(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.is_alive


@pytest.fixture
def alive() -> Callable[[int], bool]:
    return is_alive
