"""Calls and results stay together in every format: after an interrupt, a crash, a switch, and in a child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from readings import said

from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import ToolSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import ToolEnded, ToolStarted
from hermes.testing import Call, call, calls, text

FORMATS = ("chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse")
SOON_S = 5.0
TOOLS = """
import os
import threading
from hermes import hookimpl, tool

@tool(idempotent=True)
def look(where: str) -> str:
    return "saw " + where

@tool
def stick(what: str) -> str:
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    threading.Event().wait(600)
    return "never"

@hookimpl
def register_tools():
    return [look, stick]
"""
BATCH = calls(Call("look", {"where": "here"}, "call_a"), Call("stick", {"what": "it"}, "call_b"))
OURS = ToolSettings(toolsets=("installed",))


@pytest.fixture(autouse=True)
def tools(site: Any) -> None:
    site.plugin("acme", TOOLS, group="hermes.tools")


def results(request: Any) -> list[str]:
    return [what for kind, what in said(request) if kind == "result"]


def interrupted(house: Any, api_mode: str) -> str:
    """A session whose turn was interrupted when its first call had its result and the second was running; its id."""
    house.server.add(BATCH)
    seen: set[str] = set()
    ready = threading.Event()

    def on_event(event: Any) -> None:
        if isinstance(event, ToolEnded | ToolStarted):
            seen.add(f"{type(event).__name__} {event.call_id}")
        if {"ToolEnded call_a", "ToolStarted call_b"} <= seen:
            ready.set()

    agent = house.agent(api_mode, tools=OURS, on_event=on_event)
    outcomes: list[Any] = []
    turn = threading.Thread(target=lambda: outcomes.append(agent.run("go")), daemon=True)
    turn.start()
    assert ready.wait(20)
    agent.interrupt()
    turn.join(SOON_S)
    assert not turn.is_alive()
    [result] = outcomes
    assert result.reason is EndReason.INTERRUPTED
    agent.close()
    session: str = result.session_id
    return session


def go_on(house: Any, session: str, api_mode: str) -> tuple[Agent, Any]:
    """A new turn in this session by a model of another format; the agent and what it sent."""
    house.server.add(text("I go on."))
    agent = house.agent(api_mode, tools=OURS)
    agent.attach(session)
    assert agent.run("continue").answer == "I go on."
    return agent, house.server.requests[-1]


@pytest.mark.parametrize("first", FORMATS)
def test_B001_after_an_interrupt_in_a_tool_the_next_turn_works_in_every_format(house: Any, first: str) -> None:
    session = interrupted(house, first)
    for second in (first, *(name for name in FORMATS if name != first)):
        agent, request = go_on(house, session, second)
        assert request.api_mode == second
        kinds = [kind for kind, _ in said(request)]
        assert kinds[:6] == ["user", "call", "call", "result", "result", "assistant"]
        done, left = results(request)
        assert done == "look: saw here"
        assert "may have" in left
        agent.close()


def dying(house: Any, site: Any, api_mode: str) -> None:
    """Another process that is killed in the middle of its second call."""
    code = (
        "import sys\n"
        "from hermes.kernel.agent import Agent\n"
        "from hermes.kernel.config.settings import ProviderSettings, Settings, ToolSettings\n"
        "name, url, model = sys.argv[1:]\n"
        "endpoint = ProviderSettings(base_url=url, api_mode=name, api_key='k')\n"
        "tools = ToolSettings(toolsets=('installed',))\n"
        "Agent(Settings(model=model, providers={name: endpoint}, tools=tools)).run('go')\n"
    )
    command = [sys.executable, "-c", code, api_mode, house.server.url_for(api_mode), house.model(api_mode)]
    path = os.pathsep.join(filter(None, [str(site.directory), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(command, cwd=house.work, env={**os.environ, "DIE": "1", "PYTHONPATH": path}, timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.skipif(os.name == "nt", reason="kills with SIGKILL")
def test_B001_B042_after_a_kill_in_a_tool_the_next_turn_works_in_every_format(house: Any, site: Any) -> None:
    house.server.add(BATCH)
    dying(house, site, FORMATS[0])
    for second in FORMATS:
        reader = house.agent(second, tools=OURS)
        session = reader.store.list()[-1].id
        reader.close()
        agent, request = go_on(house, session, second)
        done, left = results(request)
        assert done == "look: saw here"
        assert "stick: " in left
        assert "unknown" in left
        agent.close()


def test_B082_a_child_begins_with_its_task_alone_while_the_parents_call_is_open(house: Any, api_mode: str) -> None:
    house.server.add(
        calls(Call("look", {"where": "here"}), Call("delegate_task", {"goal": "count the files", "context": "in src"})),
        text("Seven files."),
        text("There are seven."),
    )
    result = house.agent(api_mode, tools=OURS).run("how many?")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "There are seven.")
    _, child, parent = house.server.requests
    assert said(child) == [("user", "count the files\n\nContext:\nin src")]
    assert "call_1" not in json.dumps(child.body)
    assert "how many?" not in json.dumps(child.body)
    assert [what.partition(":")[0] for what in results(parent)] == ["look", "delegate_task"]


@pytest.mark.parametrize("id", ["terminal:0", "call_0", "dup_id_0001", "look"])
def test_B045_an_id_that_comes_again_in_a_later_turn_and_after_a_resume_runs_and_is_answered(
    house: Any, api_mode: str, id: str
) -> None:
    again = call("look", {"where": "there"}, id=id)
    house.server.add(call("look", {"where": "here"}, id=id), text("One."), again, text("Two."), again, text("Three."))
    agent = house.agent(api_mode, tools=OURS)
    session = agent.run("go").session_id
    agent.run("more")
    agent.close()
    other = house.agent(api_mode, tools=OURS)
    other.attach(session)
    assert other.run("again").answer == "Three."
    assert results(house.server.requests[-1]) == ["look: saw here", *["look: saw there"] * 2]
    assert [event.status for event in house.seen(ToolEnded)] == ["ok"] * 3


@pytest.mark.parametrize("id", ["functions.eval:301", ""])
def test_B046_calls_of_one_reply_with_one_id_or_none_both_run_and_are_both_answered(
    house: Any, api_mode: str, id: str
) -> None:
    house.server.add(calls(*(Call("look", {"where": where}, id) for where in ("here", "there"))), text("Done."))
    assert house.agent(api_mode, tools=OURS).run("go").answer == "Done."
    assert results(house.server.requests[-1]) == ["look: saw here", "look: saw there"]
