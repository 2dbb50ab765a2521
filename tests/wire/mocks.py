"""Mock servers that others wrote, as programs: installed once outside the checkout, started on loopback."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

AIMOCK = "@copilotkit/aimock@1"
LLMOCK = "llmock==0.2.2"
INSTALL_S = 300
START_S = 60


def _folder(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / ".cache" / "hermes-tests" / name)


def aimock_program() -> list[str]:
    """The command that starts aimock (npm; kept in HERMES_TEST_NPM, else in ~/.cache); skips where npm cannot."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip(f"npm is not installed: it brings {AIMOCK}")
    folder = _folder("HERMES_TEST_NPM", "aimock")
    package = folder / "node_modules" / "@copilotkit" / "aimock"
    if not (package / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _install(AIMOCK, [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"])
    programs = json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]
    return [node, str(package / programs["llmock"])]


def llmock_program() -> list[str]:
    """The command that starts llmock (PyPI, in a venv of its own in HERMES_TEST_LLMOCK, else in ~/.cache)."""
    folder = _folder("HERMES_TEST_LLMOCK", "llmock")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_S)
        pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _install(LLMOCK, [*pip, "--retries", "1"])
        (folder / "complete").touch()
    return [str(scripts / "llmock")]


def _install(package: str, command: Sequence[str]) -> None:
    done = subprocess.run([*command, package], capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        pytest.skip(f"{package} cannot be installed: {done.stderr.strip()[-300:]}")


@contextmanager
def running(command: Sequence[str]) -> Iterator[str]:
    """The root URL of a started server; the command gets `--port`. What it said is in the failure when it ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environ
    ) as process:
        try:
            _wait_until_up(process, f"http://127.0.0.1:{port}/v1/models")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait_until_up(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.fail(f"the mock server ended: {process.stderr.read().decode(errors='replace')[-800:]}")
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except urllib.error.HTTPError as error:
            error.close()  # it answers, and that is all that is asked here
        except OSError:
            time.sleep(0.02)  # not listening yet
            continue
        return
    pytest.fail(f"the mock server did not come up within {START_S} s")


def post(url: str, body: Mapping[str, Any]) -> None:
    """Tell a mock something by its own API."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()
