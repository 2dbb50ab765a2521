"""Why a turn may end as it did: for each reason what must have been injected before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hermes.kernel.effects import Fault, FaultKind, Stopped
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Message, ModelReply, Refusal, StopReason, Thinking, ToolCall, clean
from hermes.kernel.recovery import POLICIES
from hermes.kernel.state import TurnResult, TurnState
from hermes.kernel.structured import fitted

CUT = (StopReason.LENGTH, StopReason.CUT)
READS, CHANGES, OF_A_TOOL = 3, 10, 20
"""The same read, another call, or any of one tool with the same result so often: the model must answer, or is stuck."""

MOST_EMPTY = 3
REPAIR = "Your answer does not fit"
"""How the nudge begins that sends back an answer which does not fit the schema."""


@dataclass(slots=True)
class Evidence:
    """What happened in one life of a turn, as far as a reason may follow from it.

    `disk` is the conversation as it is stored, `recorded` the messages that this life added to it.
    """

    stop: Stopped | None = None
    last_fault: Fault | None = None
    budget: EndReason | None = None
    summaries: int = 0
    replies: list[ModelReply] = field(default_factory=list)
    disk: list[Message] = field(default_factory=list)
    recorded: list[Message] = field(default_factory=list)

    @property
    def last(self) -> ModelReply | None:
        return self.replies[-1] if self.replies else None


def unfounded(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    """What is wrong with the reason of a turn; "" when it follows from what was injected."""
    stop, reason = seen.stop, result.reason
    if (stop is not None) != reason.is_stop or (stop and stop.reason is not reason):
        return f"{reason} with the stop {stop}"
    if stop is not None:
        return ""
    if rule := _RULES.get(reason):
        return rule(state, result, seen)
    fault = seen.last_fault
    if fault is None or reason not in (POLICIES[taken_for(fault)].ends, POLICIES[fault.kind].ends):
        return f"{reason} after the fault {fault}"
    return ""


def taken_for(fault: Fault) -> FaultKind:
    """What an output that cannot be made smaller comes to: no credit, or a full context."""
    if fault.kind is not FaultKind.OUTPUT_CAP:
        return fault.kind
    if fault.status == 402:
        return FaultKind.BILLING
    return fault.kind if fault.limit_tokens is None else FaultKind.CONTEXT_OVERFLOW


def is_refusal(reply: ModelReply) -> bool:
    return reply.stop_reason is StopReason.REFUSAL or any(isinstance(part, Refusal) for part in reply.parts)


def is_repair(message: Message) -> bool:
    return message.origin == "nudge" and message.text.startswith(REPAIR)


def _completed(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    if seen.budget is not None and seen.summaries:
        return "completed by a summary that a budget forced"
    if state.schema is not None and result.structured is None:
        return "completed with an answer that does not fit the schema"
    if (last := seen.last) is None:
        return ""  # the answer was recorded before a crash
    if not last.text.strip() and _said_beside_notes(result, seen):
        return ""
    if is_refusal(last) or not last.text.strip():
        return f"completed after {last}"
    if last.stop_reason in CUT and not seen.summaries:
        return "completed with a text that was cut"
    if last.calls:
        return "completed with open calls"
    if result.answer is None or clean(last.text).strip() not in result.answer:
        return "the answer is not what the model said"
    return ""


def _said_beside_notes(result: TurnResult, seen: Evidence) -> bool:
    """Whether the answer is what stands beside calls that only keep notes, before three empty replies."""
    beside = seen.disk[-3] if len(seen.disk) > 3 else None
    if beside is None or {call.name for call in beside.calls} != {"todo"} or _empty_replies(seen) < MOST_EMPTY:
        return False
    return result.answer == beside.text.strip()


def _budget_iterations(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    return "budget_iterations below the limit" if state.iterations < (state.limits.iterations or 0) else ""


def _budget(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    return "" if seen.budget is result.reason else f"{result.reason} and the budget is {seen.budget}"


def _refused(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    refused = seen.last is not None and is_refusal(seen.last)
    policy = seen.last_fault is not None and seen.last_fault.kind is FaultKind.CONTENT_POLICY
    return "" if refused or policy else "refused, and nobody refused"


def _cut_text(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    cut = [reply for reply in _since_progress(seen.replies) if reply.stop_reason in CUT and reply.text.strip()]
    if seen.last is None or seen.last.stop_reason not in CUT or len(cut) <= 3:
        return f"cut_text after {len(cut)} replies that were cut"
    return ""


def _cut_tool_call(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    cut = sum(any(c.problem and c.problem.startswith("cut: ") for c in reply.calls) for reply in seen.replies)
    return "" if cut >= 6 else f"cut_tool_call after {cut} replies with a call that was cut, twice asked for each"


def _empty_answer(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    empty = _empty_replies(seen)
    return "" if empty >= MOST_EMPTY else f"empty_answer after {empty} empty replies in a row"


def _empty_replies(seen: Evidence) -> int:
    return sum(not reply.text.strip() for reply in _since_progress(seen.replies))


def _since_progress(replies: list[ModelReply]) -> list[ModelReply]:
    """The replies after the last one that was whole: a text, or calls."""
    for index in range(len(replies) - 1, -1, -1):
        reply = replies[index]
        whole = reply.text.strip() and reply.stop_reason not in CUT
        if whole or (reply.calls and not any(c.problem and c.problem.startswith("cut: ") for c in reply.calls)):
            return replies[index + 1 :]
    return replies


def _thinking_exhausted(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    last = seen.last
    if last is None or last.stop_reason is not StopReason.LENGTH or last.text.strip():
        return f"thinking_exhausted after {last}"
    return "" if any(isinstance(p, Thinking) for p in last.parts) else "thinking_exhausted without thinking"


def _schema_unmet(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    if state.schema is None or not fitted(seen.disk[-1].text, state.schema)[1]:
        return "schema_unmet, and the answer fits"
    if seen.budget is None and state.exhausted is None and not any(map(is_repair, (*seen.disk, *seen.recorded))):
        return "schema_unmet, and the model was not told"
    return ""


def _invalid_tools(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    batches = [message.calls for message in seen.recorded if message.calls]
    valid = [n for n, calls in enumerate(batches) if not all(call.problem for call in calls)]
    since = batches[valid[-1] + 1 :] if valid else batches
    invalid = sum(not any(c.problem and c.problem.startswith("cut: ") for c in calls) for calls in since)
    return "" if invalid >= 3 else f"invalid_tools after {invalid} steps with only invalid calls"


def _stuck(state: TurnState, result: TurnResult, seen: Evidence) -> str:
    """The same call failed as often as the limit says, in this life of the turn."""
    told: dict[tuple[str, str, str], int] = {}
    asked: dict[str, ToolCall] = {}
    blocked = result.reason is EndReason.NEEDS_PERSON
    for message in seen.recorded:
        asked.update((call.id, call) for call in message.calls)
        for outcome in message.results:
            if call := asked.get(outcome.call_id):
                key = (call.name, str(sorted(call.arguments.items(), key=str)), outcome.status)
                told[key] = told.get(key, 0) + 1
    limit = state.limits.stop_after_failing_calls
    failed = max((n for (_, _, how), n in told.items() if how != "ok" and (how == "blocked") is blocked), default=0)
    read = max((n for (name, _, how), n in told.items() if how == "ok" and name in state.idempotent), default=0)
    changed = max((n for (name, _, how), n in told.items() if how == "ok" and name not in state.idempotent), default=0)
    by_tool = max((sum(n for (name, *_), n in told.items() if name == tool) for tool in state.tool_names), default=0)
    stuck = failed >= limit or (not blocked and (read >= READS or changed >= CHANGES or by_tool >= OF_A_TOOL))
    return "" if stuck else f"{result.reason} and the same call failed {failed} times, not {limit}"


Rule = Callable[[TurnState, TurnResult, Evidence], str]

_RULES: dict[EndReason, Rule] = {
    EndReason.COMPLETED: _completed,
    EndReason.BUDGET_ITERATIONS: _budget_iterations,
    EndReason.BUDGET_TOKENS: _budget,
    EndReason.BUDGET_COST: _budget,
    EndReason.BUDGET_TIME: _budget,
    EndReason.REFUSED: _refused,
    EndReason.CUT_TEXT: _cut_text,
    EndReason.CUT_TOOL_CALL: _cut_tool_call,
    EndReason.EMPTY_ANSWER: _empty_answer,
    EndReason.THINKING_EXHAUSTED: _thinking_exhausted,
    EndReason.SCHEMA_UNMET: _schema_unmet,
    EndReason.INVALID_TOOLS: _invalid_tools,
    EndReason.STUCK_CALLS: _stuck,
    EndReason.NEEDS_PERSON: _stuck,
}
"""Reasons that follow from something else than a fault; all others are the ends of the last fault's policy."""
