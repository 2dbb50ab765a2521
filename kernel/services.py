"""What the agents of one process share, built once from the settings: plugins, tools, models, memory, budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hermes.kernel.budget import BudgetLimits, Ledger
from hermes.kernel.choosing import Choice
from hermes.kernel.config.settings import Settings
from hermes.kernel.discovery import Catalogue, scan
from hermes.kernel.errors import PluginError, SettingsError, StopRun, StoreError
from hermes.kernel.events import Event, Notice
from hermes.kernel.greeting import greet_new
from hermes.kernel.journal import MemoryStore, StandInStore
from hermes.kernel.paths import home
from hermes.kernel.plugins import Plugins, flag_from_environ
from hermes.kernel.roles import ContextEngine, MemoryBackend, PromptSection, Tool
from hermes.kernel.sessions import SessionStore
from hermes.kernel.targets import Targets
from hermes.kernel.tools import kernel_tools

KERNEL = "kernel"
"""The toolset of the kernel tools; `tools.replace` may name it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run lives: hermes' own folder and the directory that the user works in."""

    home: Path
    cwd: Path


@dataclass(slots=True)
class Services:
    """What an agent and its children share. `emit` takes events that carry their session."""

    settings: Settings
    plugins: Plugins
    targets: Targets
    places: Places
    emit: Callable[[Event], None]
    ledger: Ledger
    _memory: MemoryBackend | None = None
    _loaded: set[str] = field(default_factory=set)
    _tools: dict[str, Tool] = field(default_factory=dict)
    _sections: list[PromptSection] = field(default_factory=list)
    _chain: tuple[Choice, ...] = ()
    _auxiliary: tuple[str, ...] = ()

    # ---- Models -----------------------------------------------------------------------------------------------------

    def chain(self) -> tuple[Choice, ...]:
        """The primary and the fallbacks, as `provider:model` and why."""
        if not self._chain:
            self._chain = self.targets.chain()
            self._auxiliary = tuple(self.targets.choose(spec).name for spec in (self.settings.auxiliary.model,) if spec)
        return self._chain

    def auxiliary(self) -> tuple[str, ...]:
        """The model of auxiliary calls, as `provider:model`; none where the settings name none."""
        self.chain()
        return self._auxiliary

    def blind(self) -> frozenset[str]:
        """The models of this run, as `provider:model`, of which it is known that they cannot be shown images."""
        names = (*(choice.name for choice in self.chain()), *self.auxiliary())
        return frozenset(name for name in names if self.targets.known_of(name).row.images is False)

    # ---- What plugins bring -----------------------------------------------------------------------------------------

    def tools(self, *, can_ask: bool, depth: int) -> Mapping[str, Tool]:
        """The tools of an agent at this depth, by name; children have no delegate_task, clarify or memory."""
        search = self.settings.sessions.store != "none"
        left = self.settings.delegate.max_depth - depth
        is_child = depth > 0
        kernel = kernel_tools(
            memory=self.memory() is not None and not is_child,
            search=search,
            can_ask=can_ask and not is_child,
            depth_left=left,
            limits=self.settings.delegate,
            ask_before_memory=self.settings.memory.ask_before_write,
        )
        disabled = set(self.settings.tools.disable)
        named = {tool.name: replace(tool, toolset=KERNEL) for tool in kernel}
        for tool in self.registry_tools():
            if tool.name in named and self.settings.tools.replace.get(tool.name) != tool.toolset:
                raise PluginError(
                    f"toolset {tool.toolset} brings a tool {tool.name!r}, which is a kernel tool; "
                    f"tools.replace: {{{tool.name}: {tool.toolset}}} lets it take its place"
                )
            named[tool.name] = tool
        return {name: tool for name, tool in named.items() if name not in disabled}

    def registry_tools(self) -> Sequence[Tool]:
        if "tools" not in self._loaded:
            self._loaded.add("tools")
            wanted = self.toolsets()
            self.plugins.load("hermes.tools", wanted)
            for plugin, tool in self.plugins.collect("register_tools", "hermes.tools"):
                self._add_tool(tool if tool.toolset else replace(tool, toolset=plugin))
        return [t for t in self._tools.values() if t.available is None or t.available()]

    def toolsets(self) -> tuple[str, ...]:
        """The toolsets of the settings, or the profile's own where the settings say nothing else than the default."""
        chosen = self.settings.tools.toolsets
        lean = self.targets.profile_of(self.chain()[0].name).defaults.get("toolsets")
        if isinstance(lean, list) and chosen == Settings().tools.toolsets:
            chosen = tuple(map(str, lean))
        known = {e.name for e in self.plugins.catalogue.group("hermes.tools")} | {"installed"}
        default = Settings().tools.toolsets
        return tuple(name for name in chosen if name in known or name not in default)

    def _add_tool(self, tool: Tool) -> None:
        other = self._tools.get(tool.name)
        if other is None or self.settings.tools.replace.get(tool.name) == tool.toolset:
            self._tools[tool.name] = tool
        elif self.settings.tools.replace.get(tool.name) != other.toolset:
            raise PluginError(
                f"two toolsets bring a tool {tool.name!r}: {other.toolset} and {tool.toolset}; turn one off with "
                f"plugins.disabled, or choose with tools.replace: {{{tool.name}: {tool.toolset}}}"
            )

    def memory(self) -> MemoryBackend | None:
        name = self.settings.memory.backend
        if name == "none":
            return None
        if "memory" not in self._loaded:
            self._loaded.add("memory")
            self.plugins.load("hermes.memory", [name])
            arguments = {"settings": self.settings.memory, "home": self.places.home}
            for _, backend in self.plugins.collect("register_memory_backends", "hermes.memory", **arguments):
                if backend.name == name:
                    self._memory = backend
        return self._memory

    def sections(self) -> Sequence[PromptSection]:
        if "sections" not in self._loaded:
            self._loaded.add("sections")
            self.plugins.load("hermes.prompt", self.section_names())
            collected = self.plugins.collect("register_prompt_sections", "hermes.prompt")
            self._sections = [section for _, section in collected]
        return self._sections

    def section_names(self) -> tuple[str, ...]:
        lean = self.targets.profile_of(self.chain()[0].name).defaults.get("sections")
        if isinstance(lean, list) and self.settings.prompt.sections == Settings().prompt.sections:
            return tuple(map(str, lean))
        return self.settings.prompt.sections

    def engine(self) -> ContextEngine | None:
        name = self.settings.context.engine
        if name == "default":
            return None
        self.plugins.load("hermes.context", [name])
        for _, engine in self.plugins.collect(
            "register_context_engines", "hermes.context", settings=self.settings.context
        ):
            if engine.name == name:
                found: ContextEngine = engine
                return found
        raise SettingsError(f"context.engine: there is no context engine {name!r} installed that works")

    def close(self) -> None:
        self.targets.close()
        self.plugins.close()


