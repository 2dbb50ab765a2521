"""What the tests of the kernel stand on: `Plugins` over the distributions of one test, and an agent in its own home."""

from __future__ import annotations

import importlib.util
import itertools
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest

from hermes.hookspecs import hookimpl
from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import PluginSettings, ProviderSettings, RequestSettings, Settings, ToolSettings
from hermes.kernel.discovery import scan
from hermes.kernel.events import Event, Notice
from hermes.kernel.plugins import Plugins
from hermes.kernel.roles import Tool
from hermes.kernel.state import TurnResult
from hermes.testing import ScriptedServer

MakePlugins = Callable[..., tuple[Plugins, list[str]]]
E = TypeVar("E", bound=Event)
_numbers = itertools.count(1)


@pytest.fixture
def make_plugins(site: Any) -> Iterator[MakePlugins]:
    """`make_plugins(strict=False, on_stop=None, **settings)` → Plugins over the site alone, and the lines reported."""
    made: list[Plugins] = []

    def make(*, strict: bool = False, on_stop: Any = None, **settings: Any) -> tuple[Plugins, list[str]]:
        lines: list[str] = []

        def report(notice: Notice) -> None:
            lines.append(notice.text)

        given = PluginSettings(**{"hook_deadline_s": 5, **settings})
        plugins = Plugins(given, scan([str(site.directory)]), report=report, strict=strict, on_stop=on_stop)
        made.append(plugins)
        return plugins, lines

    yield make
    for plugins in made:
        plugins.close()


# ---- An agent in a home of its own ----------------------------------------------------------------------------------

PATIENCE_S = 20.0
"""How long a test waits for what must come: a test that hangs should fail, not stop the suite."""


class House:
    """A home, a working directory, a scripted model, and plugins made of a test's own functions: real ones, found by
    their entry points. What the agents emit is in `events`."""

    def __init__(self, site: Any, home: Path, work: Path, server: ScriptedServer) -> None:
        self.site, self.home, self.work, self.server = site, home, work, server
        self.events: list[Event] = []
        self._agents: list[Agent] = []

    def plugin(self, name: str = "acme", *, group: str = "hermes.plugins", **hooks: Callable[..., Any]) -> None:
        """Install a distribution whose one plugin has these functions as its hooks."""
        module = ModuleType(f"house_{next(_numbers)}_{name}")
        for hook, function in hooks.items():
            setattr(module, hook, hookimpl(function))
        sys.modules[module.__name__] = module
        self.site.modules.append(module.__name__)
        self.site.distribution(f"acme-{name}-{next(_numbers)}", {group: {name: module.__name__}})

    def tools(self, *tools: Tool, name: str = "acme") -> None:
        self.plugin(name, group="hermes.tools", register_tools=lambda: list(tools))

    def settings(self, **sections: Any) -> Settings:
        endpoint = ProviderSettings(base_url=self.server.base_url, api_key="scripted-key")
        given: dict[str, Any] = {
            "model": "scripted:any",
            "providers": {"scripted": endpoint},
            "request": RequestSettings(attempts=1),
            "tools": ToolSettings(toolsets=("files", "installed")),
            **sections,
        }
        return Settings(**given)

    def agent(self, *, ask: Any = None, on_event: Callable[[Event], None] | None = None, **sections: Any) -> Agent:
        def emit(event: Event) -> None:
            self.events.append(event)
            if on_event is not None:
                on_event(event)

        agent = Agent(self.settings(**sections), ask=ask, on_event=emit)
        self._agents.append(agent)
        return agent

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def notices(self, kind: str) -> list[str]:
        return [event.text for event in self.seen(Notice) if event.kind == kind]

    def close(self) -> None:
        for agent in self._agents:
            agent.close()


class Going:
    """A turn in a thread of its own. `result()` waits for it, and raises what it raised."""

    def __init__(self, start: Callable[[], TurnResult]) -> None:
        self._outcomes: queue.SimpleQueue[TurnResult | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(start,), daemon=True)
        self._thread.start()

    def _run(self, start: Callable[[], TurnResult]) -> None:
        try:
            self._outcomes.put(start())
        except BaseException as error:
            self._outcomes.put(error)

    def result(self, timeout_s: float = PATIENCE_S) -> TurnResult:
        outcome = self._outcomes.get(timeout=timeout_s)
        self._thread.join(PATIENCE_S)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture
def house(
    site: Any, hermes_home: Path, tmp_path: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    made = House(site, hermes_home, work, scripted)
    yield made
    made.close()


@pytest.fixture
def going() -> Callable[[Callable[[], TurnResult]], Going]:
    """`going(lambda: agent.run(…))`: a turn that runs while the test does something else."""
    return Going


# ---- Modules that several tests here import by name -----------------------------------------------------------------


def _share(name: str) -> None:
    """Make a module beside this file importable, without its directory on sys.path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


for _name in ("driving", "conversations", "loopback"):
    _share(_name)


@pytest.fixture
def answering() -> Iterator[Callable[[Mapping[str, Any]], Any]]:
    """`answering({path: answer})`: a `loopback.Loopback` that is closed after the test."""
    from loopback import Loopback

    servers: list[Loopback] = []

    def start(answers: Mapping[str, Any]) -> Loopback:
        servers.append(Loopback(answers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
