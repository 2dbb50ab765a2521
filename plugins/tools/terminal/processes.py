"""Find and end all processes that one command started, also those that left its process group.

On Linux they are found in /proc: by session, process group, parent, and by a mark in their environment. Elsewhere only
the process group is known.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/PID/stat. `began` (clock ticks since boot) tells it from a later one of the same number."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    began: int

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZXx"


def read_process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    parent, group, session, began = (int(fields[n]) for n in (1, 2, 3, 19))
    return Process(pid, name, fields[0], parent, group, session, began)


def session_of(leader: int) -> list[Process]:
    """The living processes of a command that neither left its session nor its group, without the shell itself."""
    return [p for p in _all() if leader in (p.session, p.group) and p.pid != leader and p.is_alive]


def tree_of(leader: int, mark: bytes, known: Iterable[Process] = ()) -> list[Process]:
    """The living processes of a command, the shell itself and those that left its session included.

    `known` are those that were found before: their parents may have ended since.
    """
    everything = {p.pid: p for p in _all()}
    own = {p.pid for p in known if p.pid in everything and everything[p.pid].began == p.began}
    own |= {p.pid for p in everything.values() if leader in (p.pid, p.session, p.group) or _is_marked(p.pid, mark)}
    children: dict[int, list[int]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process.pid)
    waiting = list(own)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in own]
        own.update(new)
        waiting += new
    own.discard(os.getpid())
    return [everything[pid] for pid in own if everything[pid].is_alive]


def send(leader: int, processes: Iterable[Process], number: int) -> None:
    """Signal the process group and each of the processes that is still the one that was seen.

    The leader must not have been waited for: its number, and with it that of the group, is ours until then.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
    for process in processes:
        now = read_process(process.pid)
        if process.group != leader and now is not None and now.began == process.began:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def end_group(leader: int) -> None:
    """Ask the process group to end; for a signal at once, from any thread."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGTERM)


def _all() -> Iterator[Process]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        if process := read_process(pid):
            yield process


def _is_marked(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read()
    except OSError:  # another user's, or gone
        return False
