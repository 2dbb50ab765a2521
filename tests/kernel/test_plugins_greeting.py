"""The first run after `pip install` says what was added and how to turn it off, once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.discovery import scan
from hermes.kernel.greeting import SEEN_FILE, greet_new

Site = Any


def _greet(site: Site, home: Path) -> list[str]:
    return greet_new(scan([str(site.directory)]), home)


def test_a_new_distribution_is_greeted_once(site: Site, tmp_path: Path) -> None:
    entry_points = {"hermes.tools": {"x": "m"}, "hermes.memory": {"notes": "n"}, "hermes.settings": {"x": "m:s.json"}}
    site.distribution("acme", entry_points, version="2.1")
    site.distribution("hermes-kernel", {"hermes.tools": {"files": "f"}})
    (line,) = _greet(site, tmp_path / "home")
    for word in ("acme 2.1", "toolset x", "memory backend notes", "off: plugins.disabled: [notes, x]"):
        assert word in line
    assert _greet(site, tmp_path / "home") == []
    site.distribution("later", {"hermes.plugins": {"watch": "w"}})
    (line,) = _greet(site, tmp_path / "home")
    assert "later 1.0" in line


def test_a_new_version_is_remembered_without_a_line(site: Site, tmp_path: Path) -> None:
    shutil.rmtree(_installed(site, "1.0", tmp_path))
    site.distribution("acme", {"hermes.tools": {"x": "m"}}, version="1.1")
    assert _greet(site, tmp_path) == []
    assert json.loads((tmp_path / SEEN_FILE).read_text()) == {"acme": "1.1"}


def _installed(site: Site, version: str, home: Path) -> Path:
    info: Path = site.distribution("acme", {"hermes.tools": {"x": "m"}}, version=version)
    assert len(_greet(site, home)) == 1
    return info


@pytest.mark.parametrize("content", ["", "[]", "{not json", "\udcff"])
def test_a_broken_file_is_begun_anew(content: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / SEEN_FILE).write_text(content, encoding="utf-8", errors="surrogateescape")
    _installed(site, "1.0", tmp_path)
    assert _greet(site, tmp_path) == []


def test_a_home_that_cannot_be_written_never_fails(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.write_text("", encoding="utf-8")
    site.distribution("acme", {"hermes.tools": {"x": "m"}})
    for home in (file, file / "below", Path(os.devnull)):
        assert len(_greet(site, home)) == 1


def test_without_plugins_nothing_is_written(site: Site, tmp_path: Path) -> None:
    assert _greet(site, tmp_path / "home") == []
    assert not (tmp_path / "home").exists()
