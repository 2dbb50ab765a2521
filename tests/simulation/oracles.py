"""What must be true of every simulated turn: the invariants of a conversation, and the rules of behaviour.

The invariants do not catch a loop that goes wrong in valid steps, so these oracles also hold what the turn did against
what the world did to it.
"""

from __future__ import annotations

from typing import Any

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
    RecoveryChoice,
    Rewrite,
    RunTools,
    Stopped,
    TurnEnded,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.history import Checker, InvalidConversation, with_note
from hermes.kernel.journal import MemoryLog
from hermes.kernel.messages import Message, Refusal, StopReason, Thinking, ToolCall, ToolResult, UserInput, clean
from hermes.kernel.recovery import LONGEST_WAIT_S, POLICIES
from hermes.kernel.state import TurnResult, TurnState
from hermes.kernel.structured import fitted

NEVER_RETRIED = {
    FaultKind.AUTH,
    FaultKind.PERMISSION,
    FaultKind.BILLING,
    FaultKind.BAD_REQUEST,
    FaultKind.MODEL_NOT_FOUND,
    FaultKind.CONTENT_POLICY,
    FaultKind.CONTEXT_OVERFLOW,
}
"""Written here a second time on purpose: the table itself may be wrong."""


class Violation(AssertionError):
    """A rule was broken; the message says which."""


