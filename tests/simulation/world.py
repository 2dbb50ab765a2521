"""A seeded world for turns: replies, faults in bursts, tool outcomes, interrupts, steering, crashes.

It remembers what it did, so that the oracles can hold the conversation against it. It reads no clock and no disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from servers import Quirks, Server, serve

from hermes.kernel.effects import AskModel, Fault, FaultKind, Objection, RecoveryChoice, RepairKind
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

BUDGETS = (EndReason.BUDGET_TOKENS, EndReason.BUDGET_COST, EndReason.BUDGET_TIME)

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

_NOT_SENT = (FaultKind.BUDGET, FaultKind.PLUGIN)
"""Faults of our own side: the server has seen nothing."""

KINDS = tuple(kind for kind in FaultKind if kind is not FaultKind.BUDGET)
PASSING = (
    FaultKind.RATE_LIMIT,
    FaultKind.OVERLOADED,
    FaultKind.SERVER_ERROR,
    FaultKind.TIMEOUT,
    FaultKind.STALL,
    FaultKind.CONNECTION,
    FaultKind.INVALID_REPLY,
)
REFUSED_PARTS = (
    (FaultKind.BAD_REQUEST, RepairKind.PARAMETER, "top_k", None),
    (FaultKind.BAD_REQUEST, RepairKind.THINKING, "signature", None),
    (FaultKind.BAD_REQUEST, RepairKind.TOOL_IMAGES, "content", None),
    (FaultKind.BAD_REQUEST, RepairKind.GRAMMAR, "pattern", None),
    (FaultKind.IMAGE_REFUSED, RepairKind.IMAGES, "too_large", 100),
    (FaultKind.IMAGE_REFUSED, RepairKind.IMAGES, "too_many", 1),
    (FaultKind.IMAGE_REFUSED, RepairKind.IMAGES, "unsupported", None),
    (FaultKind.IMAGE_REFUSED, RepairKind.IMAGES, "invalid", None),
)
"""What a server may say that it refuses, whether it is so or not."""

WAITS_S = (None, None, None, 0.0, 7.0, 200.0, 5000.0)
IMAGES = ("aGk=", "aGk=" * 50, "aGk=" * 500)


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
    keys: int
    picky: float
    stubborn: float
    strategy: str
    together: bool
    output_cap: int | None
    windows: dict[str, int | None]

    @classmethod
    def draw(cls, rng: Random, *, rough: bool = False) -> Mood:
        bad = 4.0 if rough else rng.choice((0.0, 0.3, 1.0, 3.0))
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
            budget=rng.choice((0.0, 0.0, 0.1 if rough else 0.03)),
            engine=1.0 if rough else rng.choice((0.0, 0.5, 1.0)),
            schema=rng.choice((0.0, 0.0, 0.5)),
            image=rng.choice((0.0, 0.5 if rough else 0.0, 0.5)),
            auxiliary=rng.choice(((), ("aux",))),
            blind=frozenset(rng.choice(((), ("target0",), ("target0",), ("aux", "target0"), ("aux", "target1")))),
            keys=rng.choice((1, 1, 2, 3)),
            picky=rng.choice((0.0, 0.0, 0.5, 1.0)),
            stubborn=rng.choice((0.0, 0.0, 0.05)),
            strategy=rng.choice(("fill_first", "round_robin", "least_used")),
            together=rng.random() < 0.5,
            output_cap=rng.choice((None, None, 8000)),
            windows={name: rng.choice((8000, None, 200_000)) for name in ("target0", "target1", "target2", "aux")},
        )


class World:
    """What happens to the turns of one session. `clock`: the session's, in seconds."""

    def __init__(self, rng: Random, mood: Mood, clock: Callable[[], float]) -> None:
        self.rng, self.mood = rng, mood
        self.serial = 0
        self.burst: Fault | None = None
        self.ran: dict[str, list[dict[str, object]]] = {}
        self.returned: dict[str, str] = {}
        self.stubborn: tuple[Part, ...] = ()
        self.cut = ""
        names = (*(f"target{n}" for n in range(mood.targets)), *mood.auxiliary)
        self.servers: dict[str, Server] = {
            name: serve(name, mood.keys, Quirks.draw(rng, mood.picky), mood.strategy, clock) for name in names
        }

    def chance(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    def word(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}-"

    # ---- The model --------------------------------------------------------------------------------------------------

    def answer(self, effect: AskModel) -> ModelReply | Fault:
        """A reply, or a fault: of our own side, what the server refuses, or injected in bursts that reach limits."""
        request, server = effect.request, self.servers[effect.target]
        fault = self._injected()
        if fault is not None and fault.kind in _NOT_SENT:
            return fault
        server.takes(request)
        refused = server.quirks.refusal(request, blind=effect.target in self.mood.blind)
        fault = refused or fault
        if fault is None:
            return self._reply(request)
        others = server.refuses(fault, request)
        return replace(fault, other_keys=others) if others else fault

    def _injected(self) -> Fault | None:
        if self.burst is not None and self.chance(self.mood.burst):
            return replace(self.burst, partial=self.word("streamed") if self.chance(0.3) else "")
        self.burst = self._fault() if self.chance(self.mood.fault) else None
        return self.burst

    def _fault(self) -> Fault:
        rng, kind = self.rng, self.rng.choice((*PASSING, *KINDS))
        partial = self.word("streamed") if self.chance(0.4) else ""
        if self.chance(self.mood.budget * 3):
            return Fault(FaultKind.BUDGET, "injected budget", partial=partial, budget=rng.choice(BUDGETS))
        if kind in (FaultKind.BAD_REQUEST, FaultKind.IMAGE_REFUSED) and self.chance(0.7):
            kind, repair, subject, limit = rng.choice(REFUSED_PARTS)
            return Fault(kind, f"injected refusal of {subject}", repair=repair, subject=subject, subject_limit=limit)
        if kind is FaultKind.OUTPUT_CAP:
            return self._output_fault(partial)
        window = rng.choice((None, 1000, 6000)) if kind is FaultKind.CONTEXT_OVERFLOW else None
        status = rng.choice((None, None, 504)) if kind is FaultKind.TIMEOUT else None
        wait_s = None if kind in _NOT_SENT else rng.choice(WAITS_S)
        return Fault(kind, f"injected {kind.value}", wait_s, window, partial, status=status)

    def _output_fault(self, partial: str) -> Fault:
        """An output limit of the model's own, of a window that is nearly full, or of what an account can pay."""
        room = self.rng.choice((None, 50, 1500, 3000, 100_000))
        window, status = self.rng.choice(((None, 400), (8000, 400), (None, 402)))
        detail = "injected output_cap"
        return Fault(FaultKind.OUTPUT_CAP, detail, None, window, partial, status=status, output_limit_tokens=room)

    def _reply(self, request: ModelRequest) -> ModelReply:
        usage = Usage(10 + len(request.messages), 5)
        if self.stubborn and self.chance(0.9):
            return ModelReply(self.stubborn, StopReason.TOOL_CALLS, usage)
        if self.cut and self.chance(0.8):
            return ModelReply(self._cut_again(), StopReason.LENGTH, usage)
        self.cut = self.rng.choice(("text", "call", "nothing")) if self.chance(self.mood.stubborn / 2) else ""
        self.stubborn = self._stubborn() if self.chance(self.mood.stubborn) else ()
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

    def _stubborn(self) -> tuple[Part, ...]:
        """A call that the model makes again and again: one that fails, one that is blocked, one that is not there."""
        name, key = self.rng.choice((("write", "stuck"), ("shell", "forbidden"), ("nonsense", "a"), ("read", "same")))
        return (ToolCall("again", name, {"key": key}),)

    def _cut_again(self) -> tuple[Part, ...]:
        """What an output limit leaves that is too small, again and again."""
        if self.cut == "call":
            return (ToolCall("c", "write", {}, 'cut: the arguments end early: {"key": "a'),)
        return (Text(self.word("cut")),) if self.cut == "text" else (Text(""),)

    def _answer(self, request: ModelRequest) -> str:
        word = self.word("answer")
        if request.schema is None or self.chance(0.3):
            return word
        return f'```json\n{{"word": "{word}"}}\n```' if self.chance(0.3) else f'{{"word": "{word}"}}'

    def _odd(self) -> tuple[tuple[Part, ...], StopReason]:
        match self.rng.randint(0, 12):
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
                return (Refusal("no"),), self.rng.choice((StopReason.REFUSAL, StopReason.STOP))
            case 7:
                return (Text(f"half \ud83d surrogate {self.word('answer')}"),), StopReason.STOP
            case 8 | 9:
                call = ToolCall(
                    "c", self.rng.choice(("write", "shell")), {}, 'cut: the arguments end early: {"key": "a'
                )
                return (*self._calls(self.rng.randint(0, 2)), call), StopReason.LENGTH
            case 10:
                return (Text(self.word("filtered")), *self._calls(self.rng.randint(0, 1))), StopReason.REFUSAL
            case 11:
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
        if call.arguments.get("key") == "stuck":
            return "error", "this never works", None
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
