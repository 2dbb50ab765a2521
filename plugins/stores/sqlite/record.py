"""One Record as it is written: appends, rewrites by place, session state, the end of a turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from hermes.kernel.effects import Append, Change, Learn, Rewrite, TurnEnded
from hermes.kernel.errors import StoreError
from hermes.kernel.messages import Json, Message, clean
from hermes.kernel.sessions import Epoch
from hermes.kernel.storing import check_record, taken_twice, title_from
from hermes.plugins.stores.sqlite import rows

SPACING = 1 << 20
"""Between the places of messages that were appended, so that a rewrite finds room and copies nothing."""

Bodies = Sequence[tuple[str, str | None]]
"""Body and call ids of each message of a change, as their columns hold them."""

_Placed = tuple[int, int]
"""Id and place of a stored message."""


def prepare(change: Change) -> Bodies:
    if isinstance(change, (Append, Rewrite)):
        return [(rows.encode_message(m), rows.encode_call_ids(m)) for m in change.messages]
    return ()


def learn(connection: sqlite3.Connection, session: int, key: str, value: Json, expires: float | None) -> None:
    """Set one key of the session's state; None forgets it."""
    if value is None:
        connection.execute("DELETE FROM state WHERE session = ? AND key = ?", (session, clean(key)))
    else:
        connection.execute(
            "INSERT OR REPLACE INTO state (session, key, expires, value) VALUES (?, ?, ?, ?)",
            (session, clean(key), expires, rows.encode(value)),
        )


def was_deleted() -> StoreError:
    return StoreError("the session was deleted meanwhile; start a new one")


def write_epoch(connection: sqlite3.Connection, session: int, epoch: Epoch, now: float) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO epochs (session, number, why, time, tools, system) VALUES (?, ?, ?, ?, ?, ?)",
        (session, epoch.number, clean(epoch.why), now, rows.encode_tools(epoch.tools), clean(epoch.system)),
    )


