"""The FTS5 index in its own file. It may be deleted at any time: it is made again from the messages.

Raises sqlite3 errors: `search.py` knows what each means.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from hermes.plugins.stores.sqlite.database import create_private

PAGE_ROWS = 300

_FORMAT = 1
"""Of the index: a file with another one is made anew. Count it up when `search.indexed` or `query.spread` changes."""

_TABLES = (
    "DROP TABLE IF EXISTS words",
    "DROP TABLE IF EXISTS mark",
    "CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = 'unicode61 remove_diacritics 2')",
    "CREATE TABLE mark (message INTEGER NOT NULL)",
    "INSERT INTO mark VALUES (0)",
    f"PRAGMA user_version = {_FORMAT}",
)


class Index:
    """`text` is words as FTS5's unicode61 divides them; a row's number is the message's id."""

    def __init__(self, path: Path) -> None:
        create_private(path)
        self._connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            if self._format() != _FORMAT:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._make()
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self.mark()  # a file that was cut short has no table
        except BaseException:
            self._connection.close()
            raise

    def mark(self) -> int:
        """The last message that is in the index: all before it are, too."""
        return int(self._connection.execute("SELECT message FROM mark").fetchone()[0])

    def add(self, mark: int, texts: Sequence[tuple[int, str]]) -> int:
        """Add rows after `mark`, unless another process has been at it; returns the mark as it is then."""
        with _Transaction(self._connection):
            now = self.mark()
            if now == mark:
                self._connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
                now = texts[-1][0]
                self._connection.execute("UPDATE mark SET message = ?", (now,))
            return now

    def remove(self, texts: Sequence[tuple[int, str]]) -> None:
        """Take rows out; each text as it was put in."""
        with _Transaction(self._connection):
            mark = self.mark()
            self._connection.executemany(
                "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
                [row for row in texts if row[0] <= mark],
            )

    def matching(self, expression: str, page: int) -> Sequence[int]:
        """Ids of the rows that fit, best first (BM25, then the newer one); page 0 is the first `PAGE_ROWS` of them."""
        found = self._connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank, rowid DESC LIMIT ? OFFSET ?",
            (expression, PAGE_ROWS, page * PAGE_ROWS),
        )
        return [row_id for (row_id,) in found]

    def close(self) -> None:
        self._connection.close()

    def _format(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _make(self) -> None:
        with _Transaction(self._connection):
            if self._format() != _FORMAT:  # else another process was first
                for statement in _TABLES:
                    self._connection.execute(statement)


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
