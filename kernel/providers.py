"""Providers and wire formats as Protocols, and the data that crosses between them and the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from hermes.kernel.messages import Json, Message, ModelReply


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What is known of one model. None means unknown; `price_*` in USD a million tokens.

    `images`, `pdf`, `audio`: what it can be shown; `reasoning`: it thinks before it answers; `caching`: its provider
    serves the repeated beginning of a prompt from a cache; `tools`, `schemas`: it can call tools, and keep to a JSON
    Schema. `price_cache_write` is of the shortest lived entry. The prices hold for prompts of up to
    `priced_to_tokens` (None: of any length); longer ones cost more.
    """

    name: str
    window_tokens: int | None = None
    output_tokens: int | None = None
    price_input: float | None = None
    price_output: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    priced_to_tokens: int | None = None
    images: bool | None = None
    pdf: bool | None = None
    audio: bool | None = None
    reasoning: bool | None = None
    caching: bool | None = None
    tools: bool | None = None
    schemas: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """The data row that makes a named provider. `quirks` and `defaults` are read by key, never by provider name.

    `quirks` known so far. Of the provider: `api_mode_by_model` ({pattern: wire format}), `key_optional` (true: it can
    go without a key), `key_hosts` (patterns of hosts that its key may go to, beside the row's own), `facts_of` (the
    provider whose rows of model facts are this one's too), `probe` (how to ask the server about its models: see
    kernel/probing.py), `states_cost` (true: each reply says what it cost), `cache_write_factors` ({"5m": 1.25, "1h":
    2}: what writing to the cache costs, in input prices), `first_token_timeout_s` and `stall_timeout_s` (they win over
    those of `request`). Of every wire format: `by_model` (pattern of model names in lower case: quirks of these
    models), `drop_parameters` (list of request parameters never sent), `extra_parameters` (object put into every
    request), `schema_dialect` (which JSON Schemas tools may have: openai, anthropic, bedrock,
    gemini, moonshot, xai; by the wire format unless told), `cache_layout` (see plugins/wire/caching.py). Of chat
    completions: `output_cap_parameter` ("max_tokens" unless told); `effort_parameter` ("reasoning_effort" unless told;
    with dots for a nested one) and `effort_map` (effort, or "*": the provider's word for it, null to send none, or an
    object of parameters); `offering` ("native", or "grammar": tools are offered by a grammar over plain text);
    `reasoning_field` (field in which own reasoning is sent back) and `reasoning_required` (a message without any gets
    a blank one); `schema_parameter` ("json_schema", "json_object" or "none": how an answer's schema is asked for);
    `schema_beside_tools` (False, as for a local server: not in a request whose tools may be called, but in words);
    `images_in_tool_results` (true, or "user_message": they stand in a user message behind the results); `call_id`
    ({"length": n}: ids of exactly so many letters and digits); `first_call_fields` (object put into the first call of
    a message that brings nothing of its own); `stream_usage` (False: do not ask for usage in the stream). Of the
    Responses API, where `effort_map` (words alone), `schema_parameter` and `images_in_tool_results` mean the same:
    `stream_only` (true: no reply comes whole), `reasoning_summary` ("auto" unless told; null asks for none),
    `temperature_with_reasoning` (true: taken while the model reasons), `replayed_ids` (types of items whose ids are
    sent back, ["message"] unless told), `reasoning_alone_is_incomplete` (true: a reply without text is no end),
    `answer_in_reasoning` (true: an answer may stand there behind `<response>`). Of the Messages API: `auth` ("bearer":
    the key goes as a bearer token), `betas` (list of beta names, always sent), `anthropic_native` (true: a gateway
    that hands everything to Anthropic itself), `thinking_replay` ("as_is", "signed", "unsigned" or "never": which of
    its own thinking the server wants back), `reasoning_required` as above. Of Converse: `model_family` (id of the
    model behind an inference profile whose own id does not tell).
    `defaults`: `toolsets` (list), `prompt_budget_tokens`, `window_tokens`, `sections` (list of prompt sections).
    """

    name: str
    base_url: str = ""
    api_mode: str = ""
    key_variables: tuple[str, ...] = ()
    default_model: str = ""
    title: str = ""
    local: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    quirks: Mapping[str, Json] = field(default_factory=dict)
    defaults: Mapping[str, Json] = field(default_factory=dict)
    models: tuple[ModelRow, ...] = ()


CacheLife = Literal["", "5m", "1h"]
"""How long a cached prompt is kept by providers that take marks (5 minutes unless told); "" sends no marks."""


