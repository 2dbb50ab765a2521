"""What the agents of a process share: which tools there are, whose they are, and what cannot be had by that name."""

from __future__ import annotations

import pytest

from hermes import tool
from hermes.kernel.config.settings import (
    ApprovalSettings,
    ContextSettings,
    MemorySettings,
    PluginSettings,
    SessionSettings,
    Settings,
    ToolSettings,
)
from hermes.kernel.errors import PluginError, SettingsError
from hermes.kernel.services import refuse_unbuilt
from hermes.testing import call, text


def named(name: str, answer: str = "mine"):
    return tool(name=name, parameters={"type": "object"})(lambda: answer)


def test_B121_a_toolset_may_not_take_the_place_of_a_kernel_tool_unasked(house) -> None:
    house.tools(named("todo"))
    with pytest.raises(PluginError) as told:
        house.agent().run("go")
    assert "tools.replace: {todo: acme}" in str(told.value)


def test_settings_may_give_a_kernel_tools_place_to_a_toolset(house) -> None:
    house.tools(named("todo"))
    house.server.add(call("todo"), text("ok"))
    replaced = ToolSettings(toolsets=("installed",), replace={"todo": "acme"})
    house.agent(tools=replaced).run("go")
    assert house.server.requests[1].last["content"] == "mine"
    assert house.server.requests[0].tool_names.count("todo") == 1


def test_B121_two_toolsets_with_one_tool_are_told_apart_by_the_settings(house) -> None:
    house.tools(named("find", "from a"), name="a")
    house.tools(named("find", "from b"), name="b")
    with pytest.raises(PluginError) as told:
        house.agent().run("go")
    assert "a and b" in str(told.value)
    house.server.add(call("find"), text("ok"), call("find"), text("ok"))
    for name in "ab":
        chosen = ToolSettings(toolsets=("installed",), replace={"find": name})
        house.agent(tools=chosen).run("go")
        assert house.server.requests[-1].last["content"] == f"from {name}"


def test_a_session_that_could_not_begin_is_not_held(house) -> None:
    house.server.add(text("ok"), text("ok"))
    good = house.agent()
    session = good.run("go").session_id
    good.close()
    house.tools(named("todo"))
    bad = house.agent()
    with pytest.raises(PluginError) as held:
        bad.attach(session)
    assert held.value.__traceback__ is not None  # keeps the frames, and all that is in them
    again = house.agent(tools=ToolSettings(toolsets=("files",)))
    again.attach(session)
    assert again.run("again").answer == "ok"


def test_a_tool_that_is_not_available_is_not_offered(house) -> None:
    from dataclasses import replace

    house.tools(replace(named("here"), available=lambda: True), replace(named("gone"), available=lambda: False))
    house.server.add(text("ok"))
    house.agent().run("go")
    assert "here" in house.server.requests[0].tool_names
    assert "gone" not in house.server.requests[0].tool_names


def test_a_toolset_that_does_not_load_is_told_and_the_run_goes_on(house) -> None:
    house.site.plugin("broken", "raise ImportError('no such library')", group="hermes.tools")
    house.tools(named("mine"))
    house.server.add(text("ok"))
    house.agent().run("go")
    assert "mine" in house.server.requests[0].tool_names
    assert [line for line in house.notices("plugin") if "no such library" in line and "broken" in line]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sessions": SessionSettings(store="stone")}, "stone"),
        ({"context": ContextSettings(engine="steam")}, "steam"),
        ({"model": "no-colon"}, "no-colon"),
        ({"fallback": ("nobody:x",)}, "nobody"),
    ],
)
def test_a_name_that_nobody_has_is_an_error_of_the_settings(house, settings, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        house.agent(**settings).run("go")


def test_without_memory_there_is_no_memory_tool(house) -> None:
    house.server.add(text("ok"), text("ok"))
    house.agent().run("go")
    house.agent(memory=MemorySettings(backend="none")).run("go")
    assert ["memory" in request.tool_names for request in house.server.requests] == [True, False]


def test_only_a_person_can_be_asked_for_clarification(house) -> None:
    class Person:
        def question(self, words, choices):
            return "blue"

        def approve(self, request):
            return "deny"

    house.server.add(call("clarify", question="Which colour?"), text("Blue."), text("ok"))
    house.agent(ask=Person()).run("go")
    assert "blue" in house.server.requests[1].last["content"]
    house.agent().run("go")
    assert "clarify" not in house.server.requests[2].tool_names


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (Settings(plugins=PluginSettings(isolation="process")), "plugins.isolation"),
        (Settings(approval=ApprovalSettings(sandbox="bubblewrap")), "approval.sandbox"),
    ],
)
def test_a_protection_that_is_not_built_yet_is_refused_and_never_believed_in_silence(
    settings: Settings, key: str
) -> None:
    with pytest.raises(SettingsError, match=f"{key}: .* is not built yet"):
        refuse_unbuilt(settings)
