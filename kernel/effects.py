"""What a turn may ask of the world (six effects), what a batch may ask (acts), and what they get back.

All of it is plain data: the real runtime, the simulator and the replayer perform the same effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from hermes.kernel.endings import EndReason
from hermes.kernel.events import Event
from hermes.kernel.messages import Image, Json, Message, ModelReply, ModelRequest, Text, ToolCall, ToolResult, Usage

# ---- What comes with an outcome -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spent:
    """What this outcome cost, children included, and whether the shared budget is used up.

    `exhausted` is None, or the budget that is (`budget_tokens`, `budget_cost`, `budget_time`).
    """

    usage: Usage = field(default_factory=Usage)
    exhausted: EndReason | None = None


@dataclass(frozen=True, slots=True)
class Steer:
    """A waiting inbox row: what the user said while the turn ran."""

    inbox_id: int
    text: str


class FaultKind(StrEnum):
    """What went wrong at a provider, one word for all of them."""

    RATE_LIMIT = "rate_limit"
    BILLING = "billing"
    OVERLOADED = "overloaded"
    AUTH = "auth"
    PERMISSION = "permission"
    MODEL_NOT_FOUND = "model_not_found"
    CONTEXT_OVERFLOW = "context_overflow"
    OUTPUT_CAP = "output_cap"
    BODY_TOO_LARGE = "body_too_large"
    IMAGE_REFUSED = "image_refused"
    BAD_REQUEST = "bad_request"
    CONTENT_POLICY = "content_policy"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    STALL = "stall"
    CONNECTION = "connection"
    TLS = "tls"
    INVALID_REPLY = "invalid_reply"
    BUDGET = "budget"
    """The runtime would not pay for the call: nothing was sent."""
    PLUGIN = "plugin"
    """A plugin around the call failed."""
    UNKNOWN = "unknown"


class RepairKind(StrEnum):
    """The part of a request that a provider refused, where the request without it may pass."""

    PARAMETER = "parameter"
    THINKING = "thinking"
    """Signed thoughts or encrypted reasoning of earlier replies."""
    IMAGES = "images"
    TOOL_IMAGES = "tool_images"
    """Pictures inside tool results, where only text may stand."""
    GRAMMAR = "grammar"
    """`pattern` and `format` in the tools' schemas."""


