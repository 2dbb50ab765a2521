"""What a conversation needs to come to rest: results of calls that are open, and a closing message. Pure."""

from __future__ import annotations

from hermes.kernel.endings import EndReason
from hermes.kernel.history import closing, result_text, tidy_result
from hermes.kernel.messages import Message, ToolCall, ToolResult
from hermes.kernel.replies import CUT
from hermes.kernel.state import TurnState

CUT_OFF = "This turn was cut off before it ended."


def open_calls(state: TurnState) -> tuple[ToolCall, ...]:
    return state.messages[-1].calls if state.messages else ()


def tool_message(calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...]) -> Message:
    """One tool message for a batch: the results of what ran, an error for each call that has a problem."""
    found = {r.call_id: r for r in results}
    parts = []
    for call in calls:
        if call.problem:
            advice = " Split the work into several smaller calls." if call.problem.startswith(CUT) else ""
            parts.append(result_text(call.id, "error", f"This call was not run: {call.problem}{advice}"))
        else:
            result = tidy_result(found[call.id])
            parts.append(ToolResult(result.call_id, result.status, result.parts, None, result.replay))
    return Message("tool", tuple(parts))


def closing_text(reason: EndReason, detail: str) -> str:
    if reason.is_stop:
        who = "by the user" if reason is EndReason.INTERRUPTED else f"from outside ({reason.value})"
        return f"This turn was stopped here {who}."
    return f"This turn ended here ({reason.value}): {detail}" if detail else f"This turn ended here ({reason.value})."


def resting(state: TurnState, results: tuple[ToolResult, ...], text: str) -> tuple[Message, ...]:
    """The messages that bring the conversation to rest: results of open calls, then a closing one; maybe none."""
    if not state.messages:
        return ()
    if calls := open_calls(state):
        known = {r.call_id for r in results}
        never = "was not run: the turn was stopped before it began."
        lost = (result_text(c.id, "cancelled", f"{c.name} {never}") for c in calls if c.id not in known)
        return (tool_message(calls, (*results, *lost)), closing(text))
    return () if state.messages[-1].role == "assistant" else (closing(text),)
