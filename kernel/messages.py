"""The one conversation model that every wire format converts to and from.

All values are frozen. Nothing here is specific to a provider, except the opaque `Replay` payloads, which are labelled
with who issued them and are never read by the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_args

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict with text keys."""

Role = Literal["user", "assistant", "tool"]
_ROLES = get_args(Role)
Origin = Literal["", "steer", "nudge", "summary", "partial", "closing", "context", "warning"]
"""Who is speaking. Of a message: "" (the user's own, the model's own), `steer`, `nudge` (kernel or plugin), `summary`,
`partial` (cut off: the next reply is joined to it), `closing` (written by the kernel so that the conversation can
rest). Of a text part in somebody else's message: `context`, `steer`, `warning`."""

Status = Literal["ok", "error", "blocked", "cancelled", "timeout", "unknown"]
"""How a call ended. `cancelled`: by an interrupt. `unknown`: it may have run, a crash took the outcome."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What an issuer wants back word for word: sent only to the same issuer, dropped for every other.

    `issuer` names wire format, host and account scope, divided by a blank; `payload` is JSON that it never reads.
    """

    issuer: str
    kind: str
    payload: Json


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    origin: Origin = ""
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: either `data` (base64) with its `media_type`, or `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    text: str
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it; `arguments` is always a JSON object.

    When the model wrote something else they are `{}` and `problem` says what was wrong and quotes it. A call with a
    `problem` is never run, not after a crash either: its result is an error with that text.
    """

    id: str
    name: str
    arguments: Mapping[str, Json]
    problem: str | None = None
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of one call. `state` is session state to be written in the same transaction; never sent."""

    call_id: str
    status: Status
    parts: tuple[Text | Image, ...]
    state: Mapping[str, Json] | None = None
    replay: Replay | None = None

    @property
    def text(self) -> str:
        return "\n".join(p.text for p in self.parts if isinstance(p, Text))


Part: TypeAlias = Text | Image | Thinking | Refusal | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    parts: tuple[Part, ...]
    origin: Origin = ""
    replay: Replay | None = None

    @property
    def text(self) -> str:
        """The visible text, parts joined by nothing; refusals count as text, thinking does not."""
        return "".join(p.text for p in self.parts if isinstance(p, (Text, Refusal)))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolResult))


class StopReason(StrEnum):
    """Why a reply ended, one word for all providers."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CUT = "cut"
    """The stream ended without a finish reason."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in disjoint buckets: `input_tokens` holds neither cache bucket, `output_tokens` holds no reasoning.

    `cost_usd` None: the price is unknown (never zero for unknown).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.reasoning_tokens
        )

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        cost = None
        if self.cost_usd is not None or other.cost_usd is not None:
            cost = (self.cost_usd or 0.0) + (other.cost_usd or 0.0)
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What one call of a model gave. `parts` hold Text, Thinking, Refusal and ToolCall, in the model's order."""

    parts: tuple[Part, ...]
    stop_reason: StopReason = StopReason.STOP
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    replay: Replay | None = None

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, (Text, Refusal)))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCall))


Purpose = Literal["turn", "summary", "compression", "auxiliary"]


@dataclass(frozen=True, slots=True)
class ImageRule:
    """Which images a target is sent; in place of the others stands a note.

    None of the messages before `start`, of the rest only the newest `most`, none whose base64 text is longer than
    `max_bytes`, and those in tool results only where `in_results` says so.
    """

    start: int = 0
    most: int | None = None
    max_bytes: int | None = None
    in_results: bool = True


ALL_IMAGES = ImageRule()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the turn wants to ask; the runtime adds prefix, target and parameters.

    `messages` is the stored conversation, the same objects each time. `note` is sent and not stored. `may_call=False`
    keeps the tools in the request but forbids calls. `purpose` summary may overdraw the budget once; compression has
    its own system prompt. `leave_out` names request parameters that this target refused. `system` is a system prompt
    in place of the epoch's, without tools (purposes compression and auxiliary). `schema` is the JSON Schema of an
    object that the answer must be. `images` says which of them this target takes.
    """

    messages: tuple[Message, ...]
    note: str = ""
    may_call: bool = True
    output_cap: int | None = None
    purpose: Purpose = "turn"
    leave_out: tuple[str, ...] = ()
    system: str | None = None
    schema: Mapping[str, Json] | None = None
    images: ImageRule = ALL_IMAGES


@dataclass(frozen=True, slots=True)
class UserInput:
    """What the user said: text and images, with context that plugins added (origin `context`).

    `taken` names the inbox rows that it holds.
    """

    parts: tuple[Text | Image, ...]
    taken: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: str) -> UserInput:
        return cls((Text(text),))


def clean(text: str) -> str:
    """Join surrogate pairs and replace lone halves by U+FFFD, so that hashing, SQLite, HTTP and stdout never fail."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(value: Json) -> Json:
    """`clean` for every text in a JSON value, keys too; gives back the same object when nothing was wrong."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        items = [clean_json(v) for v in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping):
        fields = {clean(str(k)): clean_json(v) for k, v in value.items()}
        same = len(fields) == len(value) and all(k in fields and fields[k] is v for k, v in value.items())
        return value if same else fields
    return value


# ---- JSON form (stored in the journal; version it when it changes) --------------------------------------------------


def message_to_json(message: Message) -> dict[str, Json]:
    """The stored form: `{role, parts: [{type, …}], origin?, replay?}`; fields at their default are left out."""
    out: dict[str, Json] = {"role": message.role, "parts": [part_to_json(p) for p in message.parts]}
    if message.origin:
        out["origin"] = message.origin
    if message.replay:
        out["replay"] = _replay_to_json(message.replay)
    return out


def message_from_json(data: Mapping[str, Json]) -> Message:
    """Undo `message_to_json`; raises KeyError, TypeError or ValueError for anything else."""
    if data["role"] not in _ROLES:
        raise ValueError(f"unknown role {data['role']!r} in a stored message")
    return Message(
        data["role"],
        tuple(part_from_json(p) for p in data["parts"]),
        data.get("origin", ""),
        _replay_from_json(data.get("replay")),
    )


def part_to_json(part: Part) -> dict[str, Json]:
    out = dict(_part_fields(part))
    if part.replay:
        out["replay"] = _replay_to_json(part.replay)
    return out


def _part_fields(part: Part) -> Iterator[tuple[str, Json]]:
    match part:
        case Text():
            yield from (("type", "text"), ("text", part.text))
            if part.origin:
                yield "origin", part.origin
        case Image():
            yield "type", "image"
            for name in ("media_type", "data", "url"):
                if value := getattr(part, name):
                    yield name, value
        case Thinking():
            yield from (("type", "thinking"), ("text", part.text))
        case Refusal():
            yield from (("type", "refusal"), ("text", part.text))
        case ToolCall():
            yield from (("type", "call"), ("id", part.id), ("name", part.name), ("arguments", dict(part.arguments)))
            if part.problem is not None:
                yield "problem", part.problem
        case ToolResult():
            yield from (("type", "result"), ("call_id", part.call_id), ("status", part.status))
            yield "parts", [part_to_json(p) for p in part.parts]
            if part.state is not None:
                yield "state", dict(part.state)


def part_from_json(data: Mapping[str, Json]) -> Part:
    if not isinstance(data, Mapping):
        raise TypeError(f"a part of a stored message is a {type(data).__name__}, not an object")
    replay = _replay_from_json(data.get("replay"))
    match data["type"]:
        case "text":
            return Text(_text(data, "text"), data.get("origin", ""), replay)
        case "image":
            return Image(data.get("media_type", ""), data.get("data", ""), data.get("url", ""), replay)
        case "thinking":
            return Thinking(_text(data, "text"), replay)
        case "refusal":
            return Refusal(_text(data, "text"), replay)
        case "call":
            return ToolCall(_text(data, "id"), _text(data, "name"), data["arguments"], data.get("problem"), replay)
        case "result":
            parts = tuple(p for p in map(part_from_json, data["parts"]) if isinstance(p, (Text, Image)))
            return ToolResult(_text(data, "call_id"), data["status"], parts, data.get("state"), replay)
        case other:
            raise ValueError(f"unknown part type {other!r} in a stored message")


def _text(data: Mapping[str, Json], key: str) -> str:
    if not isinstance(value := data[key], str):
        raise TypeError(f"{key!r} of a part of a stored message is a {type(value).__name__}, not a text")
    return value


def _replay_to_json(replay: Replay) -> Json:
    return [replay.issuer, replay.kind, replay.payload]


def _replay_from_json(data: Json) -> Replay | None:
    return Replay(*data) if data else None
