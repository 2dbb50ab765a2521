"""Run one command in a shell of its own session, with a deadline, and leave nothing of it behind.

One loop over file descriptors and no threads: output, the end of the shell, and being cancelled wake it. The end of the
output is never waited for, since a process in the background may hold it open for ever.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hermes import Cancelled
from hermes.plugins.tools.terminal.environment import MARK, command_environment
from hermes.plugins.tools.terminal.output import Output
from hermes.plugins.tools.terminal.processes import Process, end_group, send, session_of, tree_of

DRAIN_S = 0.4
"""How long output is still taken after the shell has ended, when something else holds it open."""

TERM_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL (specification of tools 1.3, daemon_term_grace_seconds)."""

CANCEL_GRACE_S = 0.08
"""The same when the turn is stopped: the runner waits 150 ms for a tool (architecture, section 3)."""

KILL_WAIT_S = 3.0
"""How long SIGKILL is repeated: what does not end then waits for a device, and no signal reaches it."""

_LOOK_S = 0.05
_PIECE_BYTES = 65536

# The directory is told through a descriptor of our own, so that nothing shows in the output. The command is no
# argument that it can see, and its own EXIT trap takes the place of ours: then the directory stays what it was.
_WRAPPER = (
    "__hermes_command=$1; shift; trap '{{ command pwd >/dev/fd/{fd}; }} 2>/dev/null' EXIT; eval \"$__hermes_command\""
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `cwd` is where the shell was then, None when it could not be told.

    `left` are the processes that it had left in its session and that were ended with it; `stuck` those that would not.
    """

    exit_code: int = 0
    seconds: float = 0.0
    cwd: str | None = None
    timed_out: bool = False
    cancelled: bool = False
    left: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


@dataclass(slots=True)
class ShellRun:
    """One command to be run. `stop_at` is in `time.monotonic()`."""

    shell: str
    command: str
    cwd: str
    stop_at: float
    output: Output
    environ: Mapping[str, str]
    keep: Collection[str] = ()
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, cancelled: Cancelled) -> Ended:
        """Run it to its end, whatever that is. Raises OSError when the shell cannot be started."""
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            told, tells = _pipe(stack)
            bell = stack.enter_context(_Bell())
            process = self._start(tells)
            try:
                watched = stack.enter_context(_Watched(process, self.output, bell.descriptor))
                with bell.rung_by(cancelled, process.pid):
                    ended = self._wait(watched, cancelled)
            except BaseException:
                send(process.pid, tree_of(process.pid, self._mark_bytes), signal.SIGKILL)
                process.wait()
                raise
            if watched.has_ended():
                process.wait()  # only now: until it is waited for, its number is given to no other process
            self.output.close()
            code = 128 + signal.SIGKILL if process.returncode is None else _exit_code(process.returncode)
            return replace(ended, exit_code=code, seconds=time.monotonic() - began, cwd=_last_directory(told))

    def _start(self, tells: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.shell, "-c", _WRAPPER.format(fd=tells), "bash", self.command],
            cwd=self.cwd,
            env=command_environment(self.environ, self.cwd, self._mark, self.keep),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(tells,),
            start_new_session=True,
            bufsize=0,
        )

    @property
    def _mark_bytes(self) -> bytes:
        return f"{MARK}={self._mark}".encode()

    def _wait(self, watched: _Watched, cancelled: Cancelled) -> Ended:
        while not watched.has_ended() and not cancelled() and (left := self.stop_at - time.monotonic()) > 0:
            watched.look(left)
        if cancelled():
            return Ended(cancelled=True, stuck=self._end_all(watched, CANCEL_GRACE_S))
        if not watched.has_ended():
            return Ended(timed_out=True, stuck=self._end_all(watched, TERM_GRACE_S))
        watched.drain(DRAIN_S)
        remaining = session_of(watched.pid)
        if not remaining:
            end_group(watched.pid)  # where there is no /proc to look at
            return Ended()
        stuck = self._end_all(watched, CANCEL_GRACE_S, only_session=True)
        return Ended(left=_names(remaining), stuck=stuck)

    def _end_all(self, watched: _Watched, grace_s: float, *, only_session: bool = False) -> tuple[str, ...]:
        """SIGTERM, then SIGKILL until nothing is left; what still lives is named. Output is taken meanwhile."""
        pid = watched.pid
        alive = session_of(pid) if only_session else tree_of(pid, self._mark_bytes)
        send(pid, alive, signal.SIGTERM)
        kill_at = time.monotonic() + grace_s
        while alive or not watched.has_ended():
            now = time.monotonic()
            if now >= kill_at + KILL_WAIT_S:
                return _names(alive)
            if now >= kill_at:
                send(pid, alive, signal.SIGKILL)
            watched.look(min(_LOOK_S, max(kill_at - now, 0.01)))
            # a process that was between fork and exec, or whose parent has just ended, shows only now
            alive = session_of(pid) if only_session else tree_of(pid, self._mark_bytes, alive)
        send(pid, (), signal.SIGKILL)  # where there is no /proc to look at
        watched.drain(0.0)
        return ()


class _Bell:
    """Wakes the loop, and asks the process group to end at once, when the turn is stopped."""

    def __init__(self) -> None:
        # a stop that comes when all is over must not write to a descriptor that is somebody else's by then
        self._lock, self._is_over = threading.RLock(), False

    def __enter__(self) -> _Bell:
        self._stack = contextlib.ExitStack()
        self.descriptor, self._wakes = _pipe(self._stack)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def rung_by(self, cancelled: Cancelled, leader: int) -> Iterator[None]:
        def stop() -> None:
            with self._lock:
                if not self._is_over:
                    end_group(leader)
                    with contextlib.suppress(OSError):
                        os.write(self._wakes, b"x")

        forget = cancelled.on_cancel(stop)
        try:
            yield
        finally:
            with self._lock:
                self._is_over = True
            forget()


class _Watched:
    """A running shell: its output, and whether it has ended, without waiting for it as `Popen.poll` would."""

    def __init__(self, process: subprocess.Popen[bytes], output: Output, woken: int) -> None:
        self.pid, self._process, self._output = process.pid, process, output
        self._ended = False
        assert process.stdout is not None
        self._out = process.stdout.fileno()
        os.set_blocking(self._out, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ, "output")
        self._selector.register(woken, selectors.EVENT_READ, "woken")
        self._pidfd = _pidfd(self.pid)
        if self._pidfd >= 0:
            self._selector.register(self._pidfd, selectors.EVENT_READ, "ended")

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *exception: object) -> None:
        self._selector.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def is_open(self) -> bool:
        return self._out in self._selector.get_map()

    def has_ended(self) -> bool:
        if not self._ended:
            with contextlib.suppress(ChildProcessError):
                self._ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        return self._ended

    def look(self, timeout_s: float) -> bool:
        """Wait for something to happen, at most so long, and take output; whether there was any."""
        if self._pidfd < 0:
            timeout_s = min(timeout_s, _LOOK_S)
        took = False
        for key, _ in self._selector.select(timeout_s):
            if key.data == "output":
                took = self._take()
            else:  # it stays readable: what it says is looked at by the loop
                self._selector.unregister(key.fd)
        return took

    def drain(self, most_s: float) -> None:
        """Take what is there, and wait at most so long for the end of the output."""
        until = time.monotonic() + most_s
        while self.is_open:
            left = until - time.monotonic()
            if not self.look(max(left, 0.0)) and left <= 0:
                return
            if left <= -most_s - _LOOK_S:  # somebody writes faster than we read
                return

    def _take(self) -> bool:
        try:
            data = os.read(self._out, _PIECE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._output.feed(data)
        else:
            self._selector.unregister(self._out)
        return bool(data)


def _pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 where there is none (before Linux 5.3, macOS)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _names(processes: Sequence[Process]) -> tuple[str, ...]:
    return tuple(f"{p.name} ({p.pid})" for p in processes)


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    stack.callback(os.close, writing)
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    return reading, writing


def _exit_code(returncode: int) -> int:
    """As a shell tells it: 128 and the number of the signal that ended it."""
    return 128 - returncode if returncode < 0 else returncode


def _last_directory(descriptor: int) -> str | None:
    """What the shell told at its end, when it is the path of a directory and text."""
    try:
        told = os.read(descriptor, _PIECE_BYTES)
        path = told.removesuffix(b"\n").decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return path if path.startswith("/") and os.path.isdir(path) else None
