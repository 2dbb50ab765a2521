"""`hermes config`: each command on real files, and none of a plugin's code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hermes.kernel.cli.config import command
from hermes.kernel.config import document
from hermes.kernel.config.nodes import Problem
from hermes.kernel.errors import SettingsError, UsageError


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with an empty home beside it and no HERMES_ variable."""
    for name in [name for name in os.environ if name.startswith("HERMES_")]:
        monkeypatch.delenv(name)
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def hermes_config(*args: str) -> Result:
    return CliRunner().invoke(command, args)


def output(*args: str) -> str:
    result = hermes_config(*args)
    assert result.exception is None, result.exception
    return result.stdout


def failure(*args: str) -> BaseException:
    result = hermes_config(*args)
    assert isinstance(result.exception, (SettingsError, UsageError)), result
    return result.exception


def parsed(text: str) -> Any:
    problems: list[Problem] = []
    node = document.parse(text.encode(), "f", problems)
    assert problems == []
    assert node is not None
    return node.plain()


def test_validate_is_quiet_about_good_settings(work: Path) -> None:
    assert output("validate") == "no settings files; defaults apply\n"
    (work / "hermes.yaml").write_text("model: a:b\n")
    assert output("validate") == f"no mistakes in {work / 'hermes.yaml'}\n"
    assert output("validate", "hermes.yaml") == "no mistakes in hermes.yaml\n"


def test_validate_names_every_mistake_of_every_file(work: Path) -> None:
    (work / "a.yaml").write_text("modle: x\nlimits: {iterations: no}\n")
    (work / "b.yaml").write_text("approval: {mode: off}\n")
    error = failure("validate", "a.yaml", "b.yaml")
    assert isinstance(error, SettingsError)
    assert [line.split(": ")[0] for line in error.problems] == ["a.yaml:1:1", "a.yaml:2:22", "b.yaml:1:18"]


def test_validate_warns_of_settings_for_a_plugin_that_nobody_knows(work: Path) -> None:
    (work / "a.yaml").write_text("plugins: {settings: {terminall: {a: 1}}}\n")
    assert "plugins.settings.terminall" in hermes_config("validate", "a.yaml").stderr


def test_validate_reads_the_same_files_as_a_run(work: Path) -> None:
    (work / "hermes.yaml").write_text("approval: {mode: allow}\n")
    assert "hermes config trust" in str(failure("validate"))
    (work / "x.yaml").write_text("limits: 5\n")
    assert "x.yaml:1:9" in str(failure("validate", "--config", "x.yaml"))


def test_show_prints_yaml_that_means_the_settings_in_effect(work: Path) -> None:
    (work / "x.yaml").write_text("model: a:b\nlimits: {iterations: 5}\n")
    shown = parsed(output("show", "--config", "x.yaml"))
    assert (shown["model"], shown["limits"]["iterations"]) == ("a:b", 5)
    assert shown["tools"]["toolsets"] == ["files", "terminal", "web", "code", "installed"]
    (work / "again.yaml").write_text(output("show", "--config", "x.yaml"))
    assert output("validate", "again.yaml") == "no mistakes in again.yaml\n"


def test_show_with_origin_says_where_each_value_comes_from(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "x.yaml").write_text("model: a:b\n")
    monkeypatch.setenv("HERMES_LIMITS_ITERATIONS", "7")
    lines = output("show", "--origin", "--config", "x.yaml").splitlines()

    def line(start: str) -> str:
        return next(line for line in lines if line.startswith(start))

    assert line("model:").endswith("# x.yaml:1")
    assert line("fallback:").endswith("# default")
    place = lines.index("limits:")
    assert lines[place + 1].split() == ["iterations:", "7", "#", "HERMES_LIMITS_ITERATIONS"]
    assert parsed(output("show", "--origin"))["limits"]["iterations"] == 7


def test_show_hides_secrets_and_what_was_filled_in(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K", "sk-verysecret")
    (work / "x.yaml").write_text(
        "providers:\n  w: {api_key: sk-verysecret, base_url: 'http://u', headers: {A: sk-verysecret}}\n"
        "  v: {api_key: [sk-verysecret, '${env:K}']}\nprompt: {append: '${env:K}'}\n"
        "plugins: {settings: {p: {token: sk-verysecret, shell: bash}}}\n"
    )
    shown = output("show", "--origin", "--config", "x.yaml")
    assert "verysecret" not in shown
    assert parsed(shown)["providers"]["w"]["api_key"] == "***"
    assert parsed(shown)["providers"]["v"]["api_key"] == ["***", "***"]
    assert parsed(shown)["plugins"]["settings"]["p"] == {"token": "***", "shell": "bash"}
    assert "http://u" in shown


def test_schema_is_json_for_an_editor(work: Path) -> None:
    schema = json.loads(output("schema"))
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["properties"]["limits"]["properties"]["iterations"]["description"]


def test_path_lists_what_is_read_strongest_first(work: Path) -> None:
    assert output("path") == ""
    user = work.parent / "home" / "hermes.yaml"
    assert output("path", "--user") == f"{user}\n"
    user.write_text("")
    (work / "hermes.yaml").write_text("")
    (work / "x.yaml").write_text("")
    assert output("path", "--config", "x.yaml").splitlines() == ["x.yaml", str(work / "hermes.yaml"), str(user)]


def test_init_writes_a_file_once(work: Path) -> None:
    assert output("init") == f"wrote {work / 'hermes.yaml'}\n"
    text = (work / "hermes.yaml").read_text("utf-8")
    assert parsed(text) == {"model": "auto"}
    assert output("validate") == f"no mistakes in {work / 'hermes.yaml'}\n"
    (work / "hermes.yaml").write_text("model: mine\n")
    assert "--force" in str(failure("init"))
    assert (work / "hermes.yaml").read_text() == "model: mine\n"
    output("init", "--force")
    assert (work / "hermes.yaml").read_text("utf-8") == text
    assert [path.name for path in work.iterdir()] == ["hermes.yaml"]


def test_init_says_why_it_cannot_write(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = work / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert isinstance(failure("init"), UsageError)


def test_trust_says_what_it_allows_and_can_be_taken_back(work: Path) -> None:
    assert "no hermes.yaml" in str(failure("trust"))
    (work / "hermes.yaml").write_text("model: a:b\napproval: {mode: allow}\n")
    said = output("trust")
    assert f"{work / 'hermes.yaml'}:2: approval.mode" in said
    assert output("validate") == f"no mistakes in {work / 'hermes.yaml'}\n"
    output("trust", "--remove")
    assert "is not trusted" in str(failure("validate"))


def test_trust_refuses_a_file_that_cannot_be_read(work: Path) -> None:
    (work / "hermes.yaml").write_text("approval: {mode: allow\n")
    assert "hermes.yaml:2:1" in str(failure("trust"))


def test_help_of_the_group_and_of_every_command(work: Path) -> None:
    assert set(command.commands) == {"validate", "show", "schema", "path", "init", "trust"}
    for name in command.commands:
        assert "Usage:" in output(name, "--help")
