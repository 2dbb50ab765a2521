"""One session in the file: what a turn and its calls write, each in one short transaction."""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from hermes.kernel.effects import CallRecord, Change
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionBusy, StoreError
from hermes.kernel.messages import Image, Json, Text, ToolCall, ToolResult, clean
from hermes.kernel.sessions import Beginning, Epoch, InboxRow, OpenTurn, Snapshot
from hermes.kernel.storing import known_call, title_of, unknown_call, unknown_turn
from hermes.plugins.stores.sqlite import rows
from hermes.plugins.stores.sqlite.database import Database
from hermes.plugins.stores.sqlite.processes import Holder, holder_from_json, this_process
from hermes.plugins.stores.sqlite.record import Writing, learn, prepare, was_deleted, write_epoch

_OPEN_LOGS: weakref.WeakValueDictionary[str, SqliteLog] = weakref.WeakValueDictionary()
"""By token: a claim of this process lasts as long as the log that took it."""

BEFORE_A_TURN = """SELECT body FROM messages m WHERE session = ? AND turn < ? AND (superseded_by IS NULL OR ? <=
    CASE WHEN superseded_by > 0 THEN (SELECT turn FROM messages WHERE id = m.superseded_by) ELSE -superseded_by END)
    ORDER BY place, id"""
"""The messages that were live when a turn began: of an earlier turn, and rewritten by none before this one."""


def is_held(holder: Holder | None, token: str, now: float, session_updated: float) -> bool:
    """Whether another log than `token`'s, here or in a living process, has the session."""
    if holder is None or holder.log == token:
        return False
    if holder.is_this_process:
        return holder.log in _OPEN_LOGS
    return holder.lives(now, session_updated)


