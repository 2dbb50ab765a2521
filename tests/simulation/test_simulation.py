"""The loop under 100,000 seeded turns, and under mutations that must not survive them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SIMULATE = HERE / "simulate.py"
TURNS = int(os.environ.get("HERMES_SIMULATED_TURNS", "100000"))


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SIMULATE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)


def test_no_seeded_turn_breaks_an_invariant_or_a_rule_of_behaviour() -> None:
    halves = [("--turns", str(TURNS // 2), "--seed", seed) for seed in ("1", "1000001")]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda arguments: simulate(*arguments), halves))
    for run in done:
        print(run.stdout)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]


def test_every_seeded_mutation_of_the_loop_is_caught() -> None:
    text = (HERE / "mutations.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\w+)": Mutation\(', text, re.MULTILINE)
    assert len(names) >= 15
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda name: simulate("--turns", "12000", "--mutation", name), names))
    survivors = [name for name, run in zip(names, done, strict=True) if run.returncode == 0]
    broken = [run.stderr[-500:] for run in done if run.returncode != 0 and "replay:" not in run.stdout]
    assert not broken, broken
    assert not survivors, f"nothing caught {survivors}"
