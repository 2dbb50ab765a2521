"""`Plugins` over the distributions of one test, with what it reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes.kernel.config.settings import PluginSettings
from hermes.kernel.discovery import scan
from hermes.kernel.events import Notice
from hermes.kernel.plugins import Plugins

MakePlugins = Callable[..., tuple[Plugins, list[str]]]


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