def build(
    settings: Settings,
    emit: Callable[[Event], None],
    *,
    catalogue: Catalogue | None = None,
    cwd: Path | None = None,
    on_stop: Callable[[StopRun], None] | None = None,
) -> Services:
    """Find the plugins and load those that act on the whole run; everything else is loaded when first needed."""
    refuse_unbuilt(settings)
    found = catalogue or scan()
    strict = flag_from_environ("HERMES_STRICT_PLUGINS", os.environ)
    plugins = Plugins(settings.plugins, found, report=emit, strict=strict, on_stop=on_stop)
    plugins.load("hermes.plugins", settings.plugins.enabled)
    for line in greet_new(found, home()):
        emit(Notice(kind="plugin", text=line))
    limits = settings.limits
    ledger = Ledger(BudgetLimits(limits.max_tokens, limits.max_cost_usd, limits.max_seconds))
    targets = Targets(settings, found, plugins, os.environ)
    return Services(settings, plugins, targets, Places(home(), cwd or Path.cwd()), emit, ledger)


def refuse_unbuilt(settings: Settings) -> None:
    """Raise SettingsError for what would protect somebody and is not built yet: it must not be believed in silence."""
    asked = (
        ("plugins.isolation", settings.plugins.isolation, "process"),
        ("approval.sandbox", settings.approval.sandbox, "bubblewrap"),
    )
    if problems := [
        f"{key}: {value} is not built yet; set it to none" for key, given, value in asked if given == value
    ]:
        raise SettingsError(problems)


def open_store(services: Services) -> tuple[SessionStore, str]:
    """The session store that the settings name, and "" or why it is one in memory instead.

    Raises SettingsError for a store that no plugin has, StoreError when settings make a failing store a stop.
    """
    settings, plugins = services.settings.sessions, services.plugins
    if settings.store in ("memory", "none"):
        return MemoryStore(), ""
    plugins.load("hermes.stores", [settings.store])
    for _, factory in plugins.collect("register_session_stores", "hermes.stores", settings=settings):
        if factory.name == settings.store:
            try:
                return factory.open_store(settings, services.places.home), ""
            except StoreError as error:
                if settings.stop_when_failing:
                    raise
                text = f"{error}; this run is kept in memory only and is lost when it ends"
                services.emit(Notice(kind="store", text=text))
                return StandInStore(str(error)), str(error)
    raise SettingsError(f"sessions.store: there is no session store {settings.store!r} installed that works")
