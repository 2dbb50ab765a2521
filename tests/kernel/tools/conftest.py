"""A ToolContext for calling kernel tools as the kernel does: by `call_tool`, over a real in-memory store."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.journal import MemoryStore
from hermes.kernel.roles import ChildResult, ChildTask, Tool, ToolContext, ToolReturn
from hermes.kernel.sessions import SessionStore
from hermes.kernel.toolspec import call_tool


class NeverCancelled:
    def __call__(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> bool:
        return False

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


def nobody(question: str, choices: Sequence[str]) -> str | None:
    return None


def no_children(tasks: Sequence[ChildTask]) -> Sequence[ChildResult]:
    raise AssertionError("a child was started")


class Calls:
    """Calls one tool after the other, and carries the session's state from each to the next."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context

    def give(self, **fields: Any) -> Calls:
        self.context = replace(self.context, **fields)
        return self

    def __call__(self, tool: Tool, /, **arguments: Any) -> Any:
        """The result as JSON; a failed one, or one that is no JSON, as its ToolReturn."""
        result = call_tool(tool, arguments, self.context)
        if result.state:
            self.give(state={**self.context.state, **result.state})
        try:
            return result if result.failed else json.loads(text_of(result))
        except ValueError:
            return result


def text_of(result: ToolReturn) -> str:
    return result.parts if isinstance(result.parts, str) else "".join(getattr(p, "text", "") for p in result.parts)


@pytest.fixture
def clock() -> Callable[[], float]:
    """A clock that goes on by a minute at each look."""
    minutes = itertools.count()
    return lambda: 1_764_000_000.0 + 60 * next(minutes)


@pytest.fixture
def store(clock: Callable[[], float]) -> SessionStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def call(store: SessionStore, tmp_path: Path) -> Calls:
    session = store.create(directory=str(tmp_path), model="m")
    state: Mapping[str, Any] = {}
    return Calls(
        ToolContext(
            session_id=session,
            call_id="call_1",
            cwd=tmp_path,
            home=tmp_path,
            cancelled=NeverCancelled(),
            progress=lambda text: None,
            ask=nobody,
            spawn=no_children,
            search=store,
            state=state,
            settings={},
        )
    )


@pytest.fixture
def text() -> Callable[[ToolReturn], str]:
    return text_of
