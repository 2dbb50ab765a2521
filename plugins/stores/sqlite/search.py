"""Full-text search beside the store: an index in a file of its own, caught up when somebody searches.

No message write ever waits for the index or fails by it, and a damaged index costs one rebuild. Where the index cannot
serve, the messages themselves are read, newest first, for a bounded time.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from hermes.kernel.errors import StoreError
from hermes.kernel.messages import Message
from hermes.kernel.sessions import SearchHit, SessionInfo
from hermes.kernel.storing import search_text
from hermes.plugins.stores.sqlite import rows
from hermes.plugins.stores.sqlite.database import BUSY, FAILURES, Database, code_of
from hermes.plugins.stores.sqlite.index import PAGE_ROWS, Index
from hermes.plugins.stores.sqlite.query import Query, parse, snippet, spread

_STEP_ROWS = 200
"""Messages indexed in one transaction."""

_CATCH_UP_S = 3.0
_READ_S = 2.0
_PAGES = 20
"""Of hits from the index that are looked at when most of them are in hidden sessions."""

_NOT_DAMAGED = (
    *BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_INTERRUPT,
)
_TEXT_MAX_CHARS = 200_000
_RESULT_MAX_CHARS = 20_000


def indexed(message: Message) -> str:
    """The text of a message as the index holds it; long tool results only in part."""
    limit = _RESULT_MAX_CHARS if message.role == "tool" else _TEXT_MAX_CHARS
    return spread(search_text(message)[:limit])


def _texts(told: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Id and indexed text from id and body; "" for a body that cannot be read, which must not stop the others."""
    try:
        messages = rows.messages_from(body for _, body in told)
    except StoreError:
        if len(told) == 1:
            return [(told[0][0], "")]
        return [text for row in told for text in _texts([row])]
    return [(row_id, indexed(message)) for (row_id, _), message in zip(told, messages, strict=True)]


