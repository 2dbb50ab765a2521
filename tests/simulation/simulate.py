"""Run many seeded sessions: `python tests/simulation/simulate.py --turns 100000 [--seed N] [--mutation NAME]`.

A failure prints the command that replays it and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SESSION_TURNS = (1, 3, 6, 6, 20)
"""Turns of a session, by its seed: most are short, some grow long."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000, help="stop after this many turns")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first session; the next ones count up")
    parser.add_argument("--sessions", type=int, default=None, help="at most so many sessions")
    parser.add_argument("--mutation", default=None, help="apply one of the seeded mutations first")
    options = parser.parse_args()
    if options.mutation:
        from mutations import apply

        apply(options.mutation)
    return simulate(options.turns, options.seed, options.sessions, options.mutation)


def simulate(turns: int, seed: int, sessions: int | None, mutation: str | None = None) -> int:
    from session import run_session

    began, done, first = time.process_time(), 0, seed
    while done < turns and (sessions is None or seed < first + sessions):
        try:
            done += run_session(seed, SESSION_TURNS[seed % len(SESSION_TURNS)])
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            traceback.print_exc()
            extra = f" --mutation {mutation}" if mutation else ""
            print(f"seed {seed} failed: {type(problem).__name__}: {problem}")
            print(f"replay: python tests/simulation/simulate.py --seed {seed} --sessions 1{extra}")
            return 1
        seed += 1
    seconds = time.process_time() - began
    print(
        f"{done} turns in {seed - first} sessions from seed {first}: no violation, "
        f"{done / seconds:.0f} turns a second of CPU"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
