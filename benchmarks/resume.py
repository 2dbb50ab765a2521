"""Measure how long it takes to go on with a long session, from opening the store to the first byte of the request.

    python benchmarks/resume.py [--messages 1000] [--repeat 9]

The session lies in a real SQLite file, which is put out of the system's cache and opened anew each time, and is gone on
with by a new Agent in each of the four wire formats. SDKs are imported before. What is measured is the runtime's own:
find, claim and load the session, settle its prefix, encode every message, and send. Prints medians of wall and CPU
milliseconds; exits with 1 when the sum is above the bar.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import (
    MemorySettings,
    ProviderSettings,
    RequestSettings,
    SessionSettings,
    Settings,
)
from hermes.kernel.effects import Append, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult
from hermes.plugins.stores.sqlite.store import SqliteStore
from hermes.testing.formats import BASE_PATHS

BAR_MS = 200.0
RESULT_CHARS = 1500

Clocks = tuple[float, float]
"""Seconds of the wall and of this process's CPU."""


def now() -> Clocks:
    return time.perf_counter(), time.process_time()


def milliseconds(start: Clocks, end: Clocks) -> Clocks:
    return (end[0] - start[0]) * 1e3, (end[1] - start[1]) * 1e3


def write_session(path: Path, count: int) -> str:
    """A session at rest of so many messages, half of them results of tools; its id."""
    store = SqliteStore(path)
    session = store.create(directory=os.getcwd(), model="m", title="long")
    log = store.open(session)
    turn = log.begin_turn({})
    messages = [Message("user", (Text("Read all of it."),))]
    for number in range((count - 2) // 2):
        call = ToolCall(f"call_{number}", "read_file", {"path": f"src/module_{number}.py"})
        text = (f"line {number} of a source file\n" * (RESULT_CHARS // 27))[:RESULT_CHARS]
        messages += [Message("assistant", (call,)), Message("tool", (ToolResult(call.id, "ok", (Text(text),)),))]
    messages.append(Message("assistant", (Text("I have read it."),)))
    ended = TurnEnded(EndReason.COMPLETED, "I have read it.")
    log.record(turn, [Append(tuple(messages)), ended], iterations=0, attempts=0)
    store.close()
    return session


def forget(path: Path) -> None:
    """Put a file out of the system's cache, so that it is read from the disk again."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


@contextmanager
def listening(heard: Callable[[], None]) -> Iterator[int]:
    """A server that tells when the first byte of a request has come, and hangs up; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if connection.recv(1):
                    heard()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def go_on(settings: Settings, session: str, heard: list[Clocks]) -> Mapping[str, Clocks]:
    """One resumed session up to its first request."""
    heard.clear()
    with Agent(settings) as agent:
        agent.services.registry_tools()  # a run has its plugins loaded, whether it resumes or not
        start = now()
        agent.attach(session)
        attached = now()
        agent.run("And now?")
    return {"attached": milliseconds(start, attached), "first request": milliseconds(start, heard[0])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    logging.getLogger("hermes").setLevel(logging.CRITICAL)  # the server hangs up on purpose
    heard: list[Clocks] = []
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="hermes-resume-") as home, listening(lambda: heard.append(now())) as port:
        os.environ["HERMES_HOME"] = home
        path = Path(home) / "sessions.db"
        session = write_session(path, options.messages)
        for api_mode, base_path in BASE_PATHS.items():
            url = f"http://127.0.0.1:{port}{base_path}"
            settings = Settings(
                model=f"there:{api_mode}",
                providers={"there": ProviderSettings(base_url=url, api_key="x", api_mode=api_mode)},
                request=RequestSettings(attempts=1),
                memory=MemorySettings(backend="none"),
                sessions=SessionSettings(path=str(path)),
            )
            found = []
            for _ in range(options.repeat + 1):
                forget(path)
                found.append(go_on(settings, session, heard))
            del found[0]  # it imports
            told = []
            for name in ("attached", "first request"):
                wall, cpu = (statistics.median(each[name][clock] for each in found) for clock in (0, 1))
                told.append(f"{name} after {wall:.0f} ms (CPU {cpu:.0f} ms)")
            worst = max(worst, wall)
            print(f"{api_mode:18} {options.messages} messages: {', '.join(told)}")
    print(f"bar {BAR_MS:.0f} ms: {'kept' if worst <= BAR_MS else 'missed'}")
    return int(worst > BAR_MS)


if __name__ == "__main__":
    sys.exit(main())
