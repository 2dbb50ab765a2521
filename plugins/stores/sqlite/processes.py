"""Who holds a session: a process, told from a later one with the same number."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ELSEWHERE_TRUSTED_S = 3600.0
"""A claim from a machine (or container) that cannot be asked is void when its session was still for so long."""


@dataclass(frozen=True, slots=True)
class Holder:
    """`machine` is the boot and the process namespace; `started` is "" where the system does not tell.

    `log` is the token of the open log that took it; `since` in seconds since the epoch.
    """

    pid: int
    started: str
    host: str
    machine: str
    log: str
    since: float

    def __str__(self) -> str:
        where = "" if self.machine == _machine() else f" on {self.host}"
        return f"process {self.pid}{where} (since {time.strftime('%H:%M:%S', time.localtime(self.since))})"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def is_this_process(self) -> bool:
        return (self.pid, self.machine) == (os.getpid(), _machine()) and self.started == start_time(self.pid)

    def lives(self, now: float, session_updated: float) -> bool:
        """Whether the process may still be at work; `session_updated` is when the session was last written."""
        if self.machine == _machine():
            return is_running(self.pid) and start_time(self.pid) in (self.started, "")
        if self.host == _host() and _boot(self.machine) != _boot(_machine()):
            return False  # this machine was started anew
        return now - max(self.since, session_updated) < ELSEWHERE_TRUSTED_S


def holder_from_json(text: str | None) -> Holder | None:
    """None for what no version of Hermes wrote: such a claim binds nobody."""
    try:
        return Holder(**json.loads(text)) if text else None
    except (ValueError, TypeError):
        return None


def this_process(log: str, now: float) -> Holder:
    pid = os.getpid()
    return Holder(pid, start_time(pid), _host(), _machine(), log, now)


def start_time(pid: int) -> str:
    """Clock ticks from boot to the start of a process (field 22 of /proc/PID/stat, proc(5)); "" where unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return _is_running_on_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] == ["Z"]


def _is_running_on_windows(pid: int) -> bool:
    # os.kill(pid, 0) would send Ctrl-C there
    import ctypes

    kernel32 = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel32.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
    if not handle:
        return False
    code = ctypes.c_ulong()
    kernel32.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel32.CloseHandle(handle)
    return code.value == 259  # STILL_ACTIVE


@functools.cache
def _host() -> str:
    return os.uname().nodename if sys.platform != "win32" else os.environ.get("COMPUTERNAME", "windows")


@functools.cache
def _machine() -> str:
    """ "BOOT NAMESPACE" where the system tells, else the host's name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return _host()


def _boot(machine: str) -> str:
    return machine.partition(" ")[0]