@dataclass(frozen=True, slots=True)
class Target:
    """Provider, URL, key, model, wire format and window as one immutable value. `name` is `provider:model`."""

    name: str
    profile: Profile
    model: str
    base_url: str
    api_mode: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    window_tokens: int | None = None
    output_cap: int | None = None
    row: ModelRow | None = None
    cache_ttl: CacheLife = "5m"

    @property
    def issuer(self) -> str:
        """Who a Replay belongs to: wire format, URL and model (B080), and nothing of the key."""
        return f"{self.api_mode} {self.base_url} {self.model}"

    def quirk(self, name: str, default: Json = None) -> Json:
        """A quirk of the model (the first pattern of `by_model` that fits and names it wins), else of the provider."""
        for pattern, quirks in self.profile.quirks.get("by_model", {}).items():
            if name in quirks and fnmatchcase(self.model.lower(), pattern):
                return quirks[name]
        return self.profile.quirks.get(name, default)


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Parameters:
    """What varies from call to call; None leaves the provider's own default. `leave_out` wins over everything.

    `schema` is the JSON Schema of an object that the answer must be, sent where the wire has a field for it.
    """

    stream: bool = True
    may_call: bool = True
    temperature: float | None = None
    output_cap: int | None = None
    reasoning_effort: str | None = None
    leave_out: tuple[str, ...] = ()
    schema: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    connect_s: float = 10.0
    first_token_s: float = 120.0
    stall_s: float = 180.0


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it streams. `call`: `text` is the name of a tool whose call has begun to arrive."""

    kind: Literal["text", "thinking", "call"]
    text: str


class WireFault(Exception):
    """What a wire format raises when a call gives no reply: plain data, named by `kernel/faults.py`.

    `phase` is where it happened: connect, send, first_token, stream. `cause` is what the transport saw: "http" (a
    status came), "timeout", "stall", "connection", "tls", "invalid" (a body that is no reply), "aborted".
    """

    def __init__(
        self,
        cause: Literal["http", "timeout", "stall", "connection", "tls", "invalid", "aborted"],
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
        body: str = "",
        phase: Literal["connect", "send", "first_token", "stream"] = "send",
    ) -> None:
        self.cause, self.message, self.status, self.code = cause, message, status, code
        self.headers, self.body, self.phase = headers or {}, body, phase
        super().__init__(message)


class Stream(Protocol):
    """One running call. Iterate it to the end, then take `reply()`. Raises WireFault from the iteration."""

    def __iter__(self) -> Iterator[Delta]: ...

    def reply(self) -> ModelReply:
        """The whole reply; only after the iteration ended without a fault."""
        ...

    def abort(self) -> None:
        """Shut the socket down; from any thread, at any moment, more than once.

        The reader gets WireFault("aborted")."""
        ...


class WireFormat(Protocol):
    """How requests and replies look on the wire. It never retries, sleeps or prints."""

    name: str

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        """Serialise what is frozen for (epoch, target); called once for each."""
        ...

    def encode(self, message: Message, target: Target) -> bytes:
        """Serialise one message; pure, so the runtime keeps the result with the message object."""
        ...

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        """Put the body together as a list of pieces, never joined; splices what moves."""
        ...

    def open(self, body: Sequence[bytes], parameters: Parameters, target: Target, timeouts: Timeouts) -> Stream:
        """Begin the call; returns before the first byte when it can, and must be abortable from then on."""
        ...

    def close(self) -> None:
        """Close pooled connections of this process."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider with code of its own is to be reached once it is up."""

    base_url: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    window_tokens: int | None = None


Report: TypeAlias = Callable[[str, "float | None"], None]
"""`report(what, share)`: progress of something long; share 0 to 1, None when unknown."""


class Provider(Protocol):
    """A provider with code of its own, such as a local server that must be started."""

    profile: Profile

    def available(self) -> str | None:
        """The model that `model: auto` would take, or None when it cannot run now. Fast: no start, no network."""
        ...

    def connect(self, model: str, report: Report, cancelled: Callable[[], bool]) -> Endpoint:
        """Make it reachable; may take long, says so by `report`. Raises ProviderError with what to do."""
        ...

    def models(self) -> Sequence[ModelRow]: ...

    def close(self) -> None: ...


@runtime_checkable
class Fetches(Protocol):
    """What a provider offers besides `Provider` when it can bring weights onto this machine."""

    def fetch(self, what: str, report: Report) -> Path:
        """Fetch a model by name, GGUF path or URL; returns its file. Raises ProviderError or UsageError."""
        ...

    def stored(self) -> Mapping[str, Path]:
        """The models that are here: name and file."""
        ...
