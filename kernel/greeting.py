"""Say once that a newly installed distribution adds plugins: `pip install` is all it takes to have one loaded."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from hermes.kernel.contract import GROUPS
from hermes.kernel.discovery import Catalogue, EntryPoint

SEEN_FILE = "seen-plugins.json"


def greet_new(catalogue: Catalogue, home: Path) -> list[str]:
    """One line for each distribution with plugins that `home` has not seen, which are then remembered.

    A new version is remembered without a line. A home that cannot be read or written never fails: it only makes the
    lines come again.
    """
    by_distribution: dict[str, list[EntryPoint]] = {}
    for entry_point in catalogue.entry_points:
        if not entry_point.is_own:
            by_distribution.setdefault(entry_point.distribution, []).append(entry_point)
    seen = _seen(home / SEEN_FILE)
    now = {name: entry_points[0].version for name, entry_points in by_distribution.items()}
    if all(seen.get(name) == version for name, version in now.items()):
        return []
    _remember(home / SEEN_FILE, {**seen, **now})
    return [_line(members) for name, members in sorted(by_distribution.items()) if name not in seen]


def _line(members: list[EntryPoint]) -> str:
    adds = ", ".join(f"{GROUPS[e.group].kind if e.group in GROUPS else e.group} {e.name}" for e in members)
    words = ", ".join(dict.fromkeys(e.name for e in members if e.group not in ("hermes.settings", "hermes.profiles")))
    off = f" (off: plugins.disabled: [{words}])" if words else ""
    return f"new plugin {members[0].distribution} {members[0].version}: adds {adds}{off}"


def _seen(file: Path) -> dict[str, str]:
    try:
        seen = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return seen if isinstance(seen, dict) else {}


def _remember(file: Path, seen: dict[str, str]) -> None:
    """Written whole or not at all: two first runs at once leave one valid file."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(seen, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(unfinished, file)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
