"""`hermes run --dry-run`: resolve settings, plugins and model, show them, start nothing and import no plugin or SDK."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hermes.kernel.cli.run_settings import RunOptions, check_options, load_settings
from hermes.kernel.discovery import Catalogue, scan
from hermes.kernel.errors import PluginError

if TYPE_CHECKING:
    from hermes.kernel.config.settings import Settings
    from hermes.kernel.plugins import Plugins

DRY_RUN_VERSION = 1
_INSTALLED = "installed"
_LABELS = {
    "hermes.tools": "toolsets",
    "hermes.memory": "memory",
    "hermes.prompt": "sections",
    "hermes.context": "context",
    "hermes.stores": "store",
    "hermes.plugins": "plugins",
}
_SETTLED = ("none", "default", "memory")
"""Words of settings that name no plugin: no memory, our own compression, a store in memory."""


def show(options: RunOptions, config_files: tuple[Path, ...]) -> str:
    """What would run, as text or as one JSON object. Raises what the run itself would raise before it starts."""
    check_options(options)
    loaded = load_settings(options, config_files)
    catalogue, settings = scan(), loaded.settings
    plugins, missing = named_plugins(settings, catalogue)
    for name in settings.plugins.required:
        if not any(entry_point.name == name for entry_point in catalogue.entry_points):
            raise PluginError(
                f"plugins.required: {name}: no such plugin is installed; hermes plugins list", plugin=name
            )
    model, why = _model(settings, catalogue)
    facts = {
        "v": DRY_RUN_VERSION,
        "type": "dry_run",
        "prompt": " ".join(options.words) or (f"from {options.file}" if options.file else ""),
        "model": model,
        "why": why,
        "session": _session(options),
        "directory": str(Path.cwd()),
        "plugins": plugins,
        "missing": missing,
        "store": settings.sessions.store,
        "limits": {"iterations": settings.limits.iterations, "seconds": settings.limits.max_seconds},
        "settings": [str(path) for path in loaded.files],
    }
    return json.dumps(facts) if options.output_format != "text" else "\n".join(_lines(facts))


def named_plugins(settings: Settings, catalogue: Catalogue) -> tuple[dict[str, list[str]], list[str]]:
    """The plugins that the settings name, by group, and those that are not there. From metadata alone."""
    wanted = (
        ("hermes.tools", settings.tools.toolsets),
        ("hermes.memory", (settings.memory.backend,)),
        ("hermes.prompt", settings.prompt.sections),
        ("hermes.context", (settings.context.engine,)),
        ("hermes.stores", (settings.sessions.store,)),
        ("hermes.plugins", settings.plugins.enabled),
    )
    plugins: dict[str, list[str]] = {}
    missing: list[str] = []
    for group, names in wanted:
        there = {entry_point.name: entry_point for entry_point in catalogue.group(group)}
        found = [name for name in names if name in there]
        if _INSTALLED in names:
            found += [name for name, entry in there.items() if not entry.is_own and name not in found]
        plugins[group] = [name for name in found if name not in settings.plugins.disabled]
        missing += [
            f"{group}: {name}" for name in names if name not in there and name != _INSTALLED and name not in _SETTLED
        ]
    return plugins, missing


class _LatePlugins:
    """Plugins that are set up when a provider with code of its own is asked for; most runs name none."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self._settings, self._catalogue = settings, catalogue
        self._plugins: Plugins | None = None

    def __getattr__(self, name: str) -> Any:
        if self._plugins is None:
            from hermes.kernel.plugins import Plugins

            self._plugins = Plugins(self._settings.plugins, self._catalogue, report=lambda notice: None)
        return getattr(self._plugins, name)


def _model(settings: Settings, catalogue: Catalogue) -> tuple[str, str]:
    from hermes.kernel.targets import Targets

    plugins = cast("Plugins", _LatePlugins(settings, catalogue))
    choice = Targets(settings, catalogue, plugins, os.environ).choose()
    return choice.name, choice.why


def _session(options: RunOptions) -> str:
    what = "the newest of this directory" if options.newest else options.resume or options.session or "new"
    return f"a copy of {what}" if options.fork else what


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"model      {facts['model']}" + (f" ({facts['why']})" if facts["why"] else "")
    yield f"session    {facts['session']}, in {facts['directory']}"
    for group, names in facts["plugins"].items():
        if names:
            yield f"{_LABELS[group]:11}{', '.join(names)}"
    limits = [f"{limit} {what}" for what, limit in facts["limits"].items() if limit is not None]
    yield f"limits     {', '.join(limits) or 'none'}"
    yield f"settings   {', '.join(facts['settings']) or 'the defaults'}"
    if facts["prompt"]:
        yield f"prompt     {facts['prompt']}"
    yield "nothing was started"
