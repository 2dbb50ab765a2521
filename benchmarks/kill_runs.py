"""Kill real runs with SIGKILL at random moments, go on with them, and hold the journal against what the tool did.

    python benchmarks/kill_runs.py [--kills 500] [--seed N] [--bench ../shared/bench] [--resume-only]

Each run is a process of its own, forked from this one, which has everything imported (a start from cold would spend
most of its life in imports, where a kill proves nothing). The tool appends the name of its call to a file. After every
kill: no stored message is gone or changed, no call has run twice, a call whose result is "ok" has run, one that was
told "not run" has not, and one that ran is known to the journal. At the end of each session its turn is at rest.

Then the time to go on with a session of 1,000 messages is measured (bar 200 ms).
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
TURNS = 8
"""Tool-call turns of one session's turn; each brings two calls."""
PARALLEL = 2
MOST_TRIES = 40
RESUME_BAR_MS = 200.0
RESUME_MESSAGES = 1_000

_PLUGIN = """
import os, time
from hermes import Tool, hookimpl

def mark(x):
    with open(os.environ["KILL_FILE"], "ab", buffering=0) as file:
        file.write(x.encode() + b"\\n")
    time.sleep(0.002)
    return "marked " + x

@hookimpl
def register_tools():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    return [Tool("mark", "Leave a mark.", schema, mark, reads=("nothing",))]
"""


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install_tool(directory: Path) -> None:
    directory.mkdir()
    (directory / "kill_mark_tool.py").write_text(_PLUGIN, encoding="utf-8")
    info = directory / "kill_mark-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kill-mark\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[hermes.tools]\nmarks = kill_mark_tool\n", encoding="utf-8")
    sys.path.insert(0, str(directory))


@dataclass
class Tally:
    kills: int = 0
    sessions: int = 0
    longest_s: float = 1.0
    calls: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)


class Runs:
    """Starts, kills and inspects the runs of one benchmark."""

    def __init__(self, directory: Path, base_url: str, warm: Any) -> None:
        self.directory, self._warm = directory, warm
        self.home, self.work = directory / "home", directory / "work"
        for each in (self.home, self.work):
            each.mkdir()
        settings = (
            f"model: mock:any\nproviders: {{mock: {{base_url: '{base_url}', api_key: x}}}}\n"
            "tools: {toolsets: [marks]}\nmemory: {backend: none}\n"
        )
        (self.home / "hermes.yaml").write_text(settings, encoding="utf-8")

    def start(self, name: str, arguments: tuple[str, ...]) -> int:
        pid = os.fork()
        if pid:
            return pid
        self._warm.become(
            {
                "arguments": ["run", "-q", *arguments],
                "environ": {**os.environ, "HERMES_HOME": str(self.home), "KILL_FILE": str(self.marks_file(name))},
                "cwd": str(self.work),
                "stdin": os.devnull,
                "stdout": str(self.directory / "out.txt"),
                "stderr": str(self.directory / "err.txt"),
            }
        )
        os._exit(1)

    def marks_file(self, name: str) -> Path:
        return self.directory / f"marks-{name}.txt"

    def marks(self, name: str) -> collections.Counter[str]:
        file = self.marks_file(name)
        return collections.Counter(file.read_text(encoding="utf-8").split()) if file.exists() else collections.Counter()

    def snapshot(self, name: str) -> tuple[Any, Any] | None:
        """What the journal has of the session, and its calls; None when there is no session yet."""
        from hermes.kernel.errors import SessionNotFound
        from hermes.kernel.messages import ToolCall

        store = self.open_store()
        try:
            log = store.open(store.find(name))
            snapshot = log.load()
            ids = [p.id for m in snapshot.messages for p in m.parts if isinstance(p, ToolCall)]
            return snapshot, log.calls(ids)
        except SessionNotFound:
            return None
        finally:
            store.close()

    def open_store(self) -> Any:
        from hermes.kernel.config.settings import SessionSettings

        module = import_module("hermes.plugins.stores.sqlite")
        [factory] = module.register_session_stores()
        return factory.open_store(SessionSettings(), self.home)


def wait(pid: int, seconds: float | None) -> int | None:
    """The exit code; None when the process still ran after so many seconds and was killed."""
    if seconds is not None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGKILL else code


def play(runs: Runs, name: str, chance: random.Random, tally: Tally, most: int) -> None:
    """One session from its first run to its end, killed on the way as often as the dice say.

    The longest delay follows the machine: a run that ends before its kill shortens it, a kill lengthens it a little.
    """
    before: tuple[Any, ...] = ()
    for number in range(MOST_TRIES):
        seen = runs.snapshot(name)
        arguments = ("--session", name, "go")
        if seen is not None:
            unfinished = seen[0].open_turn is not None or seen[0].inbox
            arguments = ("--resume", name) if unfinished else ("--resume", name, "go on")
        is_killed = tally.kills < most and number < MOST_TRIES - 1
        code = wait(runs.start(name, arguments), chance.uniform(0, tally.longest_s) if is_killed else None)
        tally.kills += code is None
        tally.longest_s *= 1.04 if code is None else 0.8
        after = runs.snapshot(name)
        before = check(runs, name, before, after, tally)
        if code is None:
            continue
        if code != 0:
            error = (runs.directory / "err.txt").read_text(encoding="utf-8").strip().splitlines()[-1:]
            tally.wrong.append(f"{name}: run {number} {arguments} ended with {code}: {error}")
        break
    tally.sessions += 1
    finish(runs, name, tally)


