"""Measure how soon `Agent.run` returns after an interrupt, whatever the turn is doing.

    python benchmarks/interrupts.py [--repeat 15]

Real agents over real SDKs and a real store, against a scripted server in this process; each is interrupted from
another thread, within 50 ms after it has come to where it is to be stopped. Prints medians and the slowest in
milliseconds; exits with 1 when a median is above the bar.
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import MemorySettings, ProviderSettings, RequestSettings, Settings, ToolSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Event, TextDelta, ToolStarted, Waiting
from hermes.testing import Reply, ScriptedServer, call, fault, stall, text

BAR_MS = 300.0
MIDDLE: Mapping[str, int] = {
    "chat_completions": 2, "codex_responses": 5, "anthropic_messages": 4, "bedrock_converse": 2,
}  # fmt: skip
"""After so many events of a stream the first piece of text has come, and not the last."""

_PLUGIN = """
import threading
from hermes import Tool, hookimpl

def hang():
    threading.Event().wait()

@hookimpl
def register_tools():
    return [Tool("hang", "Never come back.", {"type": "object", "properties": {}}, hang)]
"""

Seen = Callable[[Event], bool]
"""Whether an event says that the turn is where it is to be stopped."""

CHILD = call("delegate_task", goal="Do it.")


def in_tool(event: Event) -> bool:
    return isinstance(event, ToolStarted) and event.name == "hang"


def in_command(event: Event) -> bool:
    return isinstance(event, ToolStarted) and event.name == "terminal"


def in_stream(event: Event) -> bool:
    return isinstance(event, TextDelta)


def in_wait(event: Event) -> bool:
    return isinstance(event, Waiting)


def situations() -> Mapping[str, tuple[str, list[Reply], Seen | None]]:
    """What a turn may be doing: the wire format, the replies that bring it there, how one sees it (None: by the request
    that the server has got)."""
    found: dict[str, tuple[str, list[Reply], Seen | None]] = {
        "a tool that never ends": ("chat_completions", [call("hang")], in_tool),
        "a command of the terminal": ("chat_completions", [call("terminal", command="sleep 600")], in_command),
        "a wait before the next attempt": ("chat_completions", [fault(503, "busy", retry_after="30")], in_wait),
        "a child in a tool that never ends": ("chat_completions", [CHILD, call("hang")], in_tool),
        "a child in a stream that stalls": ("chat_completions", [CHILD, stall(2)], in_stream),
    }
    for api_mode, middle in MIDDLE.items():
        found[f"a stream that stalls ({api_mode})"] = (api_mode, [stall(middle)], in_stream)
        found[f"no first byte ({api_mode})"] = (api_mode, [stall(0)], None)
    return found


def install_tool(directory: Path) -> None:
    """A real distribution, found by its entry points."""
    directory.mkdir()
    (directory / "interrupt_hang_tool.py").write_text(_PLUGIN, encoding="utf-8")
    info = directory / "interrupt_hang-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: interrupt-hang\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[hermes.tools]\nhangs = interrupt_hang_tool\n", encoding="utf-8")
    sys.path.insert(0, str(directory))


def settings_for(server: ScriptedServer, api_mode: str) -> Settings:
    provider = ProviderSettings(base_url=server.url_for(api_mode), api_key="x", api_mode=api_mode)
    return Settings(
        model="there:m",
        providers={"there": provider},
        tools=ToolSettings(toolsets=("terminal", "hangs")),
        memory=MemorySettings(backend="none"),
        request=RequestSettings(attempts=5),
    )


def once(api_mode: str, replies: list[Reply], seen: Seen | None) -> float:
    """Seconds from the interrupt to the return of one turn, which is then gone on with."""
    there = threading.Event()
    with ScriptedServer(replies) as server:

        def on_event(event: Event) -> None:
            if seen is not None and seen(event):
                there.set()

        with Agent(settings_for(server, api_mode), on_event=on_event) as agent:
            returned: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()

            def run() -> None:
                result = agent.run("go")
                returned.put((time.perf_counter(), result))

            threading.Thread(target=run, daemon=True).start()
            if seen is None:
                server.wait_for_requests(len(replies))
            else:
                there.wait(20)
            time.sleep(random.uniform(0, 0.05))
            start = time.perf_counter()
            agent.interrupt()
            end, result = returned.get(timeout=60)
            server.add(text("I am back."))
            again = agent.run("and now?")
            if (result.reason, again.answer) != (EndReason.INTERRUPTED, "I am back."):
                raise RuntimeError(f"{result.reason} {result.detail}, then {again.reason} {again.detail}")
            return end - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    logging.getLogger("hermes").setLevel(logging.CRITICAL)  # the faults are ours
    missed = False
    with tempfile.TemporaryDirectory(prefix="hermes-interrupts-") as home:
        os.environ["HERMES_HOME"] = home
        install_tool(Path(home) / "plugin")
        for name, situation in situations().items():
            once(*situation)  # it imports
            found = [once(*situation) * 1e3 for _ in range(options.repeat)]
            median = statistics.median(found)
            missed = missed or median > BAR_MS
            print(f"{name:45} median {median:4.0f} ms, slowest {max(found):4.0f} ms", flush=True)
    print(f"bar {BAR_MS:.0f} ms: {'missed' if missed else 'kept'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
