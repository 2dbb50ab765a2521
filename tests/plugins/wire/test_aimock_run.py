"""A whole `hermes run` against somebody else's idea of the OpenAI API (npm @copilotkit/aimock)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("stream", ["true", "false"])
def test_hermes_run_completes_a_tool_loop_over_an_independent_mock(
    aimock: str, hermes_home: Path, tmp_path: Path, stream: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("content\n", encoding="utf-8")
    settings = {"model": "mock:gpt-4o", "providers": {"mock": {"base_url": aimock, "api_key": "k"}}}
    (hermes_home / "hermes.yaml").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "hermes", "run", "-o", "stream-json", "read the file"]
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, "HERMES_DISPLAY_STREAM": stream},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (tool,) = (e for e in events if e["type"] == "tool_ended")
    assert (tool["name"], tool["status"]) == ("read_file", "ok")
    assert "content" in tool["text"]
    assert (events[-1]["reason"], events[-1]["answer"], events[-1]["iterations"]) == (
        "completed",
        "The file is read.",
        2,
    )
    pieces = [e["text"] for e in events if e["type"] == "text_delta"]
    assert "".join(pieces) == "The file is read."
