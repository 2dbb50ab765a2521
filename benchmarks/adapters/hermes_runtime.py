"""The adapter of this runtime for the shared benchmark's `worker.py` (and for `tool_loop.py` here).

The tool comes by the same door as anybody's: a distribution with an entry point, written into a temporary directory.
Default settings otherwise: SQLite at full sync, streaming, hooks, redaction, the system prompt's own sections.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "hermes.kernel.agent"
TOOL = "noop"
STREAM = True

_PLUGIN = """
import time
from hermes import Tool, hookimpl

def noop(x):
    if SLEEP_S:
        time.sleep(SLEEP_S)
    return RESULT

RESULT, SLEEP_S = "ok", 0

@hookimpl
def register_tools():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    return [Tool("noop", "Do nothing.", schema, noop, reads=("nothing",))]
"""


def install_tool(directory: Path) -> None:
    """A distribution `bench-noop` with the toolset `bench`, importable from now on."""
    (directory / "bench_noop_tool.py").write_text(_PLUGIN, encoding="utf-8")
    info = directory / "bench_noop-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-noop\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[hermes.tools]\nbench = bench_noop_tool\n", encoding="utf-8")
    sys.path.insert(0, str(directory))


def make(base_url: str, result: str, sleep_ms: float, opts: dict[str, Any]) -> Any:
    """A function that gives a fresh agent. `opts`: `store` (sqlite unless told), `home`, `api_mode`,
    `model`, `quirks`, `prompt_cache`."""
    from hermes.kernel.agent import Agent
    from hermes.kernel.config.settings import (
        ContextSettings,
        LimitSettings,
        ProviderSettings,
        SessionSettings,
        Settings,
        ToolSettings,
    )

    home = Path(opts.get("home") or os.environ.get("HERMES_HOME") or tempfile.mkdtemp(prefix="hermes-bench-"))
    os.environ["HERMES_HOME"] = str(home)
    if "bench_noop_tool" not in sys.modules:
        install_tool(Path(tempfile.mkdtemp(prefix="hermes-bench-tool-")))
        import bench_noop_tool  # type: ignore[import-not-found]  # written above
    else:
        bench_noop_tool = sys.modules["bench_noop_tool"]
    bench_noop_tool.RESULT, bench_noop_tool.SLEEP_S = result, sleep_ms / 1000
    settings = Settings(
        model=f"bench:{opts.get('model', 'bench')}",
        providers={
            "bench": ProviderSettings(
                base_url=base_url, api_key="x", api_mode=opts.get("api_mode"), quirks=opts.get("quirks", {})
            )
        },
        context=ContextSettings(prompt_cache=opts.get("prompt_cache", "auto")),
        tools=ToolSettings(toolsets=("bench",), result_max_chars=10_000_000),
        limits=LimitSettings(iterations=None, warn_model_at=()),
        sessions=SessionSettings(store=opts.get("store", "sqlite")),
    )
    return lambda **more: Agent(settings, **more)


def run(handle: Any, prompt: str) -> str | None:
    with handle() as agent:
        answer: str | None = agent.run(prompt).answer
        return answer
