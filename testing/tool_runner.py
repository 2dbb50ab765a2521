"""Run one tool as the kernel would, with a context that is complete and needs no agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hermes.kernel.coercion import coerce
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Image, Json, Text, Usage, clean, clean_json
from hermes.kernel.roles import ChildResult, ChildTask, MemoryBackend, Tool, ToolContext
from hermes.kernel.sessions import SearchHit, SessionInfo, StoredMessage
from hermes.kernel.toolspec import call_tool


class Cancelling:
    """The turn's interrupt as a tool sees it; `cancel` is what the user does."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            callbacks = self._callbacks
            self._callbacks = []
        for callback in callbacks:
            callback()

    def __call__(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        return self._event.wait(timeout_s)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class NoSessions:
    """A search over no past sessions."""

    def search(self, query: str, *, limit: int, exclude: str | None = None) -> Sequence[SearchHit]:
        return ()

    def messages(self, session_id: str) -> Sequence[StoredMessage]:
        return ()

    def recent(self, *, limit: int, exclude: str | None = None) -> Sequence[SessionInfo]:
        return ()


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended: `text` is what the model reads. `error` is what a tool raised that is not a ToolError."""

    ok: bool
    text: str
    parts: tuple[Text | Image, ...] = ()
    state: Mapping[str, Json] | None = None
    progress: tuple[str, ...] = ()
    error: Exception | None = None


@dataclass(slots=True)
class ToolRunner:
    """Runs tools in this thread, in `cwd`.

    `answers` are what the person says to the tool's questions, in order; then there is nobody to ask. `children` answer
    delegated tasks, by default with the goal itself. `replies` are what a model says to `ask_model`, in order; then
    there is none, and `prompts` are what it was asked. `cancelled.cancel()` from another thread stops the turn.
    """

    cwd: Path
    home: Path
    answers: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    state: dict[str, Json] = field(default_factory=dict)
    settings: dict[str, Json] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    children: Callable[[ChildTask], str | None] = lambda task: task.goal
    memory: MemoryBackend | None = None
    cancelled: Cancelling = field(default_factory=Cancelling)
    _count: int = 0
    _progress: list[str] = field(default_factory=list)

    def __call__(self, tool: Tool, /, **arguments: Json) -> ToolOutcome:
        """Run the tool with these arguments, fitted to its schema as the kernel does it."""
        return self.run(tool, arguments)

    def run(self, tool: Tool, arguments: Mapping[str, Json]) -> ToolOutcome:
        fitted, problem = coerce(clean_json(dict(arguments)), tool.parameters)
        if problem is not None:
            return ToolOutcome(False, problem)
        self._progress = []
        try:
            made = call_tool(tool, fitted, self.context())
        except ToolError as error:
            return ToolOutcome(False, clean(str(error)), progress=tuple(self._progress))
        except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
            text = f"{type(error).__name__}: {error}"
            return ToolOutcome(False, clean(text), progress=tuple(self._progress), error=error)
        parts = made.parts if isinstance(made.parts, tuple) else (Text(made.parts),)
        if made.state:
            self.state = {**self.state, **made.state}
        words = "\n".join(p.text for p in parts if isinstance(p, Text))
        return ToolOutcome(not made.failed, clean(words), parts, made.state, tuple(self._progress))

    def context(self) -> ToolContext:
        """The context of the next call."""
        self._count += 1
        return ToolContext(
            session_id="test-session",
            call_id=f"call_{self._count}",
            cwd=self.cwd,
            home=self.home,
            cancelled=self.cancelled,
            progress=lambda text: self._progress.append(text),
            ask=self._ask,
            spawn=self._spawn,
            search=NoSessions(),
            state=dict(self.state),
            settings=dict(self.settings),
            memory=self.memory,
            ask_model=self._ask_model,
        )

    def _ask(self, question: str, choices: Sequence[str]) -> str | None:
        self.questions.append(question)
        return self.answers.pop(0) if self.answers else None

    def _ask_model(
        self, prompt: str, *, images: Sequence[Image] = (), schema: Mapping[str, Json] | None = None, system: str = ""
    ) -> str:
        self.prompts.append(prompt)
        if not self.replies:
            raise ToolError("there is no model to ask here")
        return self.replies.pop(0)

    def _spawn(self, tasks: Sequence[ChildTask]) -> Sequence[ChildResult]:
        return [self._child(place, task) for place, task in enumerate(tasks)]

    def _child(self, place: int, task: ChildTask) -> ChildResult:
        answer = self.children(task)
        reason = EndReason.COMPLETED if answer is not None else EndReason.EMPTY_ANSWER
        return ChildResult(f"test-child-{place}", reason, answer, 1, 0.0, Usage())


def tool_named(tools: Sequence[Tool], name: str) -> Tool:
    """The tool of that name; raises LookupError that names those there are."""
    for tool in tools:
        if tool.name == name:
            return tool
    raise LookupError(f"no tool {name!r} among {', '.join(t.name for t in tools) or 'none'}")
