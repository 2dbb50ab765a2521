"""Ask the model until there is a reply or a reason to stop: repairs, retries, the chain of targets, overflow.

The one place that yields AskModel, and with it the one that takes over what comes with Answered and Fault.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hermes.kernel.chain import (
    CHAIN_SPENT_S,
    fell_silent,
    go_to,
    is_open,
    is_wider,
    leave,
    most_attempts,
    next_target,
    silences,
    spoke,
)
from hermes.kernel.context import adopt, shrink
from hermes.kernel.effects import (
    Answered,
    AskModel,
    Change,
    Consult,
    Fault,
    FaultKind,
    Notify,
    Record,
    RecoveryChoice,
    Stopped,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.messages import ModelReply, ModelRequest
from hermes.kernel.recovery import (
    LONGEST_WAIT_S,
    SILENT_S,
    Decision,
    GiveUp,
    NextTarget,
    Retry,
    Tries,
    decide,
    is_silence,
    obey,
)
from hermes.kernel.repairs import MOST_REPAIRS, OUTPUT, as_learned, repair, unrepaired
from hermes.kernel.state import Effects, Ended, TurnState

_TOO_LONG = (FaultKind.CONTEXT_OVERFLOW, FaultKind.BODY_TOO_LARGE)
"""What a shorter conversation may get past."""


def ask(state: TurnState, request: ModelRequest) -> Effects:
    """A ModelReply; None when the budget would not pay. Raises Ended when there is nothing left to try.

    `request.messages` is filled in here at each attempt, since an overflow may have changed the conversation.
    """
    yield from leave_silent(state)
    tries = Tries()
    mended: list[str] = []
    compressions = 0
    while True:
        fault = yield from one_call(state, request)
        if isinstance(fault, ModelReply):
            return fault
        if state.exhausted and request.purpose == "turn" and fault.kind is FaultKind.BILLING:
            raise Ended(state.exhausted, f"{state.target_name}: {fault.detail}")  # nobody pays for a closing request
        if (state.exhausted and request.purpose == "turn") or fault.kind is FaultKind.BUDGET:
            return None
        tries.add(fault)
        attempts, has_next = most_attempts(state, state.target_name), next_target(state) is not None
        decided = yield from chosen(state, fault, tries, state.target_name, attempts, has_next)
        if decided is None:
            whole = replace(request, messages=tuple(state.messages))
            if (yield from mend(state, fault, whole, state.target_name, mended)):
                tries.mended()
                continue
            fault = unrepaired(fault)
            if fault.kind in _TOO_LONG and (yield from shrink(state, fault, compressions)):
                compressions += 1
                tries.mended()
                continue
            decided = settled(state, fault, tries, attempts, has_next)
        yield from act(state, fault, tries, decided)


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
    try:
        outcome = yield AskModel(as_learned(request, state.known, target), target, state.attempts)
    except Stopped as stop:
        if stop.silent_s >= SILENT_S:
            state.unrecorded.extend(fell_silent(state, target))
        raise
    if not isinstance(outcome, (Answered, Fault)):
        raise TypeError(f"AskModel must be answered by Answered or Fault, not {type(outcome).__name__}")
    state.take_over(outcome)
    if isinstance(outcome, Answered):
        if learned := spoke(state, target):
            yield Record(learned)
        return outcome.reply
    if is_silence(outcome):
        yield Record(fell_silent(state, target))
    if outcome.kind is FaultKind.BUDGET:
        state.exhausted = state.exhausted or outcome.budget or EndReason.BUDGET_TOKENS
    return outcome


def leave_silent(state: TurnState) -> Effects:
    """Go past a target that fell silent too often; raises Ended, without a request, when there is no other."""
    if not is_open(state, silent := state.target_name):
        return
    following = next_target(state)
    often = f"{silent} sent nothing {silences(state, silent)} times in a row"
    if following is None:
        raise Ended(EndReason.PROVIDER_FAILED, f"{often}; it is asked again in a minute")
    go_to(state, following)
    yield Notify(Notice(kind="fallback", text=f"{often}; going on with {state.target_name}"))


# ---- What to do about a fault ---------------------------------------------------------------------------------------


def chosen(state: TurnState, fault: Fault, tries: Tries, target: str, attempts: int, has_next: bool) -> Effects:
    """A plugin's choice within the table's limits; None when there is none that can be followed."""
    choice: Any = yield Consult("recovery", {"fault": fault, "attempts": tries.on_target, "target": target})
    if not isinstance(choice, RecoveryChoice):
        return None
    return obey(choice, fault, tries, attempts=attempts, has_next=has_next)


def mend(state: TurnState, fault: Fault, request: ModelRequest, target: str, mended: list[str]) -> Effects:
    """Change what is sent to this target from now on so that the request may pass; gives False when nothing is left.

    `mended` are the subjects of the repairs before it. The size of an output is changed once: a provider that goes on
    refusing a little less each time would be asked for ever.
    """
    found = repair(fault, as_learned(request, state.known, target), state.known, target)
    if found is None or len(mended) >= MOST_REPAIRS or (found.subject == OUTPUT and OUTPUT in mended):
        return False
    mended.append(found.subject)
    changes: list[Change] = [state.learn(found.key, found.value, found.ttl_s)]
    if target == state.target_name and (adopted := adopt(state, fault)):
        changes.append(adopted)
    yield Record(tuple(changes))
    yield Notify(Notice(kind="warning", text=found.told))
    return True


def settled(state: TurnState, fault: Fault, tries: Tries, attempts: int, has_next: bool) -> Decision:
    """The table's decision; a conversation that is too long here may fit where there is more room (B132)."""
    following = next_target(state)
    if fault.kind is FaultKind.CONTEXT_OVERFLOW and following is not None and is_wider(state, following):
        return NextTarget()
    return decide(fault, tries, attempts=attempts, has_next=has_next, seed=seed_of(state))


def seed_of(state: TurnState) -> str:
    """Makes the jitter of waits differ between sessions and turns."""
    return f"{state.session_id}:{state.turn}"


def act(state: TurnState, fault: Fault, tries: Tries, decided: Decision) -> Effects:
    """Wait, or move to the next target, or end the turn."""
    match decided:
        case Retry(wait_s=wait_s):
            yield from again(state.target_name, fault, tries, wait_s)
        case NextTarget():
            left, following = state.target_name, next_target(state)
            learned = leave(state, fault)
            if following is not None:
                go_to(state, following)
            tries.next_target()
            yield Record((learned,))
            text = f"{left} failed ({fault.detail or fault.kind.value}); going on with {state.target_name}"
            yield Notify(Notice(kind="fallback", text=text))
        case GiveUp(reason=reason):
            if len(state.targets) > 1:
                state.unrecorded.append(state.learn("chain_spent", True, CHAIN_SPENT_S))
            times = f" (after {tries.in_all} attempts)" if tries.in_all > 1 else ""
            wait_s = fault.retry_after_s or 0.0
            when = f"; it asks to wait {wait_s:.0f} s" if wait_s > LONGEST_WAIT_S else ""
            raise Ended(reason, f"{state.target_name}: {fault.detail or fault.kind.value}{times}{when}")


def again(target: str, fault: Fault, tries: Tries, wait_s: float) -> Effects:
    """Wait before the same target is asked again; another key of it is asked at once, and a person is told."""
    why = f"{target}: {fault.detail or fault.kind.value}"
    if tries.goes_on:
        yield Notify(Notice(kind="fallback", text=f"{why}; trying another key"))
    yield Wait(wait_s, f"{why}; trying again")
