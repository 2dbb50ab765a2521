"""The pytest plugin of hermes.testing. It is loaded in every run of pytest where hermes is installed: it imports
nothing of the kernel until a fixture is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hermes.testing.scripted_server import ScriptedServer
    from hermes.testing.tool_runner import ToolRunner

pytest.register_assert_rewrite(
    "hermes.testing.script",
    "hermes.testing.scripted_server",
    "hermes.testing.strict_chat",
    "hermes.testing.tool_runner",
    "hermes.testing.store_conformance",
    "hermes.testing.store_turns",
)

_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


@pytest.fixture
def hermes_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HERMES_HOME of this test's own; HERMES_*, keys, tokens and proxies are taken out of the environment."""
    import os

    for name in list(os.environ):
        upper = name.upper()
        is_ours = upper.startswith("HERMES_") and not upper.startswith("HERMES_TEST_")
        if is_ours or upper.endswith("_PROXY") or any(word in upper for word in _SECRET_WORDS):
            monkeypatch.delenv(name)
    home = tmp_path / "hermes-home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return home


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    """A scripted model on loopback; give it replies with `scripted.add(…)`. A request that a strict server would refuse
    fails the test."""
    from hermes.testing.scripted_server import ScriptedServer

    with ScriptedServer() as server:
        yield server
    if server.problems:
        pytest.fail("the scripted model was asked wrongly:\n" + "\n".join(server.problems), pytrace=False)


@pytest.fixture
def run_tool(tmp_path: Path) -> ToolRunner:
    """Runs one tool in `tmp_path`: `run_tool(tool, path="a.txt").text`."""
    from hermes.testing.tool_runner import ToolRunner

    home = tmp_path / "hermes-home"
    home.mkdir(exist_ok=True)
    return ToolRunner(cwd=tmp_path, home=home)
