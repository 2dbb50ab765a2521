"""Where a run dies: at the Nth event of a kind that Python and SQLite themselves tell of, and nothing is patched."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any

POINTS = ("sql", "vm", "world", "python")
"""sql: a statement that SQLite is about to run. vm: 25 instructions of its virtual machine, so within a statement.
world: something that the world can see (files, directories, processes, sockets). python: a call or a return of any
function, on any thread."""

_WORLD = ("open", "os.", "shutil.", "subprocess.", "socket.", "tempfile.", "fcntl.")
"""First words of the audit events (Python documentation, "Audit events table", 3.11) that `world` counts."""

_VM_INSTRUCTIONS = 25


def arm(point: str, number: int) -> None:
    """Let this process kill itself at the `number`-th event of this kind, from now on."""
    count = itertools.count(1)

    def hit() -> None:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    if point == "python":

        def profile(frame: Any, event: str, argument: Any) -> None:
            hit()

        threading.setprofile(profile)
        sys.setprofile(profile)
    elif point == "world":
        sys.addaudithook(lambda event, arguments: hit() if event.startswith(_WORLD) else None)
    else:
        sys.addaudithook(_for_each_connection(point, hit))


def _for_each_connection(point: str, hit: Callable[[], None]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that watches each connection from the first call after it was opened: before, it refuses to be."""

    def watch(connection: sqlite3.Connection) -> None:
        if point == "sql":
            connection.set_trace_callback(lambda statement: hit())
        else:
            connection.set_progress_handler(hit, _VM_INSTRUCTIONS)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "sqlite3.connect/handle":
            return

        def when_it_is_open(*_: Any) -> None:
            try:
                watch(arguments[0])
            except sqlite3.ProgrammingError:
                return
            sys.setprofile(None)

        sys.setprofile(when_it_is_open)

    return hear
