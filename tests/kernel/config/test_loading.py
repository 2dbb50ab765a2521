"""Which source wins, where each value came from, and what the defaults are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config import document, load, read_boolean, sources
from hermes.kernel.config.build import build
from hermes.kernel.config.check import adapt, check
from hermes.kernel.config.nodes import Node, Problem
from hermes.kernel.config.schema import SCHEMA, leaf_schemas
from hermes.kernel.config.settings import ApprovalRule, FallbackModel, Settings
from hermes.kernel.errors import SettingsError


def shipped() -> Node:
    problems: list[Problem] = []
    node = document.parse(sources.shipped_defaults().encode(), "hermes.yaml", problems)
    assert problems == []
    assert node is not None
    adapt(node, SCHEMA)
    return node


def test_the_shipped_file_and_the_dataclasses_have_the_same_defaults() -> None:
    assert [str(problem) for problem in check(shipped(), SCHEMA)] == []
    assert build(Settings, shipped().plain()) == Settings()


def test_the_shipped_file_has_every_key_of_the_schema_and_no_other() -> None:
    def keys(value: Any, schema: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        if "properties" not in schema:
            return {path}
        found = [keys(child, schema["properties"][key], (*path, key)) for key, child in value.items()]
        return set().union(*found)

    assert keys(shipped().plain(), SCHEMA) == {path for path, _ in leaf_schemas()}


def test_with_no_file_and_no_variable_yaml_is_not_even_imported(desk: Any) -> None:
    code = (
        "import os, sys; from pathlib import Path; from hermes.kernel.config import load;"
        "load({}, [], Path.cwd(), os.environ); print('yaml' in sys.modules, 'jsonschema' in sys.modules)"
    )
    environ = {"HERMES_HOME": str(desk.home), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=desk.cwd, env=environ, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")


def test_every_source_wins_over_the_next(desk: Any) -> None:
    (desk.cwd / ".git").mkdir()
    below = desk.cwd / "a" / "b"
    below.mkdir(parents=True)
    user = desk.home / "hermes.yaml"
    project = desk.cwd / "hermes.yaml"
    first, last = desk.write("", "first.yaml"), desk.write("", "last.yaml")
    layers = [
        (lambda: user.write_text("limits: {iterations: 1}\n"), 1, f"{user}:1"),
        (lambda: project.write_text("limits:\n  iterations: 2\n"), 2, f"{project}:2"),
        (lambda: first.write_text("limits: {iterations: 3}\n"), 3, f"{first}:1"),
        (lambda: last.write_text("limits: {iterations: 4}\n"), 4, f"{last}:1"),
        (lambda: environ.update(HERMES_LIMITS_ITERATIONS="5"), 5, "HERMES_LIMITS_ITERATIONS"),
        (lambda: flags.update({"limits.iterations": 6}), 6, "flag limits.iterations"),
    ]
    flags: dict[str, Any] = {"model": None}
    environ: dict[str, str] = {}
    loaded = desk.load()
    for add, iterations, origin in layers:
        add()
        loaded = load(flags, [first, last], below, environ)
        assert loaded.settings.limits.iterations == iterations
        assert str(loaded.origins["limits.iterations"]) == origin
        assert str(loaded.origins["model"]) == "default"
    assert loaded.files == (last, first, project, user)
    assert loaded.project_file == project


def test_a_fallback_may_have_options_of_its_own(desk: Any) -> None:
    text = "fallback:\n  - a:1\n  - model: b:2\n    reasoning_effort: low\n    context_window: 8192\n"
    assert desk.load(text).settings.fallback == ("a:1", FallbackModel("b:2", "low", 8192))
    assert desk.load("", environ={"HERMES_FALLBACK": "a:1, b:2"}).settings.fallback == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("entry", "says"),
    [("{reasoning_effort: low}", "model"), ("{model: a:1, effort: low}", "effort"), ("[a]", "fallback"), ("null", "")],
)
def test_a_fallback_that_is_wrong_is_named_by_its_place(desk: Any, entry: str, says: str) -> None:
    (problem,) = desk.problems(f"fallback:\n  - {entry}\n")
    assert problem.startswith("given.yaml:2:")
    assert says in problem


def test_mappings_merge_and_lists_replace(desk: Any) -> None:
    (desk.home / "hermes.yaml").write_text(
        "fallback: [a:1, b:2]\nproviders: {w: {base_url: u, headers: {A: x, B: y}}, v: {base_url: z}}\n"
    )
    loaded = desk.load("fallback: [c:3]\nproviders: {w: {headers: {B: n}}}\n")
    assert loaded.settings.fallback == ("c:3",)
    assert loaded.settings.providers["w"].headers == {"A": "x", "B": "n"}
    assert loaded.settings.providers["w"].base_url == "u"
    assert set(loaded.settings.providers) == {"w", "v"}
    assert str(loaded.origins["providers.w.headers.B"]).endswith("given.yaml:2")
    assert str(loaded.origins["providers.w.headers.A"]).endswith("home/hermes.yaml:2")


def test_values_have_the_types_of_the_dataclasses(desk: Any) -> None:
    settings = desk.load(
        "approval: {rules: [{tool: terminal, match: 'git push*', decide: ask}]}\n"
        "context: {warn_at: [1, 0.5]}\nproviders: {w: {api_key: [a, b], quirks: {x: [1]}}}\n"
    ).settings
    assert settings.approval.rules == (ApprovalRule("ask", "terminal", "git push*"),)
    assert settings.context.warn_at == (1, 0.5)
    assert settings.providers["w"].api_key == ("a", "b")
    assert settings.providers["w"].quirks == {"x": [1]}


def test_B125_an_empty_list_of_toolsets_stays_empty(desk: Any) -> None:
    assert desk.load("tools: {toolsets: []}\n").settings.tools.toolsets == ()
    assert desk.load(environ={"HERMES_TOOLS_TOOLSETS": "none"}).settings.tools.toolsets == ()
    assert desk.load(environ={"HERMES_TOOLS_TOOLSETS": ""}).settings.tools.toolsets == ()
    assert desk.load(flags={"tools.toolsets": ()}).settings.tools.toolsets == ()
    assert desk.load(flags={"tools.toolsets": "none"}).settings.tools.toolsets == ()


def test_B126_a_window_that_the_user_gave_is_kept_with_its_origin(desk: Any) -> None:
    loaded = desk.load("model_options: {context_window: 32768}\n")
    assert loaded.settings.model_options.context_window == 32768
    assert str(loaded.origins["model_options.context_window"]).endswith("given.yaml:1")


def test_variables_take_comma_lists_and_null(desk: Any) -> None:
    environ = {
        "HERMES_TOOLS_TOOLSETS": "files, web,",
        "HERMES_LIMITS_ITERATIONS": "null",
        "HERMES_CONTEXT_WARN_AT": "0.5,1",
        "HERMES_MODEL": "",
        "HERMES_DISPLAY_STREAM": "off",
    }
    settings = desk.load("model: a:b\n", environ=environ).settings
    assert settings.tools.toolsets == ("files", "web")
    assert settings.limits.iterations is None
    assert settings.context.warn_at == (0.5, 1)
    assert settings.model == "a:b"
    assert settings.display.stream is False


def test_variables_that_are_not_ours_are_no_error(desk: Any) -> None:
    environ = {"HERMES_VERSION": "1.2", "HERMES_NONSENSE": "x", "HERMES_PROVIDERS": "y", "HERMES_LIMITS": "z"}
    assert desk.load(environ=environ).settings == Settings()


def test_a_flag_that_is_wrong_is_named(desk: Any) -> None:
    assert desk.problems(flags={"limits.iterations": 0}) == [
        "flag limits.iterations: limits.iterations: 0 is too small; at least 1"
    ]
    assert "unknown key" in desk.problems(flags={"limits.iteration": 5})[0]


def test_mistakes_of_all_sources_come_together(desk: Any) -> None:
    (desk.home / "hermes.yaml").write_text("modle: x\n")
    problems = desk.problems("limits: 5\n", environ={"HERMES_POOL_STRATEGY": "x"}, flags={"tools.workers": 0})
    assert [line.partition(": ")[0] for line in problems] == [
        "~hermes.yaml:1:1",
        "given.yaml:1:9",
        "HERMES_POOL_STRATEGY",
        "flag tools.workers",
    ]


def test_B124_a_broken_file_never_means_defaults(desk: Any) -> None:
    (desk.home / "hermes.yaml").write_text("approval: {mode: deny\n")
    assert desk.problems()[0].startswith("~hermes.yaml:2:1: ")
    (desk.home / "hermes.yaml").write_bytes("model: é".encode("cp1252"))
    assert "not UTF-8" in desk.problems()[0]
    (desk.home / "hermes.yaml").unlink()
    (desk.home / "hermes.yaml").mkdir()
    assert "cannot be read" in desk.problems()[0]


def test_a_given_file_that_is_missing_is_an_error(desk: Any) -> None:
    with pytest.raises(SettingsError, match=r"nope\.yaml:1:1: cannot be read: No such file"):
        load({}, [desk.cwd / "nope.yaml"], desk.cwd, {})


def test_a_users_dangling_link_is_an_error_not_silence(desk: Any) -> None:
    (desk.home / "hermes.yaml").symlink_to(desk.home / "gone.yaml")
    assert "cannot be read" in desk.problems()[0]


def test_a_home_that_cannot_be_looked_into_is_an_error_not_silence(desk: Any) -> None:
    desk.home.rmdir()
    desk.home.symlink_to(desk.home)
    assert "cannot be read" in desk.problems()[0]


def test_without_a_home_there_is_no_users_file(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_HOME")

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert desk.load().settings == Settings()


def test_a_projects_file_is_looked_for_up_to_the_repository_only(desk: Any) -> None:
    inner = desk.cwd / "repo" / "deep"
    inner.mkdir(parents=True)
    desk.write("model: outside\n", "hermes.yaml")
    assert load({}, [], inner, {}).project_file is None, "no repository: only the directory itself"
    (desk.cwd / "repo" / ".git").write_text("gitdir: elsewhere\n")
    assert load({}, [], inner, {}).project_file is None, "the file lies above the repository's root"
    desk.write("model: inside\n", "repo/hermes.yaml")
    assert load({}, [], inner, {}).settings.model == "inside"
    desk.write("model: nearest\n", "repo/deep/hermes.yaml")
    assert load({}, [], inner, {}).settings.model == "nearest"


def test_the_checkouts_own_defaults_are_no_projects_file(desk: Any) -> None:
    root = Path(sources.__file__).parents[2]
    (desk.home / "hermes.yaml").write_text("model: mine\n")
    loaded = load({}, [], root / "kernel", {})
    assert (loaded.project_file, loaded.settings.model) == (None, "mine")


def test_the_users_own_file_is_no_projects_file(desk: Any) -> None:
    (desk.home / "hermes.yaml").write_text("approval: {mode: deny}\n")
    loaded = load({}, [], desk.home, {})
    assert (loaded.project_file, loaded.settings.approval.mode) == (None, "deny")


def test_a_projects_file_named_by_hand_is_read_once_and_trusted(desk: Any) -> None:
    path = desk.write("approval: {mode: deny}\n", "hermes.yaml")
    loaded = load({}, [path], desk.cwd, {})
    assert loaded.settings.approval.mode == "deny"
    assert loaded.files == (path,)


@pytest.mark.parametrize(("word", "value"), [("1", True), ("Yes", True), ("off", False), ("", True), ("0", False)])
def test_B116_the_one_reader_of_switches(word: str, value: bool) -> None:
    assert read_boolean("HERMES_STRICT_PLUGINS", {"HERMES_STRICT_PLUGINS": word}, default=True) is value


def test_B116_the_one_reader_of_switches_refuses_other_words() -> None:
    with pytest.raises(SettingsError, match="HERMES_STRICT_PLUGINS"):
        read_boolean("HERMES_STRICT_PLUGINS", {"HERMES_STRICT_PLUGINS": "enabled"})


def test_lone_surrogates_from_the_environment_are_cleaned(desk: Any) -> None:
    assert desk.load(environ={"HERMES_MODEL": "a\udcff"}).settings.model == "a\ufffd"
