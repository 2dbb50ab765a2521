"""A seeded world for turns: replies, faults in bursts, tool outcomes, interrupts, steering, crashes.

It remembers what it did, so that the oracles can hold the conversation against it. It reads no clock and no disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hermes.kernel.effects import Fault, FaultKind, Objection, RecoveryChoice
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import (
    Message,
    ModelReply,
    ModelRequest,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from hermes.kernel.roles import Tool

_KEY = {"type": "object", "properties": {"key": {"type": "string"}, "n": {"type": "integer"}}, "required": ["key"]}


def _never(**arguments: object) -> None:
    raise AssertionError("the simulator performs tools itself")


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("read", "read", _KEY, _never, reads=("key:{key}",), idempotent=True),
        Tool("write", "write", _KEY, _never, writes=("key:{key}",)),
        Tool("shell", "shell", {**_KEY, "required": []}, _never),
        Tool("todo", "todo", _KEY, _never, writes=("todo",)),
    )
}

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

RETRIABLE = (
    FaultKind.RATE_LIMIT,
    FaultKind.OVERLOADED,
    FaultKind.SERVER_ERROR,
    FaultKind.TIMEOUT,
    FaultKind.STALL,
    FaultKind.CONNECTION,
    FaultKind.INVALID_REPLY,
)
FINAL = (FaultKind.AUTH, FaultKind.BILLING, FaultKind.BAD_REQUEST, FaultKind.MODEL_NOT_FOUND, FaultKind.CONTENT_POLICY)


class Crash(BaseException):
    """The process dies here: everything but the store is gone."""


@dataclass(frozen=True, slots=True)
class Mood:
    """The rates of one session, drawn once: most sessions are calm, some are terrible."""

    fault: float
    burst: float
    interrupt: float
    crash: float
    steer: float
    choose: float
    odd_reply: float
    limit: int
    attempts: int
    targets: int
    budget: float
    engine: float
    schema: float
    image: float
    auxiliary: tuple[str, ...]
    blind: frozenset[str]

    @classmethod
    def draw(cls, rng: Random) -> Mood:
        bad = rng.choice((0.0, 0.3, 1.0, 3.0))
        return cls(
            fault=0.06 * bad,
            burst=rng.choice((0.2, 0.6, 0.9)),
            interrupt=rng.choice((0.0, 0.01, 0.05)),
            crash=rng.choice((0.0, 0.004, 0.02)),
            steer=rng.choice((0.0, 0.05, 0.2)),
            choose=rng.choice((0.0, 0.0, 0.15, 0.6)),
            odd_reply=rng.choice((0.02, 0.1, 0.3)),
            limit=rng.choice((3, 6, 90)),
            attempts=rng.choice((1, 3, 4)),
            targets=rng.choice((1, 1, 2, 3)),
            budget=rng.choice((0.0, 0.0, 0.03)),
            engine=rng.choice((0.0, 0.5)),
            schema=rng.choice((0.0, 0.0, 0.5)),
            image=rng.choice((0.0, 0.0, 0.5)),
            auxiliary=rng.choice(((), ("aux",))),
            blind=frozenset(rng.choice(((), ("target0",), ("target0",), ("aux", "target0"), ("aux", "target1")))),
        )


@dataclass(slots=True)
class World:
    rng: Random
    mood: Mood
    serial: int = 0
    burst: Fault | None = None
    ran: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    returned: dict[str, str] = field(default_factory=dict)

    def chance(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    def word(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}-"

    # ---- The model --------------------------------------------------------------------------------------------------

    def answer(self, request: ModelRequest) -> ModelReply | Fault:
        """A reply, or a fault; faults come in bursts, so that retry limits are reached."""
        if self.burst is not None and self.chance(self.mood.burst):
            return self._repeated(self.burst)
        self.burst = None
        if self.chance(self.mood.fault):
            self.burst = self._fault()
            return self.burst
        return self._reply(request)

    def _repeated(self, fault: Fault) -> Fault:
        partial = self.word("streamed") if self.chance(0.3) else ""
        return Fault(fault.kind, fault.detail, fault.retry_after_s, fault.limit_tokens, partial, fault.budget)

    def _fault(self) -> Fault:
        kind = self.rng.choice(
            (*RETRIABLE, *RETRIABLE, *FINAL, FaultKind.CONTEXT_OVERFLOW, FaultKind.UNKNOWN, FaultKind.PLUGIN)
        )
        if self.chance(self.mood.budget * 3):
            kind = FaultKind.BUDGET
        budget = EndReason.BUDGET_TOKENS if kind is FaultKind.BUDGET else None
        retry = self.rng.choice((None, None, 0.0, 7.0, 5000.0))
        limit = 1000 if kind is FaultKind.CONTEXT_OVERFLOW and self.chance(0.5) else None
        partial = self.word("streamed") if self.chance(0.4) else ""
        return Fault(kind, f"injected {kind.value}", retry, limit, partial, budget)

    def _reply(self, request: ModelRequest) -> ModelReply:
        usage = Usage(10 + len(request.messages), 5)
        if self.chance(self.mood.odd_reply):
            parts, stop = self._odd()
        elif self.chance(0.45):
            parts, stop = self._calls(self.rng.randint(1, 4)), StopReason.TOOL_CALLS
            if self.chance(0.3):
                parts = (Text(self.word("said")), *parts)
        else:
            parts, stop = (Text(self._answer(request)),), StopReason.STOP
        if self.chance(0.2):
            parts = (Thinking("hm"), *parts)
        return ModelReply(parts, stop, usage)

    def _answer(self, request: ModelRequest) -> str:
        word = self.word("answer")
        if request.schema is None or self.chance(0.3):
            return word
        return f'```json\n{{"word": "{word}"}}\n```' if self.chance(0.3) else f'{{"word": "{word}"}}'

    def _odd(self) -> tuple[tuple[Part, ...], StopReason]:
        match self.rng.randint(0, 11):
            case 0 | 1:
                return (Text(self.word("cut")),), StopReason.LENGTH
            case 2:
                return (Text(self.word("dropped")),), StopReason.CUT
            case 3:
                return (), StopReason.STOP
            case 4:
                return (Thinking("only thoughts"),), self.rng.choice((StopReason.STOP, StopReason.LENGTH))
            case 5:
                return (Text("  \n"),), StopReason.STOP
            case 6:
                return (Refusal("no"),), StopReason.REFUSAL
            case 7:
                return (Text(f"half \ud83d surrogate {self.word('answer')}"),), StopReason.STOP
            case 8 | 9:
                call = ToolCall(
                    "c", self.rng.choice(("write", "shell")), {}, 'cut: the arguments end early: {"key": "a'
                )
                return (*self._calls(self.rng.randint(0, 2)), call), StopReason.LENGTH
            case 10:
                bad = ToolCall("b", self.rng.choice(("write", "shell")), {}, "the arguments are not JSON: {key")
                return (*self._calls(self.rng.randint(0, 2)), bad), StopReason.TOOL_CALLS
            case _:
                unknown = ToolCall("u", self.rng.choice(("", "nonsense", "Write", "functions.read")), {"key": "a"})
                return (*self._calls(self.rng.randint(0, 1)), unknown), StopReason.TOOL_CALLS

    def _calls(self, count: int) -> tuple[Part, ...]:
        """Calls whose ids repeat across replies, as some servers count from zero, and now and then inside one."""
        calls: list[Part] = []
        for index in range(count):
            name = self.rng.choice(("read", "read", "write", "shell", "todo"))
            arguments: dict[str, object] = {"key": self.rng.choice("abc"), "n": self.serial}
            if name == "read" and self.chance(0.5):
                arguments = {"key": "same"}
            if self.chance(0.05):
                arguments = {"n": "not a number"}
            if self.chance(0.02):
                arguments["key"] = "x\ud800"
            self.serial += 1
            id_ = self.rng.choice((f"call_{index}", "call_0", "", "id with blanks", f"call_{self.serial}"))
            calls.append(ToolCall(id_, name, arguments))
        if calls and self.chance(0.1):
            calls.append(calls[0])
        return tuple(calls)

    # ---- Tools ------------------------------------------------------------------------------------------------------

    def run(self, call: ToolCall) -> tuple[str, str, dict[str, object] | None]:
        """Do what the call asks: (status, text, session state); the side effect is remembered."""
        self.ran.setdefault(call.id, []).append(dict(call.arguments))
        text = f"done {call.id} {len(self.ran[call.id])}"
        if call.name == "read" and call.arguments.get("key") == "same":
            text = "the same as ever"
        status = self.rng.choice(("ok", "ok", "ok", "error", "timeout"))
        if self.chance(0.05):
            text = self.rng.choice(("", "   ", "lone \ud800 surrogate"))
        state = {"todo": self.word("todo")} if call.name == "todo" and status == "ok" else None
        return status, text, state

    # ---- Plugins ----------------------------------------------------------------------------------------------------

    def objection(self) -> Objection | None:
        return Objection(self.word("objection")) if self.chance(self.mood.choose) else None

    def recovery(self) -> RecoveryChoice | None:
        if not self.chance(self.mood.choose):
            return None
        return RecoveryChoice(self.rng.choice(("retry", "retry", "fallback", "give_up")), self.rng.choice((0.0, 1e9)))

    def compression(self, messages: tuple[Message, ...], keep: list[str]) -> list[Message] | None:
        """A shorter conversation that keeps the words that must not be lost; sometimes nonsense."""
        if not self.chance(self.mood.engine):
            return None
        if self.chance(0.2):
            return [Message("assistant", (Text("not valid"),))]
        kept = messages[-2:] if messages[-1].role == "tool" else ()
        text = "".join(p.text for m in kept for p in m.parts if isinstance(p, Text))
        lost = [word for word in keep if word not in text]
        return [Message("user", (Text("summary " + " ".join(lost)),), "summary"), *kept]
