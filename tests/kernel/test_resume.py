"""Processes that die in the middle, and what another one makes of it: nothing is lost, nothing runs twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config.settings import ProviderSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import SessionBusy, UsageError
from hermes.kernel.events import Event, ToolStarted, TurnStarted
from hermes.kernel.history import repair
from hermes.testing import Call, Reply, ScriptedServer, call, calls, stall, text

# What the other process runs: a turn against the scripted model, with the tools of the plugin below.
RUN = """
import sys
from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import ProviderSettings, RequestSettings, Settings, ToolSettings
from hermes.kernel.events import ToolStarted

def steer(event):
    if isinstance(event, ToolStarted) and event.arguments.get("name") == "hang":
        agent.steer("mind the gap")

endpoint = ProviderSettings(base_url=sys.argv[1], api_key="k")
settings = Settings(model="scripted:any", providers={"scripted": endpoint}, request=RequestSettings(attempts=1),
                    tools=ToolSettings(toolsets=("files", "installed")))
agent = Agent(settings, on_event=steer)
agent.run(sys.argv[2])
"""

TOOLS = """
import os
import time
from hermes import hookimpl, tool

def done(name):
    with open("ran.txt", "a") as file:
        file.write(name + "\\n")
    if name == "hang" and os.environ.get("HANG"):
        os.write(1, b"hanging\\n")
        time.sleep(600)
    return "did " + name

@tool
def work(name: str) -> str:
    return done(name)

@tool(idempotent=True)
def look(name: str) -> str:
    return done(name)

@hookimpl
def register_tools():
    return [work, look]
"""


class Other:
    """A process of its own that runs one turn; killed at the end of the test if it still lives."""

    def __init__(self, house: Any, prompt: str) -> None:
        environ = {**os.environ, "HANG": "1", "PYTHONPATH": str(house.site.directory)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, house.server.base_url, prompt],
            cwd=house.work,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def hangs(self) -> None:
        """Wait until its tool says that it hangs."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"hanging\n"

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def start(house) -> Iterator[Callable[[str], Other]]:
    house.site.plugin("acme", TOOLS, group="hermes.tools")
    started: list[Other] = []

    def starting(prompt: str) -> Other:
        started.append(Other(house, prompt))
        return started[-1]

    yield starting
    for other in started:
        other.kill()


def ran(house: Any) -> list[str]:
    return (house.work / "ran.txt").read_text(encoding="utf-8").split()


def results(request: Any) -> list[str]:
    return [m["content"] for m in request.messages if m["role"] == "tool"]


BATCH = calls(Call("work", {"name": "first"}), Call("work", {"name": "hang"}), Call("work", {"name": "last"}))


def test_a_process_killed_in_a_tool_loses_nothing_and_nothing_runs_twice(house, start) -> None:
    house.server.add(BATCH, text("All done."))
    other = start("do three things")
    other.hangs()
    agent = house.agent()
    [info] = agent.store.list()
    with pytest.raises(SessionBusy) as told:
        agent.attach(info.id)
    assert str(other.pid) in str(told.value)
    other.kill()
    assert other.process.returncode == -signal.SIGKILL

    result = agent.resume(info.id)
    assert (result.answer, result.turn, result.stored) == ("All done.", 1, True)
    assert ran(house) == ["first", "hang", "last"]
    first, unknown, last = results(house.server.requests[1])
    assert (first, last.startswith("did last")) == ("did first", True)
    assert "unknown" in unknown
    assert "may have run" in unknown
    assert "mind the gap" in str(house.server.requests[1].body["messages"])
    assert agent.store.open(info.id).waiting("steer") == []
    assert result.iterations == 2
    assert agent.store.info(info.id).end_reason == "completed"
    assert (
        house.server.requests[0].raw.partition(b'"do three')[0]
        == house.server.requests[1].raw.partition(b'"do three')[0]
    )


def test_a_process_killed_in_a_tool_may_be_gone_on_with_by_a_new_message(house, start) -> None:
    house.server.add(BATCH, text("As you like."), text("Minded."))
    other = start("do three things")
    other.hangs()
    other.kill()
    agent = house.agent()
    [info] = agent.store.list()
    agent.attach(info.id)
    result = agent.run("never mind")
    assert (result.answer, result.turn) == ("Minded.", 2)
    assert ran(house) == ["first", "hang"]
    first, unknown, last = results(house.server.requests[1])
    assert first == "did first"
    assert "may have run" in unknown
    assert "was not run" in last
    assert house.server.requests[1].last["content"] == "never mind"
    assert "mind the gap" in house.server.requests[2].last["content"]  # said before the crash, and not lost
    assert result.steering == ()


def test_an_idempotent_call_that_was_cut_off_runs_again(house, start) -> None:
    house.server.add(call("look", name="hang"), text("Seen."))
    other = start("look")
    other.hangs()
    other.kill()
    agent = house.agent()
    [info] = agent.store.list()
    assert agent.resume(info.id).answer == "Seen."
    assert ran(house) == ["hang", "hang"]
    assert results(house.server.requests[1])[0].startswith("did hang")


def test_a_process_killed_in_a_stream_is_asked_again(house, start) -> None:
    house.server.add(stall(3, "half an answer and"), text("A whole answer."))
    other = start("tell me")
    house.server.wait_for_requests(1)
    other.kill()
    agent = house.agent()
    [info] = agent.store.list()
    result = agent.resume(info.id)
    assert (result.answer, result.turn) == ("A whole answer.", 1)
    assert [m.text for m in result.messages] == ["tell me", "A whole answer."]
    assert house.server.requests[1].body == house.server.requests[0].body
    with pytest.raises(UsageError):
        agent.resume(info.id)