class Search:
    """Opens nothing until the first search; searches of one process take turns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        path = database.path
        self.path = path.with_name(f"{path.stem}-search{path.suffix}")
        self._index: Index | None = None
        self._lock = threading.Lock()

    def find(self, query: str, limit: int, exclude: str | None) -> Sequence[SearchHit]:
        """Best first by the index, then, where it gave less than asked for, what reading the messages finds."""
        parsed = parse(query)
        if not parsed or limit < 1:
            return []
        hits, mark = self._by_index(parsed, limit, exclude)
        if mark is None:
            return self._by_reading(parsed, limit, exclude, after=0)
        if len(hits) < limit:
            seen = {hit.message_id for hit in hits}
            after = mark if hits else 0  # with no hit at all, look for parts of words too
            more = self._by_reading(parsed, limit, exclude, after=after)
            hits += [hit for hit in more if hit.message_id not in seen]
        return hits[:limit]

    def about_to_forget(self, connection: sqlite3.Connection, sessions: Iterable[int]) -> list[tuple[int, str]]:
        """What the index may hold of sessions that are being deleted; empty when there is no index."""
        if not self.path.exists():
            return []
        found: list[tuple[int, str]] = []
        for session in sessions:
            told = connection.execute("SELECT id, body FROM messages WHERE session = ?", (session,)).fetchall()
            found += _texts(told)
        return found

    def forget(self, gone: Sequence[tuple[int, str]]) -> None:
        """Take deleted messages out of the index; what a failure leaves there points to nothing."""
        with suppress(*FAILURES), self._lock:
            if gone and (index := self._opened()):
                index.remove(gone)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._index:
            self._index.close()
            self._index = None

    def _by_index(self, query: Query, limit: int, exclude: str | None) -> tuple[list[SearchHit], int | None]:
        """Hits, and the last message that the index knows: None when there is no index that could answer."""
        with self._lock:
            for _ in range(2):
                try:
                    if query.expression and (index := self._opened()):
                        mark = self._catch_up(index)
                        return self._hits(index, query, limit, exclude), mark
                    break
                except FAILURES as error:
                    if code_of(error) in _NOT_DAMAGED:
                        break
                    self._discard()  # it is made anew from the messages
        return [], None

    def _opened(self) -> Index | None:
        if self._index is None:
            try:
                self._index = Index(self.path)
            except StoreError:
                return None  # the directory may not be written
        return self._index

    def _discard(self) -> None:
        self._close()
        for suffix in ("-wal", "-shm", ""):
            with suppress(OSError):
                os.unlink(f"{self.path}{suffix}")

    def _catch_up(self, index: Index) -> int:
        until = time.monotonic() + _CATCH_UP_S
        mark = index.mark()
        while time.monotonic() < until:
            with self._database.read() as connection:
                told = connection.execute(
                    "SELECT id, body FROM messages WHERE id > ? ORDER BY id LIMIT ?", (mark, _STEP_ROWS)
                ).fetchall()
            if not told:
                break
            mark = index.add(mark, _texts(told))
        return mark

    def _hits(self, index: Index, query: Query, limit: int, exclude: str | None) -> list[SearchHit]:
        hits: list[SearchHit] = []
        for page in range(_PAGES):
            ids = index.matching(query.expression, page)
            hits += self._read_hits(ids, query, exclude)
            if len(hits) >= limit or len(ids) < PAGE_ROWS:
                break
        return hits[:limit]

    def _read_hits(self, ids: Sequence[int], query: Query, exclude: str | None) -> Iterator[SearchHit]:
        with self._database.read() as connection:
            found = {row[0]: row for row in _select(connection, f"m.id IN ({','.join('?' * len(ids))})", ids, exclude)}
        for row_id in ids:
            if row_id in found:
                yield _hit(found[row_id], query)[1]

    def _by_reading(self, query: Query, limit: int, exclude: str | None, *, after: int) -> list[SearchHit]:
        """Read messages, newest first, for those that hold the words as they were typed."""
        until = time.monotonic() + _READ_S
        hits: list[SearchHit] = []
        before: int | None = None
        like = [f"%{_escaped(term)}%" for term in query.rarest]
        test = " OR ".join(["m.body LIKE ? ESCAPE '\\'"] * len(like))
        while len(hits) < limit and time.monotonic() < until:
            with self._database.read() as connection:
                (start,) = connection.execute(
                    "SELECT min(id) FROM (SELECT id FROM messages WHERE id > ? AND (? OR id < ?)"
                    " ORDER BY id DESC LIMIT 2000)",
                    (after, before is None, before),
                ).fetchone()
                if start is None:
                    break
                test_here = f"m.id >= ? AND (? OR m.id < ?) AND ({test}) ORDER BY m.id DESC"
                found = _select(connection, test_here, [start, before is None, before, *like], exclude)
            hits += [hit for text, hit in (_hit(row, query) for row in found) if query.literally_in(text)]
            before = start
        return hits[:limit]


def _escaped(term: str) -> str:
    """A text as a LIKE pattern finds it in a JSON body."""
    written = json.dumps(term, ensure_ascii=False)[1:-1]
    return written.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _select(
    connection: sqlite3.Connection, test: str, values: Sequence[object], exclude: str | None
) -> list[tuple[int, str, float, str, SessionInfo]]:
    columns = ", ".join(f"s.{name}" for name in rows.INFO.split(", "))
    found = connection.execute(
        f"SELECT m.id, m.role, m.time, m.body, {columns} FROM messages m JOIN sessions s ON s.key = m.session"
        f" WHERE s.parent IS NULL AND s.id IS NOT ? AND {test}",
        (exclude, *values),
    )
    return [(row[0], row[1], row[2], row[3], rows.info_from_row(row[4:])) for row in found]


def _hit(row: tuple[int, str, float, str, SessionInfo], query: Query) -> tuple[str, SearchHit]:
    row_id, role, when, body, info = row
    try:
        text = search_text(rows.messages_from([body])[0])
    except StoreError:
        text = ""
    return text, SearchHit(info, row_id, role, snippet(text, query), when)
