"""Close what a crash left open in a session that nobody goes on with: a delegated child of one that is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes.kernel.effects import Append, CallRecord, Change, Rewrite, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionBusy
from hermes.kernel.history import closing, repair, result_text
from hermes.kernel.messages import Message, ToolCall, ToolResult
from hermes.kernel.resting import tool_message
from hermes.kernel.sessions import SessionLog, SessionStore

CRASHED = "The process died during this turn."


def close_children(store: SessionStore, session_id: str) -> list[str]:
    """Close the unfinished turns of all delegated sessions below one; the ids of those that were closed."""
    closed = []
    for child in store.children(session_id):
        closed += close_children(store, child.id)
        log = store.open(child.id)
        try:
            log.claim()
        except SessionBusy:  # a living process has it: not ours to close
            continue
        try:
            if close_crashed(log):
                closed.append(child.id)
        finally:
            log.release()
    return closed


def close_crashed(log: SessionLog) -> bool:
    """Answer its open calls from the journal, bring it to rest, and mark its turn `crashed`, in one Record."""
    found = log.load()
    turn = found.open_turn
    if turn is None:
        return False
    messages = repair(found.messages)
    changes: list[Change] = repaired(found.messages, messages)
    tail = messages[-1] if messages else None
    if tail is not None and tail.calls:
        known = log.calls(tuple(c.id for c in tail.calls if not c.problem))
        results = tuple(_result(c, known.get(c.id)) for c in tail.calls if not c.problem)
        changes.append(Append((tool_message(tail.calls, results), closing(CRASHED))))
    elif tail is not None and tail.role != "assistant":
        changes.append(Append((closing(CRASHED),)))
    is_answer = tail is not None and tail.role == "assistant" and not tail.calls and tail.origin == ""
    answer: Any = tail.text if tail is not None and is_answer else None
    changes.append(TurnEnded(EndReason.CRASHED, answer))
    log.record(turn.id, changes, iterations=turn.iterations, attempts=turn.attempts)
    return True


def repaired(stored: Sequence[Message], messages: Sequence[Message]) -> list[Change]:
    """The change that puts a repaired conversation in the place of the stored one; none when nothing was wrong."""
    if len(stored) == len(messages) and all(a is b for a, b in zip(stored, messages, strict=True)):
        return []
    return [Rewrite(0, len(stored), tuple(messages), "repair")]


def _result(call: ToolCall, record: CallRecord | None) -> ToolResult:
    if record is None:
        return result_text(call.id, "cancelled", f"{call.name} was not run: the process died before it began.")
    if record.result is not None:
        return record.result
    return result_text(call.id, "unknown", f"{call.name} had started when the process died; it may have run.")