@dataclass(frozen=True, slots=True)
class Answered:
    reply: ModelReply
    spent: Spent = field(default_factory=Spent)
    steering: tuple[Steer, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A call of the model that gave no reply.

    `detail` is one line for a person, without secrets. `limit_tokens` is a stated context window. `partial` is the text
    that had been streamed. `budget` says which budget refused, for kind `budget`. `other_keys` of the same provider
    are ready, where another key may get past it. `row` of the table recognised it. `input_tokens` is the size of the
    request as the provider counted it, `output_limit_tokens` the largest output that would have passed. `repair` says
    which part was refused: `subject` is the name of the parameter, or what is wrong with the images (`too_large`,
    `too_many`, `unsupported`, `invalid`), `subject_limit` bytes of one image or a count of images.
    """

    kind: FaultKind
    detail: str = ""
    retry_after_s: float | None = None
    limit_tokens: int | None = None
    partial: str = ""
    budget: EndReason | None = None
    spent: Spent = field(default_factory=Spent)
    steering: tuple[Steer, ...] = ()
    other_keys: int = 0
    row: str = ""
    status: int | None = None
    input_tokens: int | None = None
    output_limit_tokens: int | None = None
    repair: RepairKind | None = None
    subject: str = ""
    subject_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """One result a call, in the order of the calls."""

    results: tuple[ToolResult, ...]
    spent: Spent = field(default_factory=Spent)
    steering: tuple[Steer, ...] = ()


# ---- Changes of a Record --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """New messages at the end; `taken` names the inbox rows that they hold."""

    messages: tuple[Message, ...]
    taken: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Messages `start` to `stop` (indices into the current list) are superseded by `messages`; nothing is deleted."""

    start: int
    stop: int
    messages: tuple[Message, ...]
    why: str
    new_epoch: bool = False
    taken: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Learn:
    """Durable session state. `value` None forgets the key; `ttl_s` None keeps it for the session's life."""

    key: str
    value: Json
    ttl_s: float | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    reason: EndReason
    answer: str | None


Change: TypeAlias = Append | Rewrite | Learn | TurnEnded

# ---- Effects --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskModel:
    """`target` is a name in `TurnState.targets`; `attempt` counts up within the turn."""

    request: ModelRequest
    target: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RunTools:
    """`calls` holds only calls without a problem. Idempotent by call id: what the journal has is not run again."""

    calls: tuple[ToolCall, ...]
    may_start: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """One transaction, all or nothing; never fails, is never interrupted."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Consult:
    """`question` turn_end: facts {answer, objections}; recovery: facts {fault, attempts, target}; compression: facts
    {reason, messages, window_tokens}. The outcome is the answer, None when there is none or it failed."""

    question: Literal["turn_end", "recovery", "compression"]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Notify:
    event: Event


Effect: TypeAlias = AskModel | RunTools | Record | Consult | Wait | Notify
Outcome: TypeAlias = Answered | Fault | Ran | Any
"""What `send` gives a turn: Answered or Fault for AskModel, Ran for RunTools, an answer or None for Consult."""


class Stopped(BaseException):
    """Thrown into a turn at AskModel, RunTools, Wait or Consult, at most once a turn.

    It carries what had happened: the text streamed so far, one result for every call of a RunTools. `silent_s` is how
    long the model that was asked had sent nothing.
    """

    def __init__(
        self,
        reason: EndReason,
        *,
        partial: str = "",
        results: tuple[ToolResult, ...] = (),
        spent: Spent | None = None,
        steering: tuple[Steer, ...] = (),
        detail: str = "",
    ) -> None:
        self.reason, self.partial, self.results, self.detail = reason, partial, results, detail
        self.spent, self.steering = spent or Spent(), steering
        self.silent_s = 0.0
        super().__init__(reason.value)


# ---- Answers of Consult ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Objection:
    """The answer of `choose_turn_end` that keeps the turn going: the model reads `message`."""

    message: str


@dataclass(frozen=True, slots=True)
class RecoveryChoice:
    """The answer of `choose_recovery`: retry the target after `wait_s`, move to the next fallback, or give up."""

    action: Literal["retry", "fallback", "give_up"]
    wait_s: float = 0.0


# ---- Acts of a batch ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What the journal knows of a call that was started.

    `status` is "started", or the status of its `result`. `child` names the session of a delegated child.
    """

    call_id: str
    status: str
    arguments: Mapping[str, Json]
    result: ToolResult | None = None
    child: str | None = None


@dataclass(frozen=True, slots=True)
class Recall:
    """Ask the journal for what it knows of these calls. Outcome: dict call id → CallRecord, only those known."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournalStarted:
    """Written before the tools run: the effective arguments of each call. Outcome None."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class JournalFinished:
    """The whole result with its session state, in one transaction. Outcome None."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class ConsultCall:
    """What hooks and the tool itself say of a call before it may run. Outcome: (CallOpinion, Finding or None)."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class CallOpinion:
    """`verdict` allow means no opinion. `hard_line` is never lifted by anybody."""

    verdict: Literal["allow", "ask", "block"] = "allow"
    reason: str = ""
    hard_line: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person: may this call run? `subject` is what rules match, such as the command."""

    call: ToolCall
    reason: str
    subject: str = ""


ApprovalAnswer = Literal["once", "session", "always", "deny", "nobody", "stopped"]


@dataclass(frozen=True, slots=True)
class Ask:
    """Outcome: ApprovalAnswer; `nobody` when there is no one to ask."""

    request: ApprovalRequest


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Save what these calls may change. Outcome None; a failure is logged, never fatal."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """Start these calls together. Outcome: True when they were started, False when the turn was stopped before."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """Wait for the next of the started calls to end. Outcome: CallEnd, or None when the turn was stopped.

    None comes after the grace; what had ended by then was handed out before.
    """


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a running call ended: `parts` as the tool gave them, cleaned of lone surrogates."""

    call_id: str
    status: Literal["ok", "error", "timeout"]
    parts: tuple[Text | Image, ...]
    state: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Spill:
    """Save a text that is too long for the conversation. Outcome: the path, or None when it could not be written."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ShowBatch:
    """Tell front end and observers; nothing depends on it. Outcome None."""

    event: Event


Act: TypeAlias = (
    Recall | JournalStarted | JournalFinished | ConsultCall | Ask | Checkpoint | Execute | Collect | Spill | ShowBatch
)
