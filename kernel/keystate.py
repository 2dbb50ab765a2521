"""What is known of the keys that are used: one small file, shared by every process and thread of a user.

Each change is read, made and written under a lock; the file is replaced at once. A file that cannot be read counts as
empty, and one that cannot be written leaves the process with what it knows itself: keys go on being used.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

LOCK_WAIT_S = 1.0
"""Nobody holds the lock longer than a write takes; after that the file is left alone, the call is not."""
FORGOTTEN_AFTER_S = 30 * 86400.0
"""Keys that were not used or refused for so long are dropped from the file."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class KeyState:
    """Of one key. `rests_until` and `seen` in seconds since 1970; `last_use` counts up over the keys of a provider."""

    rests_until: float = 0.0
    why: str = ""
    uses: int = 0
    last_use: int = 0
    seen: float = 0.0


@dataclass(slots=True)
class KeyStates:
    """The file at `path`, and what this process knows when it cannot be written. `clock`: seconds since 1970."""

    path: Path
    clock: Callable[[], float] = time.time
    _salt: str = ""
    _known: dict[str, KeyState] = field(default_factory=dict, repr=False)
    _stamp: tuple[int, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read(self, keys: Sequence[str]) -> Mapping[str, KeyState]:
        """What is known of these keys, by key."""
        with self._lock:
            self._refresh()
            return {key: self._known.get(self._digest(key)) or KeyState() for key in keys}

    def change(self, keys: Sequence[str], make: Callable[[Mapping[str, KeyState]], T]) -> T:
        """Let `make` change the states of these keys in place, and keep them; gives what it gives."""
        with self._lock, self._locked() as may_write:
            self._refresh()
            states = {key: self._known.setdefault(self._digest(key), KeyState()) for key in keys}
            for state in states.values():
                state.seen = self.clock()
            made = make(states)
            if may_write:
                self._write()
            return made

    def _digest(self, key: str) -> str:
        self._salt = self._salt or secrets.token_hex(16)
        return hmac.new(self._salt.encode(), key.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]

    # ---- The file ---------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Read the file when another process has replaced it since."""
        try:
            found = os.stat(self.path)
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp:
                return
            data = self.path.read_bytes()
        except OSError:
            return  # there is none yet, or none for us
        self._stamp = stamp
        try:
            self._salt, self._known = _parse(data)
        except (ValueError, TypeError, KeyError, AttributeError):
            _log.warning("%s is damaged: what it knew of keys is dropped", self.path)

    def _write(self) -> None:
        oldest = self.clock() - FORGOTTEN_AFTER_S
        kept = {digest: asdict(state) for digest, state in self._known.items() if state.seen > oldest}
        text = json.dumps({"version": 1, "salt": self._salt, "keys": kept}, indent=1)
        try:
            self._stamp = _replace(self.path, text)
        except OSError as error:
            _log.debug("%s cannot be written: %s", self.path, error)

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Hold the lock file; False when the file must not be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            yield False
            return
        with open(descriptor, "r+b") as file:
            yield _acquire(file)


def _parse(data: bytes) -> tuple[str, dict[str, KeyState]]:
    """Raises ValueError, TypeError or KeyError for anything that we did not write."""
    whole: Any = json.loads(data)
    known = {str(digest): KeyState(**state) for digest, state in whole["keys"].items()}
    for state in known.values():
        state.rests_until, state.seen = float(state.rests_until), float(state.seen)
        state.uses, state.last_use = int(state.uses), int(state.last_use)
    return str(whole["salt"]), known


def _replace(path: Path, text: str) -> tuple[int, int]:
    """Put a whole new file in the place of the old; its stamp. Not synced: after loss of power a key is asked again."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            found = os.fstat(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return found.st_mtime_ns, found.st_ino


def _acquire(file: IO[bytes]) -> bool:
    """Take the lock, which ends when the file is closed. A system without flock goes on without."""
    try:
        import fcntl
    except ImportError:
        return True
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)


# ---- One for each file of the process -------------------------------------------------------------------------------

_open: dict[Path, KeyStates] = {}
_open_lock = threading.Lock()


def states_in(path: Path) -> KeyStates:
    """The states kept in a file: the same object for every agent of this process."""
    with _open_lock:
        return _open.setdefault(path, KeyStates(path))
