"""Drive a turn by hand: a script for the world, and the invariants of the conversation held after every effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hermes.kernel.effects import (
    Answered,
    Append,
    AskModel,
    Consult,
    Effect,
    Fault,
    Learn,
    Notify,
    Ran,
    Record,
    Rewrite,
    RunTools,
    Spent,
    Stopped,
    TurnEnded,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.history import Checker, result_text, with_note
from hermes.kernel.messages import Message, ModelReply, Part, StopReason, Text, ToolCall, ToolResult, UserInput
from hermes.kernel.state import Limits, TurnResult, TurnState
from hermes.kernel.turn import turn

Scripted = ModelReply | Answered | Fault | Stopped
TOOLS = frozenset({"read", "write", "shell"})


@dataclass(frozen=True)
class Stop:
    """Stop the turn at its nth effect that can be stopped (from 0): instead of performing it, half way, or after it."""

    at: int
    when: Literal["before", "during", "after"]
    reason: EndReason = EndReason.INTERRUPTED


@dataclass
class Driven:
    """What a turn did. `disk` is what a store would hold, `requests` what the model was asked, as it was sent."""

    state: TurnState
    disk: list[Message]
    result: TurnResult = field(init=False)
    effects: list[Effect] = field(default_factory=list)
    requests: list[AskModel] = field(default_factory=list)
    ran: list[ToolCall] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    learned: dict[str, tuple[Any, float | None]] = field(default_factory=dict)
    ended: TurnEnded | None = None

    @property
    def notes(self) -> list[str]:
        return [asked.request.note for asked in self.requests]

    @property
    def waits(self) -> list[float]:
        return [effect.seconds for effect in self.effects if isinstance(effect, Wait)]

    @property
    def texts(self) -> list[str]:
        """The conversation on disk, one line a message: role, then its text or the texts of its results."""
        return [f"{m.role}: {m.text or ' | '.join(r.text for r in m.results)}" for m in self.disk]


def drive(
    state: TurnState,
    text: str | UserInput | None = None,
    *,
    replies: Iterable[Scripted] = (),
    tools: Callable[[ToolCall], ToolResult] = lambda call: done(call),
    consult: Mapping[str, Sequence[Any]] | None = None,
    stop: Stop | None = None,
) -> Driven:
    """Run one turn to its end. A reply that is missing, or one too many, is a failure of the test."""
    world = _World(Driven(state, list(state.messages)), list(replies), tools, consult or {}, stop)
    given = UserInput.of(text) if isinstance(text, str) else text
    return world.run(given)


class _World:
    def __init__(
        self,
        driven: Driven,
        replies: list[Scripted],
        tools: Callable[[ToolCall], ToolResult],
        consult: Mapping[str, Sequence[Any]],
        stop: Stop | None,
    ) -> None:
        self.driven, self.replies, self.tools, self.stop = driven, replies, tools, stop
        self.answers = {question: list(answers) for question, answers in consult.items()}
        self.stoppable = 0

    def run(self, given: UserInput | None) -> Driven:
        generator = turn(self.driven.state, given)
        outcome: Any = None
        stop: Stopped | None = None
        while True:
            try:
                effect = generator.throw(stop) if stop else generator.send(outcome)
            except StopIteration as end:
                self.driven.result = end.value
                break
            self.driven.effects.append(effect)
            outcome, stop = None, None
            try:
                outcome = self.perform(effect)
            except Stopped as raised:
                stop = raised
        self.check_end()
        return self.driven

    def perform(self, effect: Effect) -> Any:
        driven = self.driven
        if isinstance(effect, Record):
            return self.record(effect)
        if isinstance(effect, Notify):
            return None
        if driven.ended:
            raise AssertionError(f"the turn has ended and yields {effect}")
        if isinstance(effect, AskModel):
            driven.requests.append(effect)
        if isinstance(effect, AskModel) and effect.request.system is None:
            assert list(effect.request.messages) == driven.disk, "asked with another conversation than the one on disk"
            Checker(with_note(effect.request.messages, effect.request.note)).check_sendable()
        self.stoppable += 1
        if self.stop and self.stop.at == self.stoppable - 1:
            raise self.stopped(effect, self.stop)
        return self.answer(effect)

    def answer(self, effect: Effect) -> Any:
        match effect:
            case AskModel():
                if not self.replies:
                    raise AssertionError(f"the model was asked once too often: {effect.request.note!r}")
                reply = self.replies.pop(0)
                if isinstance(reply, Stopped):
                    raise reply
                return Answered(reply, Spent(reply.usage)) if isinstance(reply, ModelReply) else reply
            case RunTools(calls=calls, may_start=may_start):
                return Ran(tuple(self.run_call(c, may_start) for c in calls))
            case Consult(question=question):
                waiting = self.answers.get(question)
                answer = waiting.pop(0) if waiting else None
                if isinstance(answer, Stopped):
                    raise answer
                return answer(effect.facts) if callable(answer) else answer
            case _:
                return None

    def run_call(self, call: ToolCall, may_start: bool) -> ToolResult:
        assert call.problem is None, "a call with a problem was handed out"
        if may_start:
            self.driven.ran.append(call)
            return self.tools(call)
        return result_text(call.id, "cancelled", f"{call.name} was not run.")

    def stopped(self, effect: Effect, stop: Stop) -> Stopped:
        """What the runtime would throw in: all that had happened by then goes with it."""
        if isinstance(effect, RunTools):
            at = {"before": 0, "during": 1, "after": len(effect.calls)}[stop.when]
            results = [self.run_call(c, effect.may_start and i < at) for i, c in enumerate(effect.calls)]
            return Stopped(stop.reason, results=tuple(results))
        if isinstance(effect, AskModel) and stop.when != "before":
            answer = self.answer(effect)
            said = answer.reply.text if isinstance(answer, Answered) else answer.partial
            return Stopped(stop.reason, partial=said[: len(said) // 2] if stop.when == "during" else said)
        if stop.when == "after":
            self.answer(effect)
        return Stopped(stop.reason)

    def record(self, record: Record) -> None:
        driven = self.driven
        assert driven.ended is None, "a Record after the end of the turn"
        for change in record.changes:
            match change:
                case Append(messages=messages, taken=taken):
                    driven.disk.extend(messages)
                    driven.taken.extend(taken)
                case Rewrite(start=start, stop=stop, messages=messages, taken=taken):
                    assert stop == len(driven.disk)
                    driven.disk[start:stop] = messages
                    driven.taken.extend(taken)
                case Learn(key=key, value=value, ttl_s=ttl_s):
                    driven.learned[key] = (value, ttl_s)
                case TurnEnded():
                    driven.ended = change
        assert driven.disk == driven.state.messages, "the list was not changed before the Record"
        checker = Checker(driven.disk)
        if driven.ended:
            checker.check_rest()

    def check_end(self) -> None:
        driven, result = self.driven, self.driven.result
        assert driven.ended == TurnEnded(result.reason, result.answer)
        assert result.messages == tuple(driven.disk)
        last = driven.disk[-1]
        if result.answer is None:
            assert last.origin in ("partial", "closing")
        else:
            assert result.answer == last.text
        assert len(driven.taken) == len(set(driven.taken)), "an inbox row was taken twice"
        assert not self.replies or self.stop, f"never asked for: {self.replies}"


# ---- Short names for what a test is made of -------------------------------------------------------------------------


def fresh(*messages: Message, **more: Any) -> TurnState:
    """The state of a session with these messages; `limits` is a mapping, the rest are fields of TurnState."""
    limits = Limits(**more.pop("limits", {}))
    used = {c.id for m in messages for c in m.calls}
    given = {"tool_names": TOOLS, "idempotent": frozenset({"read"}), "call_ids": used, **more}
    return TurnState("s", 1, list(messages), limits=limits, **given)


def user(text: str, origin: Any = "") -> Message:
    return Message("user", (Text(text),), origin)


def said(text: str, origin: Any = "") -> Message:
    return Message("assistant", (Text(text),), origin)


def asks(*calls: ToolCall) -> Message:
    return Message("assistant", calls)


def told(*results: ToolResult) -> Message:
    return Message("tool", results)


def call(name: str = "read", id: str = "c1", problem: str | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments, problem)


def done(call: ToolCall, text: str = "") -> ToolResult:
    return result_text(call.id, "ok", text or f"{call.name} gave {call.id}")


def failed(call: ToolCall) -> ToolResult:
    return result_text(call.id, "error", f"{call.name} failed")


def blocked(call: ToolCall) -> ToolResult:
    return result_text(call.id, "blocked", f"{call.name} needs approval")


def reply(*parts: Part | str, stop: StopReason = StopReason.STOP) -> ModelReply:
    return ModelReply(tuple(Text(p) if isinstance(p, str) else p for p in parts), stop)


def cut(*parts: Part | str) -> ModelReply:
    return reply(*parts, stop=StopReason.LENGTH)
