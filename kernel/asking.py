"""Ask the model until there is a reply or a reason to stop: retries, the chain of targets, overflow.

The one place that yields AskModel, and with it the one that takes over what comes with Answered and Fault.
"""

from __future__ import annotations

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
        if outcome.kind is FaultKind.BUDGET:
            state.exhausted = state.exhausted or outcome.budget or EndReason.BUDGET_TOKENS
        if state.exhausted and request.purpose == "turn":
            return None
        if outcome.kind is FaultKind.BUDGET:
            return None
        if outcome.kind is FaultKind.CONTEXT_OVERFLOW and (yield from shrink(state, outcome, compressions)):
            compressions += 1
            continue
        tries.add(outcome)
        yield from act(state, outcome, tries, (yield from decision(state, outcome, tries)))


def one_call(state: TurnState, request: ModelRequest) -> Effects:
    """Yield one AskModel; gives the ModelReply or the Fault."""
    state.attempts += 1
    asked = ModelRequest(
        tuple(state.messages),
        request.note,
        request.may_call,
        request.output_cap,
        request.purpose,
        tuple(state.known.get(f"leave_out:{state.target_name}", ())),
    )
    outcome = yield AskModel(asked, state.target_name, state.attempts)
    if not isinstance(outcome, (Answered, Fault)):
        raise TypeError(f"AskModel must be answered by Answered or Fault, not {type(outcome).__name__}")
    state.take_over(outcome)
    state.streamed = outcome.partial if isinstance(outcome, Fault) else ""
    if isinstance(outcome, Fault):
        return outcome
    state.prompt_tokens = outcome.reply.usage.prompt_tokens
    return outcome.reply


def decision(state: TurnState, fault: Fault, tries: Tries) -> Effects:
    """What to do about a fault: a plugin's choice within the table's limits, else the table's."""
    has_next = next_target(state) is not None
    facts = {"fault": fault, "attempts": tries.on_target, "target": state.target_name}
    choice: Any = yield Consult("recovery", facts)
    if isinstance(choice, RecoveryChoice):
        chosen = obey(choice, fault, tries, attempts=state.limits.attempts, has_next=has_next)
        if chosen is not None:
            return chosen
    seed = f"{state.session_id}:{state.turn}"
    return decide(fault, tries, attempts=state.limits.attempts, has_next=has_next, seed=seed)


def act(state: TurnState, fault: Fault, tries: Tries, decided: Decision) -> Effects:
    """Wait, or move to the next target, or end the turn."""
    match decided:
        case Retry(wait_s=wait_s):
            yield Wait(wait_s, f"{state.target_name}: {fault.detail or fault.kind.value}; trying again")
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


def first_target(state: TurnState) -> int:
    """The first target of the chain that was not left a short while ago; the primary when all were."""
    return next((i for i, name in enumerate(state.targets) if not _cools(state, name)), 0)


def next_target(state: TurnState) -> int | None:
    """The next of the chain that is not cooling down; None when there is none."""
    return next((i for i, n in enumerate(state.targets) if i > state.target and not _cools(state, n)), None)


def _cools(state: TurnState, target: str) -> bool:
    return f"left:{target}" in state.known
