"""The options of one run, and the settings that come of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.kernel.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from hermes.kernel.config.loading import Loaded

_KEY = "tools.toolsets"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The flags as given; None or empty means not given."""

    words: tuple[str, ...] = ()
    file: str | None = None
    model: str | None = None
    output_format: str = "text"
    schema: str | None = None
    images: tuple[str, ...] = ()
    session: str | None = None
    newest: bool = False
    resume: str | None = None
    fork: bool = False
    max_iterations: int | None = None
    max_seconds: float | None = None
    toolsets: str | None = None
    system_prompt: str | None = None
    dry_run: bool = False
    interactive: bool = False
    quiet: bool = False
    verbose: int = 0
    debug: bool = False

    def flags(self) -> dict[str, Any]:
        """What was given, by the dotted key of the setting that it overrides."""
        given = {
            "model": self.model,
            "limits.iterations": self.max_iterations,
            "limits.max_seconds": self.max_seconds,
            "tools.toolsets": None if self.toolsets is None else toolset_names(self.toolsets),
            "log.level": "debug" if self.debug or self.verbose > 1 else "info" if self.verbose else None,
        }
        return {key: value for key, value in given.items() if value is not None}


def toolset_names(text: str) -> list[str]:
    """`a,b` as a list; `none` and the empty text are no toolsets at all."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def check_options(options: RunOptions) -> None:
    """Raise UsageError for options that contradict each other."""
    sessions = (("--session", options.session), ("--continue", options.newest), ("--resume", options.resume))
    chosen = [flag for flag, given in sessions if given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} each choose a session; give one of them")
    if options.fork and not chosen:
        raise UsageError("--fork copies a session; say which with --session, --continue or --resume")


def load_settings(options: RunOptions, config_files: Iterable[Path]) -> Loaded:
    """Raises SettingsError; also for a toolset that somebody asked for and that does not exist."""
    from hermes.kernel.config import load

    loaded = load(options.flags(), tuple(config_files), Path.cwd(), os.environ)
    check_toolsets(loaded)
    return loaded


def check_toolsets(loaded: Loaded) -> None:
    """An unknown name must not fall back to anything: it was meant to take tools away."""
    from hermes.kernel.config.settings import ToolSettings
    from hermes.kernel.discovery import scan

    names = loaded.settings.tools.toolsets
    if names == ToolSettings().toolsets:
        return  # ours, which name toolsets that may not be installed
    existing = sorted({entry_point.name for entry_point in scan().group("hermes.tools")})
    where = loaded.origins.get(_KEY)
    problems = [
        f"{where or _KEY}: there is no toolset {name!r}; there are {', '.join(existing)}, installed and none"
        for name in names
        if name not in existing and name != "installed"
    ]
    if problems:
        raise SettingsError(problems)