def check(runs: Runs, name: str, before: tuple[Any, ...], after: Any, tally: Tally) -> tuple[Any, ...]:
    """Hold what is on disk against what was there before the run, and against the marks."""
    from hermes.kernel.messages import ToolCall

    marks = runs.marks(name)
    tally.wrong += [f"{name}: {x} ran {count} times" for x, count in marks.items() if count > 1]
    if after is None:
        if before or marks:
            tally.wrong.append(f"{name}: the session is gone")
        return ()
    snapshot, records = after
    messages = tuple(snapshot.messages)
    if messages[: len(before)] != before:
        tally.wrong.append(f"{name}: stored messages are gone or changed")
    calls = {p.id: p for m in messages for p in m.parts if isinstance(p, ToolCall)}
    known = {str(calls[i].arguments["x"]) for i in records if i in calls}
    tally.wrong += [f"{name}: {x} ran and the journal does not know it" for x in marks if x not in known]
    for message in messages:
        for result in message.results:
            has_run = marks[str(calls[result.call_id].arguments["x"])]
            if (result.status == "ok" and not has_run) or (result.status == "cancelled" and has_run):
                tally.wrong.append(f"{name}: {result.call_id} is {result.status} and ran {has_run} times")
    return messages


def finish(runs: Runs, name: str, tally: Tally) -> None:
    found = runs.snapshot(name)
    if found is None:
        tally.wrong.append(f"{name}: no session at the end")
        return
    snapshot, _ = found
    if snapshot.open_turn is not None or snapshot.messages[-1].role != "assistant" or snapshot.messages[-1].calls:
        tally.wrong.append(f"{name}: the conversation is not at rest")
    tally.calls.update(r.status for m in snapshot.messages for r in m.results)


def measure_resume(runs: Runs, server: Any) -> dict[str, float]:
    """Milliseconds from an open store to the first request for a session of 1,000 messages; medians."""
    from hermes.kernel.agent import Agent
    from hermes.kernel.config.settings import LimitSettings, ProviderSettings, Settings, ToolSettings
    from hermes.kernel.events import Event, ModelCallStarted

    os.environ |= {"HERMES_HOME": str(runs.home), "KILL_FILE": str(runs.directory / "marks-long.txt")}
    base_url = server.script(
        "long", turns=RESUME_MESSAGES // 2, tool="mark", args={"x": "1"}, unique_args="x", by="count"
    )
    settings = Settings(
        model="mock:any",
        providers={"mock": ProviderSettings(base_url=base_url, api_key="x")},
        tools=ToolSettings(toolsets=("marks",)),
        limits=LimitSettings(iterations=None),
    )
    with Agent(settings) as agent:
        session = agent.run("go").session_id
    attached, first = [], []
    for _ in range(7):
        called: list[float] = []

        def on_event(event: Event, called: list[float] = called) -> None:
            if isinstance(event, ModelCallStarted):
                called.append(time.perf_counter())

        with Agent(settings, on_event=on_event) as agent:
            agent.services.registry_tools()
            agent.store.info(session)
            start = time.perf_counter()
            agent.attach(session)
            attached.append(time.perf_counter() - start)
            agent.run("more")
            first.append(called[0] - start)
    return {"attach_ms": statistics.median(attached) * 1e3, "first_call_ms": statistics.median(first) * 1e3}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("HERMES_BENCH") or CHECKOUT.parent / "shared" / "bench"
    parser.add_argument("--bench", type=Path, default=default, help="the directory of mock_server.py")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--resume-only", action="store_true")
    options = parser.parse_args()
    sys.path.append(str(options.bench))
    import srvctl  # type: ignore[import-not-found]  # the shared benchmark's own

    warm = load(CHECKOUT / "tests" / "endings" / "warm.py")
    for name in warm.PRELOADED:
        import_module(name)
    tally, chance = Tally(), random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="hermes-kills-") as temporary:
        directory = Path(temporary)
        install_tool(directory / "plugin")
        server = srvctl.Server()
        try:
            base_url = server.script(
                "kill", turns=TURNS, parallel=PARALLEL, tool="mark", args={"x": "1"}, unique_args="x", by="count"
            )
            runs = Runs(directory, base_url, warm)
            start = time.monotonic()
            if not options.resume_only:
                while tally.kills < options.kills and not tally.wrong:
                    play(runs, f"s{tally.sessions}", chance, tally, options.kills)
                    print(f"{tally.kills} kills, {tally.sessions} sessions", end="\r", file=sys.stderr, flush=True)
                print(
                    f"seed {options.seed}: {tally.kills} kills in {tally.sessions} sessions, "
                    f"{time.monotonic() - start:.0f} s; calls: {dict(tally.calls)}; wrong: {len(tally.wrong)}"
                )
            resume = measure_resume(runs, server)
        finally:
            server.close()
    print("\n".join(tally.wrong[:20]))
    print(
        f"going on with {RESUME_MESSAGES} messages: attached after {resume['attach_ms']:.0f} ms, first request after "
        f"{resume['first_call_ms']:.0f} ms (bar {RESUME_BAR_MS:.0f})"
    )
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
