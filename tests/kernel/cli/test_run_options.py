"""What the options of `hermes run` mean: flags as settings, contradictions, toolsets, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes.kernel.cli.front import secrets, titled
from hermes.kernel.cli.run import command
from hermes.kernel.cli.run_settings import RunOptions, check_options, load_settings, toolset_names
from hermes.kernel.config.settings import ProviderSettings, Settings
from hermes.kernel.errors import SettingsError, UsageError
from hermes.kernel.journal import MemoryStore


@pytest.fixture(autouse=True)
def _here(hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_only_flags_that_were_given_override_settings() -> None:
    assert RunOptions().flags() == {}
    options = RunOptions(model="a:b", max_iterations=3, max_seconds=1.5, toolsets="files", verbose=1)
    assert options.flags() == {
        "model": "a:b",
        "limits.iterations": 3,
        "limits.max_seconds": 1.5,
        "tools.toolsets": ["files"],
        "log.level": "info",
    }


def test_flags_reach_the_settings() -> None:
    settings = load_settings(RunOptions(model="a:b", max_iterations=3, toolsets="none"), ()).settings
    assert (settings.model, settings.limits.iterations, settings.tools.toolsets) == ("a:b", 3, ())


@pytest.mark.parametrize(
    ("text", "names"), [("a, b,", ["a", "b"]), ("none", []), ("", []), ("installed", ["installed"])]
)
def test_toolsets_are_a_list_and_none_is_none(text: str, names: list[str]) -> None:
    assert toolset_names(text) == names


@pytest.mark.parametrize("text", ["fiel", "files,nope", "none,files"])
def test_B125_an_unknown_toolset_is_an_error_that_lists_what_there_is(text: str) -> None:
    with pytest.raises(SettingsError, match=r"there is no toolset '(fiel|nope|none)'; there are .*files"):
        load_settings(RunOptions(toolsets=text), ())


def test_B125_an_unknown_toolset_in_a_file_is_an_error_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("tools:\n  toolsets: [fiel]\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"mine\.yaml:2.*no toolset 'fiel'"):
        load_settings(RunOptions(), (file,))


def test_B125_an_empty_list_is_no_toolsets(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("tools: {toolsets: []}\n", encoding="utf-8")
    assert load_settings(RunOptions(), (file,)).settings.tools.toolsets == ()


@pytest.mark.parametrize(
    "options",
    [RunOptions(session="a", resume="b"), RunOptions(newest=True, resume="b"), RunOptions(fork=True)],
)
def test_options_that_contradict_each_other_are_refused(options: RunOptions) -> None:
    with pytest.raises(UsageError):
        check_options(options)


@pytest.mark.parametrize("arguments", [["--max-turns", "0"], ["--max-seconds", "0"], ["-o", "xml"], ["--nope"]])
def test_values_that_cannot_be_are_usage_errors(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, [*arguments, "x"]).exit_code == 2


def test_the_keys_of_settings_and_environment_are_known() -> None:
    settings = Settings(
        providers={"a": ProviderSettings(api_key="key-of-a"), "b": ProviderSettings(api_key=("one", "two"))}
    )
    environ = {"SOME_API_KEY": "a-long-enough-value-x", "A_TOKEN": "short", "HOME": "/home/of/somebody/long"}
    assert secrets(settings, environ) == ["key-of-a", "one", "two", "a-long-enough-value-x"]


def test_a_title_is_not_taken_for_the_beginning_of_an_id() -> None:
    store = MemoryStore()
    first = store.create(directory="/x", model="m", title="work")
    assert titled(store, "work") == first
    assert titled(store, first[:6]) is None
    second = store.create(directory="/x", model="m", title="work")
    assert titled(store, "work") in (first, second)


def test_a_dry_run_says_what_would_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    done = CliRunner().invoke(command, ["--dry-run", "-t", "files", "--session", "work", "do", "it"])
    assert done.exit_code == 0, done.output
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["model"].startswith("openai:")
    assert "OPENAI_API_KEY is set" in lines["model"]
    assert lines["toolsets"] == "files"
    assert lines["session"].startswith("work, in ")
    assert lines["prompt"] == "do it"
