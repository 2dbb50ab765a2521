"""What is loaded, what is refused and why: each refusal names plugin, distribution, cause and remedy."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from hermes.kernel.errors import PluginError
from hermes.kernel.plugins import flag_from_environ

Site = Any
Make = Any

GOOD = """
    from hermes import hookimpl
    @hookimpl
    def before_turn(turn): pass
"""


def test_only_what_is_named_is_imported(site: Site, make_plugins: Make) -> None:
    wanted, other = site.plugin("wanted", GOOD), site.plugin("other", GOOD)
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["wanted"]) == ("wanted",)
    assert wanted in sys.modules
    assert other not in sys.modules
    assert lines == []
    assert [e.name for e in plugins.loaded()] == ["wanted"]


def test_installed_stands_for_every_plugin_but_hermes_own(site: Site, make_plugins: Make) -> None:
    for name in ("b", "a"):
        site.plugin(name, GOOD)
    site.plugin("own", "raise RuntimeError", distribution="hermes-kernel")
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["installed"]) == ("a", "b")
    assert plugins.load("hermes.plugins", ["b", "installed"]) == ("b", "a")
    assert lines == []


def test_a_disabled_plugin_is_never_imported_whatever_names_it(site: Site, make_plugins: Make) -> None:
    module = site.plugin("noisy", GOOD)
    for spelled in ("noisy", "Noisy", "plugins:noisy"):
        plugins, lines = make_plugins(disabled=(spelled,))
        assert plugins.load("hermes.plugins", ["installed"]) == ()
        assert lines == []
        assert plugins.load("hermes.plugins", ["noisy"]) == ()
        assert "plugins.disabled" in lines[0]
        assert module not in sys.modules


def test_a_name_that_nothing_has_is_reported_with_what_there_is(site: Site, make_plugins: Make) -> None:
    site.plugin("shout", GOOD, group="hermes.tools")
    plugins, lines = make_plugins()
    assert plugins.load("hermes.tools", ["shoot"]) == ()
    assert "shoot" in lines[0]
    assert "did you mean shout" in lines[0]
    assert plugins.problem("hermes.tools", "shoot") == lines[0]


def test_B121_a_name_claimed_twice_is_loaded_from_neither(site: Site, make_plugins: Make) -> None:
    modules = [site.plugin("twice", GOOD, distribution=f"acme-{number}") for number in (1, 2)]
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["twice"]) == ()
    assert "acme-1" in lines[0]
    assert "acme-2" in lines[0]
    assert not set(modules) & set(sys.modules)


def test_the_same_word_may_name_a_toolset_and_a_memory_backend(site: Site, make_plugins: Make) -> None:
    site.plugin("notes", GOOD.replace("before_turn(turn)", "register_tools()"), group="hermes.tools", distribution="d1")
    memory = GOOD.replace("before_turn(turn)", "register_memory_backends()")
    site.plugin("notes", memory, group="hermes.memory", distribution="d2")
    plugins, lines = make_plugins()
    assert plugins.load("hermes.tools", ["notes"]) == ("notes",)
    assert plugins.load("hermes.memory", ["notes"]) == ("notes",)
    assert lines == []


REFUSALS = {
    "raises_at_import": ("raise ValueError('broken here')", ["ValueError", "broken here", "plugins.disabled"]),
    "B122_exits_at_import": ("import sys; sys.exit(3)", ["called exit(3)"]),
    "syntax_error": ("def (:", ["SyntaxError"]),
    "missing_import": ("import surely_not_installed_b", ["surely_not_installed_b"]),
    "no_hook": ("x = 1", ["no hook", "@hookimpl"]),
    "forgotten_marker": ("def before_turn(turn): pass", ["before_turn", "@hookimpl"]),
    "another_projects_marker": (
        "import pluggy\n@pluggy.HookimplMarker('llm')\ndef before_turn(turn): pass",
        ["before_turn", "@hookimpl"],
    ),
    "one_marker_forgotten_of_two": (GOOD + "\n    def after_turn(turn): pass", ["after_turn", "@hookimpl"]),
    "unknown_hook": (GOOD.replace("before_turn", "befor_turn"), ["befor_turn", "did you mean before_turn"]),
    "async": (GOOD.replace("def before", "async def before"), ["async", "ordinary function"]),
    "wrapper": (GOOD.replace("hookimpl\n    def", "hookimpl(wrapper=True)\n    def"), ["wrapper", "around_"]),
    "tryfirst": (GOOD.replace("hookimpl\n    def", "hookimpl(tryfirst=True)\n    def"), ["tryfirst", "plugins.order"]),
    "trylast": (GOOD.replace("hookimpl\n    def", "hookimpl(trylast=True)\n    def"), ["trylast", "plugins.order"]),
    "wrong_argument": (GOOD.replace("(turn)", "(trun)"), ["trun", "did you mean turn"]),
    "star_arguments": (GOOD.replace("(turn)", "(**every)"), ["every", "turn"]),
    "positional_only": (GOOD.replace("(turn)", "(turn, /)"), ["turn", "position"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_plugin_is_refused_with_its_cause_and_what_to_do(case: str, site: Site, make_plugins: Make) -> None:
    source, words = REFUSALS[case]
    site.plugin("bad", source)
    site.plugin("good", GOOD)
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["bad", "good"]) == ("good",)
    assert len(lines) == 1
    for word in ("bad", "acme-bad", *words):
        assert word in lines[0]


def test_a_class_where_an_instance_is_meant_is_refused(site: Site, make_plugins: Make) -> None:
    source = """
        from hermes import hookimpl
        class Watch:
            @hookimpl
            def before_turn(self, turn): pass
        watch = Watch()
    """
    site.plugin("as_class", source, attribute="Watch")
    site.plugin("as_instance", source, attribute="watch")
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["installed"]) == ("as_instance",)
    assert "is a class" in lines[0]


def test_a_hook_of_another_kind_would_be_silently_dead_and_is_refused(site: Site, make_plugins: Make) -> None:
    site.plugin("guard", GOOD.replace("before_turn(turn)", "decide_tool_call(call)"), group="hermes.tools")
    plugins, lines = make_plugins()
    assert plugins.load("hermes.tools", ["guard"]) == ()
    assert "hermes.plugins" in lines[0]


def test_an_unmet_requirement_on_our_version_is_refused_before_the_import(site: Site, make_plugins: Make) -> None:
    module = site.plugin("future", GOOD, requires=["hermes-kernel>=99,<100"])
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["future"]) == ()
    assert ">=99,<100" in lines[0]
    assert "pip install --upgrade" in lines[0]
    assert module not in sys.modules


def test_a_failed_import_is_not_tried_again_in_the_process(site: Site, make_plugins: Make) -> None:
    counter = site.directory / "imports"
    site.plugin("once", f"with open({str(counter)!r}, 'a') as file: file.write('x')\nraise ValueError('first')")
    for _ in range(2):
        plugins, lines = make_plugins()
        assert plugins.load("hermes.plugins", ["once"]) == ()
        assert plugins.load("hermes.plugins", ["once"]) == ()
        assert len(lines) == 1
    assert counter.read_text() == "x"


def test_B122_a_hanging_import_is_left_behind_at_its_deadline(
    site: Site, make_plugins: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.kernel import registry

    monkeypatch.setattr(registry, "IMPORT_DEADLINE_S", 0.2)
    site.plugin("hangs", "import threading; threading.Event().wait()")
    plugins, lines = make_plugins()
    assert plugins.load("hermes.plugins", ["hangs"]) == ()
    assert "did not end within 0.2 s" in lines[0]


def test_what_a_plugin_prints_and_where_it_goes_at_import_stays_its_own(
    site: Site, make_plugins: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    site.plugin(
        "chatty", "import os; print('hello'); os.chdir('/')\n" + "\n".join(x.strip() for x in GOOD.splitlines())
    )
    plugins, _ = make_plugins()
    before = os.getcwd()
    assert plugins.load("hermes.plugins", ["chatty"]) == ("chatty",)
    assert os.getcwd() == before
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_B120_a_plugin_with_the_name_of_a_core_module_shadows_nothing(site: Site, make_plugins: Make) -> None:
    import yaml

    (site.directory / "yaml.py").write_text("raise RuntimeError", encoding="utf-8")
    (site.directory / "state.py").write_text("raise RuntimeError", encoding="utf-8")
    site.plugin("good", GOOD)
    path = list(sys.path)
    plugins, _ = make_plugins()
    assert plugins.load("hermes.plugins", ["good"]) == ("good",)
    assert sys.path == path
    assert sys.modules["yaml"] is yaml


def test_a_required_plugin_that_is_missing_stops_at_once(make_plugins: Make) -> None:
    with pytest.raises(PluginError, match="nowhere"):
        make_plugins(required=("nowhere",))


def test_a_required_plugin_that_fails_stops_with_exit_code_11(site: Site, make_plugins: Make) -> None:
    site.plugin("needed", "raise ValueError('no')")
    plugins, lines = make_plugins(required=("needed",))
    with pytest.raises(PluginError) as caught:
        plugins.load("hermes.plugins", ["needed"])
    assert caught.value.reason.exit_code == 11
    assert (caught.value.plugin, caught.value.distribution, lines) == ("needed", "acme-needed", [])


def test_a_required_plugin_that_is_disabled_is_a_contradiction(site: Site, make_plugins: Make) -> None:
    site.plugin("both", GOOD)
    with pytest.raises(PluginError, match="both"):
        make_plugins(required=("both",), disabled=("both",))


def test_strict_makes_any_failure_fatal(site: Site, make_plugins: Make) -> None:
    site.plugin("bad", "x = 1")
    plugins, _ = make_plugins(strict=True)
    with pytest.raises(PluginError, match="acme-bad"):
        plugins.load("hermes.plugins", ["installed"])


@pytest.mark.parametrize("group", ["hermes.settings", "hermes.commands", "hermes.toolz"])
def test_groups_without_hooks_are_not_loaded_as_plugins(group: str, site: Site, make_plugins: Make) -> None:
    site.plugin("data", "raise RuntimeError", group=group)
    plugins, lines = make_plugins()
    assert plugins.load(group, ["data"]) == ()
    assert len(lines) == 1


@pytest.mark.parametrize(("text", "is_on"), [("1", True), ("true", True), ("0", False), ("off", False), ("", False)])
def test_the_strict_variable_is_read_as_a_boolean(text: str, is_on: bool) -> None:
    assert flag_from_environ("HERMES_STRICT_PLUGINS", {"HERMES_STRICT_PLUGINS": text}) is is_on
    assert flag_from_environ("HERMES_STRICT_PLUGINS", {}) is False
