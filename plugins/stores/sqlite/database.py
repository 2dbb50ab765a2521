"""One SQLite file: open or create it, bring it up to date, and run short transactions that other processes can bear."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hermes.kernel.errors import StoreError
from hermes.plugins.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS

WAIT_S = 15.0
"""For other processes' transactions, each of which takes milliseconds; then the store gives up."""

_SAID_CHARS = 200

_DRIVER_WAIT_S = 0.1
"""SQLite's own wait, in fixed steps; ours around it has jitter, so that waiting processes do not march in step."""

_REMEDIES: dict[int, str] = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space, or set sessions.path to another disk",
    sqlite3.SQLITE_READONLY: "it may not be written: check its permissions, or set sessions.path",
    sqlite3.SQLITE_PERM: "it may not be written: check its permissions, or set sessions.path",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its directory exists and may be written, and that this "
    "process has not too many open files, or set sessions.path",
    sqlite3.SQLITE_IOERR: "the disk gave an error: check the disk and its free space",
    sqlite3.SQLITE_CORRUPT: "it is damaged: move it away (keep it: `sqlite3 FILE .recover` may save it) and start anew",
    sqlite3.SQLITE_NOTADB: "it is damaged or no session store: move it away, or set sessions.path",
    sqlite3.SQLITE_BUSY: "another process holds it: stop that process, then try again",
    sqlite3.SQLITE_LOCKED: "another process holds it: stop that process, then try again",
}
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)

FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises; the second where SQLite quotes a damaged schema, which is not UTF-8 any more."""


def code_of(error: sqlite3.Error | UnicodeDecodeError) -> int:
    """The primary result code; 0 for what the driver raises itself."""
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _jitter_s() -> float:
    """2 to 50 milliseconds."""
    return 0.002 + os.urandom(1)[0] / 255 * 0.048


def is_busy(error: sqlite3.Error) -> bool:
    return code_of(error) in BUSY


def as_store_error(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    remedy = _REMEDIES.get(code_of(error), "move it away or set sessions.path if this stays")
    said = " ".join(str(error).split())[:_SAID_CHARS]  # of a damaged schema it quotes lines
    return StoreError(f"session store {path}: {said}; {remedy}")


class Database:
    """One connection, shared by all threads of the process under one lock, so that threads cost no descriptors.

    Raises StoreError for whatever SQLite raises. `sync` full survives loss of power, normal the death of the process.
    """

    def __init__(
        self,
        path: Path,
        *,
        sync: str = "full",
        migrations: Sequence[Sequence[str]] = MIGRATIONS,
        wait_s: float = WAIT_S,
    ) -> None:
        self.path, self._wait_s, self._migrations = path, wait_s, migrations
        self._lock = threading.RLock()
        self._closed = False
        self._damage = ""
        create_private(path)
        _refuse_emptied(path)
        try:
            self._connection = self._opened(sync)
        except FAILURES as error:
            raise as_store_error(path, error) from error

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction that has the write lock from its start; rolled back on whatever the block raises."""
        with self._lock:
            connection = self._usable()
            if self._damage:  # a write into a damaged tree can take whole pages of others with it
                raise StoreError(self._damage)
            try:
                self._patiently(connection, "BEGIN IMMEDIATE")
                try:
                    yield connection
                    self._patiently(connection, "COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # a full disk has rolled it back already
                        connection.execute("ROLLBACK")
                    raise
            except FAILURES as error:
                raise self._failed(error) from error

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One view of the file: what other processes commit meanwhile is not seen."""
        with self._lock:
            connection = self._usable()
            try:
                self._patiently(connection, "BEGIN")
                try:
                    self._patiently(connection, "PRAGMA user_version")  # takes the view, and any wait for it, here
                    yield connection
                finally:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
            except FAILURES as error:
                raise self._failed(error) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            with suppress(sqlite3.Error):
                self._connection.close()

    def _failed(self, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
        told = as_store_error(self.path, error)
        if code_of(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            self._damage = str(told)
        return told

    def _usable(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"session store {self.path} is closed; open it again")
        return self._connection

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> None:
        until = time.monotonic() + self._wait_s
        while True:
            try:
                connection.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(_jitter_s())

    def _opened(self, sync: str) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_DRIVER_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            version = self._version(connection)
            if version != len(self._migrations):
                self._bring_up_to_date(connection, version)
            # damage is seen when a page is read, before a write can spread it (SQLite, "PRAGMA cell_size_check")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
            if sync == "full" and sys.platform == "darwin":  # there a plain fsync leaves data in the drive's cache
                connection.execute("PRAGMA fullfsync = 1")
                connection.execute("PRAGMA checkpoint_fullfsync = 1")
        except BaseException:
            connection.close()
            raise
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        until = time.monotonic() + self._wait_s
        while True:
            try:
                return int(connection.execute("PRAGMA user_version").fetchone()[0])
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(_jitter_s())

    def _bring_up_to_date(self, connection: sqlite3.Connection, version: int) -> None:
        known = len(self._migrations)
        if version > known:
            raise StoreError(
                f"session store {self.path} was written by a newer Hermes (format {version}, this one knows {known}); "
                "upgrade hermes-kernel, or set sessions.path to another file"
            )
        if version == 0:
            self._refuse_foreign(connection)
            with suppress(sqlite3.OperationalError):  # file systems without shared memory keep the rollback journal
                self._patiently(connection, "PRAGMA journal_mode = WAL")
        else:
            self._back_up(connection, version)
        self._patiently(connection, "BEGIN IMMEDIATE")
        try:
            # read again under the lock: another process may have been first
            for step in self._migrations[self._version(connection) :]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {known}")
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _refuse_foreign(self, connection: sqlite3.Connection) -> None:
        # one statement, one view: between two, another process may create our tables
        tables, application = connection.execute(
            "SELECT (SELECT count(*) FROM sqlite_master), (SELECT application_id FROM pragma_application_id)"
        ).fetchone()
        if tables and application != APPLICATION_ID:
            raise StoreError(
                f"{self.path} is a database of another program; set sessions.path to a file of its own for Hermes"
            )

    def _back_up(self, connection: sqlite3.Connection, version: int) -> None:
        target = self.path.with_name(f"{self.path.name}.format{version}.backup")
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        create_private(partial)
        copy = sqlite3.connect(partial)
        try:
            connection.backup(copy)
        finally:
            copy.close()
        os.replace(partial, target)


def _refuse_emptied(path: Path) -> None:
    """Raise StoreError where only the write-ahead log holds anything: SQLite would take the file for a new one and
    delete the log. While a new file is being made it is never empty when its log is there."""
    log = path.with_name(f"{path.name}-wal")
    with suppress(FileNotFoundError):
        if path.stat().st_size == 0 and log.stat().st_size:
            raise StoreError(
                f"session store {path} is empty, and {log.name} beside it still holds what was stored last: keep both, "
                "put a copy of the file back, or move the log away to start anew"
            )


def create_private(path: Path) -> None:
    """Make the file, readable by its owner only, and the directories above it; an existing one is left as it is.

    It is never opened when it exists: closing it would drop the locks of this process's other connections to it.
    """
    if path.exists():
        if path.is_dir():
            raise StoreError(f"session store {path} is a directory; set sessions.path to a file")
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreError(f"session store {path}: {path.parent} is not a directory; set sessions.path") from None
    except OSError as error:
        why = "free some space" if error.errno == errno.ENOSPC else "check the directory's permissions"
        raise StoreError(
            f"session store {path} cannot be created: {error.strerror}; {why}, or set sessions.path"
        ) from error
