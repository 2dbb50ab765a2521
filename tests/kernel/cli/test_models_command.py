"""`hermes models` knows no provider by name: rows come from catalogues, servers and, with weights, through the hook."""

from __future__ import annotations

import io
import json
import re
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
def run(site: Any, hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hermes models …` with two providers of other people installed, and local servers nowhere.

    `providers`: the user's own, over those.
    """
    monkeypatch.chdir(tmp_path)
    site.plugin("bare", BARE, group="hermes.providers")
    site.plugin("shelf", PROVIDER, group="hermes.providers")
    nowhere = {name: {"base_url": "http://127.0.0.1:9/v1"} for name in ("llamacpp", "lmstudio", "ollama", "vllm")}

    def invoke(*words: str, providers: Any = None) -> Result:
        given = {"providers": {**nowhere, **(providers or {})}}
        (hermes_home / "hermes.yaml").write_text(json.dumps(given), encoding="utf-8")
        return CliRunner().invoke(command, list(words), obj=Invocation())

    return invoke


def lines_of(result: Result) -> list[list[str]]:
    """The table as words, without its head."""
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()[1:]]


# ---- list -----------------------------------------------------------------------------------------------------------


def test_the_list_has_the_models_of_plugins_and_says_which_are_here(run: Run) -> None:
    lines = lines_of(run("list"))
    assert ["shelf:tiny", "not", "fetched", "2,048", "its", "plugin", "a", "note", "to", "read"] in lines
    assert ["shelf:other", "here"] in lines
    assert ["bare:hosted"] in lines
    assert any(line[0] == "local:qwen2.5-coder-1.5b-instruct" for line in lines)
    assert not any(line[0].startswith("openai:") for line in lines)  # no key, no use


def test_the_list_as_json_is_an_array_of_objects(run: Run) -> None:
    rows = {f"{row['provider']}:{row['name']}": row for row in json.loads(run("list", "--json").stdout)}
    assert rows["shelf:tiny"]["path"] is None
    assert rows["shelf:tiny"]["sources"] == ["its plugin"]
    assert rows["shelf:other"]["path"] == "/models/other.gguf"
    assert rows["local:smollm2-135m-instruct"]["window_tokens"] == 8192


def test_a_provider_whose_key_is_there_is_listed_from_the_snapshot_without_asking(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-the-user")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    result = run("list")
    (line,) = [line for line in lines_of(result) if line[0] == "anthropic:claude-sonnet-5-5"]
    assert line[1:6] == ["1,000,000", "128,000", "2", "10", "0.1"]
    assert {"tools", "images", "snapshot"} <= set(line)
    assert (result.stderr, "a-key-of-the-user" in result.output) == ("", False)


def test_a_named_provider_is_asked_and_what_it_says_is_laid_over_the_snapshot(run: Run, answering: Any) -> None:
    listed = [{"id": "gpt-5", "context_window": 1234}, {"id": "brand-new", "context_window": 99}]
    server = answering({"/v1/models": {"data": listed}})
    own = {"openai": {"base_url": f"{server.url}/v1", "api_key": "the-secret-key", "models": {"gpt-5": {"pdf": False}}}}
    result = run("list", "openai", "--json", providers=own)
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert set(rows) == {"gpt-5", "brand-new"}
    assert (rows["gpt-5"]["window_tokens"], rows["gpt-5"]["price_input"], rows["gpt-5"]["pdf"]) == (1234, 1.25, False)
    assert rows["gpt-5"]["sources"] == ["settings", "its server", "snapshot 2026-11-30"]
    assert (rows["brand-new"]["window_tokens"], rows["brand-new"]["price_input"]) == (99, None)
    assert server.asked[0][3]["Authorization"] == "Bearer the-secret-key"
    assert "the-secret-key" not in result.output


def test_a_named_provider_that_gives_no_list_is_told_and_the_snapshot_shown(run: Run, answering: Any) -> None:
    own = {"openai": {"base_url": f"{answering({'/v1/models': 500}).url}/v1", "api_key": "k"}}
    result = run("list", "openai", providers=own)
    assert "openai gave no list of its models: HTTP 500" in result.stderr
    assert any(line[0] == "openai:gpt-5" for line in lines_of(result))
    without_key = {"work": {"base_url": f"{answering({}).url}/v1"}}
    assert "work gave no list of its models: HTTP 404" in run("list", "work", providers=without_key).stderr


def test_a_list_that_is_for_everybody_needs_no_key(run: Run, answering: Any, site: Any) -> None:
    server = answering({"/open/models": {"data": [{"id": "m-1"}]}, "/closed/models": 401})
    rows = [
        {"name": name, "base_url": f"{server.url}/{name}", "key_variables": [f"{name.upper()}_KEY"]}
        for name in ("open", "closed")
    ]
    folder = site.directory / "acme_rows"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "rows.json").write_text(json.dumps({"providers": rows}), encoding="utf-8")
    site.distribution("acme-rows", {"hermes.profiles": {"acme": "acme_rows:rows.json"}})
    assert [line[0] for line in lines_of(run("list", "open"))] == ["open:m-1"]
    assert "closed gave no list of its models: HTTP 401; set CLOSED_KEY" in run("list", "closed").stderr


def test_refresh_asks_every_provider_with_a_key(run: Run, answering: Any) -> None:
    server = answering({"/v1/models": {"data": [{"id": "m-1"}]}})
    own = {"work": {"base_url": f"{server.url}/v1", "api_key": "k"}, "groq": {"base_url": f"{server.url}/v1",
                                                                              "api_key": "k"}}  # fmt: skip
    lines = [line[0] for line in lines_of(run("list", "--refresh", providers=own))]
    assert {"work:m-1", "groq:m-1"} <= set(lines)


def test_the_models_of_a_local_server_that_answers_are_listed(run: Run, answering: Any) -> None:
    server = answering({"/v1/models": {"data": [{"id": "org/m", "max_model_len": 4096}]}})
    lines = lines_of(run("list", providers={"vllm": {"base_url": f"{server.url}/v1"}}))
    assert ["vllm:org/m", "4,096", "its", "server"] in lines


def test_a_provider_that_there_is_not_is_an_error_with_near_names(run: Run) -> None:
    assert "did you mean openai" in str(run("list", "opena").exception)


# ---- show -----------------------------------------------------------------------------------------------------------


def test_show_tells_every_fact_and_what_is_unknown(run: Run) -> None:
    lines = run("show", "anthropic:claude-haiku-5.5").stdout.splitlines()
    told = dict(re.split(r": +", line, maxsplit=1) for line in lines)
    assert told["model"] == "anthropic:claude-haiku-5.5"
    assert told["window"] == "1,000,000 tokens"
    assert told["price input"] == "0.1 USD a million tokens"
    assert told["prices hold"].startswith("for prompts of up to 100,000 tokens")
    assert (told["images"], told["audio"]) == ("yes", "unknown")
    assert told["known from"] == "snapshot 2026-11-30"
    assert "known from:          nobody" in run("show", "nous:Hermes-4-405B").stdout


def test_show_asks_a_local_server_and_names_weights_that_are_here(run: Run, answering: Any) -> None:
    server = answering({"/api/show": {"model_info": {"a.context_length": 8192}, "capabilities": ["tools"]}})
    row = json.loads(run("show", "ollama:m", "--json", providers={"ollama": {"base_url": f"{server.url}/v1"}}).stdout)
    assert (row["window_tokens"], row["tools"], row["images"], row["sources"]) == (8192, True, False, ["its server"])
    assert "weights:             /models/other.gguf" in run("show", "shelf:other").stdout
    assert "PROVIDER:MODEL" in str(run("show", "gpt-5").exception)


# ---- fetch ----------------------------------------------------------------------------------------------------------


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
