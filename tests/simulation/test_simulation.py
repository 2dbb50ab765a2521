"""The loop under 100,000 seeded turns, and under mutations that must not survive them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TURNS = os.environ.get("HERMES_SIMULATED_TURNS", "100000")
MUTANT_TURNS = "6000"


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "simulate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)


def test_no_seeded_turn_breaks_an_invariant_or_a_rule_of_behaviour() -> None:
    run = simulate("--turns", TURNS, "--workers", "2")
    print(run.stdout)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]


def test_the_rough_sessions_that_mutations_must_not_survive_are_without_fault_themselves() -> None:
    run = simulate("--turns", MUTANT_TURNS, "--rough")
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]


def test_every_seeded_mutation_of_the_loop_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    from mutations import MUTATIONS

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda name: simulate("--turns", MUTANT_TURNS, "--mutation", name), MUTATIONS))
    survivors = [name for name, run in zip(MUTATIONS, done, strict=True) if run.returncode == 0]
    broken = [run.stderr[-500:] for run in done if run.returncode != 0 and "replay:" not in run.stdout]
    assert not broken, broken
    assert not survivors, f"nothing caught {survivors}"
