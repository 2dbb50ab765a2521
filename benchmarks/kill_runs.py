"""Kill real runs with SIGKILL, at chosen points and at random moments, go on with them, and look for what was lost.

    python benchmarks/kill_runs.py [--kills 1000] [--workers 2] [--seed N]

Each run is a process of its own, forked from one that has everything imported (a start from cold would spend most of
its life in imports, where a kill proves nothing), with the real store at full sync and real tools: files, terminal, two
delegated children, and a tool that leaves a mark. Sessions take the four wire formats by turns, and some go on in
another. The first run of a session dies at the first, second, third … statement of SQLite or event of the outside
world, one after the other; later ones anywhere. `kill_points.py` says where a run can die, `kill_checks.py` what is
looked for after each kill, `kill_model.py` is the model. Exits with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests" / "endings"))

import kill_checks as checks  # noqa: E402  # beside this file
import warm  # type: ignore[import-not-found]  # noqa: E402  # of the tests
from kill_model import MODELS  # noqa: E402
from kill_points import POINTS, arm  # noqa: E402

PRELOADED = (
    *warm.PRELOADED, "anthropic", "botocore.session", "hermes.plugins.wire.codex_responses",
    "hermes.plugins.wire.anthropic_messages", "hermes.plugins.wire.bedrock_converse", "hermes.plugins.wire.openai_sdk",
    "hermes.plugins.wire.anthropic_sdk", "hermes.plugins.wire.bedrock_converse.sdk",
    "hermes.plugins.wire.bedrock_converse.frames", "hermes.kernel.crashed", "hermes.plugins.stores.sqlite.store",
    "hermes.plugins.tools.files.writing", "hermes.plugins.tools.files.patching", "hermes.plugins.tools.terminal.tool",
)  # fmt: skip
KINDS = (*POINTS, "moment")
SWEPT = ("sql", "world")
"""Kinds of which first runs take one point after the other."""

MOST_RUNS = 40
"""Of one session; the last is not killed."""

KILLED_AGAIN = 0.45
"""The chance of a run that goes on to be killed too."""

OTHER_FORMAT = 0.2
NEW_PROMPT = 0.3
"""The chance of a killed turn to be replaced by the user's next message, in place of being finished."""

_PLUGIN = """
import os
from hermes import Tool, hookimpl

def mark(x):
    with open(os.environ["KILL_FILE"], "ab", buffering=0) as file:
        file.write(x.encode() + b"\\n")
    return "marked " + x

@hookimpl
def register_tools():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    return [
        Tool("mark", "Leave a mark.", schema, mark, reads=("nothing",)),
        Tool("look", "Look at it.", schema, mark, reads=("nothing",), idempotent=True),
    ]
"""


@dataclass
class Tally:
    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    sessions: int = 0
    calls: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


class Dice:
    """Chooses where runs die. What a run of today has of each kind is learned: one that ends before its kill says less,
    one that is killed a little more."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._most = {"sql": 200.0, "vm": 400.0, "world": 200.0, "python": 40_000.0, "moment": 0.6}
        self._sweep = {kind: itertools.count(1) for kind in SWEPT}
        self._kinds = itertools.cycle(KINDS)

    def first(self) -> tuple[str, float]:
        kind = next(self._kinds)
        if kind in SWEPT and (number := next(self._sweep[kind])) <= self._most[kind]:
            return kind, number
        return kind, self._anywhere(kind)

    def later(self) -> tuple[str, float]:
        kind = self.random.choice(KINDS)
        return kind, self._anywhere(kind)

    def learn(self, kind: str, *, was_killed: bool) -> None:
        self._most[kind] *= 1.05 if was_killed else 0.85

    def _anywhere(self, kind: str) -> float:
        most = self._most[kind]
        return self.random.uniform(0, most) if kind == "moment" else self.random.randint(1, int(most) + 1)


class Runs:
    """Starts runs in a home of their own, and reads its store."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory, self.home, self.work = directory, directory / "home", directory / "work"
        for each in (self.home, self.work):
            each.mkdir()
        providers = {
            api_mode: {"base_url": f"http://127.0.0.1:{port}{path}", "api_key": "x", "api_mode": api_mode}
            for api_mode, path in import_module("hermes.testing.formats").BASE_PATHS.items()
        }
        settings = {
            "providers": providers,
            "tools": {"toolsets": ["files", "terminal", "marks"]},
            "memory": {"backend": "none"},
            "request": {"attempts": 1},
        }
        (self.home / "hermes.yaml").write_text(json.dumps(settings), encoding="utf-8")

    def play(self, name: str, arguments: Sequence[str], kind: str, at: float) -> int:
        """One run, which dies at a point or moment; its exit code (-9 when it was killed). `kind` "" kills nothing."""
        pid = os.fork()
        if not pid:
            self._become(name, arguments, kind, int(at))
        if kind == "moment":
            time.sleep(at)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _become(self, name: str, arguments: Sequence[str], kind: str, at: int) -> None:
        if kind in POINTS:
            arm(kind, at)
        warm.become(
            {
                "arguments": ["run", "-q", *arguments],
                "environ": {
                    **os.environ,
                    "HERMES_HOME": str(self.home),
                    "KILL_FILE": str(self.work / f"marks-{name}.txt"),
                    "PYTHONPATH": str(self.directory / "plugin"),
                },
                "cwd": str(self.work),
                "stdin": os.devnull,
                "stdout": str(self.directory / "out.txt"),
                "stderr": str(self.directory / "err.txt"),
            }
        )

    def last_error(self) -> str:
        return "".join((self.directory / "err.txt").read_text(encoding="utf-8").splitlines()[-1:])

    @contextmanager
    def store(self) -> Iterator[Any]:
        from hermes.kernel.config.settings import SessionSettings

        [factory] = import_module("hermes.plugins.stores.sqlite").register_session_stores()
        store = factory.open_store(SessionSettings(), self.home)
        try:
            yield store
        finally:
            store.close()

    def look(self, name: str) -> checks.Seen | None:
        with self.store() as store:
            return checks.look_at(store, name)


