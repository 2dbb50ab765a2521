"""Measure start-up from a wheel install, interleaved with `python -c "import click, yaml, sqlite3"`.

    python benchmarks/startup.py [--rounds 15] [--plugins 200] [--check] [--json FILE]

Builds the wheel from a copy of the checkout, installs it compiled into a fresh virtual environment in a temporary
directory, and runs each command in turn with the yardstick beside it. The ratio is between the smallest CPU times
(user and system): other work on the machine cannot make those smaller. With `--plugins`
dummy distributions beside it, whose modules would sleep for a second and leave a mark, the rise for each is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
YARDSTICK = ("-c", "import click, yaml, sqlite3")
BARS: dict[str, tuple[tuple[str, ...], float]] = {
    "--version": (("--version",), 0.5),
    "--help": (("--help",), 1.2),
    "plugins list": (("plugins", "list"), 1.2),
    "run --dry-run": (("run", "--dry-run", "hello"), 1.8),
}
"""Command, arguments, and the most it may cost as a multiple of the yardstick (issue 2, Show)."""
PLUGIN_BAR_US = 30.0
GROUPS = ("hermes.tools", "hermes.plugins", "hermes.prompt", "hermes.commands")


@dataclass(slots=True)
class Samples:
    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)


def install(directory: Path) -> Path:
    """A fresh environment with our wheel and its dependencies; returns its python."""
    source, dist = directory / "source", directory / "dist"
    ignored = shutil.ignore_patterns(
        ".git", "*.egg-info", "__pycache__", ".mypy_cache", ".ruff_cache", "build", ".venv"
    )
    shutil.copytree(CHECKOUT, source, symlinks=True, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", dist, source], check=True, cwd=directory)
    environment = directory / "venv"
    venv.create(environment, with_pip=False, symlinks=os.name != "nt")
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wheel = next(dist.glob("*.whl"))
    subprocess.run([*pip, "--python", python, "install", "--compile", str(wheel)], check=True, cwd=directory)
    return python


def add_plugins(python: Path, count: int, marks: Path) -> None:
    """Distributions as pip would leave them, without pip: 200 installs would take minutes."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip())
    for number in range(count):
        name = f"dummy_plugin_{number:03}"
        (site / f"{name}.py").write_text(
            f"import time, pathlib\npathlib.Path({str(marks)!r}, {name!r}).touch()\ntime.sleep(1)\n", encoding="utf-8"
        )
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: hermes-kernel\n", encoding="utf-8"
        )
        group = GROUPS[number % len(GROUPS)]
        (info / "entry_points.txt").write_text(f"[{group}]\ndummy{number:03} = {name}\n", encoding="utf-8")


def run_once(python: Path, arguments: tuple[str, ...], environ: dict[str, str], samples: Samples, cwd: Path) -> None:
    start = time.perf_counter()
    process = subprocess.Popen(
        [python, *arguments], env=environ, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=-1
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} ended with {process.returncode}: {errors.decode(errors='replace')}")
    samples.wall_s.append(time.perf_counter() - start)
    samples.cpu_s.append(usage.ru_utime + usage.ru_stime)


def measure(python: Path, environ: dict[str, str], rounds: int, cwd: Path) -> dict[str, Samples]:
    """Every command once a round, the yardstick before each."""
    hermes = python.with_name("hermes")
    found = {"yardstick": Samples(), **{name: Samples() for name in BARS}}
    for number in range(rounds + 1):
        for name, (arguments, _) in BARS.items():
            run_once(python, YARDSTICK, environ, found["yardstick"], cwd)
            run_once(python, (str(hermes), *arguments), environ, found[name], cwd)
        if not number:  # the first fills the disk cache
            found = {name: Samples() for name in found}
    return found


def report(found: dict[str, Samples], loaded: dict[str, Samples] | None, plugins: int) -> tuple[list[str], bool]:
    yardstick = min(found["yardstick"].cpu_s)
    lines = [f"{'':16}{'ratio':>8}{'bar':>6}{'CPU ms':>9}{'wall ms':>9}{'µs a plugin':>13}"]
    passed = True
    for name, samples in found.items():
        ratio, bar = min(samples.cpu_s) / yardstick, BARS[name][1] if name in BARS else None
        rise = ""
        if loaded is not None and plugins and bar is not None:
            rise_us = (min(loaded[name].cpu_s) - min(samples.cpu_s)) / plugins * 1e6
            rise = f"{rise_us:13.1f}"
            passed = passed and rise_us <= PLUGIN_BAR_US
        passed = passed and (bar is None or ratio <= bar)
        wall_ms, cpu_ms = statistics.median(samples.wall_s) * 1e3, min(samples.cpu_s) * 1e3
        lines.append(f"{name:16}{ratio:8.2f}{bar or '':>6}{cpu_ms:9.1f}{wall_ms:9.1f}{rise}")
    return lines, passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plugins", type=int, default=200)
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--json", type=Path, help="write the samples there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-startup-") as name:
        directory = Path(name)
        marks, work = directory / "marks", directory / "work"
        for each in (marks, work, directory / "home"):
            each.mkdir()
        python = install(directory)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory / "home"),
            "HERMES_HOME": str(directory / "home" / "hermes"),
            "OPENAI_API_KEY": "not-a-key",  # so that `model: auto` looks for no server
            "LANG": "C.UTF-8",
        }
        found = measure(python, environ, options.rounds, work)
        loaded = None
        if options.plugins:
            add_plugins(python, options.plugins, marks)
            loaded = measure(python, environ, options.rounds, work)
        imported = sorted(path.name for path in marks.iterdir())
    lines, passed = report(found, loaded, options.plugins)
    print("\n".join(lines))
    print(f"{options.plugins} dummy plugins, imported: {', '.join(imported) or 'none'}")
    if options.json:
        samples = {name: {"cpu_s": each.cpu_s, "wall_s": each.wall_s} for name, each in found.items()}
        options.json.write_text(json.dumps(samples), encoding="utf-8")
    return int(options.check and not (passed and not imported))


if __name__ == "__main__":
    sys.exit(main())
