"""What a turn knows at its start and keeps while it runs, and what it gives back."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hermes.kernel.effects import (
    Answered,
    Append,
    Change,
    Effect,
    Fault,
    Learn,
    Outcome,
    Ran,
    Rewrite,
    Steer,
    Stopped,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.history import joined
from hermes.kernel.messages import Json, Message, ToolResult, Usage, UserInput

Effects: TypeAlias = "Generator[Effect, Outcome, Any]"
"""A part of a turn: yields effects, is sent their outcomes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds one turn; None is no limit. `attempts` is for one target, before the next of the chain."""

    iterations: int | None = 90
    warn_model_at: tuple[float, ...] = (0.7, 0.9)
    stop_after_failing_calls: int = 5
    attempts: int = 3
    output_cap: int | None = None


class Ended(Exception):
    """Raised inside a turn to end it with `reason`; never leaves it. `detail` is one line for a person."""

    def __init__(self, reason: EndReason, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(detail)


@dataclass(slots=True)
class TurnState:
    """The runtime fills the first block; it is plain data and is written with the turn row.

    `messages` is the live conversation, owned by the turn: it changes this list first and yields the `Record` next.
    `known` is the durable session state. `targets` is the chain, the primary first. `iterations` and `attempts` are
    those already used when a turn goes on after a crash. `auxiliary` are the targets of auxiliary calls, in their
    order, and `blind` those of both that cannot be shown images. `schema` is a JSON Schema that the answer must fit.
    `only_read` are the tools that change nothing: a name that is merely similar may be taken for one of them.
    `windows` are the context windows of the targets in tokens, as far as they are known; `window_tokens` is that of the
    target in use. `unrecorded` was learned where nothing could be recorded; it goes with the next Record that ends.
    """

    session_id: str
    turn: int
    messages: list[Message]
    tool_names: frozenset[str] = frozenset()
    idempotent: frozenset[str] = frozenset()
    call_ids: set[str] = field(default_factory=set)
    known: dict[str, Json] = field(default_factory=dict)
    targets: tuple[str, ...] = ("primary",)
    window_tokens: int | None = None
    iterations: int = 0
    attempts: int = 0
    limits: Limits = field(default_factory=Limits)
    auxiliary: tuple[str, ...] = ()
    blind: frozenset[str] = frozenset()
    schema: Mapping[str, Json] | None = None
    windows: Mapping[str, int | None] = field(default_factory=dict)
    only_read: frozenset[str] = frozenset()

    target: int = 0
    usage: Usage = field(default_factory=Usage)
    exhausted: EndReason | None = None
    steering: list[Steer] = field(default_factory=list)
    input: UserInput | None = None
    prompt_tokens: int = 0
    streamed: str = ""
    unrecorded: list[Learn] = field(default_factory=list)

    @property
    def target_name(self) -> str:
        return self.targets[self.target]

    # ---- the ways in which a turn changes its conversation: the list first, the change for the Record next ----------

    def append(self, *messages: Message, taken: tuple[int, ...] = ()) -> Append:
        self.messages.extend(messages)
        return Append(messages, taken)

    def rewrite(
        self,
        start: int,
        messages: tuple[Message, ...],
        why: str,
        *,
        taken: tuple[int, ...] = (),
        new_epoch: bool = False,
    ) -> Rewrite:
        """Replace everything from `start` on."""
        stop = len(self.messages)
        self.messages[start:] = messages
        return Rewrite(start, stop, messages, why, new_epoch, taken)

    def place(self, message: Message, *more: Message, taken: tuple[int, ...] = ()) -> Change:
        """Put an assistant message at the end, as one with a cut-off text that stands there, and `more` after it."""
        tail = self.messages[-1]
        if tail.origin != "partial":
            return self.append(message, *more, taken=taken)
        return self.rewrite(len(self.messages) - 1, (joined(tail, message), *more), "continuation", taken=taken)

    def learn(self, key: str, value: Json, ttl_s: float | None = None) -> Learn:
        if value is None:
            self.known.pop(key, None)
        else:
            self.known[key] = value
        return Learn(key, value, ttl_s)

    def take_state(self, results: tuple[ToolResult, ...]) -> None:
        """Take over session state that the journal wrote with these results; a None value forgets its key."""
        for result in results:
            for key, value in (result.state or {}).items():
                self.learn(key, value)

    def take_over(self, outcome: Answered | Fault | Ran | Stopped) -> None:
        """What comes with every outcome: what it cost, the budget that it used up, and steering."""
        self.usage = self.usage + outcome.spent.usage
        if self.exhausted is None:
            self.exhausted = outcome.spent.exhausted
        self.steering.extend(outcome.steering)


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended.

    `answer` None: it gave none; `partial` is then what there is of one. `detail` is one line for a person. `steering`
    is what the user said meanwhile and no message took. `structured` is the answer as the JSON that `schema` asked for,
    None when there was no schema or it does not fit. `stored` False: a write failed, so not all of it is on disk.
    """

    session_id: str
    turn: int
    reason: EndReason
    answer: str | None
    detail: str = ""
    partial: str = ""
    iterations: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    stored: bool = True
    steering: tuple[str, ...] = ()
    model: str = ""
    messages: tuple[Message, ...] = ()
    structured: Json = None

    @property
    def text(self) -> str:
        """The answer, or what there is of one."""
        return self.answer if self.answer is not None else self.partial
