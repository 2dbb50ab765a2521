"""The sessions of this user in one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from hermes.kernel.errors import SessionBusy, SessionNotFound
from hermes.kernel.messages import clean
from hermes.kernel.sessions import SearchHit, SessionInfo, StoredMessage
from hermes.kernel.storing import AmbiguousSession, at_rest, fork_title, new_session_id, not_found, title_of
from hermes.plugins.stores.sqlite import rows
from hermes.plugins.stores.sqlite.database import Database
from hermes.plugins.stores.sqlite.log import SqliteLog, is_held
from hermes.plugins.stores.sqlite.processes import holder_from_json
from hermes.plugins.stores.sqlite.record import SPACING, learn, write_epoch
from hermes.plugins.stores.sqlite.schema import TABLES_OF_A_SESSION
from hermes.plugins.stores.sqlite.search import Search

_FAMILY = (
    "WITH RECURSIVE family (key, id) AS (SELECT key, id FROM sessions WHERE id = ?"
    " UNION SELECT s.key, s.id FROM sessions s JOIN family f ON s.parent = f.id)"
)
"""A session and all that were delegated from it, the children of children too."""

_DROP_ROWS = 20
"""Sessions older than `sessions.keep_days` that are deleted when a new one is created."""


class SqliteStore:
    """Safe for threads and for several processes on one file. Raises StoreError when it cannot be opened."""

    name = "sqlite"

    def __init__(
        self,
        path: Path,
        *,
        sync: str = "full",
        keep_days: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock, self._keep_days = clock, keep_days
        self._database = Database(path, sync=sync)
        self._search = Search(self._database)

    def create(
        self,
        *,
        directory: str,
        model: str,
        source: str = "cli",
        title: str = "",
        parent: str | None = None,
        parent_call: str | None = None,
    ) -> str:
        now = self._clock()
        about = [clean(text) for text in (title_of(title), directory, model, source)]
        if self._keep_days is not None and parent is None:
            self._drop_older_than(now - self._keep_days * 86_400)
        with self._database.write() as connection:
            return self._create(connection, now, [*about, parent, parent_call])[1]

    def open(self, session_id: str) -> SqliteLog:
        with self._database.read() as connection:
            key = self._key(connection, session_id)
        return SqliteLog(self._database, key, session_id, self._clock)

    def find(self, id_or_title: str) -> str:
        given = clean(id_or_title)
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT id FROM sessions WHERE substr(id, 1, length(?1)) = ?1 OR title = ?1 ORDER BY updated DESC",
                (given,),
            ).fetchall()
        ids = [i for (i,) in found] if given else []
        if not ids:
            raise not_found(id_or_title)
        if len(ids) > 1 and given not in ids:
            raise AmbiguousSession(id_or_title, ids)
        return given if given in ids else str(ids[0])

    def children(self, session_id: str) -> Sequence[SessionInfo]:
        return self._infos("WHERE parent = ? ORDER BY key", (session_id,))

    def info(self, session_id: str) -> SessionInfo:
        found = self._infos("WHERE id = ?", (clean(session_id),))
        if not found:
            raise not_found(session_id)
        return found[0]

    def list(
        self, *, directory: str | None = None, limit: int | None = None, children: bool = False
    ) -> Sequence[SessionInfo]:
        return self._infos(
            "WHERE (? OR parent IS NULL) AND (?2 IS NULL OR directory = ?2) ORDER BY updated DESC, id LIMIT ?",
            (children, None if directory is None else clean(directory), -1 if limit is None else limit),
        )

    def fork(self, session_id: str) -> str:
        now, log = self._clock(), self.open(session_id)
        snapshot = log.load()
        last = snapshot.messages[-1:]
        messages = at_rest(snapshot.messages, log.calls([call.id for m in last for call in m.calls]))
        info = snapshot.info
        with self._database.write() as connection:
            about = [fork_title(info.title), info.directory, info.model, info.source, None, None]
            key, copy_id = self._create(connection, now, about)
            connection.executemany(
                "INSERT INTO messages (session, turn, place, role, origin, time, call_ids, body)"
                " VALUES (?, 0, ?, ?, ?, ?, ?, ?)",
                [
                    (key, n * SPACING, m.role, m.origin, now, rows.encode_call_ids(m), rows.encode_message(m))
                    for n, m in enumerate(messages, 1)
                ],
            )
            connection.execute(
                "UPDATE sessions SET messages = ?, last_place = ? WHERE key = ?",
                (len(messages), len(messages) * SPACING, key),
            )
            if snapshot.epoch:
                write_epoch(connection, key, snapshot.epoch, now)
            for name, value in snapshot.state.items():
                learn(connection, key, name, value, None)
        return copy_id

    def delete(self, session_id: str) -> None:
        now = self._clock()
        with self._database.write() as connection:
            self._key(connection, session_id)
            family = connection.execute(
                f"{_FAMILY} SELECT key, id, holder, updated FROM sessions WHERE key IN (SELECT key FROM family)",
                (session_id,),
            ).fetchall()
            for _, member, told, updated in family:
                holder = holder_from_json(told)
                if holder and is_held(holder, "", now, updated):
                    raise SessionBusy(member, "this process" if holder.is_this_process else str(holder))
            keys = [(key,) for key, *_ in family]
            gone = self._search.about_to_forget(connection, [key for (key,) in keys])
            for table in TABLES_OF_A_SESSION:
                connection.executemany(f"DELETE FROM {table} WHERE session = ?", keys)
            connection.executemany("DELETE FROM sessions WHERE key = ?", keys)
        self._search.forget(gone)

    def path(self) -> str:
        return str(self._database.path)

    def close(self) -> None:
        self._search.close()
        self._database.close()

    def search(self, query: str, *, limit: int, exclude: str | None = None) -> Sequence[SearchHit]:
        """Best first; delegated sessions are not searched, nor is the conversation that `exclude` belongs to."""
        return self._search.find(query, limit, self._root(exclude))

    def messages(self, session_id: str) -> Sequence[StoredMessage]:
        with self._database.read() as connection:
            key = self._key(connection, session_id)
            found = connection.execute(
                "SELECT id, turn, time, superseded_by, body FROM messages WHERE session = ? ORDER BY place, id", (key,)
            ).fetchall()
        decoded = rows.messages_from(row[4] for row in found)
        return [
            StoredMessage(row[0], row[1], row[2], message, row[3] is not None)
            for row, message in zip(found, decoded, strict=True)
        ]

    def recent(self, *, limit: int, exclude: str | None = None) -> Sequence[SessionInfo]:
        return self._infos(
            "WHERE parent IS NULL AND id IS NOT ? ORDER BY updated DESC, id LIMIT ?", (self._root(exclude), limit)
        )

    def _create(self, connection: sqlite3.Connection, now: float, about: Iterable[str | None]) -> tuple[int, str]:
        session_id = new_session_id(now)
        while connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone():
            session_id = new_session_id(now)
        cursor = connection.execute(
            "INSERT INTO sessions (id, created, updated, title, directory, model, source, parent, parent_call)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (session_id, now, now, *about),
        )
        return int(cursor.lastrowid or 0), session_id

    def _drop_older_than(self, limit: float) -> None:
        """Delete sessions that nobody has touched since, a few at a time: creating one is never slow by it."""
        for info in self._infos("WHERE parent IS NULL AND updated < ? ORDER BY updated LIMIT ?", (limit, _DROP_ROWS)):
            with suppress(SessionBusy, SessionNotFound):  # in use after all, or another process was first
                self.delete(info.id)

    def _key(self, connection: sqlite3.Connection, session_id: str) -> int:
        row = connection.execute("SELECT key FROM sessions WHERE id = ?", (clean(session_id),)).fetchone()
        if row is None:
            raise not_found(session_id)
        return int(row[0])

    def _infos(self, rest: str, values: Sequence[object]) -> Sequence[SessionInfo]:
        with self._database.read() as connection:
            found = connection.execute(f"SELECT {rows.INFO} FROM sessions {rest}", values).fetchall()
        return [rows.info_from_row(row) for row in found]

    def _root(self, session_id: str | None) -> str | None:
        """The session at the top from which this one was delegated; the id itself when it is not known."""
        with self._database.read() as connection:
            while session_id is not None:
                row = connection.execute("SELECT parent FROM sessions WHERE id = ?", (clean(session_id),)).fetchone()
                if not row or row[0] is None:
                    break
                session_id = row[0]
        return session_id
