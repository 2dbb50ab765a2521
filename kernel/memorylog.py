"""One session in memory: what `journal.py` hands out, and what a run goes on with when the disk fails."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hermes.kernel.effects import Append, CallRecord, Change, Learn, Rewrite, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionBusy, StoreError
from hermes.kernel.messages import Image, Json, Message, Text, ToolCall, ToolResult
from hermes.kernel.sessions import (
    Beginning,
    Epoch,
    InboxRow,
    OpenTurn,
    SessionInfo,
    Snapshot,
)
from hermes.kernel.storing import (
    check_record,
    known_call,
    taken_twice,
    title_from,
    title_of,
    unknown_call,
    unknown_turn,
)

Clock = Callable[[], float]
"""Seconds since the epoch, as `time.time`."""


class Shared:
    """What all sessions of one store share: the clock, one lock, and the row ids that were given out."""

    def __init__(self, clock: Clock, first_id: int = 1) -> None:
        self.clock, self.lock = clock, threading.RLock()
        self._last_id = first_id - 1

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id


@dataclass(slots=True, eq=False)
class Row:
    """`superseded_in`: the turn that rewrote it, None while it is live."""

    id: int
    turn: int
    time: float
    message: Message
    superseded_in: int | None = None


@dataclass(slots=True)
class Turn:
    id: int
    started: float
    state: Json
    iterations: int = 0
    attempts: int = 0
    reason: str = ""
    answer: str | None = None


@dataclass(slots=True)
class Session:
    """`rows` in reading order, superseded ones before what took their place; `adopted`: a failed store knew more."""

    info: SessionInfo
    title: str
    updated: float
    rows: list[Row] = field(default_factory=list)
    live: list[Row] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    state: dict[str, tuple[Json, float | None]] = field(default_factory=dict)
    epoch: Epoch | None = None
    turns: dict[int, Turn] = field(default_factory=dict)
    last_turn: int = 0
    open_turn: Turn | None = None
    inbox: dict[int, InboxRow] = field(default_factory=dict)
    spent_inbox: set[int] = field(default_factory=set)
    calls: dict[str, CallRecord] = field(default_factory=dict)
    outcomes: list[tuple[int, Json]] = field(default_factory=list)
    holder: weakref.ref[MemoryLog] | None = None
    adopted: bool = False

    def described(self) -> SessionInfo:
        info, last = self.info, self.turns.get(self.last_turn)
        return SessionInfo(  # spelled out: `replace` costs five times as much, and a load is in every simulated turn
            info.id,
            self.title,
            info.created,
            self.updated,
            info.directory,
            info.model,
            info.source,
            info.parent,
            info.parent_call,
            last.reason if last else info.end_reason,
            self.last_turn,
            len(self.live),
        )


class MemoryLog:
    """One session in memory. A claim lasts as long as the log that took it."""

    def __init__(self, shared: Shared, session: Session) -> None:
        self._shared, self._session, self._lock = shared, session, shared.lock
        self.id = session.info.id

    @classmethod
    def adopt(
        cls, snapshot: Snapshot, *, calls: Mapping[str, CallRecord] | None = None, clock: Clock = time.time
    ) -> MemoryLog:
        """Go on in memory from what a store last gave; what it does not name is believed, not refused.

        `calls` are the call records that matter, such as those of calls that still run.
        """
        info = snapshot.info
        session = Session(info, info.title, info.updated, last_turn=info.turns, adopted=True)
        session.rows = [Row(n, 0, info.updated, m) for n, m in enumerate(snapshot.messages, 1)]
        session.live, session.call_ids = list(session.rows), set(snapshot.call_ids)
        session.state = {key: (value, None) for key, value in snapshot.state.items()}
        session.epoch, session.inbox = snapshot.epoch, {row.id: row for row in snapshot.inbox}
        session.calls = dict(calls or {})
        if seen := snapshot.open_turn:
            session.open_turn = Turn(seen.id, seen.started, None, seen.iterations, seen.attempts)
            session.turns[seen.id] = session.open_turn
        # ids that the lost store gave out after the snapshot must not be given out again
        return cls(Shared(clock, first_id=1 << 32), session)

    def claim(self) -> None:
        with self._lock:
            holder = self._session.holder() if self._session.holder else None
            if holder not in (None, self):
                raise SessionBusy(self.id, "another agent of this process")
            self._session.holder = weakref.ref(self)

    def release(self) -> None:
        with self._lock:
            if self._session.holder and self._session.holder() is self:
                self._session.holder = None

    def load(self) -> Snapshot:
        with self._lock:
            session, now, turn = self._session, self._shared.clock(), self._session.open_turn
            return Snapshot(
                session.described(),
                tuple([row.message for row in session.live]),
                frozenset(session.call_ids),
                {key: value for key, (value, expires) in session.state.items() if expires is None or expires > now},
                session.epoch,
                OpenTurn(turn.id, turn.started, turn.iterations, turn.attempts) if turn else None,
                tuple(session.inbox.values()),
            )

    def begin_turn(self, state: Json) -> int:
        with self._lock:
            session, now = self._session, self._shared.clock()
            if session.open_turn:
                session.open_turn.reason = EndReason.CRASHED
            session.last_turn += 1
            turn = Turn(session.last_turn, now, state)
            session.turns[turn.id] = session.open_turn = turn
            session.updated = now
            return turn.id

    def record(
        self,
        turn: int,
        changes: Sequence[Change],
        *,
        iterations: int,
        attempts: int,
        epoch: Epoch | None = None,
        outcomes: Sequence[Json] = (),
        starting: Sequence[ToolCall] = (),
    ) -> None:
        with self._lock:
            session, now = self._session, self._shared.clock()
            row = self._turn_row(turn)
            check_record(turn, bool(row.reason) if row else None, changes, len(session.live))
            self._check_taken(changes)
            if starting:
                self.start_calls(turn, starting)
            if row and not row.reason:
                row.iterations, row.attempts = iterations, attempts
            for change in changes:
                self._apply(turn, change, now)
            if epoch and (session.epoch is None or epoch.number >= session.epoch.number):
                session.epoch = epoch
            session.outcomes.extend((turn, outcome) for outcome in outcomes)
            session.updated = now

    def beginning(self, turn: int) -> Beginning:
        with self._lock:
            row = self._session.turns.get(turn)
            if row is None:
                raise unknown_turn(turn)
            before = [r for r in self._session.rows if r.turn < turn]
            live = [r.message for r in before if r.superseded_in is None or r.superseded_in >= turn]
            return Beginning(row.state, tuple(live), frozenset(c.id for r in before for c in r.message.calls))

    def outcomes(self, turn: int) -> Sequence[Json]:
        with self._lock:
            return [outcome for number, outcome in self._session.outcomes if number == turn]

    def put_inbox(self, kind: Literal["input", "steer"], parts: Sequence[Text | Image]) -> int:
        with self._lock:
            row = InboxRow(self._shared.next_id(), kind, tuple(parts))
            self._session.inbox[row.id] = row
            return row.id

    def waiting(self, kind: Literal["input", "steer"]) -> Sequence[InboxRow]:
        with self._lock:
            return [row for row in self._session.inbox.values() if row.kind == kind]

    def drop_inbox(self, ids: Sequence[int]) -> None:
        with self._lock:
            for row_id in ids:
                if self._session.inbox.pop(row_id, None):
                    self._session.spent_inbox.add(row_id)

    def start_calls(self, turn: int, calls: Sequence[ToolCall]) -> None:
        with self._lock:
            known = self._session.calls
            if self._turn_row(turn) is None:
                raise StoreError(f"the session has no turn {turn}; no call was started")
            for place, call in enumerate(calls):
                if call.id in known or any(call.id == other.id for other in calls[:place]):
                    raise known_call(call.id)
            for call in calls:
                known[call.id] = CallRecord(call.id, "started", call.arguments)
                self._session.call_ids.add(call.id)

    def link_child(self, call_id: str, child: str) -> None:
        with self._lock:
            self._session.calls[call_id] = replace(self._call(call_id), child=child)

    def finish_call(self, result: ToolResult) -> bool:
        with self._lock:
            call = self._call(result.call_id)
            if call.result is not None:
                return False
            self._session.calls[call.call_id] = CallRecord(
                call.call_id, result.status, call.arguments, result, call.child
            )
            for key, value in (result.state or {}).items():
                self._learn(key, value, None)
            return True

    def calls(self, call_ids: Sequence[str]) -> Mapping[str, CallRecord]:
        with self._lock:
            return {i: self._session.calls[i] for i in call_ids if i in self._session.calls}

    def set_title(self, title: str) -> None:
        with self._lock:
            self._session.title = title_of(title)

    def _turn_row(self, turn: int) -> Turn | None:
        row = self._session.turns.get(turn)
        if row is None and self._session.adopted and turn:
            row = self._session.turns[turn] = self._session.open_turn = Turn(turn, self._shared.clock(), None)
            self._session.last_turn = max(turn, self._session.last_turn)
        return row

    def _call(self, call_id: str) -> CallRecord:
        if call := self._session.calls.get(call_id):
            return call
        if not self._session.adopted:
            raise unknown_call(call_id)
        self._session.call_ids.add(call_id)
        return CallRecord(call_id, "started", {})

    def _check_taken(self, changes: Sequence[Change]) -> None:
        seen: set[int] = set()
        for change in changes:
            if isinstance(change, (Append, Rewrite)):
                for row_id in change.taken:
                    lost = self._session.adopted and row_id not in self._session.spent_inbox
                    if row_id in seen or not (row_id in self._session.inbox or lost):
                        raise taken_twice(row_id)
                    seen.add(row_id)

    def _apply(self, turn: int, change: Change, now: float) -> None:
        session = self._session
        match change:
            case Append():
                self._replace(turn, len(session.live), len(session.live), change, now)
            case Rewrite():
                self._replace(turn, change.start, change.stop, change, now)
            case Learn():
                self._learn(change.key, change.value, None if change.ttl_s is None else now + change.ttl_s)
            case TurnEnded():
                row = session.turns[turn]
                row.reason, row.answer = change.reason, change.answer
                if session.open_turn is row:
                    session.open_turn = None

    def _replace(self, turn: int, start: int, stop: int, change: Append | Rewrite, now: float) -> None:
        session = self._session
        new = [Row(self._shared.next_id(), turn, now, message) for message in change.messages]
        for row in session.live[start:stop]:
            row.superseded_in = turn
        if stop == len(session.live):
            session.rows.extend(new)
        else:
            after = session.rows.index(session.live[stop])
            session.rows[after:after] = new
        session.live[start:stop] = new
        for message in change.messages:
            for call in message.calls:
                session.call_ids.add(call.id)
        for row_id in change.taken:
            session.inbox.pop(row_id, None)
            session.spent_inbox.add(row_id)
        if not session.title:
            session.title = title_from(change.messages)

    def _learn(self, key: str, value: Json, expires: float | None) -> None:
        if value is None:
            self._session.state.pop(key, None)
        else:
            self._session.state[key] = (value, expires)
