"""A few of the kills that `benchmarks/kill_runs.py` makes: real runs die at chosen points and at random moments."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parents[2] / "benchmarks" / "kill_runs.py"
KILLS = 20


@pytest.mark.skipif(os.name == "nt", reason="starts its runs by fork")
def test_runs_that_are_killed_lose_nothing_and_do_nothing_twice_unless_the_model_is_told() -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    command = [sys.executable, str(HARNESS), "--workers", "1", "--kills", str(KILLS), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}\n{done.stderr[-2000:]}"
    kills = re.match(rf"seed {seed}: (\d+) kills", done.stdout)
    assert kills is not None, done.stdout
    assert int(kills[1]) >= KILLS
