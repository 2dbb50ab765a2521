"""A run whose main thread is stuck ends all the same: real processes, stuck in C code with and without the GIL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.testing import ScriptedServer, scripted_settings, text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and pipes as POSIX has them")

RUN = """
import sys
from hermes.kernel.cli.front import Front
from hermes.kernel.cli.run_settings import RunOptions

options = RunOptions(words=("go",), output_format="json", max_seconds=0.2)
print(Front(options, patience_s=float(sys.argv[1])).run(()).answer)
"""

WEDGE = """
import os
import re
from hermes import hookimpl

@hookimpl
def around_model_call(request, proceed):
    if os.environ["WEDGE"] == "read":
        os.read(os.pipe()[0], 1)  # lets other threads run
    re.match("(a+)+$", "a" * 60 + "b")  # does not
"""


@pytest.fixture
def wedged(site: Any, hermes_home: Path, tmp_path: Path, scripted: ScriptedServer) -> Any:
    """`wedged("read" or "match", patience_s)`: a run with a limit of 0.2 s whose main thread never leaves C code."""
    site.plugin("wedge", WEDGE)
    (hermes_home / "hermes.yaml").write_text(json.dumps(scripted_settings(scripted)), encoding="utf-8")

    def run(how: str, patience_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", RUN, str(patience_s)],
            cwd=tmp_path,
            env={**os.environ, "WEDGE": how, "PYTHONPATH": str(site.directory)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def test_B150_a_wedged_main_thread_is_ended_with_a_code_a_result_and_a_turn_that_can_be_finished(
    wedged: Any, scripted: ScriptedServer
) -> None:
    done = wedged("read", 5)  # a busy machine takes seconds to come to the call
    result = json.loads(done.stdout)
    assert (done.returncode, result["reason"], result["exit_code"]) == (6, "budget_time", 6), done.stderr
    assert done.stderr.splitlines()[-1].startswith("hermes: budget_time: the run was stuck past its limit of 0.2 s")
    assert scripted.requests == []

    scripted.add(text("Done."))
    command = [sys.executable, "-m", "hermes", "run", "--resume", result["session"]]
    again = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (0, "Done.\n"), again.stderr
    assert "go" in str(scripted.requests[0].last["content"])


def test_B150_c_code_that_never_lets_another_thread_run_is_ended_by_the_system(wedged: Any) -> None:
    assert wedged("match", 5).returncode == -signal.SIGALRM


LEFT = """
import signal, threading
from hermes.kernel.cli.watchdog import Watchdog
for limit in (0.001, None):
    with Watchdog(limit, lambda: None, patience_s=600):
        print(signal.getitimer(signal.ITIMER_REAL)[0] > 600, threading.active_count())
    print(signal.getitimer(signal.ITIMER_REAL)[0], threading.active_count())
"""


def test_B150_a_run_that_ends_by_itself_leaves_nothing_of_the_watchdog() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["True 2", "0.0 1", "False 1", "0.0 1"]
