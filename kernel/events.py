"""Everything a front end or an observer may see happen.

Each event is a frozen dataclass; `event_to_json` gives the versioned form that `--output-format stream-json` prints.
`session` is stamped by the runtime: events of delegated children carry the child's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from hermes.kernel.messages import Usage

EVENTS_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    model: str
    provider: str
    directory: str
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    turn: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStarted(Event):
    """`purpose` is the ModelRequest's: no text is streamed of a call that is not for the conversation."""

    attempt: int
    target: str
    purpose: str = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    attempt: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta(Event):
    attempt: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDropped(Event):
    """What was shown of this attempt is void."""

    attempt: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallEnded(Event):
    attempt: int
    seconds: float
    stop_reason: str = ""
    fault: str = ""
    usage: Usage = field(default_factory=Usage)
    target: str = ""
    purpose: str = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage(Event):
    """A reply was recorded; `final` says that it is the answer. `text` may be empty beside calls."""

    text: str
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(Event):
    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(Event):
    call_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(Event):
    call_id: str
    name: str
    status: str
    seconds: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """A long preparation: loading a model, reading a prompt. `share` is 0 to 1, None when unknown."""

    what: str
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Event):
    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """One line that a person should see: model taken, fallback, denied, warning. Not an error."""

    kind: Literal["model", "fallback", "denied", "warning", "plugin", "store", "context", "budget", "steer"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(Event):
    turn: int
    reason: str
    answer: str | None
    detail: str = ""
    iterations: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)


EVENT_NAMES: dict[type[Event], str] = {
    SessionStarted: "session_started",
    TurnStarted: "turn_started",
    ModelCallStarted: "model_call_started",
    TextDelta: "text_delta",
    ThinkingDelta: "thinking_delta",
    AttemptDropped: "attempt_dropped",
    ModelCallEnded: "model_call_ended",
    AssistantMessage: "assistant_message",
    ToolStarted: "tool_started",
    ToolProgress: "tool_progress",
    ToolEnded: "tool_ended",
    Progress: "progress",
    Waiting: "waiting",
    Notice: "notice",
    TurnFinished: "turn_finished",
}


def event_to_json(event: Event) -> dict[str, Any]:
    """`{"v": 1, "type": name, "session": …, …fields}`."""
    return {"v": EVENTS_VERSION, "type": EVENT_NAMES[type(event)], **dataclasses.asdict(event)}
