"""What must be true of every simulated turn: the invariants of a conversation, and the rules of behaviour.

The invariants do not catch a loop that goes wrong in valid steps, so these oracles also hold what the turn did against
what the world did to it: requests and faults in `asking.py`, the user's words in `words.py`, reasons in `reasons.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from asking import Asking
from reasons import Evidence, is_refusal, is_repair, unfounded
from servers import Violation
from words import Words
from world import World

from hermes.kernel.effects import (
    Answered,
    Append,
    AskModel,
    Consult,
    Effect,
    Fault,
    FaultKind,
    Learn,
    Objection,
    Record,
    Rewrite,
    RunTools,
    Stopped,
    TurnEnded,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.history import Checker, InvalidConversation
from hermes.kernel.journal import MemoryLog
from hermes.kernel.messages import Message, ModelReply, ToolCall, ToolResult, UserInput, clean
from hermes.kernel.state import TurnResult, TurnState


class Oracles:
    """Fed by the driver with everything that happens; raises Violation."""

    def __init__(self, world: World, log: MemoryLog, clock: Callable[[], float]) -> None:
        self.world, self.log = world, log
        self.words = Words(world)
        self.reached: Counter[str] = Counter()
        self.asking = Asking(world, clock, self.reached)
        self.disk: list[Message] = []
        self.checker = Checker()
        self.turn = 0
        self.ids: dict[str, str] = {}
        self.start_rows: dict[str, int] = {}
        self.finished: dict[str, str] = {}
        self._reset()

    def _reset(self) -> None:
        self.seen = Evidence(disk=self.disk)
        if self.disk and self.disk[-1].calls:
            self.seen.recorded.append(self.disk[-1])
        self.objections = 0
        self.ended: TurnEnded | None = None
        self.aside_partial = ""
        self.repairs = 0

    # ---- Before an effect -------------------------------------------------------------------------------------------

    def turn_begins(self, state: TurnState, given: UserInput | None) -> None:
        self._reset()
        self.turn = state.turn
        if state.messages != self.disk:
            raise Violation("what was loaded is not what was recorded")
        self.asking.turn_begins(state)

    def crashed(self) -> None:
        """The process is gone; what it recorded is what the next one finds."""
        self.asking.silence.crashed(self.log.load().state)

    def effect(self, state: TurnState, effect: Effect, *, stopped: bool) -> None:
        if self.ended is not None and not type(effect).__name__ == "Notify":
            raise Violation(f"{type(effect).__name__} after the turn had ended")
        if stopped and isinstance(effect, (AskModel, RunTools, Wait, Consult)):
            raise Violation(f"a stopped turn went on with {type(effect).__name__}")
        match effect:
            case AskModel():
                self.asking.asks(state, effect, self.disk, self.seen)
            case RunTools():
                self._runs(effect)
            case Wait():
                self.asking.waits(effect)
            case _:
                pass

    def _runs(self, effect: RunTools) -> None:
        tail = self.disk[-1] if self.disk else None
        if tail is None or effect.calls != tuple(c for c in tail.calls if not c.problem):
            raise Violation("RunTools is not for the calls that are recorded")
        if any(c.problem for c in effect.calls):
            raise Violation("a call with a problem is run")
        if self.seen.last is not None and is_refusal(self.seen.last):
            raise Violation("a call of a reply that a filter stopped is run")

    # ---- After an effect --------------------------------------------------------------------------------------------

    def outcome(self, effect: Effect, outcome: Any) -> None:
        seen = self.seen
        if isinstance(effect, Consult):
            self._consulted(effect, outcome)
            return
        spent = getattr(outcome, "spent", None)
        if spent is not None and spent.exhausted and seen.budget is None:
            seen.budget = spent.exhausted
        if isinstance(outcome, Fault) and outcome.kind is FaultKind.BUDGET and seen.budget is None:
            seen.budget = outcome.budget
        if isinstance(effect, AskModel):
            self.asking.outcome(effect, outcome)
            if effect.request.purpose != "auxiliary":
                self._replied(effect, outcome)

    def _replied(self, effect: AskModel, outcome: Answered | Fault) -> None:
        seen = self.seen
        if isinstance(outcome, Fault):
            seen.last_fault = outcome
            return
        seen.last_fault, reply = None, outcome.reply
        if not effect.request.may_call:  # calls that come all the same are dropped
            reply = ModelReply(tuple(p for p in reply.parts if not isinstance(p, ToolCall)), reply.stop_reason)
        seen.replies.append(reply)
        seen.summaries += effect.request.purpose == "summary"

    def _consulted(self, effect: Consult, outcome: Any) -> None:
        if effect.question == "recovery":
            self.asking.consulted(effect, outcome)
        if effect.question == "turn_end" and isinstance(outcome, Objection):
            self.objections += 1
            if self.objections > 3:
                raise Violation("more than 3 objections in one life of a turn")

    def stopped(self, stop: Stopped, effect: Effect) -> None:
        self.seen.stop = stop
        if isinstance(effect, AskModel):
            self.asking.stopped(stop, effect)
            if effect.request.purpose == "auxiliary":
                self.aside_partial = clean(stop.partial).strip()

    # ---- Record -----------------------------------------------------------------------------------------------------

    def recorded(self, state: TurnState, record: Record) -> None:
        for change in record.changes:
            match change:
                case Append(messages=messages):
                    self._take(messages)
                    self.seen.recorded.extend(messages)
                    self.repairs += any(is_repair(m) for m in messages)
                    if self.repairs > 1:
                        raise Violation("an answer is sent back for its schema twice in one life of a turn")
                case Rewrite(start=start, messages=messages, why=why):
                    tail = self.disk[change.stop :]
                    self.checker.back_to(start)
                    self.words.superseded(self.disk[start:])
                    del self.disk[start:]
                    self._take((*messages, *tail))
                    if why == "compression":
                        self.asking.compressed()
                    else:
                        self.seen.recorded.extend(messages)
                case TurnEnded():
                    self._turn_record(change)
                case Learn():
                    self.asking.learned(change)
        self.asking.recorded()
        if state.messages != self.disk:
            raise Violation("the turn's conversation is not the one on disk")

    def _take(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            try:
                self.checker.feed(message)
            except InvalidConversation as problem:
                raise Violation(str(problem)) from problem
            self._ids(message)
            self._told(message)
            self.words.placed(message)
            self.disk.append(message)

    def _ids(self, message: Message) -> None:
        for call in message.calls:
            what = f"{call.name} {sorted(call.arguments.items(), key=str)} {call.problem}"
            if self.ids.setdefault(call.id, what) != what:
                raise Violation(f"call id {call.id} was used for two calls")

    def _told(self, message: Message) -> None:
        """What a call did is what the model is told."""
        if message.role != "tool":
            return
        calls = {c.id: c for c in self.disk[-1].calls}
        for result in message.results:
            times = len(self.world.ran.get(result.call_id, ()))
            call = calls[result.call_id]
            if call.problem and (times or result.status != "error"):
                raise Violation(f"{result.call_id} has a problem and ran {times} times, told {result.status}")
            if self.finished.get(result.call_id, result.status) != result.status:
                raise Violation(
                    f"{result.call_id} is {self.finished[result.call_id]} and the model is told {result.status}"
                )
            if "not run" in result.text and times:
                raise Violation(f"{result.call_id} ran and the model is told that it did not")
            if result.status in ("ok", "timeout") and not times:
                raise Violation(f"{result.call_id} never ran and the model is told {result.status}")
            returned = self.world.returned.get(result.call_id)
            said = clean(returned or "").strip()
            if result.status == "ok" and said not in result.text and "spill" not in result.text:
                raise Violation(f"{result.call_id} gave {returned!r} and the model is told {result.text!r}")

    def _turn_record(self, ended: TurnEnded) -> None:
        self.ended = ended
        try:
            self.checker.check_rest()
        except InvalidConversation as problem:
            raise Violation(str(problem)) from problem
        last = self.disk[-1]
        if ended.answer is not None and (last.text != ended.answer or last.origin in ("partial", "closing")):
            raise Violation("the answer is not the last message")
        if ended.answer is None and last.origin not in ("partial", "closing"):
            raise Violation("a turn without an answer ends with a message that looks like one")

    # ---- Calls ------------------------------------------------------------------------------------------------------

    def started(self, calls: tuple[ToolCall, ...]) -> None:
        """Before a batch runs anything: its calls are recorded, have no problem, and were never started."""
        open_calls = {c.id: c for c in self.disk[-1].calls}
        for call in calls:
            if call.id not in open_calls or open_calls[call.id].problem:
                raise Violation(f"{call.id} is started and is not an open call that may run")
            if call.id in self.start_rows:
                raise Violation(f"{call.id} is started twice")
            self.start_rows[call.id] = self.turn

    def call_finished(self, result: ToolResult) -> None:
        """The journal has this result from now on."""
        self.finished.setdefault(result.call_id, result.status)

    def batch_done(self, calls: tuple[ToolCall, ...], done: Any) -> None:
        if [r.call_id for r in done.results] != [c.id for c in calls]:
            raise Violation("a batch gave other results than its calls, or in another order")
        for call in calls:
            runs = self.world.ran.get(call.id, [])
            if len(runs) > 1 and call.name != "read":
                raise Violation(f"{call.id} ({call.name}) ran {len(runs)} times")
            if any(not run for run in runs):
                raise Violation(f"{call.id} ran with arguments that were lost")
            if any(run.get("key") != clean(str(call.arguments.get("key"))) for run in runs):
                raise Violation(f"{call.id} ran with {runs} and was asked for {call.arguments}")

    # ---- The end ----------------------------------------------------------------------------------------------------

    def turn_ended(self, state: TurnState, result: TurnResult, kept: Collection[str]) -> None:
        if self.ended is None:
            raise Violation("the turn returned without a TurnEnded")
        if (self.ended.reason, self.ended.answer) != (result.reason, result.answer):
            raise Violation("the result is not what the turn row says")
        found = self.log.load()
        if found.open_turn is not None:
            raise Violation("a turn that ended is still open on disk")
        if list(found.messages) != self.disk:
            raise Violation("the store does not have what was recorded")
        if dict(found.state) != {k: v for k, v in state.known.items() if k in found.state} or any(
            k not in found.state and k not in self.asking.expiring for k in state.known
        ):
            raise Violation(f"session state in the turn {state.known} is not that on disk {dict(found.state)}")
        self._check_partial()
        silent = result.reason is EndReason.PROVIDER_FAILED and self.asking.is_silent()
        if not silent and (fault := unfounded(state, result, self.seen)):
            raise Violation(fault)
        failed = self.seen.last_fault is not None and result.answer is None
        is_for_it = failed and not (result.reason.is_stop or result.reason.is_budget)
        if is_for_it and (fault := self.asking.gave_up_early(state)):
            raise Violation(fault)
        self.words.given_back.update(word for word in result.steering if word not in kept)
        if fault := self.words.fault({row.text for row in found.inbox}):
            raise Violation(fault)

    def _check_partial(self) -> None:
        """Streamed text that an interrupt cut is in the last message."""
        stop, last = self.seen.stop, self.disk[-1]
        if stop is not None and clean(stop.partial).strip() not in last.text:
            raise Violation("the text that was streamed before the stop is lost")
        if self.aside_partial and last.origin == "partial" and self.aside_partial in last.text:
            raise Violation("what an auxiliary call had streamed stands in the conversation")

    def session_end(self) -> None:
        found = self.log.load()
        if found.open_turn is not None:
            raise Violation("the session ends with an open turn")
        if found.inbox:
            raise Violation(f"the session ends, and something that was said still waits: {found.inbox}")
