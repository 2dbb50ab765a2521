"""Installed distributions made for one test: real files in a directory on sys.path, as pip would leave them."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

_numbers = itertools.count(1)


class Site:
    """A site-packages directory of a test's own. Module names are new in every test, since imports are remembered."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.modules: list[str] = []

    def plugin(
        self,
        name: str,
        source: str = "",
        *,
        group: str = "hermes.plugins",
        distribution: str = "",
        requires: Sequence[str] = (),
        attribute: str = "",
    ) -> str:
        """Install a distribution with one plugin, whose module has this source; the name of its module."""
        module = f"m{next(_numbers)}_{name.replace('-', '_')}"
        (self.directory / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        self.modules.append(module)
        value = f"{module}:{attribute}" if attribute else module
        self.distribution(distribution or f"acme-{name}", {group: {name: value}}, requires=requires)
        return module

    def distribution(
        self,
        name: str,
        entry_points: Mapping[str, Mapping[str, str]],
        *,
        version: str = "1.0",
        requires: Sequence[str] = (),
        folder: str = "",
    ) -> Path:
        """Write the metadata of a distribution; its dist-info directory."""
        info = self.directory / (folder or f"{name.replace('-', '_')}-{version}.dist-info")
        info.mkdir(parents=True)
        metadata = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
        text = "\n".join(["Metadata-Version: 2.1", *metadata, "", "Version: not a header\n"])
        (info / ("METADATA" if info.suffix == ".dist-info" else "PKG-INFO")).write_text(text, encoding="utf-8")
        lines = []
        for group, members in entry_points.items():
            lines += [f"[{group}]", *(f"{key} = {value}" for key, value in members.items()), ""]
        (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
        return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    monkeypatch.syspath_prepend(str(made.directory))
    yield made
    for module in made.modules:
        sys.modules.pop(module, None)
