"""Lint, types and tests, one after the other: `python tests/check.py [pytest arguments]`. Exits with 1 when one fails.

Run it with the Python of an environment where `hermes-kernel[test]` is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

STEPS = (
    ("ruff check", ["ruff", "check", "."]),
    ("ruff format", ["ruff", "format", "--check", "."]),
    ("mypy", ["mypy"]),
    ("pyright", ["pyright"]),
    ("pytest", ["pytest", "-q", "-n", "2", "--dist", "worksteal"]),
)


def main(arguments: list[str]) -> int:
    # what `pip install .` leaves in the tree answers for a second distribution (packaging trap 4)
    for stale in (ROOT / "build", *ROOT.glob("*.egg-info")):
        if not _is_editable():
            shutil.rmtree(stale, ignore_errors=True)
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    failed = []
    for name, command in STEPS:
        began = time.monotonic()
        extra = arguments if name == "pytest" else []
        code = subprocess.run([str(BIN / command[0]), *command[1:], *extra], cwd=ROOT, env=environment, check=False)
        verdict = "FAILED" if code.returncode else "ok"
        print(f"== {name}: {verdict} in {time.monotonic() - began:.0f} s", flush=True)
        if code.returncode:
            failed.append(name)
    print(f"== failed: {', '.join(failed)}" if failed else "== all passed")
    return 1 if failed else 0


def _is_editable() -> bool:
    """An editable install needs its egg-info; a wheel does not."""
    where = [sys.executable, "-P", "-c", "import hermes; print(hermes.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=False)
    return found.stdout.strip() == str(ROOT / "__init__.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
