"""Lint, types and tests, one after the other: `python tests/check.py [pytest arguments]`. Exits with 1 when one fails.

Run it with the Python of an environment where `hermes-kernel[test]` is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

LINTERS = (("ruff check", "ruff", "check", "."), ("ruff format", "ruff", "format", "--check", "."), ("mypy", "mypy"))

HALVES = (
    ("pytest: endings, providers, tools", ["tests/endings", "tests/plugins", "tests/testing", "tests/wire"]),
    ("pytest: the rest", ["tests", "--ignore=tests/endings", "--ignore=tests/plugins", "--ignore=tests/testing",
                          "--ignore=tests/wire", "--ignore=tests/simulation"]),
    ("pytest: simulation", ["tests/simulation"]),
)  # fmt: skip
"""Two of them run at a time. Not pytest-xdist: it cannot carry reports that hold lone surrogates."""


def main(arguments: list[str]) -> int:
    # what `pip install .` leaves in the tree answers for a second distribution (packaging trap 4)
    if not _is_editable():
        for stale in (ROOT / "build", *ROOT.glob("*.egg-info")):
            shutil.rmtree(stale, ignore_errors=True)
    failed = [name for name, *command in LINTERS if not _run(name, command)]
    tests = HALVES if not arguments else (("pytest", arguments),)
    jobs = [("pyright", ["pyright"]), *((name, ["pytest", "-q", *paths]) for name, paths in tests)]
    with ThreadPoolExecutor(2) as pool:
        passed = list(pool.map(lambda job: _run(*job), jobs))
    failed += [name for (name, _), ok in zip(jobs, passed, strict=True) if not ok]
    print(f"== failed: {', '.join(failed)}" if failed else "== all passed")
    return 1 if failed else 0


def _run(name: str, command: list[str]) -> bool:
    """Run one step to its end and print what it said in one piece; True when it passed."""
    began = time.monotonic()
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=ROOT,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    verdict = "FAILED" if done.returncode else "ok"
    said = done.stdout.decode("utf-8", "replace")
    print(f"{said}== {name}: {verdict} in {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def _is_editable() -> bool:
    """An editable install needs its egg-info; a wheel does not."""
    where = [sys.executable, "-P", "-c", "import hermes; print(hermes.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=False)
    return found.stdout.strip() == str(ROOT / "__init__.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