class Writing:
    """What one Record read of its session at the start, and what has changed since; lives inside one transaction.

    Raises StoreError at once when the changes cannot be.
    """

    def __init__(
        self, connection: sqlite3.Connection, session: int, turn: int, now: float, changes: Sequence[Change]
    ) -> None:
        self._connection, self._session, self._turn, self._now = connection, session, turn, now
        row = connection.execute(
            "SELECT s.messages, s.last_place, s.title, s.turns, t.reason FROM sessions s"
            " LEFT JOIN turns t ON t.session = s.key AND t.number = ? WHERE s.key = ?",
            (turn, session),
        ).fetchone()
        if row is None:
            raise was_deleted()
        self._live, self._last_place, self._title, self._last_turn, reason = row
        check_record(turn, None if reason is None else bool(reason), changes, self._live)
        self._open, self.has_turn = reason == "", reason is not None
        self._end_reason: str | None = None

    def apply(self, change: Change, bodies: Bodies) -> None:
        match change:
            case Append():
                self._place(change, bodies, self._places_at_end(len(bodies)))
            case Rewrite():
                self._rewrite(change, bodies)
            case Learn():
                expires = None if change.ttl_s is None else self._now + change.ttl_s
                learn(self._connection, self._session, change.key, change.value, expires)
            case TurnEnded():
                self._end(change)

    def finish(self, iterations: int, attempts: int) -> None:
        """Write the counters of the turn and of the session."""
        if self._open:
            self._connection.execute(
                "UPDATE turns SET iterations = ?, attempts = ? WHERE session = ? AND number = ?",
                (iterations, attempts, self._session, self._turn),
            )
        self._connection.execute(
            "UPDATE sessions SET updated = ?, messages = ?, last_place = ?, title = ?,"
            " end_reason = coalesce(?, end_reason) WHERE key = ?",
            (self._now, self._live, self._last_place, self._title, self._end_reason, self._session),
        )

    def _end(self, change: TurnEnded) -> None:
        answer = None if change.answer is None else clean(change.answer)
        self._connection.execute(
            "UPDATE turns SET reason = ?, answer = ?, ended = ? WHERE session = ? AND number = ?",
            (change.reason.value, answer, self._now, self._session, self._turn),
        )
        if self._turn == self._last_turn:
            self._end_reason = change.reason.value

    def _rewrite(self, change: Rewrite, bodies: Bodies) -> None:
        left, superseded, right = self._around(change)
        places = self._places_between(left, superseded, right, len(bodies))
        if places is None:
            self._spread_out()
            places = self._places_between(*self._around(change), len(bodies)) or ()
        first = self._place(change, bodies, places) or -self._turn
        self._connection.executemany(
            "UPDATE messages SET superseded_by = ? WHERE id = ?", [(first, row_id) for row_id, _ in superseded]
        )
        self._live -= len(superseded)

    def _around(self, change: Rewrite) -> tuple[_Placed | None, list[_Placed], _Placed | None]:
        """The live row before the rewritten ones, these, and the one after them."""
        found = self._live_rows(max(change.start - 1, 0), change.stop + 1)
        left = found.pop(0) if change.start else None
        right = found.pop() if change.stop < self._live else None
        return left, found, right

    def _place(self, change: Append | Rewrite, bodies: Bodies, places: Sequence[int]) -> int:
        """Insert the messages and mark what they hold as taken; returns the first new id, 0 when there is none."""
        first = 0
        for message, (body, call_ids), place in zip(change.messages, bodies, places, strict=True):
            new = self._insert(message, place, body, call_ids)
            first = first or new
        for row_id in change.taken:
            cursor = self._connection.execute(
                "UPDATE inbox SET taken_by = ? WHERE id = ? AND session = ? AND taken_by IS NULL",
                (first, row_id, self._session),
            )
            if cursor.rowcount == 0:
                raise taken_twice(row_id)
        self._live += len(bodies)
        self._title = self._title or clean(title_from(change.messages))
        return first

    def _insert(self, message: Message, place: int, body: str, call_ids: str | None) -> int:
        cursor = self._connection.execute(
            "INSERT INTO messages (session, turn, place, role, origin, time, call_ids, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self._session, self._turn, place, message.role, message.origin, self._now, call_ids, body),
        )
        return int(cursor.lastrowid or 0)

    def _live_rows(self, start: int, stop: int) -> list[_Placed]:
        """Id and place of the live messages from index `start` to `stop`, read from the nearer end."""
        stop = min(stop, self._live)
        query = "SELECT id, place FROM messages WHERE session = ? AND superseded_by IS NULL ORDER BY place"
        if start > self._live // 2:
            found = self._connection.execute(
                f"{query} DESC LIMIT ? OFFSET ?", (self._session, stop - start, self._live - stop)
            ).fetchall()
            return found[::-1]
        return self._connection.execute(f"{query} LIMIT ? OFFSET ?", (self._session, stop - start, start)).fetchall()

    def _places_at_end(self, count: int) -> Sequence[int]:
        first = self._last_place + SPACING
        self._last_place += count * SPACING
        return range(first, self._last_place + 1, SPACING)

    def _places_between(
        self, left: _Placed | None, superseded: Sequence[_Placed], right: _Placed | None, count: int
    ) -> Sequence[int] | None:
        """Places after what is superseded and before `right`; None when there is no room.

        The first may share the last superseded one's place (its id comes later), so that rewriting one message again
        and again uses no room up.
        """
        if right is None:
            return self._places_at_end(count)
        if superseded:
            start = superseded[-1][1]
            step = (right[1] - start) // max(count, 1)
        else:
            before = left[1] if left else right[1] - SPACING
            step = (right[1] - before) // (count + 1)
            start = before + step
        return [start + number * step for number in range(count)] if step else None

    def _spread_out(self) -> None:
        """Give every row of the session a fresh place in the same order; rare: a gap has room for 2**20 rows."""
        found = self._connection.execute(
            "SELECT id FROM messages WHERE session = ? ORDER BY place, id", (self._session,)
        ).fetchall()
        self._connection.executemany(
            "UPDATE messages SET place = ? WHERE id = ?",
            [(number * SPACING, row_id) for number, (row_id,) in enumerate(found, 1)],
        )
        self._last_place = len(found) * SPACING
