"""The roles that tool, memory, prompt and other plugins play, and the data that crosses between them and the kernel.

Nothing here does anything. `ToolContext` is filled by `kernel/agent.py`; a plugin author imports all of it from
`hermes`. Providers and wire formats stand in `providers.py`, session stores in `sessions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Image, Json, Message, Purpose, Status, Text, Usage
from hermes.kernel.providers import ToolSchema
from hermes.kernel.sessions import SessionSearch

# ---- Tools ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """What a tool says about a call of its own before it runs: it needs a person, or must never run (`hard_line`)."""

    reason: str
    hard_line: bool = False
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """For a tool that has more to say than a text: parts, session state, or a failure that it describes itself."""

    parts: tuple[Text | Image, ...] | str
    state: Mapping[str, Json] | None = None
    failed: bool = False


ToolOutput: TypeAlias = "str | Json | ToolReturn | Sequence[Text | Image] | None"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `run` gets the arguments by name, and `context` when its signature has a parameter of that name.

    `reads` and `writes` name resources as templates over the arguments: "path:{path}", "host:{host}", "memory".
    Paths are resolved against the session's working directory. `resources` replaces both where a template is not
    enough. A tool that declares nothing runs alone, as does an `exclusive` one. An `idempotent` tool may run again
    after a crash. `deadline_s` None takes the settings'. `assess` looks at a call before it runs.
    `result_max_chars` None takes the settings'; 0 means that the result is never spilled (read_file).
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    run: Callable[..., Any]
    toolset: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    resources: Callable[[Mapping[str, Json]], Resources] | None = None
    exclusive: bool = False
    idempotent: bool = False
    deadline_s: float | None = None
    assess: Callable[[Mapping[str, Json], ToolContext], Finding | None] | None = None
    available: Callable[[], bool] | None = None
    result_max_chars: int | None = None

    @property
    def only_reads(self) -> bool:
        """It declares that whatever it is given, it changes nothing."""
        return bool(self.reads and self.idempotent) and not (self.writes or self.resources or self.exclusive)

    @property
    def schema(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, self.parameters)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one call touches, resolved: `path:/abs/x`, `host:example.com`, or any word. `exclusive` runs alone."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class ChildTask:
    goal: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a delegated child ended; `answer` is None when it gave none."""

    session_id: str
    reason: EndReason
    answer: str | None
    iterations: int
    seconds: float
    usage: Usage


class Cancelled(Protocol):
    """The turn's interrupt as a tool sees it."""

    def __call__(self) -> bool: ...

    def wait(self, timeout_s: float) -> bool:
        """Sleep at most so long; True as soon as the turn is stopped."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when the turn is stopped (at once when it is already); returns how to take it back."""
        ...


class ModelAsker(Protocol):
    """How a tool asks a model on the side."""

    def __call__(
        self,
        prompt: str,
        *,
        images: Sequence[Image] = (),
        schema: Mapping[str, Json] | None = None,
        system: str = "",
    ) -> str:
        """What the auxiliary model (the settings' `auxiliary.model`, else the main one) answers to this alone.

        It knows nothing of the conversation and has no tools. With `schema` the text is JSON that fits it. It is paid
        for from the run's budget, and ends with the call's deadline and with the turn. Raises ToolError with what went
        wrong.
        """
        ...


def _no_model(
    prompt: str, *, images: Sequence[Image] = (), schema: Mapping[str, Json] | None = None, system: str = ""
) -> str:
    raise ToolError("there is no model to ask here")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running call may use of the kernel. Filled by `agent.py`; safe to use from the call's own thread.

    `ask` returns what the person said, or None when there is no one to ask; the deadline stands still meanwhile.
    `spawn` runs children to their end and returns one result a task, in order. `ask_model` asks a model on the side.
    `state` is the session's state as it was when the call began. `settings` is the plugin's own part of the settings.
    `deadline` is in `time.monotonic()`.
    """

    session_id: str
    call_id: str
    cwd: Path
    home: Path
    cancelled: Cancelled
    progress: Callable[[str], None]
    ask: Callable[[str, Sequence[str]], str | None]
    spawn: Callable[[Sequence[ChildTask]], Sequence[ChildResult]]
    search: SessionSearch
    state: Mapping[str, Json]
    settings: Mapping[str, Json]
    deadline: float | None = None
    depth: int = 0
    memory: MemoryBackend | None = None
    ask_model: ModelAsker = _no_model


# ---- Memory, prompt, context ----------------------------------------------------------------------------------------

MemoryTarget = Literal["memory", "user"]


@dataclass(frozen=True, slots=True)
class MemoryOperation:
    action: Literal["add", "replace", "remove"]
    content: str = ""
    old_text: str = ""


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """`ok` False: nothing was written, and `message` says why and what to do. `entries` is given only on a failure."""

    ok: bool
    message: str
    usage: str = ""
    entries: tuple[str, ...] = ()


class MemoryBackend(Protocol):
    name: str

    def snapshot(self) -> str:
        """The text for the system prompt, frozen for an epoch; "" when empty."""
        ...

    def apply(self, target: MemoryTarget, operations: Sequence[MemoryOperation]) -> MemoryOutcome:
        """All of the operations or none, judged against the final size; safe against other processes."""
        ...


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What a prompt section may look at. `date` is the day the epoch began, ISO form. `notice` shows a person one."""

    session_id: str
    cwd: Path
    home: Path
    model: str
    provider: str
    platform: str
    date: str
    tool_names: frozenset[str]
    identity: str | None
    append: str | None
    caller: str | None
    context_files: tuple[str, ...]
    section_max_chars: int
    memory: MemoryBackend | None = None
    depth: int = 0
    notice: Callable[[str], None] = field(default=lambda line: None, compare=False, repr=False)


class PromptSection(Protocol):
    name: str

    def build(self, context: PromptContext) -> str | None:
        """The section's text, or None to be left out. Called once an epoch."""
        ...


class ContextEngine(Protocol):
    """Replaces compression as a whole."""

    name: str

    def compress(self, messages: Sequence[Message], window_tokens: int | None) -> Sequence[Message] | None:
        """A shorter valid conversation, or None when it is not possible."""
        ...


class Platform(Protocol):
    name: str

    def serve(self, arguments: Sequence[str]) -> int: ...


class BatchEngine(Protocol):
    name: str

    def run_all(self, prompts: Iterable[str], run_one: Callable[[str], Json]) -> Iterator[Json]: ...


# ---- What a hook sees -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelCallInfo:
    """For `before/after_model_call`; the fields after `purpose` (the ModelRequest's) are set in `after`."""

    session: str
    target: str
    attempt: int
    messages: int
    purpose: Purpose = "turn"
    seconds: float = 0.0
    stop_reason: str = ""
    fault: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """For `before/after_tool_call`; the fields after `arguments` are set in `after`."""

    session: str
    call_id: str
    name: str
    arguments: Mapping[str, Json]
    status: Status | Literal[""] = ""
    seconds: float = 0.0
    result_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """For turn hooks. `answer` is the candidate in `choose_turn_end`, the answer in `after_turn`."""

    session: str
    turn: int
    text: str
    cwd: str = ""
    answer: str | None = None
    reason: str = ""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class CompressionInfo:
    """For `before/after_compression`; `tokens_after` is set in `after`, None when it was not possible."""

    session: str
    reason: str
    messages: int
    tokens_before: int
    tokens_after: int | None = None


@dataclass(frozen=True, slots=True)
class DelegateInfo:
    """For `before/after_delegate`; `session` is the parent's, the fields after `goal` are set in `after`."""

    session: str
    call_id: str
    child: str
    goal: str
    reason: str = ""
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
