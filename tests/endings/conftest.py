"""Runs of `hermes` in a home of their own, against a scripted model: real processes, quickly started (`warm.py`)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermes.testing import ScriptedServer, scripted_settings

DEADLINE_S = 60.0
QUICK = {"request": {"attempts": 1}}
"""A fault ends the turn at once, without waits between attempts."""


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line of stdout, which is the result in json and stream-json."""
        result: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return result

    @property
    def last_line(self) -> str:
        return self.stderr.splitlines()[-1] if self.stderr else ""


class Starter:
    """The warm process. One command at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.read()

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the warm process has died"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def start(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid: int = self.read()["pid"]
        return pid

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    starter.close()


class Hermes:
    """A home and a working directory; `run(...)` is `hermes run` with these settings."""

    def __init__(self, starter: Starter, home: Path, work: Path, server: ScriptedServer) -> None:
        self._starter, self.home, self.work, self.server = starter, home, work, server
        self.settings(**QUICK)

    def settings(self, **more: Any) -> None:
        text = json.dumps(scripted_settings(self.server, **more))
        (self.home / "hermes.yaml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str, meanwhile: Callable[[int], None] | None = None, **more: Any) -> Done:
        return self("run", *arguments, meanwhile=meanwhile, **more)

    def __call__(
        self,
        *arguments: str,
        meanwhile: Callable[[int], None] | None = None,
        stdin: str = os.devnull,
        stdout: str | None = None,
        stderr: str | None = None,
        environ: dict[str, str] | None = None,
    ) -> Done:
        """`meanwhile` gets the process id while the command runs."""
        out, err = self.home / "stdout.txt", self.home / "stderr.txt"
        for file in (out, err):
            file.unlink(missing_ok=True)
        pid = self._starter.start(
            {
                "arguments": arguments,
                "environ": {**os.environ, **(environ or {})},
                "cwd": str(self.work),
                "stdin": stdin,
                "stdout": stdout or str(out),
                "stderr": stderr or str(err),
            }
        )
        watchdog = threading.Timer(DEADLINE_S, os.kill, (pid, 9))
        watchdog.start()
        try:
            if meanwhile is not None:
                meanwhile(pid)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)  # so that the next command finds the starter free
            raise
        finally:
            code = self._starter.read()["code"]
            watchdog.cancel()
            watchdog.join()
        texts = [file.read_text(encoding="utf-8") if file.exists() else "" for file in (out, err)]
        return Done(code, *texts)

    def rows(self) -> list[dict[str, Any]]:
        done = self("sessions", "list", "--json")
        assert done.code == 0, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows


@pytest.fixture
def hermes(starter: Starter, hermes_home: Path, tmp_path: Path, scripted: ScriptedServer) -> Hermes:
    work = tmp_path / "work"
    work.mkdir()
    return Hermes(starter, hermes_home, work, scripted)
