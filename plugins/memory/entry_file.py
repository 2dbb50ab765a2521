"""A text file of entries divided by lines that hold only `§`: locked, read, replaced at once, edits by hand noticed.

Belongs to the backend `files`; no plugin of its own.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hermes.kernel.errors import HermesError

DELIMITER = "\n§\n"
LOCK_WAIT_S = 10.0
BACKUPS_KEPT = 5


class Refused(HermesError):
    """Nothing may be written: the text says why and what to do; `with_entries` asks for the current ones beside it."""

    def __init__(self, message: str, *, with_entries: bool = False) -> None:
        self.with_entries = with_entries
        super().__init__(message)


def size(entries: Sequence[str]) -> int:
    return len(DELIMITER.join(entries))


def read_entries(path: Path) -> list[str]:
    """The entries, each once, without blank ones; [] when there is no file. Raises Refused for what is not UTF-8."""
    return split(read(path))


def split(text: str) -> list[str]:
    entries = (entry.strip() for entry in text.strip("\n").split(DELIMITER))
    return list(dict.fromkeys(entry for entry in entries if entry and entry != "§"))


def read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path} is not UTF-8 (byte {error.start}): it is left as it is. Tell the user to convert it."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at once and durably; a link is followed, the mode is kept, nothing is left on a failure."""
    real = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".tmp", dir=real.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(name, real.stat().st_mode & 0o7777)
        os.replace(name, real)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_directory(real.parent)


def _sync_directory(directory: Path) -> None:
    with suppress(OSError):  # Windows has no such thing
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- The lock, and what hermes wrote last ---------------------------------------------------------------------------


class Seal:
    """The digest of the file as hermes last wrote it, kept in the lock file: how edits by hand are noticed."""

    def __init__(self, lock: IO[bytes], path: Path, limit_chars: int) -> None:
        self._lock = lock
        lock.seek(0)
        known = lock.read(64).decode("ascii", "replace")
        text = read(path)
        self._edited = known != _digest(text) if known else _is_free_text(text, limit_chars)

    @property
    def edited(self) -> bool:
        """Whether the file is not as hermes left it; one it never wrote counts when it is no list of entries."""
        return self._edited

    def acknowledge(self, text: str, *, seen: bool = False) -> None:
        """Remember `text` as ours. An edit that the model has not seen yet stays one (`seen` ends that)."""
        if self._edited and not seen:
            return
        self._edited = False
        self._lock.seek(0)
        self._lock.write(_digest(text).encode("ascii"))
        self._lock.truncate()
        self._lock.flush()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _is_free_text(text: str, limit_chars: int) -> bool:
    return any(len(entry) > limit_chars for entry in split(text))


def _stamp(copy: Path) -> int:
    digits = copy.name.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def back_up(path: Path) -> Path:
    """Copy the file beside itself as `NAME.bak.SECONDS`; the oldest copies go when there are more than five."""
    copies = sorted(path.parent.glob(f"{path.name}.bak.*"), key=_stamp)
    stamp = max(int(time.time()), _stamp(copies[-1]) + 1 if copies else 0)
    backup = path.with_name(f"{path.name}.bak.{stamp}")
    backup.write_bytes(path.read_bytes())
    for old in [*copies, backup][:-BACKUPS_KEPT]:
        with suppress(OSError):
            old.unlink()
    return backup


@contextmanager
def locked(path: Path, limit_chars: int) -> Iterator[Seal]:
    """Hold the file's lock; raises Refused when another process keeps it longer than anything of ours ever would."""
    lock_path = path.with_name(path.name + ".lock")
    with open(os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as lock:
        _acquire(lock, path)
        try:
            yield Seal(lock, path, limit_chars)
        finally:
            _lock(lock, False)


def _acquire(file: IO[bytes], path: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    pause_s = 0.001
    while not _lock(file, True):
        if time.monotonic() > deadline:
            raise Refused(f"{path} is locked by another process; nothing was written. Go on, and try again later.")
        time.sleep(pause_s)
        pause_s = min(0.05, pause_s * 2)


def _lock(file: IO[bytes], take: bool) -> bool:
    """Take or give back the lock; False when somebody else has it. A system without locks goes on without."""
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(file, take)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if take else fcntl.LOCK_UN)
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(file: IO[bytes], take: bool) -> bool:
    import importlib

    msvcrt = importlib.import_module("msvcrt")  # by name: type checkers on other systems do not know it
    file.seek(1024)  # past the digest: Windows locks are mandatory, also for the holder's other handles
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK if take else msvcrt.LK_UNLCK, 1)
    except OSError:
        return False
    return True