def play(runs: Runs, name: str, dice: Dice, tally: Tally, formats: Iterator[str]) -> None:
    """One session, from its first run to its end."""
    mode, prompts, went_on = next(formats), [f"Do job {name}t1."], True
    before: checks.Seen | None = None
    for number in range(MOST_RUNS):
        if number and dice.random.random() < OTHER_FORMAT:
            mode = dice.random.choice(list(MODELS))
        said = ["--session", name, prompts[0]]
        if before is not None:
            said = ["--resume", name]
            if not before.is_unfinished or dice.random.random() < NEW_PROMPT:
                prompts.append(f"Do job {name}t{len(prompts) + 1}.")
                said.append(prompts[-1])
                went_on = went_on and not before.is_unfinished
        killed = number == 0 or (number < MOST_RUNS - 1 and dice.random.random() < KILLED_AGAIN)
        kind, at = (dice.later() if number else dice.first()) if killed else ("", 0)
        code = runs.play(name, ["-m", f"{mode}:{MODELS[mode]}", *said], kind, at)
        was_killed = code == -signal.SIGKILL
        if kind:
            dice.learn(kind, was_killed=was_killed)
            tally.kills[kind] += was_killed
        after = runs.look(name)
        found = checks.wrong_after_a_run(before, after, prompts, checks.traces_of(runs.work, name))
        # a finished turn may leave a message that a kill kept from its own: the next run takes it
        is_over = not was_killed and not (after is not None and after.is_unfinished)
        if not was_killed and code:
            found.append(f"ended with {code}: {runs.last_error()}")
        if is_over:
            found += checks.wrong_at_the_end(after, went_on=went_on)
        tally.wrong += [f"{name}, run {number} ({mode}, {kind} {at:g}, {said}): {text}" for text in found]
        if is_over or tally.wrong:
            break
        before = after
    tally.sessions += 1
    if after is not None:
        tally.calls.update(r.status for seen in after for r in seen.results.values())


def install_tool(directory: Path) -> None:
    """A real distribution, found by its entry points."""
    directory.mkdir()
    (directory / "kill_mark_tool.py").write_text(_PLUGIN, encoding="utf-8")
    info = directory / "kill_mark-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kill-mark\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[hermes.tools]\nmarks = kill_mark_tool\n", encoding="utf-8")
    sys.path.insert(0, str(directory))


@contextmanager
def model(tally: Tally) -> Iterator[int]:
    """The model's port; what its strict server found wrong goes into the tally."""
    command = [sys.executable, str(HERE / "kill_model.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["port"]
        server.stdin.close()
        tally.wrong += json.loads(server.stdout.readline())["problems"]


def work(kills: int, seed: int, *, shows: bool) -> Tally:
    """Play sessions until so many runs were killed."""
    for name in PRELOADED:
        import_module(name)
    tally, dice, formats = Tally(), Dice(seed), itertools.cycle(MODELS)
    with tempfile.TemporaryDirectory(prefix="hermes-kills-") as temporary, model(tally) as port:
        directory = Path(temporary)
        install_tool(directory / "plugin")
        runs = Runs(directory, port)
        while tally.kills.total() < kills and not tally.wrong:
            play(runs, f"s{tally.sessions}", dice, tally, formats)
            if shows:
                print(f"{tally.kills.total()} kills", end="\r", file=sys.stderr, flush=True)
        with runs.store() as store:
            tally.wrong += _integrity(Path(store.path()))
    return tally


def _integrity(path: Path) -> list[str]:
    import sqlite3

    connection = sqlite3.connect(path)
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    connection.close()
    return [] if found == ["ok"] else [f"the database: {text}" for text in found]


def shared_out(kills: int, seed: int, workers: int) -> Tally:
    """The same in several processes at once, each with a share of the kills and a seed of its own."""
    share = -(-kills // workers)
    command = [sys.executable, __file__, "--workers", "1", "--json", "--kills", str(share), "--seed"]
    running = [subprocess.Popen([*command, str(seed + n)], stdout=subprocess.PIPE) for n in range(workers)]
    tally = Tally()
    for process in running:
        out, _ = process.communicate()
        told = json.loads(out)
        tally.kills.update(told["kills"])
        tally.calls.update(told["calls"])
        tally.sessions += told["sessions"]
        tally.wrong += told["wrong"]
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--json", action="store_true", help="print the tally as JSON")
    options = parser.parse_args()
    began = time.monotonic()
    if options.workers > 1:
        tally = shared_out(options.kills, options.seed, options.workers)
    else:
        tally = work(options.kills, options.seed, shows=not options.json)
    if options.json:
        print(json.dumps(vars(tally)))
        return 0
    print(
        f"seed {options.seed}: {tally.kills.total()} kills ({dict(tally.kills)}) in {tally.sessions} sessions, "
        f"{time.monotonic() - began:.0f} s; results of calls: {dict(tally.calls)}; wrong: {len(tally.wrong)}"
    )
    print("\n".join(tally.wrong[:20]))
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
