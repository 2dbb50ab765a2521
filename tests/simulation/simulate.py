"""Run many seeded sessions: `python tests/simulation/simulate.py --turns 1000000 --workers 2 [--seed N]`.

A failure prints the command that replays it and exits with 1. So does a run of many turns that never reached some
ending, fault or kind of stop, or in which a process slept: waits are only ever simulated.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SESSION_TURNS = (1, 3, 6, 6, 20)
"""Turns of a session, by its seed: most are short, some grow long."""

WORKER_SEEDS = 10_000_000
"""How far apart the first seeds of two workers are."""

ENOUGH_TURNS = 40_000
"""A run of so many turns must have reached everything that can be reached."""

GARBAGE = 100_000
"""Allocations between two collections: a turn leaves few cycles, and looking for them costs a tenth of the time."""


@dataclass(slots=True)
class Tally:
    """What a run did. `asleep`: how often the process gave up its core by itself, as a real wait does."""

    turns: int = 0
    sessions: int = 0
    waited_s: float = 0.0
    asleep: int = 0
    cpu_s: float = 0.0
    reached: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.turns += other.turns
        self.sessions += other.sessions
        self.waited_s += other.waited_s
        self.asleep += other.asleep
        self.cpu_s += other.cpu_s
        self.reached.update(other.reached)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000, help="stop after this many turns")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first session; the next ones count up")
    parser.add_argument("--sessions", type=int, default=None, help="at most so many sessions")
    parser.add_argument("--workers", type=int, default=1, help="so many processes, with seeds of their own")
    parser.add_argument("--mutation", default=None, help="apply one of the seeded mutations first")
    parser.add_argument("--rough", action="store_true", help="faults abound, as with a mutation")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, judge nothing")
    options = parser.parse_args()
    if options.mutation:
        from mutations import apply

        apply(options.mutation)
    began = time.monotonic()
    if options.workers > 1:
        tally = spread(options.turns, options.seed, options.workers)
    else:
        tally = simulate(options.turns, options.seed, options.sessions, options.mutation, rough=options.rough)
    if tally is None:
        return 1
    if options.json:
        print(json.dumps({f.name: getattr(tally, f.name) for f in fields(tally)}))
        return 0
    return report(tally, options.seed, time.monotonic() - began)


def spread(turns: int, seed: int, workers: int) -> Tally | None:
    """The same in several processes; None when one of them failed, whose words are passed on."""
    whole, running = Tally(), []
    for worker in range(workers):
        share = [f"--turns={turns // workers}", f"--seed={seed + worker * WORKER_SEEDS}", "--json"]
        command = [sys.executable, str(Path(__file__)), *share]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    said = [process.communicate()[0] for process in running]
    if failed := [text for process, text in zip(running, said, strict=True) if process.returncode]:
        print(*failed)
        return None
    for text in said:
        found = json.loads(text.splitlines()[-1])
        whole.add(Tally(**{**found, "reached": Counter(found["reached"])}))
    return whole


def simulate(
    turns: int, seed: int, sessions: int | None, mutation: str | None = None, *, rough: bool = False
) -> Tally | None:
    """Sessions until there are so many turns; None after one that broke a rule, which is told."""
    from session import SESSION_KINDS, Session

    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)
    tally = Tally(reached=Counter(dict.fromkeys(SESSION_KINDS, 0)))
    slept, began = _switches(), time.process_time()
    while tally.turns < turns and (sessions is None or tally.sessions < sessions):
        session = Session(seed, SESSION_TURNS[seed % len(SESSION_TURNS)], rough=rough or mutation is not None)
        try:
            tally.turns += session.run()
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            traceback.print_exc()
            extra = f" --mutation {mutation}" if mutation else " --rough" if rough else ""
            print(f"seed {seed} failed: {type(problem).__name__}: {problem}")
            print(f"replay: python tests/simulation/simulate.py --seed {seed} --sessions 1{extra}")
            return None
        seed += 1
        tally.sessions += 1
        tally.waited_s += session.waited_s
        tally.reached.update(session.reached)
    tally.asleep, tally.cpu_s = _switches() - slept, time.process_time() - began
    return tally


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def report(tally: Tally, seed: int, seconds: float) -> int:
    """Print what was reached; 1 when a long run left something out, or slept."""
    for name, count in sorted(tally.reached.items()):
        print(f"{count:9} {name}")
    print(
        f"{tally.turns} turns in {tally.sessions} sessions from seed {seed}: no violation, {seconds:.0f} s, "
        f"{tally.turns / tally.cpu_s:.0f} turns a second of CPU, waits of {tally.waited_s / 3600:.0f} h simulated"
    )
    if tally.turns < ENOUGH_TURNS:
        return 0
    missing = [name for name, count in tally.reached.items() if not count]
    if missing:
        print(f"never reached: {', '.join(missing)}")
    waits = tally.reached["effect Wait"]
    if is_asleep := tally.asleep > waits // 100:
        print(f"the processes slept {tally.asleep} times in {waits} waits")
    return 1 if missing or is_asleep else 0


if __name__ == "__main__":
    sys.exit(main())
