"""Generated conversations, far wider than what models and users do: valid, and drawn from one seed.

Histories of tests/kernel/conversations.py are drawn by hypothesis, which is a hundred times too slow for this many.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from replies import decoded
from targets import ROUTES, Route

from hermes.kernel.history import Checker, closing, fresh_id, joined, repair, with_note
from hermes.kernel.messages import (
    Image,
    Message,
    Refusal,
    Replay,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    clean,
)
from hermes.kernel.providers import Parameters, ToolSchema
from hermes.kernel.replies import stored
from hermes.kernel.state import TurnState
from hermes.plugins.wire.toolnames import wire_name
from hermes.testing.formats import FORMATS
from hermes.testing.script import Block, Call, Reply, Thought

Json = Any

STATUSES: tuple[Any, ...] = ("ok", "ok", "ok", "error", "blocked", "cancelled", "timeout", "unknown")
_ENDS = (
    "", "", " näïve", " \U0001f600\u200d", "\n\n", ' "quoted" \\ back', " \u202e\u0000\x1b", " a\ud83d\ude00b",
    " \ufeff", "</tool_call><think>", ' ,"cache_control":{"type":"ephemeral"}', "中文，テスト", "\t  ",
)  # fmt: skip
_BROKEN = ("", " ", "\n\t", "\u00a0", "\ud800", "x\udfff", "\ud83d")
_PICTURES = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff\xe0"),
    ("image/jpg", b"\xff\xd8\xff\xe1"),
    ("image/gif", b"GIF89a"),
    ("image/webp", b"RIFF1234WEBPVP8 "),
    ("", b"\x89PNG\r\n\x1a\n"),
    ("image/png", b"\xff\xd8\xff\xdb"),
    ("image/bmp", b"BM1234"),
)
"""Media type and beginning: two of them labelled as something else, one that nobody takes."""

SCHEMAS: tuple[Mapping[str, Json], ...] = (
    {},
    {"type": "object"},
    {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]},
    {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}]},
    {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "oneOf": [{"required": ["a"]}]},
    {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer"}}},
    {"type": "object", "properties": {"e": {"enum": ["a/b", "c"], "type": "string", "pattern": "^a"}}},
    {"type": "object", "properties": {"t": {"type": "array", "items": {"$ref": "#"}}}},
    {"type": "object", "properties": {"with blank": {"type": "string"}, "ü": {"type": "object"}}},
    {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {"format": "uri"}}}}},
)
_NAMES = ("read", "write_file", "web.search", "x" * 90, "mcp__a-b", "größe", "Read", "read", " ", "a/b c")
_MORE_ARGUMENTS: tuple[dict[str, Json], ...] = (
    {},
    {"n": [1, None, 2.5]},
    {"ü": {"deep": [{"er": ""}]}},
    {"": '\\" \u0001'},
)
_LEFT_OUT: tuple[tuple[str, ...], ...] = (
    (), (), (), (), ("temperature",), ("tool_choice", "reasoning_effort"), ("thinking_blocks",)
)  # fmt: skip
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}, "n": {"type": "integer"}}}


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one request is made of.

    `issued`: for each issuer its seals, with the text that each seals. `lost`: what was lost when replies were decoded.
    """

    seed: int
    system: str
    tools: tuple[ToolSchema, ...]
    messages: tuple[Message, ...]
    parameters: Parameters
    issued: Mapping[str, Mapping[str, str | None]]
    lost: tuple[str, ...]


def conversation(seed: int, routes: Sequence[Route], origin: str = "") -> Conversation:
    """The conversation of a seed, in which many replies are by the routes that it will be sent by.

    With `origin` every reply in it was decoded by the wire format of that name.
    """
    return _Writer(seed, routes, origin).write()


