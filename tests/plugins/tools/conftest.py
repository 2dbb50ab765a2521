"""A session's context for running single tools: real directories, a turn that can be stopped."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes import Tool, ToolContext
from hermes.kernel.toolspec import call_tool

_numbers = itertools.count()


class Turn:
    """The turn's interrupt, as a tool sees it; `stop` is what Ctrl-C does."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._callbacks: list[Callable[[], None]] = []

    def __call__(self) -> bool:
        return self._stopped.is_set()

    def wait(self, timeout_s: float) -> bool:
        return self._stopped.wait(timeout_s)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._stopped.is_set():
            callback()
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def stop(self) -> None:
        self._stopped.set()
        for callback in list(self._callbacks):
            callback()


class NoSessions:
    def search(self, query: str, *, limit: int, exclude: str | None = None) -> Sequence[Any]:
        return ()

    def messages(self, session_id: str) -> Sequence[Any]:
        return ()

    def recent(self, *, limit: int, exclude: str | None = None) -> Sequence[Any]:
        return ()


class Bench:
    """Calls tools in one session, as the runner does; `settings` are the plugin's own."""

    def __init__(self, cwd: Path, **settings: Any) -> None:
        self.cwd, self.turn, self.said = cwd, Turn(), list[str]()
        self.context = ToolContext(
            f"session-{next(_numbers)}", "call", cwd, cwd / ".hermes-home", self.turn, self.said.append,
            lambda *_: None, lambda _: (), NoSessions(), {}, settings,
        )  # fmt: skip

    def __call__(self, tool: Tool, **arguments: Any) -> str:
        returned = call_tool(tool, arguments, self.context)
        return "\n".join(p.text for p in returned.parts if hasattr(p, "text"))

    def other_session(self) -> Bench:
        return Bench(self.cwd, **self.context.settings)

    def with_deadline(self, deadline: float) -> Bench:
        self.context = replace(self.context, deadline=deadline)
        return self


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, protect_paths=["~/.ssh", "**/.env", str(tmp_path / "vault")])
