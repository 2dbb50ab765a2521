"""Keep a plugin's hands off the process: what it prints goes to stderr, and the working directory is put back.

stdout is the answer, often JSON for another program. Only the thread inside a plugin is redirected, so another thread
may print the answer meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_thread = threading.local()
_lock = threading.Lock()
_inside = 0


class _Stdout:
    """Stands for sys.stdout while any thread is inside a plugin; everything but the choice is the real stream's."""

    original: TextIO

    def stream(self) -> TextIO:
        return sys.stderr if getattr(_thread, "is_quiet", False) else self.original

    def write(self, text: str) -> int:
        return self.stream().write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream(), name)


_stdout = _Stdout()


@contextmanager
def quiet() -> Iterator[None]:
    """Send this thread's stdout to stderr, and put the working directory back afterwards."""
    global _inside
    directory = _working_directory()
    was_quiet = getattr(_thread, "is_quiet", False)
    with _lock:
        _inside += 1
        if sys.stdout is not _stdout:
            _stdout.original = sys.stdout
            sys.stdout = _stdout
    _thread.is_quiet = True
    try:
        yield
    finally:
        _thread.is_quiet = was_quiet
        with _lock:
            _inside -= 1
            if _inside == 0 and sys.stdout is _stdout:
                sys.stdout = _stdout.original
        if directory is not None and _working_directory() != directory:
            os.chdir(directory)


@contextmanager
def aloud() -> Iterator[None]:
    """Undo `quiet` for the kernel's own code that a plugin's wrapper calls."""
    was_quiet = getattr(_thread, "is_quiet", False)
    _thread.is_quiet = False
    try:
        yield
    finally:
        _thread.is_quiet = was_quiet


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted under us
        return None
