"""Change a file of ours: read, change and replace under one lock, so that no process loses another's change."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def update(path: Path, change: Callable[[bytes | None], bytes]) -> None:
    """Replace the file by `change(its content)`; None when it does not exist yet.

    The lock is a file beside it (`NAME.lock`), held from before the read until after the replace; a link is followed,
    the mode is kept, and a crash leaves the old content or the new. Raises OSError, and whatever `change` raises.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(target.name + ".lock")):
        try:
            old: bytes | None = target.read_bytes()
        except FileNotFoundError:
            old = None
        new = change(old)
        if new != old:
            replace(target, new)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for it; it stays behind, since removing it would let two in at once."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
                    break
                except OSError:  # after ten tries, one a second
                    continue
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def create(path: Path, content: bytes) -> None:
    """Write a file that must not be there yet, whole or not at all. Raises FileExistsError."""
    if os.path.lexists(path):
        raise FileExistsError(path)
    name = _written(path, content)
    try:
        os.link(name, path)  # fails when another process was first, unlike a rename
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with open(path, "xb") as file:
            file.write(content)
    finally:
        os.unlink(name)


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, over what is there; a link is followed, the mode is kept."""
    target = Path(os.path.realpath(path))
    name = _written(target, content)
    try:
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _written(target: Path, content: bytes, mode: int = 0o644) -> str:
    """Write a temporary file beside `target`, flushed to the disk, with its mode (else the usual one for new files)."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else mode)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return name
