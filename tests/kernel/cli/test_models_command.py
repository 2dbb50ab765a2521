"""`hermes models` knows no provider by name: rows and weights come through the hook, from whoever can fetch."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hermes.kernel.cli.invocation import Invocation
from hermes.kernel.cli.models import ProgressLines, command
from hermes.kernel.errors import UsageError

Run = Callable[..., Result]

PROVIDER = """
    from pathlib import Path
    from hermes import hookimpl
    from hermes.kernel.providers import ModelRow, Profile

    class Shelf:
        profile = Profile("shelf", default_model="tiny")
        def available(self): return None
        def connect(self, model, report, cancelled): raise NotImplementedError
        def models(self): return [ModelRow("tiny", 2048, note="a note to read"), ModelRow("other")]
        def close(self): pass
        def stored(self): return {"other": Path("/models/other.gguf")}
        def fetch(self, what, report):
            report("fetching " + what, 0.5)
            return Path("/models") / (what + ".gguf")

    @hookimpl
    def register_providers():
        return [Shelf()]
"""

BARE = """
    from hermes import hookimpl
    from hermes.kernel.providers import ModelRow, Profile

    class Bare:
        profile = Profile("bare")
        def available(self): return None
        def connect(self, model, report, cancelled): raise NotImplementedError
        def models(self): return [ModelRow("hosted")]
        def close(self): pass

    @hookimpl
    def register_providers():
        return [Bare()]
"""


@pytest.fixture
def run(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hermes models …` with two providers of other people installed."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    site.plugin("bare", BARE, group="hermes.providers")
    site.plugin("shelf", PROVIDER, group="hermes.providers")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(command, list(words), obj=Invocation())

    return invoke


def test_the_list_has_every_providers_models_and_says_which_are_here(run: Run) -> None:
    result = run("list")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "shelf:tiny  not fetched  2,048 tokens  a note to read" in lines
    assert "shelf:other  here" in lines
    assert "bare:hosted  not fetched" in lines
    assert any(line.startswith("local:qwen2.5-coder-1.5b-instruct") for line in lines)


def test_the_list_as_json_is_an_array_of_objects(run: Run) -> None:
    rows = {f"{row['provider']}:{row['name']}": row for row in json.loads(run("list", "--json").stdout)}
    assert rows["shelf:tiny"]["path"] is None
    assert rows["shelf:other"]["path"] == "/models/other.gguf"
    assert rows["local:smollm2-135m-instruct"]["window_tokens"] == 8192


def test_fetch_goes_to_the_provider_that_lists_the_model_and_prints_the_file(run: Run) -> None:
    result = run("fetch", "tiny")
    assert result.stdout == "/models/tiny.gguf\n"
    assert "tiny: a note to read" in result.stderr
    assert "fetching tiny (50%)" in result.stderr
    assert "hermes run --model shelf:tiny" in result.stderr


def test_fetch_can_be_told_which_provider_and_to_be_quiet(run: Run) -> None:
    result = run("fetch", "--provider", "shelf", "-q", "whatever")
    assert (result.stdout, result.stderr) == ("/models/whatever.gguf\n", "")


def test_a_provider_that_cannot_fetch_is_a_usage_error(run: Run) -> None:
    result = run("fetch", "--provider", "bare", "hosted")
    assert isinstance(result.exception, UsageError)
    assert "'bare'" in str(result.exception)


def test_a_broken_provider_is_told_and_does_not_hide_the_others(run: Run, site: Any) -> None:
    site.plugin("broken", "raise RuntimeError('no luck')", group="hermes.providers")
    result = run("list")
    assert "shelf:tiny" in result.stdout
    assert "broken" in result.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_redrawn_line_on_a_terminal_and_few_lines_elsewhere() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        progress = ProgressLines(stream)
        for percent in range(100):
            progress.report("part 1", percent / 100)
        progress.report("part 2", None)
        progress.end()
    assert terminal.getvalue().startswith("\rpart 1 (0%)\rpart 2")
    assert terminal.getvalue().endswith("\n")
    assert pipe.getvalue() == "part 1 (0%)\npart 2\n"
