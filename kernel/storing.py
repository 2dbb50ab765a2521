"""The few rules that every session store keeps: ids, titles, what a search reads, what is refused.

`journal.py` has the store that keeps them in memory; `hermes.plugins.stores` has the one on disk.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hermes.kernel.effects import Append, CallRecord, Change, Learn, Rewrite, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionNotFound, StoreError
from hermes.kernel.history import closing, result_text
from hermes.kernel.messages import Message, Refusal, Text, ToolCall, ToolResult

TITLE_MAX_CHARS = 60


class AmbiguousSession(SessionNotFound):
    """Raised when several sessions fit what was given; `candidates` are their ids, newest first."""

    def __init__(self, given: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        named = ", ".join(self.candidates[:8]) + (", …" if len(self.candidates) > 8 else "")
        super().__init__(f"{given!r} fits {len(self.candidates)} sessions: {named}; give more of the id")


class StoreUnavailable(SessionNotFound):
    """Raised when a session is asked for and the store that may have it could not be opened; says why it was not."""

    reason = EndReason.STORE_FAILED


def not_found(given: str) -> SessionNotFound:
    return SessionNotFound(f"no session has the id or title {given!r}; `hermes sessions list` shows what there is")


def new_session_id(now: float) -> str:
    """`YYYYmmdd_HHMMSS_` in local time and six random hex digits."""
    return f"{time.strftime('%Y%m%d_%H%M%S', time.localtime(now))}_{os.urandom(3).hex()}"


def title_of(text: str) -> str:
    """The first line that says something, blanks joined, control characters dropped; "" when there is none."""
    for line in text.splitlines():
        if title := " ".join("".join(c for c in line if c.isprintable()).split()):
            return title if len(title) <= TITLE_MAX_CHARS else title[: TITLE_MAX_CHARS - 1].rstrip() + "…"
    return ""


def title_from(messages: Iterable[Message]) -> str:
    """The title that a session without one takes from messages that are being stored; "" when they give none."""
    for message in messages:
        if message.role == "user" and not message.origin:
            told = (p.text for p in message.parts if isinstance(p, Text) and not p.origin)
            if title := title_of("\n".join(told)):
                return title
    return ""


def fork_title(title: str) -> str:
    """Another one than the source's, so that its title goes on naming one session."""
    return f"{title[: TITLE_MAX_CHARS - 7]} (fork)" if title else ""


def search_text(message: Message) -> str:
    """What a search may find in a message: its texts, the names and arguments of its calls, the texts of results."""
    found: list[str] = []
    for part in message.parts:
        match part:
            case Text() | Refusal():
                found.append(part.text)
            case ToolCall():
                found.append(f"{part.name} {json.dumps(dict(part.arguments), ensure_ascii=False)}")
            case ToolResult():
                found.append(part.text)
    return "\n".join(found)


def at_rest(messages: Sequence[Message], known: Mapping[str, CallRecord]) -> tuple[Message, ...]:
    """The messages with an open end closed, for a copy: calls get the result that the journal has, or "unknown"."""
    closed = list(messages)
    if closed and (calls := closed[-1].calls):
        closed.append(Message("tool", tuple(_result_for_copy(c, known.get(c.id)) for c in calls)))
    if closed and closed[-1].role != "assistant":
        closed.append(closing("(This copy of the session was made before the turn had ended.)"))
    return tuple(closed)


def _result_for_copy(call: ToolCall, record: CallRecord | None) -> ToolResult:
    if call.problem is not None:
        return result_text(call.id, "error", call.problem)
    if record and record.result:
        return replace(record.result, state=None)
    if record:
        return result_text(call.id, "unknown", "It had started when this copy was made: its outcome is unknown.")
    return result_text(call.id, "cancelled", "Not run: this copy of the session was made before it started.")


def check_record(turn: int, ended: bool | None, changes: Sequence[Change], live: int) -> None:
    """Refuse a Record that cannot be: `ended` None when there is no such turn, `live` the messages there are now.

    Turn 0 is before any turn: session state and an epoch may be written there, nothing else.
    """
    writes = ends = 0
    for change in changes:
        writes += not isinstance(change, Learn)
        if isinstance(change, Append):
            live += len(change.messages)
        elif isinstance(change, Rewrite):
            if not 0 <= change.start <= change.stop <= live:
                span = f"{change.start} to {change.stop}"
                raise StoreError(f"a rewrite of messages {span} does not fit a session of {live}; nothing was written")
            live += len(change.messages) - (change.stop - change.start)
        elif isinstance(change, TurnEnded):
            ends += 1
    if ended is None and (turn != 0 or writes):
        raise StoreError(f"the session has no turn {turn}; nothing was written")
    if ended and writes:
        raise StoreError(f"turn {turn} of the session has ended already; nothing was written")
    if ends > 1:
        raise StoreError(f"turn {turn} was to end twice in one record; nothing was written")


def taken_twice(inbox_id: int) -> StoreError:
    return StoreError(f"inbox row {inbox_id} is not waiting in this session; nothing was written")


def known_call(call_id: str) -> StoreError:
    return StoreError(f"call {call_id!r} is in the journal already; nothing was written")


def unknown_call(call_id: str) -> StoreError:
    return StoreError(f"call {call_id!r} was never started in this session; nothing was written")


def unknown_turn(turn: int) -> StoreError:
    return StoreError(f"the session has no turn {turn}; its turns are numbered from 1")