class SqliteLog:
    """Safe for threads: they take turns at the store's one connection."""

    def __init__(self, database: Database, session: int, session_id: str, clock: Callable[[], float]) -> None:
        self.id = session_id
        self._database, self._session, self._clock = database, session, clock
        self._token = os.urandom(8).hex()
        _OPEN_LOGS[self._token] = self

    # ---- whose turn it is

    def claim(self) -> None:
        now = self._clock()
        with self._write() as connection:
            told, updated = connection.execute(
                "SELECT holder, updated FROM sessions WHERE key = ?", (self._session,)
            ).fetchone()
            holder = holder_from_json(told)
            if holder and is_held(holder, self._token, now, updated):
                raise SessionBusy(self.id, "another agent of this process" if holder.is_this_process else str(holder))
            mine = this_process(self._token, now).to_json()
            connection.execute("UPDATE sessions SET holder = ? WHERE key = ?", (mine, self._session))

    def release(self) -> None:
        with self._database.write() as connection:
            connection.execute(
                "UPDATE sessions SET holder = NULL WHERE key = ? AND holder LIKE ?",
                (self._session, f'%"{self._token}"%'),
            )

    # ---- what there is

    def load(self) -> Snapshot:
        now = self._clock()
        with self._read() as connection:
            row = connection.execute(f"SELECT {rows.INFO} FROM sessions WHERE key = ?", (self._session,)).fetchone()
            if row is None:
                raise was_deleted()
            bodies = connection.execute(
                "SELECT body FROM messages WHERE session = ? AND superseded_by IS NULL ORDER BY place",
                (self._session,),
            )
            return Snapshot(
                rows.info_from_row(row),
                tuple(rows.messages_from(body for (body,) in bodies)),
                self._call_ids(connection),
                rows.state_of(connection, self._session, now),
                rows.epoch_of(connection, self._session),
                self._open_turn(connection),
                tuple(self._inbox(connection)),
            )

    def waiting(self, kind: Literal["input", "steer"]) -> Sequence[InboxRow]:
        with self._read() as connection:
            return [row for row in self._inbox(connection) if row.kind == kind]

    def calls(self, call_ids: Sequence[str]) -> Mapping[str, CallRecord]:
        with self._read() as connection:
            found: dict[str, CallRecord] = {}
            for call_id in call_ids:
                row = connection.execute(
                    "SELECT id, status, arguments, result, child FROM calls WHERE session = ? AND id = ?",
                    (self._session, clean(call_id)),
                ).fetchone()
                if row:
                    found[call_id] = rows.call_from_row(row)
            return found

    def beginning(self, turn: int) -> Beginning:
        with self._read() as connection:
            row = connection.execute(
                "SELECT state FROM turn_states WHERE session = ? AND number = ?", (self._session, turn)
            ).fetchone()
            if row is None:
                raise unknown_turn(turn)
            bodies = connection.execute(BEFORE_A_TURN, (self._session, turn, turn)).fetchall()
            told = connection.execute(
                "SELECT call_ids FROM messages WHERE session = ? AND turn < ? AND call_ids IS NOT NULL",
                (self._session, turn),
            )
            call_ids = frozenset(i for (ids,) in told for i in json.loads(ids))
            return Beginning(json.loads(row[0]), tuple(rows.messages_from(b for (b,) in bodies)), call_ids)

    def outcomes(self, turn: int) -> Sequence[Json]:
        with self._read() as connection:
            found = connection.execute(
                "SELECT outcome FROM outcomes WHERE session = ? AND turn = ? ORDER BY id", (self._session, turn)
            )
            return [json.loads(text) for (text,) in found]

    # ---- what happens

    def begin_turn(self, state: Json) -> int:
        now, text = self._clock(), rows.encode(state)
        with self._write() as connection:
            connection.execute(
                "UPDATE turns SET reason = ?, ended = ? WHERE session = ? AND reason = ''",
                (EndReason.CRASHED.value, now, self._session),
            )
            (turn,) = connection.execute(
                "UPDATE sessions SET turns = turns + 1, end_reason = '', updated = ? WHERE key = ? RETURNING turns",
                (now, self._session),
            ).fetchone()
            connection.execute(
                "INSERT INTO turns (session, number, started) VALUES (?, ?, ?)", (self._session, turn, now)
            )
            connection.execute("INSERT INTO turn_states VALUES (?, ?, ?)", (self._session, turn, text))
            return int(turn)

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
        now = self._clock()
        started = self._encoded(turn, starting, now)
        prepared = [(change, prepare(change)) for change in changes]  # before the lock: others wait for less
        noted = [(self._session, turn, rows.encode(outcome)) for outcome in outcomes]
        with self._database.write() as connection:
            writing = Writing(connection, self._session, turn, now, changes)
            for change, bodies in prepared:
                writing.apply(change, bodies)
            if epoch:
                write_epoch(connection, self._session, epoch, now)
            if noted:
                connection.executemany("INSERT INTO outcomes (session, turn, outcome) VALUES (?, ?, ?)", noted)
            if started and not writing.has_turn:
                raise no_such_turn(turn)
            _insert_calls(connection, started)
            writing.finish(iterations, attempts)

    def put_inbox(self, kind: Literal["input", "steer"], parts: Sequence[Text | Image]) -> int:
        with self._write() as connection:
            cursor = connection.execute(
                "INSERT INTO inbox (session, kind, time, parts) VALUES (?, ?, ?, ?)",
                (self._session, kind, self._clock(), rows.encode_parts(parts)),
            )
            return int(cursor.lastrowid or 0)

    def drop_inbox(self, ids: Sequence[int]) -> None:
        with self._write() as connection:
            connection.executemany(
                "UPDATE inbox SET taken_by = 0 WHERE id = ? AND session = ? AND taken_by IS NULL",
                [(row_id, self._session) for row_id in ids],
            )

    def start_calls(self, turn: int, calls: Sequence[ToolCall]) -> None:
        found = self._encoded(turn, calls, self._clock())
        with self._database.write() as connection:
            known = connection.execute(
                "SELECT 1 FROM turns WHERE session = ? AND number = ?", (self._session, turn)
            ).fetchone()
            if known is None:
                raise no_such_turn(turn)
            _insert_calls(connection, found)

    def _encoded(self, turn: int, calls: Sequence[ToolCall], now: float) -> list[_CallRow]:
        return [
            (self._session, clean(c.id), turn, clean(c.name), "started", now, rows.encode(dict(c.arguments)))
            for c in calls
        ]

    def link_child(self, call_id: str, child: str) -> None:
        with self._write() as connection:
            cursor = connection.execute(
                "UPDATE calls SET child = ? WHERE session = ? AND id = ?", (child, self._session, clean(call_id))
            )
            if cursor.rowcount == 0:
                raise unknown_call(call_id)

    def finish_call(self, result: ToolResult) -> bool:
        now, call_id, text = self._clock(), clean(result.call_id), rows.encode_result(result)
        with self._database.write() as connection:
            cursor = connection.execute(
                "UPDATE calls SET status = ?, result = ?, finished = ?"
                " WHERE session = ? AND id = ? AND status = 'started'",
                (result.status, text, now, self._session, call_id),
            )
            if cursor.rowcount == 0:
                if not connection.execute(
                    "SELECT 1 FROM calls WHERE session = ? AND id = ?", (self._session, call_id)
                ).fetchone():
                    raise unknown_call(call_id)
                return False
            for key, value in (result.state or {}).items():
                learn(connection, self._session, key, value, None)
            return True

    def set_title(self, title: str) -> None:
        with self._write() as connection:
            connection.execute("UPDATE sessions SET title = ? WHERE key = ?", (clean(title_of(title)), self._session))

    # ---- inside

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self._database.read() as connection, rows.reading(f"session {self.id}"):
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._database.write() as connection:
            if connection.execute("SELECT 1 FROM sessions WHERE key = ?", (self._session,)).fetchone() is None:
                raise was_deleted()
            yield connection

    def _call_ids(self, connection: sqlite3.Connection) -> frozenset[str]:
        found = {i for (i,) in connection.execute("SELECT id FROM calls WHERE session = ?", (self._session,))}
        told = connection.execute(
            "SELECT call_ids FROM messages WHERE session = ? AND call_ids IS NOT NULL", (self._session,)
        )
        for ids in json.loads(f"[{','.join(text for (text,) in told)}]"):
            found.update(ids)
        return frozenset(found)

    def _open_turn(self, connection: sqlite3.Connection) -> OpenTurn | None:
        row = connection.execute(
            "SELECT number, started, iterations, attempts FROM turns WHERE session = ? AND reason = ''"
            " ORDER BY number DESC LIMIT 1",
            (self._session,),
        ).fetchone()
        return OpenTurn(*row) if row else None

    def _inbox(self, connection: sqlite3.Connection) -> Iterator[InboxRow]:
        found = connection.execute(
            "SELECT id, kind, parts FROM inbox WHERE session = ? AND taken_by IS NULL ORDER BY id", (self._session,)
        )
        return map(rows.inbox_from_row, found.fetchall())


_CallRow = tuple[int, str, int, str, str, float, str]


def no_such_turn(turn: int) -> StoreError:
    return StoreError(f"the session has no turn {turn}; no call was started")


def _insert_calls(connection: sqlite3.Connection, found: Sequence[_CallRow]) -> None:
    for row in found:
        try:
            connection.execute(
                "INSERT INTO calls (session, id, turn, name, status, started, arguments) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        except sqlite3.IntegrityError:
            raise known_call(row[1]) from None
