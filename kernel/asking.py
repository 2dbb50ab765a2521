"""Ask the model until there is a reply or a reason to stop: retries, the chain of targets, overflow.

The one place that yields AskModel, and with it the one that takes over what comes with Answered and Fault.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hermes.kernel.context import shrink
from hermes.kernel.effects import Answered, AskModel, Consult, Fault, FaultKind, Notify, Record, RecoveryChoice, Wait
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.messages import ModelReply, ModelRequest
from hermes.kernel.recovery import LONGEST_WAIT_S, Decision, GiveUp, NextTarget, Retry, Tries, decide, obey
from hermes.kernel.state import Effects, Ended, TurnState

TARGET_COOLS_S = 60.0
"""How long a target that was left is passed over at the start of a turn (runtime behaviour specification 8.9)."""


def ask(state: TurnState, request: ModelRequest) -> Effects:
    """A ModelReply; None when the budget would not pay. Raises Ended when there is nothing left to try.

    `request.messages` is filled in here at each attempt, since an overflow may have changed the conversation.
    """
    tries = Tries()
    compressions = 0
    while True:
        outcome = yield from one_call(state, request)
        if isinstance(outcome, ModelReply):
            return outcome
        if state.exhausted and request.purpose == "turn":
            return None
        if outcome.kind is FaultKind.BUDGET:
            return None
        if outcome.kind is FaultKind.CONTEXT_OVERFLOW and (yield from shrink(state, outcome, compressions)):
            compressions += 1
            continue
        if is_schema_refused(outcome, request) and (yield from tell_schema(state, outcome, state.target_name)):
            continue
        tries.add(outcome)
        has_next = next_target(state) is not None
        decided = yield from decision(state, outcome, tries, state.target_name, state.limits.attempts, has_next)
        yield from act(state, outcome, tries, decided)


def one_call(state: TurnState, request: ModelRequest) -> Effects:
    """Ask the target in use with the conversation as it is now; gives the ModelReply or the Fault."""
    outcome = yield from call_model(state, replace(request, messages=tuple(state.messages)), state.target_name)
    if isinstance(outcome, Fault):
        state.streamed = outcome.partial
    else:
        state.streamed, state.prompt_tokens = "", outcome.usage.prompt_tokens
    return outcome


def call_model(state: TurnState, request: ModelRequest, target: str) -> Effects:
    """Yield one AskModel and take over what comes with its outcome; gives the ModelReply or the Fault."""
    state.attempts += 1
    left_out = tuple(state.known.get(_left_out(target), ()))
    outcome = yield AskModel(replace(request, leave_out=left_out), target, state.attempts)
    if not isinstance(outcome, (Answered, Fault)):
        raise TypeError(f"AskModel must be answered by Answered or Fault, not {type(outcome).__name__}")
    state.take_over(outcome)
    if isinstance(outcome, Answered):
        return outcome.reply
    if outcome.kind is FaultKind.BUDGET:
        state.exhausted = state.exhausted or outcome.budget or EndReason.BUDGET_TOKENS
    return outcome


def is_schema_refused(fault: Fault, request: ModelRequest) -> bool:
    """Whether it may be the schema that a provider refuses; which it takes is known to nobody beforehand."""
    return fault.kind is FaultKind.BAD_REQUEST and request.schema is not None


def tell_schema(state: TurnState, fault: Fault, target: str) -> Effects:
    """Have the schema told to a target in words from now on; gives False when that is so already."""
    key = _left_out(target)
    left_out = state.known.get(key, [])
    if "schema" in left_out:
        return False
    yield Record((state.learn(key, [*left_out, "schema"]),))
    text = f"{target} refused the request ({fault.detail}); trying with the schema told in words"
    yield Notify(Notice(kind="warning", text=text))
    return True


def _left_out(target: str) -> str:
    return f"leave_out:{target}"


def decision(state: TurnState, fault: Fault, tries: Tries, target: str, attempts: int, has_next: bool) -> Effects:
    """What to do about a fault of a target: a plugin's choice within the table's limits, else the table's."""
    facts = {"fault": fault, "attempts": tries.on_target, "target": target}
    choice: Any = yield Consult("recovery", facts)
    if isinstance(choice, RecoveryChoice):
        chosen = obey(choice, fault, tries, attempts=attempts, has_next=has_next)
        if chosen is not None:
            return chosen
    return decide(fault, tries, attempts=attempts, has_next=has_next, seed=f"{state.session_id}:{state.turn}")


def act(state: TurnState, fault: Fault, tries: Tries, decided: Decision) -> Effects:
    """Wait, or move to the next target, or end the turn."""
    match decided:
        case Retry(wait_s=wait_s):
            yield again(state.target_name, fault, wait_s)
        case NextTarget():
            left, following = state.target_name, next_target(state)
            state.target = state.target if following is None else following
            tries.next_target()
            yield Record((state.learn(f"left:{left}", fault.kind.value, TARGET_COOLS_S),))
            text = f"{left} failed ({fault.detail or fault.kind.value}); going on with {state.target_name}"
            yield Notify(Notice(kind="fallback", text=text))
        case GiveUp(reason=reason):
            times = f" (after {tries.in_all} attempts)" if tries.in_all > 1 else ""
            wait_s = fault.retry_after_s or 0.0
            when = f"; it asks to wait {wait_s:.0f} s" if wait_s > LONGEST_WAIT_S else ""
            raise Ended(reason, f"{state.target_name}: {fault.detail or fault.kind.value}{times}{when}")


def again(target: str, fault: Fault, wait_s: float) -> Wait:
    return Wait(wait_s, f"{target}: {fault.detail or fault.kind.value}; trying again")


def first_target(state: TurnState) -> int:
    """The first target of the chain that was not left a short while ago; the primary when all were."""
    return next((i for i, name in enumerate(state.targets) if not _cools(state, name)), 0)


def next_target(state: TurnState) -> int | None:
    """The next of the chain that is not cooling down; None when there is none."""
    return next((i for i, n in enumerate(state.targets) if i > state.target and not _cools(state, n)), None)


def _cools(state: TurnState, target: str) -> bool:
    return f"left:{target}" in state.known