# ---- A crash at every event, in this process ------------------------------------------------------------------------


class Crash(BaseException):
    """Passes through everything, as a kill would end it; what the process held is let go by closing the agent."""


def crash_at(number: int) -> Callable[[Event], None]:
    seen = [0]

    def on_event(event: Event) -> None:
        seen[0] += 1
        if seen[0] == number:
            raise Crash

    return on_event


def tool_loop(request: Any) -> Reply:
    """Two calls for a user's message, an answer for their results."""
    if request.last["role"] == "tool":
        return text("Done.")
    return calls(Call("work", {"name": "one"}), Call("look", {"name": "two"}))


@pytest.mark.parametrize("turns_before", [0, 1])
def test_a_crash_at_any_event_is_gone_on_with(house, monkeypatch: pytest.MonkeyPatch, turns_before: int) -> None:
    monkeypatch.delenv("HANG", raising=False)
    house.site.plugin("acme", TOOLS, group="hermes.tools")
    with ScriptedServer(tool_loop) as server:
        provider = ProviderSettings(base_url=server.base_url, api_key="k")
        number, crashed = 0, True
        while crashed:
            number += 1
            (house.work / "ran.txt").write_text("", encoding="utf-8")
            crashed = crash_and_resume(house, {"scripted": provider}, number, turns_before)
        assert server.problems == []
    assert number > 10


def crash_and_resume(house: Any, providers: Any, number: int, turns_before: int) -> bool:
    first = house.agent(providers=providers)
    session = first.begin()
    for _ in range(turns_before):
        first.run("before")
    first.close()
    before = ran(house)
    crashing = house.agent(providers=providers, on_event=crash_at(number))
    try:
        crashing.attach(session)
        crashing.run("do both")
    except Crash:
        pass
    else:
        return False
    crashing.close()

    again = house.agent(providers=providers)
    again.attach(session)
    messages = again.store.open(session).load().messages
    asked = any(m.text == "do both" for m in messages) or again.store.open(session).waiting("input")
    ended = messages and messages[-1].text == "Done." and not again.store.open(session).load().open_turn
    if asked and not (ended and len(messages) > 4 * turns_before):
        result = again.resume(session)
        assert (result.reason, result.answer) == (EndReason.COMPLETED, "Done."), number
        assert [m.text for m in result.messages if m.role == "user" and m.origin == ""].count("do both") == 1, number
        done = ran(house)[len(before) :]
        assert done.count("one") <= 1, number
        assert "two" in done, number
        assert list(result.messages) == repair(result.messages), number
    again.close()
    return True


def test_a_message_whose_turn_began_and_recorded_nothing_is_not_answered_by_the_turn_before(house) -> None:
    house.server.add(text("The old answer."), text("The new answer."))
    turns: list[Event] = []

    def crash(event: Event) -> None:
        if isinstance(event, TurnStarted):
            turns.append(event)
            if len(turns) == 2:
                raise Crash

    agent = house.agent(on_event=crash)
    session = agent.run("first").session_id
    with pytest.raises(Crash):
        agent.run("second")
    agent.close()
    assert house.agent().resume(session).answer == "The new answer."
    assert house.server.requests[1].last["content"] == "second"


def test_input_that_a_crash_kept_from_its_turn_goes_before_the_next(house) -> None:
    def crash(event: Event) -> None:
        if isinstance(event, TurnStarted):
            raise Crash

    agent = house.agent(on_event=crash)
    with pytest.raises(Crash):
        agent.run("the first thing")
    session = agent.session_id or ""
    agent.close()
    house.server.add(text("Both."))
    again = house.agent()
    again.attach(session)
    result = again.run("and the second")
    assert [p.text for p in result.messages[0].parts] == ["the first thing", "and the second"]
    assert again.store.open(session).waiting("input") == []


def test_a_tool_that_a_crash_kept_from_starting_is_told_as_unknown(house) -> None:
    """The journal says "started" before the first instruction of a tool: what may have run is never run again."""
    house.site.plugin("acme", TOOLS, group="hermes.tools")
    house.server.add(call("work", name="one"), text("Done."))

    def crash(event: Event) -> None:
        if isinstance(event, ToolStarted):
            raise Crash

    agent = house.agent(on_event=crash)
    with pytest.raises(Crash):
        agent.run("go")
    session = agent.session_id or ""
    agent.close()
    result = house.agent().resume(session)
    assert result.messages[2].results[0].status == "unknown"
    assert not (house.work / "ran.txt").exists()


def test_the_working_directory_and_the_state_of_a_session_survive(house) -> None:
    house.server.add(call("todo", todos=[{"id": "1", "content": "buy milk", "status": "pending"}]), text("Noted."))
    first = house.agent()
    session = first.run("note it").session_id
    first.close()
    house.server.add(call("todo"), text("Milk."))
    second = house.agent()
    second.attach(session)
    second.run("what was it?")
    assert "buy milk" in results(house.server.requests[-1])[-1]


def test_a_fork_goes_its_own_way(house, tmp_path: Path) -> None:
    house.server.add(text("One."), text("Two."), text("Three."))
    agent = house.agent()
    session = agent.run("first").session_id
    forked = agent.attach(session, fork=True)
    assert agent.run("second").session_id == forked != session
    agent.attach(session)
    agent.run("third")
    sent = [m["content"] for m in house.server.requests[2].messages[1:]]
    assert sent == ["first", "One.", "third"]