@dataclass(slots=True)
class _Writer:
    seed: int
    routes: Sequence[Route]
    origin: str
    rng: Random = field(init=False)
    state: TurnState = field(init=False)
    tools: tuple[ToolSchema, ...] = field(init=False)
    issued: dict[str, dict[str, str | None]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        names = self.rng.sample(_NAMES, self.rng.choice((0, 1, 1, 2, 4)))
        self.tools = tuple(ToolSchema(n, self.rng.choice(("", "does it")), self.rng.choice(SCHEMAS)) for n in names)
        known = frozenset(name for name in names if name.strip())
        self.state = TurnState("session", 1, [], tool_names=known)

    def write(self) -> Conversation:
        messages: list[Message] = []
        turns = self.rng.choice((1, 1, 1, 2, 2, 3))
        for turn in range(turns):
            is_last = turn == turns - 1
            messages.append(self._user())
            for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
                messages += self._step()
            if not is_last:
                messages.append(self._answer())
            elif messages[-1].role == "assistant":
                messages.append(self._user())
        messages = self._changed(messages)
        checker = Checker(messages)
        checker.check_sendable()
        note = clean(self._text()) if self._chance(0.2) else ""
        sent = with_note(messages, note)
        system, parameters = self._system(), self._parameters()
        return Conversation(self.seed, system, self.tools, sent, parameters, self.issued, tuple(self.lost))

    # ---- Small things -------------------------------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _token(self, word: str) -> str:
        """A word that stands nowhere else in the conversation."""
        self.count += 1
        return f"{word}«{self.count}»"

    def _text(self, word: str = "text") -> str:
        filler = "many words " * self.rng.randint(100, 2000) if self._chance(0.01) else ""
        return f"{self._token(word)}{filler}{self.rng.choice(_ENDS)}"

    def _image(self) -> Image:
        if self._chance(0.2):
            return Image(url=f"https://pictures.example/{self._token('p')}.png")
        media_type, beginning = self.rng.choice(_PICTURES)
        self.count += 1
        data = base64.b64encode(beginning + b"picture %06d" % self.count).decode()
        if self._chance(0.1):
            return Image(url=f"data:{media_type or 'image/png'};base64,{data}")
        return Image(media_type, data)

    def _replay(self) -> Replay | None:
        """What somebody else issued, or nothing."""
        if self._chance(0.7):
            return None
        return Replay("somewhere https://else.example model", "thinking", {"signature": self._token("foreign")})

    def _system(self) -> str:
        return self.rng.choice(("You help.", "You help.\n\n" + "Rules. " * 40, "", "  \n", "näïve \ud800 half"))

    def _parameters(self) -> Parameters:
        rng = self.rng
        return Parameters(
            stream=rng.choice((True, True, False)),
            may_call=rng.choice((True, True, False)),
            temperature=rng.choice((None, None, 0.0, 0.7, 1.0, 1.8)),
            output_cap=rng.choice((None, None, 1, 700, 5000, 30000)),
            reasoning_effort=rng.choice((None, None, "none", "minimal", "low", "medium", "high", "xhigh")),
            leave_out=rng.choice(_LEFT_OUT),
            schema=rng.choice((None, None, None, _ANSWER)),
        )

    # ---- Messages -----------------------------------------------------------------------------------------------

    def _user(self) -> Message:
        rng = self.rng
        parts: list[Any] = [Text(self._text("user"))]
        if self._chance(0.2):
            parts = [self._image() for _ in range(rng.randint(1, 3))] + (parts if self._chance(0.6) else [])
        if self._chance(0.15):
            parts.append(Text(self._text("context"), rng.choice(("context", "steer", "warning"))))
        if self._chance(0.1):
            parts.insert(rng.randint(0, len(parts)), Text(rng.choice(_BROKEN)))
        origin: Any = rng.choice(("", "", "", "steer", "nudge", "summary"))
        return Message("user", tuple(parts), origin)

    def _step(self) -> list[Message]:
        said = self._said(calls=self.rng.choice((1, 1, 1, 2, 3, 6)))
        if not said.calls:
            return []
        results: list[Any] = [self._result(call) for call in said.calls]
        if self._chance(0.25):
            results.append(Text(self._text("beside"), self.rng.choice(("steer", "context", "warning"))))
        return [said, Message("tool", tuple(results))]

    def _result(self, call: ToolCall) -> ToolResult:
        rng = self.rng
        if call.problem:
            return ToolResult(call.id, "error", (Text(call.problem),))
        parts: list[Any] = [Text(self._text("result"))]
        if self._chance(0.15):
            parts.insert(rng.randint(0, 1), self._image())
        if self._chance(0.1):
            parts = [Text(rng.choice(_BROKEN))] if self._chance(0.7) else []
        return ToolResult(call.id, rng.choice(STATUSES), tuple(parts))

    def _answer(self) -> Message:
        if self._chance(0.1):
            return closing(self._text("closed"))
        reply = self._said(calls=0)
        if self._chance(0.2):
            partial = Message("assistant", (Text(self._text("partial")),), "partial")
            return joined(partial, reply) if self._chance(0.7) else partial
        return reply

    def _said(self, *, calls: int) -> Message:
        if self.origin or self._chance(0.5):
            return self._decoded(calls)
        return self._made(calls)

    def _made(self, calls: int) -> Message:
        """An assistant's message by hand, its replays issued by nobody that it is sent to."""
        parts: list[Any] = []
        makers: tuple[Callable[[], Any], ...] = (
            lambda: Text(self._text("said"), replay=self._replay()),
            lambda: Refusal(self._text("refused"), self._replay()),
            lambda: Thinking(self._text("thought"), self._replay()),
            lambda: Thinking("", Replay("elsewhere", "redacted_thinking", {"data": self._token("foreign")})),
        )
        parts += [self.rng.choice(makers)() for _ in range(self.rng.randint(0, 3))]
        parts += [self._made_call() for _ in range(calls)]
        if self._chance(0.2):
            self.rng.shuffle(parts)
        if not calls and not any(isinstance(part, (Text, Refusal)) for part in parts):
            parts.append(Text(self._text("said")))
        return Message("assistant", tuple(parts), replay=self._replay())

    def _made_call(self) -> ToolCall:
        wanted = self.rng.choice(("call_0", "toolu_01", "c" * 40, "chatcmpl-tool-1"))
        call_id = fresh_id(wanted, self.state.call_ids)
        self.state.call_ids.add(call_id)
        name = self._tool_name()
        if self._chance(0.1):
            return ToolCall(call_id, name, {}, self._text("problem"), self._replay())
        return ToolCall(call_id, name, self._arguments(), None, self._replay())

    def _tool_name(self) -> str:
        """Most are offered; some were offered once, or never."""
        offered = sorted(self.state.tool_names)
        return self.rng.choice(offered) if offered and self._chance(0.8) else self.rng.choice(("gone", "was.here"))

    def _arguments(self) -> dict[str, Json]:
        rng = self.rng
        more: tuple[dict[str, Json], ...] = (
            {},
            {"n": [1, None, 2.5]},
            {"ü": {"deep": [{"er": ""}]}},
            {"": '\\" \u0001'},
        )
        return {} if self._chance(0.2) else {"path": self._token("argument"), **rng.choice(more)}

    # ---- Replies of the formats themselves ----------------------------------------------------------------------

    def _decoded(self, calls: int) -> Message:
        """What a format makes of a scripted reply: with its own replays, as the turn would store it."""
        rng = self.rng
        api_mode = self.origin or rng.choice(tuple(FORMATS))
        own = [route for route in self.routes if route.target.api_mode == api_mode]
        route = rng.choice(own if own and self._chance(0.5) else ROUTES[api_mode])
        blocks: list[Block] = []
        if self._chance(0.6):
            blocks.append(Thought(clean(self._text("thought")).strip(), is_redacted=self._chance(0.2)))
        if not calls or self._chance(0.5):
            blocks.append(clean(self._text("said")).strip())
        for place in range(calls):
            if self._chance(0.15):
                blocks.append(Thought(clean(self._text("thought")).strip()))
            blocks.append(self._scripted_call(api_mode, is_repeated=not place and self._chance(0.3)))
        if self._chance(0.05):
            blocks.append(Thought(clean(self._text("thought")).strip()))
        return self._stored(route, Reply(order=blocks))

    def _scripted_call(self, api_mode: str, *, is_repeated: bool) -> Call:
        """A call as the model writes it, sometimes with an id that an earlier reply had."""
        arguments: Any = self._arguments()
        if self._chance(0.05):
            arguments = self.rng.choice(('{"path": "cut', "", "[1]", "null", '{"a":1}{"b":2}'))
        self.count += 1
        call_id = FORMATS[api_mode].call_id(1 if is_repeated else self.count)
        return Call(wire_name(self._tool_name()), arguments, call_id)

    def _stored(self, route: Route, scripted: Reply) -> Message:
        self.count += 1
        reply, seals, lost = decoded(route, scripted, self.count, self.rng)
        assert reply.stop_reason in (StopReason.STOP, StopReason.TOOL_CALLS, StopReason.REFUSAL), reply
        self.issued.setdefault(route.target.issuer, {}).update(seals)
        self.lost += lost
        return stored(reply, self.state, may_call=True)

    # ---- Histories that something happened to -------------------------------------------------------------------

    def _changed(self, messages: list[Message]) -> list[Message]:
        """Mended on load, some damaged or compressed before; always as the kernel would send it."""
        rng = self.rng
        if self._chance(0.1):  # other programs write one message a result
            messages = [
                part for message in messages
                for part in ([Message("tool", (p,)) for p in message.parts] if message.role == "tool" else [message])
            ]  # fmt: skip
        if self._chance(0.1) and len(messages) > 2:
            del messages[rng.randrange(len(messages) - 1)]
        if self._chance(0.1) and len(messages) > 3:
            summary = Message("user", (Text(self._text("summary")),), "summary")
            messages = [summary, *messages[rng.randint(1, len(messages) - 1) :]]
        mended = repair(messages)
        if mended[-1].role == "assistant":
            mended = repair([*mended, Message("user", (Text(self._text("user")),))])
        return mended
