"""What each session has read and written, for as long as this process lives; and one lock for each file.

It answers three questions: has the model just read exactly this, did the file change since it last saw it, and who
else wrote it. Nothing here survives the process, and every write forgets what was known of its path.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hermes import ToolError

_SESSIONS_MAX = 256
_ENTRIES_MAX = 1000
_LOCK_WAIT_S = 60.0

Stamp = tuple[int, int, int]
"""Time of change in ns, size, inode: another file, or other contents, has another stamp."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class Ledger:
    """One session's knowledge. `reads` counts how often the same range of an unchanged file was asked for."""

    reads: OrderedDict[tuple[str, int, int], tuple[Stamp, int]] = field(default_factory=OrderedDict)
    known: OrderedDict[str, Stamp] = field(default_factory=OrderedDict)
    failures: OrderedDict[str, int] = field(default_factory=OrderedDict)
    last: object = None
    in_a_row: int = 0

    def repeats(self, path: Path, offset: int, limit: int, stamp: Stamp) -> int:
        """How often this very range was asked for before while the file stayed as it is; counts this time too."""
        key = (str(path), offset, limit)
        with _guard:
            before, times = self.reads.get(key, (stamp, 0))
            times = times if before == stamp else 0
            _put(self.reads, key, (stamp, times + 1))
        return times

    def forget_repeats(self, path: Path, offset: int, limit: int) -> None:
        self.reads.pop((str(path), offset, limit), None)

    def row(self, action: object) -> int:
        """How often in a row the same was done, this time included."""
        with _guard:
            self.in_a_row = self.in_a_row + 1 if action == self.last else 1
            self.last = action
            return self.in_a_row

    def saw(self, path: Path, stamp: Stamp) -> None:
        _put(self.known, str(path), stamp)

    def failed(self, path: Path) -> int:
        """How often an edit of this path has failed since it was last read or written, this time included."""
        with _guard:
            _put(self.failures, str(path), times := self.failures.get(str(path), 0) + 1)
        return times

    def wrote(self, path: Path) -> None:
        with _guard:
            for key in [k for k in self.reads if k[0] == str(path)]:
                del self.reads[key]
        self.failures.pop(str(path), None)
        self.last = None
        if (stamp := stamp_of(path)) is None:
            self.known.pop(str(path), None)
        else:
            self.saw(path, stamp)


_guard = threading.RLock()
_ledgers: OrderedDict[str, Ledger] = OrderedDict()
_writers: OrderedDict[str, str] = OrderedDict()


def ledger_of(session_id: str) -> Ledger:
    """The session's ledger; calls of one session may share it from several threads."""
    with _guard:
        ledger = _ledgers.get(session_id) or Ledger()
        _put(_ledgers, session_id, ledger, _SESSIONS_MAX)
        return ledger


def stamp_of(path: Path) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def warn_if_changed(session_id: str, path: Path) -> str:
    """What to tell a model that is about to change a file which is not as it last saw it; "" when all is well."""
    ledger, stamp = ledger_of(session_id), stamp_of(path)
    known = ledger.known.get(str(path))
    if known is None or stamp is None or known == stamp:
        return ""
    writer = _writers.get(str(path))
    who = "another agent" if writer not in (None, session_id) else "somebody else"
    return f"{who} changed the file after you last saw it: check that their change is still there"


def note_write(session_id: str, path: Path) -> None:
    with _guard:
        _put(_writers, str(path), session_id)
    ledger_of(session_id).wrote(path)


def _put(entries: OrderedDict[_Key, _Value], key: _Key, value: _Value, most: int = _ENTRIES_MAX) -> None:
    with _guard:
        entries[key] = value
        entries.move_to_end(key)
        while len(entries) > most:
            entries.popitem(last=False)


# ---- Locks ----------------------------------------------------------------------------------------------------------

_locks: dict[str, tuple[threading.Lock, int]] = {}


@contextmanager
def locked(paths: Iterable[Path]) -> Iterator[None]:
    """Hold the locks of these (resolved) paths, against every agent of this process.

    Taken in the order of names, so that two calls with several paths cannot wait for each other.
    """
    with ExitStack() as held:
        for name in sorted({str(p) for p in paths}):
            held.enter_context(_one_lock(name))
        yield


@contextmanager
def _one_lock(name: str) -> Iterator[None]:
    with _guard:
        lock, users = _locks.get(name, (threading.Lock(), 0))
        _locks[name] = (lock, users + 1)
    try:
        if not lock.acquire(timeout=_LOCK_WAIT_S):
            raise ToolError(f"{name} is being written by another call for over {_LOCK_WAIT_S:.0f} s; try again later")
        try:
            yield
        finally:
            lock.release()
    finally:
        with _guard:
            lock, users = _locks[name]
            if users == 1:
                del _locks[name]
            else:
                _locks[name] = (lock, users - 1)