class Oracles:
    """Fed by the driver with everything that happens; raises Violation."""

    def __init__(self, world: World, log: MemoryLog) -> None:
        self.world, self.log = world, log
        self.disk: list[Message] = []
        self.checker = Checker()
        self.turn = 0
        self.inputs: list[str] = []
        self.steers: dict[str, bool] = {}
        self.given_back: set[str] = set()
        self.ids: dict[str, str] = {}
        self.partials: list[str] = []
        self.start_rows: dict[str, int] = {}
        self.finished: dict[str, str] = {}
        self.used = 0
        self._reset()

    def _reset(self) -> None:
        self.stop: Stopped | None = None
        self.left: list[str] = []
        self.asked_target = ""
        self.faults_in_row = 0
        self.last_fault: Fault | None = None
        self.last_choice: RecoveryChoice | None = None
        self.last_compression = False
        self.objections = 0
        self.replies: list[Any] = []
        self.budget: EndReason | None = None
        self.must_ask_again = False
        self.summaries = 0
        self.answered = 0
        self.ended: TurnEnded | None = None
        self.was_refused_call = False
        self.aside: list[str] = []
        self.aside_fault: Fault | None = None
        self.aside_partial = ""
        self.is_aside = False
        self.told_schema: set[str] = set()
        self.last_may_call = True
        self.repairs = 0

    # ---- Words that must not be lost --------------------------------------------------------------------------------

    def new_input(self) -> str:
        self.inputs.append(self.world.word("input"))
        return self.inputs[-1]

    def new_steer(self) -> str:
        word = self.world.word("steer")
        self.steers[word] = True
        return word

    def new_partial(self) -> str:
        return self.world.word("streamed")

    def precious(self, state: TurnState) -> list[str]:
        """The user's words that stand in the conversation, which a compression carries over."""
        text = "".join(_all_text(m) for m in state.messages)
        return [w for w in (*self.inputs, *self.steers) if w in text]

    # ---- Before an effect -------------------------------------------------------------------------------------------

    def turn_begins(self, state: TurnState, given: UserInput | None) -> None:
        self._reset()
        self.turn, self.used = state.turn, state.iterations
        if state.messages != self.disk:
            raise Violation("what was loaded is not what was recorded")
        self.left = [t for t in state.targets if f"left:{t}" in state.known]
        if len(self.left) == len(state.targets):
            self.left = []

    def crashed(self) -> None:
        self.disk = list(self.log.load().messages)
        self.checker = Checker(self.disk)

    def effect(self, state: TurnState, effect: Effect, *, stopped: bool) -> None:
        if self.ended is not None and not type(effect).__name__ == "Notify":
            raise Violation(f"{type(effect).__name__} after the turn had ended")
        if stopped and isinstance(effect, (AskModel, RunTools, Wait, Consult)):
            raise Violation(f"a stopped turn went on with {type(effect).__name__}")
        match effect:
            case AskModel():
                self._asks(state, effect)
            case RunTools():
                self._runs(state, effect)
            case _:
                pass

    def _asks(self, state: TurnState, effect: AskModel) -> None:
        self.is_aside = effect.request.purpose == "auxiliary"
        if self.is_aside:
            self._asks_aside(state, effect)
        else:
            self._asks_the_conversation(state, effect)

    def _asks_the_conversation(self, state: TurnState, effect: AskModel) -> None:
        request = effect.request
        self.last_may_call = request.may_call
        if list(request.messages) != self.disk:
            raise Violation("the request's messages are not those on disk")
        sent = with_note(request.messages[-1:], request.note)
        if sent[-1].role == "assistant" or (request.messages[-1].calls):
            raise Violation("the request cannot be sent: it ends with an assistant message or open calls")
        if effect.target in self.left:
            raise Violation(f"{effect.target} was left and is asked again")
        if effect.target != self.asked_target:
            self.asked_target, self.faults_in_row = effect.target, 0
        if request.purpose == "summary" and not self.summaries:
            self.faults_in_row = 0  # the closing request has tries of its own
        self._asks_within_policy(state, effect)
        if request.purpose == "summary":
            self.summaries += 1
            if request.may_call:
                raise Violation("a summary request may call tools")
        else:
            if self.budget is not None:
                raise Violation("the budget was exhausted and the turn asked as if it were not")
            limit = state.limits.iterations
            if limit is not None and self.used + self.answered >= limit:
                raise Violation("more iterations than the limit")

    def _asks_aside(self, state: TurnState, effect: AskModel) -> None:
        """An auxiliary call: messages of its own, the auxiliary target first, and then the main one once."""
        request, target, asked = effect.request, effect.target, self.aside
        on_disk = {id(m) for m in self.disk}
        if request.system is None or any(id(m) in on_disk for m in request.messages):
            raise Violation("an auxiliary call is sent the conversation")
        if target in state.blind:
            raise Violation(f"{target} is shown an image that it cannot be shown")
        if target in asked and asked[-1] != target:
            raise Violation(f"{target} was given up for an auxiliary call and is asked again")
        attempts = 1 if asked and asked[0] != target else max(state.limits.attempts, 1)
        if asked.count(target) >= attempts:
            raise Violation(f"{target} is asked a time more for an auxiliary call than its attempts allow")
        fault = self.aside_fault
        chosen = self.last_choice is not None and self.last_choice.action == "retry"
        if target in asked and fault and fault.kind in NEVER_RETRIED and not chosen:
            raise Violation(f"{fault.kind} of an auxiliary call was retried against its policy")
        if self.budget is not None:
            raise Violation("the budget was exhausted and an auxiliary call was made")
        asked.append(target)

    def _asks_within_policy(self, state: TurnState, effect: AskModel) -> None:
        fault = self.last_fault
        if fault is None:
            return
        if self.faults_in_row >= max(state.limits.attempts, 1) and not self.last_compression:
            raise Violation(f"{effect.target} is asked a time more than its attempts allow")
        same = self.faults_in_row > 0
        chosen = self.last_choice is not None and self.last_choice.action == "retry"
        if same and fault.kind in NEVER_RETRIED and not chosen and not self.last_compression:
            raise Violation(f"{fault.kind} was retried against its policy")
        if same and fault.retry_after_s and fault.retry_after_s > LONGEST_WAIT_S and not chosen:
            raise Violation("asked again in spite of a wall of a Retry-After")

    def _runs(self, state: TurnState, effect: RunTools) -> None:
        tail = self.disk[-1] if self.disk else None
        if tail is None or effect.calls != tuple(c for c in tail.calls if not c.problem):
            raise Violation("RunTools is not for the calls that are recorded")
        if any(c.problem for c in effect.calls):
            raise Violation("a call with a problem is run")

    # ---- After an effect --------------------------------------------------------------------------------------------

    def outcome(self, effect: Effect, outcome: Any) -> None:
        spent = getattr(outcome, "spent", None)
        if isinstance(effect, Consult):
            self._consulted(effect, outcome)
            return
        if spent is not None and spent.exhausted and self.budget is None:
            self.budget = spent.exhausted
        if isinstance(outcome, Fault) and outcome.kind is FaultKind.BUDGET and self.budget is None:
            self.budget = outcome.budget
        if isinstance(effect, AskModel) and self.is_aside:
            self.aside_fault, self.last_choice = outcome if isinstance(outcome, Fault) else None, None
        elif isinstance(outcome, Fault):
            self.last_fault, self.faults_in_row = outcome, self.faults_in_row + 1
            if outcome.kind is FaultKind.BUDGET:
                self.faults_in_row = 0  # nothing was sent: the closing request is another one
            self.last_choice, self.last_compression = None, False
        elif isinstance(outcome, Answered):
            self.last_fault, self.faults_in_row = None, 0
            self.replies.append(outcome.reply)
            self.answered += effect.request.purpose == "turn"  # type: ignore[union-attr]

    def _consulted(self, effect: Consult, outcome: Any) -> None:
        if isinstance(outcome, RecoveryChoice):
            self.last_choice = outcome
        if effect.question == "turn_end" and isinstance(outcome, Objection):
            self.objections += 1
            if self.objections > 3:
                raise Violation("more than 3 objections in one life of a turn")

    def waited(self, seconds: float) -> None:
        if not 0 <= seconds <= LONGEST_WAIT_S:
            raise Violation(f"a wait of {seconds} s")

    def stopped(self, stop: Stopped, effect: Effect) -> None:
        self.stop = stop
        if isinstance(effect, AskModel) and self.is_aside:
            self.aside_partial = clean(stop.partial).strip()

    # ---- Record -----------------------------------------------------------------------------------------------------

    def recorded(self, state: TurnState, record: Record) -> None:
        for change in record.changes:
            match change:
                case Append(messages=messages):
                    self._take(len(self.disk), messages)
                    self.repairs += any(_is_repair(m) for m in messages)
                    if self.repairs > 1:
                        raise Violation("an answer is sent back for its schema twice in one life of a turn")
                case Rewrite(start=start, messages=messages, why=why):
                    tail = self.disk[change.stop :]
                    self.checker.back_to(start)
                    del self.disk[start:]
                    self._take(start, (*messages, *tail))
                    if why == "compression":
                        self.last_compression, self.faults_in_row = True, 0
                case TurnEnded():
                    self._turn_record(record, change)
                case _:
                    self._learned(change)
        if state.messages != self.disk:
            raise Violation("the turn's conversation is not the one on disk")

    def _learned(self, change: Learn) -> None:
        if change.key.startswith("left:"):
            self.left.append(change.key.removeprefix("left:"))
        elif change.key.startswith("leave_out:"):
            if change.key in self.told_schema:
                raise Violation(f"{change.key} is learned twice")
            self.told_schema.add(change.key)
            self.faults_in_row = 0  # the next request is another one: its schema is told in words

    def _take(self, start: int, messages: tuple[Message, ...]) -> None:
        for message in messages:
            try:
                self.checker.feed(message)
            except InvalidConversation as problem:
                raise Violation(str(problem)) from problem
            self._ids(message)
            self._told(message)
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

    def _turn_record(self, record: Record, ended: TurnEnded) -> None:
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

    def turn_ended(self, state: TurnState, result: TurnResult) -> None:
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
            k not in found.state and not k.startswith("left:") for k in state.known
        ):
            raise Violation(f"session state in the turn {state.known} is not that on disk {dict(found.state)}")
        self._check_partial()
        self._check_reason(state, result)
        for steer in result.steering:
            self.given_back.add(steer)
        self._check_words(state)

    def _check_partial(self) -> None:
        """Streamed text that an interrupt cut is in the last message."""
        if self.stop is not None and clean(self.stop.partial).strip() not in self.disk[-1].text:
            raise Violation("the text that was streamed before the stop is lost")
        last = self.disk[-1]
        if self.aside_partial and last.origin == "partial" and self.aside_partial in last.text:
            raise Violation("what an auxiliary call had streamed stands in the conversation")

    def _check_words(self, state: TurnState) -> None:
        """Each input once, each steer once or given back; none both."""
        text = "".join(_all_text(m) for m in self.disk)
        waiting = {row.text for row in self.log.load().inbox}
        for word in self.inputs:
            if text.count(word) != 1:
                raise Violation(f"the input {word} stands {text.count(word)} times in the conversation")
        for word in self.steers:
            times = text.count(word) + (word in self.given_back)
            if times > 1 or (times == 0 and word not in waiting):
                raise Violation(f"steering {word} was placed or given back {times} times")

    def _check_reason(self, state: TurnState, result: TurnResult) -> None:
        """The reason follows from what was injected."""
        reason, fault = result.reason, self.last_fault
        if (self.stop is not None) != reason.is_stop or (self.stop and self.stop.reason is not reason):
            raise Violation(f"{reason} with the stop {self.stop}")
        if self.stop is not None:
            return
        if reason is EndReason.COMPLETED:
            self._check_completed(state, result)
        elif reason is EndReason.BUDGET_ITERATIONS:
            if state.iterations < (state.limits.iterations or 0):
                raise Violation("budget_iterations below the limit")
        elif reason.is_budget:
            if self.budget is not reason:
                raise Violation(f"{reason} and the budget is {self.budget}")
        elif reason is EndReason.REFUSED:
            refusals = any(isinstance(p, Refusal) for p in self.replies[-1].parts) if self.replies else False
            if not refusals and not (fault and fault.kind is FaultKind.CONTENT_POLICY):
                raise Violation("refused, and nobody refused")
        elif reason in (EndReason.CUT_TEXT, EndReason.CUT_TOOL_CALL):
            if not self.replies or self.replies[-1].stop_reason not in (StopReason.LENGTH, StopReason.CUT):
                raise Violation(f"{reason} and the last reply was not cut")
        elif reason is EndReason.EMPTY_ANSWER:
            if not self.replies or self.replies[-1].text.strip():
                raise Violation("empty_answer and the last reply has a text")
        elif reason is EndReason.THINKING_EXHAUSTED:
            if not any(isinstance(p, Thinking) for p in self.replies[-1].parts):
                raise Violation("thinking_exhausted without thinking")
        elif reason is EndReason.SCHEMA_UNMET:
            if state.schema is None or not fitted(self.disk[-1].text, state.schema)[1]:
                raise Violation("schema_unmet, and the answer fits")
            if self.budget is None and state.exhausted is None and not any(map(_is_repair, self.disk)):
                raise Violation("schema_unmet, and the model was not told")
        elif reason in (EndReason.STUCK_CALLS, EndReason.NEEDS_PERSON, EndReason.INVALID_TOOLS):
            if not any(m.role == "tool" for m in self.disk):
                raise Violation(f"{reason} without tools")
        elif fault is None or POLICIES[fault.kind].ends is not reason:
            raise Violation(f"{reason} after the fault {fault}")

    def _check_completed(self, state: TurnState, result: TurnResult) -> None:
        if self.budget is not None and self.summaries:
            raise Violation("completed by a summary that a budget forced")
        if state.schema is not None and result.structured is None:
            raise Violation("completed with an answer that does not fit the schema")
        if not self.replies:
            return  # the answer was recorded before a crash
        last = self.replies[-1]
        if any(isinstance(p, Refusal) for p in last.parts) or not last.text.strip():
            raise Violation(f"completed after {last}")
        if last.stop_reason in (StopReason.LENGTH, StopReason.CUT) and not self.summaries:
            raise Violation("completed with a text that was cut")
        if last.calls and self.last_may_call:
            raise Violation("completed with open calls")
        if result.answer is None or clean(last.text).strip() not in result.answer:
            raise Violation("the answer is not what the model said")

    def session_end(self) -> None:
        if self.log.load().open_turn is not None:
            raise Violation("the session ends with an open turn")


def _all_text(message: Message) -> str:
    return message.text + "".join(r.text for r in message.results)


def _is_repair(message: Message) -> bool:
    return message.origin == "nudge" and message.text.startswith("Your answer does not fit")
