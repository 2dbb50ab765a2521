"""The llama.cpp server as a child process of the run, shared by all agents of the process.

Who owns what: a *keeper* thread starts the child and waits for it, so it lives exactly as long as the child (Linux
sends the parent-death signal when the *thread* that forked ends). A *reader* thread drains the child's log, and makes
progress reports out of it. `acquire` and `release` count the users; the last one to go stops the child.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from hermes.kernel.errors import ProviderError
from hermes.kernel.providers import Report

LOAD_TIMEOUT_S = 300.0
STOP_WAIT_S = 0.3
"""How long a child may take to leave by itself. xllamacpp swallows the first SIGTERM, so it is killed after that."""
LOG_LINES = 60
LOADING_DOTS = 100
"""llama.cpp prints at most so many dots while it loads."""

_PROMPT_PROGRESS = re.compile(rb"prompt processing progress.*progress = ([0-9.]+)")
_PROMPT_DONE = b"prompt processing done"


@dataclass(frozen=True, slots=True)
class Launch:
    """What the child is told; two agents with the same one share a server."""

    name: str
    model: str
    window_tokens: int
    output_tokens: int
    temperature: float
    chat_template: str | None
    threads: int
    batch_tokens: int = 256
    prompt_cache_mib: int = 256


class LlamaServer:
    """One child process. All methods may be called from any thread."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.api_key = secrets.token_hex(16)
        self.users = 0
        self._changed = threading.Condition()
        self._url: str | None = None
        self._ended: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failure = ""
        self._log: collections.deque[bytes] = collections.deque(maxlen=LOG_LINES)
        self._reports: list[Report] = []
        threading.Thread(target=self._keep, name=f"local-keeper-{launch.name}", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._ended is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def listen(self, report: Report) -> None:
        """Send progress of loading, and later of reading a prompt, to `report`, from a thread of ours."""
        with self._changed:
            if report not in self._reports:
                self._reports.append(report)

    def unlisten(self, report: Report) -> None:
        with self._changed, contextlib.suppress(ValueError):
            self._reports.remove(report)

    def wait_ready(self, cancelled: Callable[[], bool]) -> str:
        """Wait until it answers; returns its URL. When cancelled it goes on loading, and only the wait ends."""
        deadline = time.monotonic() + LOAD_TIMEOUT_S
        with self._changed:
            while self._url is None:
                if self._ended is not None:
                    raise ProviderError(self._why_it_ended())
                if cancelled():
                    raise ProviderError(f"stopped while {self.launch.name} was loading", kind="cancelled")
                if time.monotonic() > deadline:
                    raise ProviderError(
                        f"{self.launch.name} did not load within {LOAD_TIMEOUT_S:.0f} s; a slow disk or too little "
                        "memory? Try a smaller model (`hermes models list`)"
                    )
                self._changed.wait(0.05)
            return self._url

    def stop(self) -> None:
        """End the child; returns when it is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._process is not None or self._ended is not None)
            process = self._process
        if process is None:
            return
        self._close(process.stdin)
        with self._changed:
            gone = self._changed.wait_for(lambda: self._ended is not None, STOP_WAIT_S)
        if not gone:
            process.kill()
            with self._changed:
                self._changed.wait_for(lambda: self._ended is not None)

    # ---- the keeper ------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        try:
            process = self._start()
        except OSError as error:
            with self._changed:
                self._failure, self._ended = f"cannot start {sys.executable}: {error}", -1
                self._changed.notify_all()
            return
        readers = [
            threading.Thread(target=self._read_log, args=(process.stderr,), name="local-log", daemon=True),
            threading.Thread(target=self._read_status, args=(process.stdout,), name="local-status", daemon=True),
        ]
        for reader in readers:
            reader.start()
        with self._changed:
            self._process = process
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.write(self._order())
                process.stdin.flush()
        code = process.wait()
        for reader in readers:
            reader.join()
        self._close(process.stdin)
        with self._changed:
            self._url, self._ended = None, code
            self._changed.notify_all()

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("child.py")
        # -P: nothing is imported from the script's or the working directory. A session of its own: Ctrl-C is the
        # run's affair, and must not reach the server. Its directory is not the user's, which may be removed.
        return subprocess.Popen(
            [sys.executable, "-P", str(script), str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, cwd=str(Path(self.launch.model).parent),
        )  # fmt: skip

    def _order(self) -> bytes:
        return json.dumps({**asdict(self.launch), "api_key": self.api_key}).encode() + b"\n"

    @staticmethod
    def _close(pipe: IO[bytes] | None) -> None:
        with contextlib.suppress(OSError):
            if pipe:
                pipe.close()

    # ---- the readers -----------------------------------------------------------------------------------------------

    def _read_status(self, pipe: IO[bytes]) -> None:
        with pipe:
            line = pipe.readline()
        if line:
            with self._changed:
                self._url = json.loads(line)["url"]
                self._changed.notify_all()

    def _read_log(self, pipe: IO[bytes]) -> None:
        """Drain the log to its end; a pipe that nobody reads would stop the server when it is full."""
        rest = b""
        with pipe:
            while chunk := os.read(pipe.fileno(), 65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._log.append(line)
                    self._report_prompt(line)
                if self._url is None and rest and not rest.strip(b"."):
                    self._report(f"loading {self.launch.name}", min(len(rest) / LOADING_DOTS, 1.0))
        self._log.append(rest)

    def _report_prompt(self, line: bytes) -> None:
        if self._url is None:
            return
        if found := _PROMPT_PROGRESS.search(line):
            self._report("reading the prompt", min(float(found[1]), 1.0))
        elif _PROMPT_DONE in line:
            self._report("reading the prompt", 1.0)

    def _report(self, what: str, share: float) -> None:
        with self._changed:
            reports = tuple(self._reports)
        for report in reports:
            report(what, share)

    def _why_it_ended(self) -> str:
        if self._failure:
            return self._failure
        lines = [line.decode("utf-8", "replace").strip() for line in self._log]
        telling = [line for line in lines if re.search(r"error|fail|cannot|unable", line, re.IGNORECASE)]
        said = (telling or [line for line in lines if line] or ["it said nothing"])[-1]
        return (
            f"the local server for {self.launch.name} ended with code {self._ended} before it was ready: {said}. "
            f"When the file is damaged, delete {self.launch.model} and fetch it again; "
            "when memory is short, choose a smaller model"
        )


_servers: dict[Launch, LlamaServer] = {}
_servers_lock = threading.Lock()


def acquire(launch: Launch) -> LlamaServer:
    """The running server for this launch, or a new one, counted once more; give it back by `release`."""
    with _servers_lock:
        server = _servers.get(launch)
        if server is None or not server.alive:
            server = _servers[launch] = LlamaServer(launch)
        server.users += 1
        return server


def release(server: LlamaServer) -> None:
    """One user less; the last one stops the child, and returns when it is gone."""
    with _servers_lock:
        server.users -= 1
        if server.users > 0:
            return
        if _servers.get(server.launch) is server:
            del _servers[server.launch]
    server.stop()
