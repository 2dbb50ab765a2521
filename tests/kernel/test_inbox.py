"""What is said at any moment: it waits, steers or interrupts as set, is on disk first, and is placed exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from hermes.kernel.config.settings import ProviderSettings, SessionSettings
from hermes.kernel.effects import Steer
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import UsageError
from hermes.kernel.events import SessionStarted, TextDelta, TurnStarted
from hermes.kernel.inbox import Inbox
from hermes.kernel.messages import Image
from hermes.kernel.toolspec import tool
from hermes.testing import Call, Reply, ScriptedServer, call, calls, stall, text

PATIENCE_S = 20.0
PIXEL = Image("image/png", "iVBORw0KGgo=")


def busy(way: Any) -> SessionSettings:
    return SessionSettings(busy=way)


def asked(house: Any, number: int) -> str:
    """The text of the last message of a request."""
    content = house.server.requests[number].last["content"]
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


# ---- The inbox of a turn --------------------------------------------------------------------------------------------


def test_what_waits_is_handed_out_once() -> None:
    inbox = Inbox(None)  # type: ignore[arg-type]
    inbox.put(1, "a")
    inbox.put(2, "b")
    inbox.put(1, "a")
    assert inbox.take() == (Steer(1, "a"), Steer(2, "b"))
    assert inbox.take() == ()
    inbox.put(2, "b")
    assert inbox.take() == ()


def test_what_is_a_turns_own_input_is_not_handed_out_beside_it() -> None:
    inbox = Inbox(None)  # type: ignore[arg-type]
    inbox.put(1, "a")
    inbox.put(2, "b")
    inbox.hold_back((1, 3))
    inbox.put(3, "c")
    assert inbox.take() == (Steer(2, "b"),)


def test_nothing_is_lost_between_threads() -> None:
    inbox, taken, gate = Inbox(None), [], threading.Barrier(5)  # type: ignore[arg-type]

    def put(first: int) -> None:
        gate.wait(PATIENCE_S)
        for number in range(first, first + 200):
            inbox.put(number, str(number))

    threads = [threading.Thread(target=put, args=(first,)) for first in range(0, 800, 200)]
    for thread in threads:
        thread.start()
    gate.wait(PATIENCE_S)
    while any(thread.is_alive() for thread in threads):
        taken += inbox.take()
    taken += inbox.take()
    assert sorted(steer.inbox_id for steer in taken) == list(range(800))


# ---- While no turn runs ---------------------------------------------------------------------------------------------


def test_what_is_sent_while_no_turn_runs_waits_for_one_turn(house) -> None:
    house.server.add(text("Both."))
    agent = house.agent()
    agent.begin()
    assert [agent.send("first"), agent.send("second")] == ["waits", "waits"]
    result = agent.run_next()
    assert [p.text for p in result.messages[0].parts] == ["first", "second"]
    assert agent.run_next() is None


def test_queued_messages_are_each_a_turn_in_their_order(house) -> None:
    house.server.add(text("One."), text("Two."))
    agent = house.agent(sessions=busy("queue"))
    session = agent.begin()
    assert [agent.send("first"), agent.send("second", [PIXEL])] == ["waits", "waits"]
    results = [agent.run_next(), agent.run_next()]
    assert [r.answer for r in results if r] == ["One.", "Two."]
    assert agent.run_next() is None
    assert [(m.role, m.text) for m in agent.store.open(session).load().messages] == [
        ("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Two."),
    ]  # fmt: skip
    assert "image" in json.dumps(house.server.requests[1].last)
    assert agent.store.open(session).waiting("input") == []


def test_a_run_takes_what_waits_before_its_own_text(house) -> None:
    house.server.add(text("All three."))
    agent = house.agent()
    agent.begin()
    agent.send("first")
    agent.send("second")
    result = agent.run("third")
    assert [p.text for p in result.messages[0].parts] == ["first", "second", "third"]  # type: ignore[union-attr]
    assert agent.run_next() is None


def test_sending_needs_a_session_and_a_message(house) -> None:
    agent = house.agent()
    with pytest.raises(UsageError, match="no session is open"):
        agent.send("hello")
    assert agent.run_next() is None
    agent.begin()
    with pytest.raises(UsageError, match="empty"):
        agent.send("  ")


# ---- While a turn runs ----------------------------------------------------------------------------------------------


def sends_in_a_tool(house: Any, *texts: str, said: list[str]) -> None:
    """A tool that sends these while it runs."""

    @tool
    def work() -> str:
        said.extend(agent_of[0].send(words) for words in texts)
        return "done"

    agent_of: list[Any] = house.__dict__.setdefault("agent_of", [])
    house.tools(work)


def test_by_default_a_message_reaches_the_model_with_the_next_tool_results(house) -> None:
    said: list[str] = []
    sends_in_a_tool(house, "be brief", "and kind", said=said)
    house.server.add(call("work"), text("Brief."))
    agent = house.agent()
    house.agent_of.append(agent)
    result = agent.run("go")
    assert (said, result.answer, result.steering) == (["steers", "steers"], "Brief.", ())
    told = json.dumps(house.server.requests[1].messages[2:])
    assert told.index("be brief") < told.index("and kind")
    assert agent.run_next() is None


def test_queued_messages_are_turns_of_their_own_behind_the_running_one(house) -> None:
    said: list[str] = []
    sends_in_a_tool(house, "second", "third", said=said)
    house.server.add(call("work"), text("One."), text("Two."), text("Three."))
    agent = house.agent(sessions=busy("queue"))
    house.agent_of.append(agent)
    assert agent.run("first").answer == "One."
    assert said == ["queued", "queued"]
    assert "second" not in json.dumps(house.server.requests[1].body)
    assert [agent.run_next().answer, agent.run_next().answer, agent.run_next()] == ["Two.", "Three.", None]
    assert [asked(house, n) for n in (2, 3)] == ["second", "third"]


def test_an_interrupting_message_ends_the_turn_and_is_next(house) -> None:
    said: list[str] = []
    sends_in_a_tool(house, "no, this instead", said=said)
    house.server.add(calls(Call("work"), Call("work", {"n": 1})), text("This."))
    agent = house.agent(sessions=busy("interrupt"))
    house.agent_of.append(agent)
    result = agent.run("that")
    assert (said[0], result.reason, result.detail) == ("interrupts", EndReason.INTERRUPTED, "a new message came")
    following = agent.run_next()
    assert (following.answer, asked(house, -1)) == ("This.", "no, this instead")
    assert house.server.problems == []


def test_an_interrupting_message_ends_a_stream_that_hangs(house, going) -> None:
    house.server.add(stall(3, "words and more words"), text("Yes."))
    begun = threading.Event()
    agent = house.agent(sessions=busy("interrupt"), on_event=lambda e: begun.set() if type(e) is TextDelta else None)
    turn = going(lambda: agent.run("go"))
    assert begun.wait(PATIENCE_S)
    assert agent.send("stop, listen") == "interrupts"
    assert turn.result().reason is EndReason.INTERRUPTED
    assert agent.run_next().answer == "Yes."


def test_an_image_cannot_steer_and_what_comes_after_it_does_not_overtake_it(house) -> None:
    said: list[str] = []

    @tool
    def work() -> str:
        said.extend((agent.send("look", [PIXEL]), agent.send("closely")))
        return "done"

    house.tools(work)
    house.server.add(call("work"), text("One."), text("Seen."))
    agent = house.agent()
    assert agent.run("go").answer == "One."
    assert said == ["queued", "queued"]
    result = agent.run_next()
    assert (result.answer, [getattr(p, "text", "image") for p in result.messages[-2].parts]) == (
        "Seen.", ["look", "image", "closely"],
    )  # fmt: skip


def test_a_message_that_came_too_late_to_steer_is_the_next_turn_and_is_not_given_back_too(house, going) -> None:
    house.server.add(stall(2, "and so on"), text("Heard."))
    begun = threading.Event()
    agent = house.agent(on_event=lambda e: begun.set() if type(e) is TextDelta else None)
    turn = going(lambda: agent.run("go"))
    assert begun.wait(PATIENCE_S)
    assert agent.send("one more thing") == "steers"
    agent.steer("given back")
    agent.interrupt()
    assert turn.result().steering == ("given back",)
    result = agent.run_next()
    assert (result.answer, result.steering, asked(house, 1)) == ("Heard.", (), "one more thing")
    assert agent.run_next() is None


def test_a_message_from_inside_the_beginning_of_a_turn_does_not_lock(house) -> None:
    said: list[str] = []

    def on_event(event: Any) -> None:
        if isinstance(event, SessionStarted):
            try:
                agent.send("too early")
            except UsageError as error:
                said.append(str(error))
        elif isinstance(event, TurnStarted) and not said[1:]:
            said.append(agent.send("right away"))

    house.server.add(text("One."), text("Two."))
    agent = house.agent(sessions=busy("queue"), on_event=on_event)
    assert agent.run("go").answer == "One."
    assert ("no session is open" in said[0], said[1]) == (True, "queued")
    assert agent.run_next().answer == "Two."


# ---- Many threads ---------------------------------------------------------------------------------------------------


def loop(request: Any) -> Reply:
    """A call for what the user says, an answer for its results."""
    return text("Done.") if request.last["role"] == "tool" else call("work", name="x")


@pytest.mark.parametrize("way", ["steer", "queue", "interrupt"])
def test_whatever_many_threads_send_stands_in_the_conversation_once_and_in_each_ones_order(house, way: str) -> None:
    seed = random.randrange(2**32)
    house.tools(tool(name="work", parameters={"type": "object"})(lambda name: "did"))
    wakes = threading.Semaphore(0)

    def talk(name: str) -> None:
        rng = random.Random(f"{seed}{name}")
        for number in range(8):
            agent.send(f"<{name}{number}>")
            wakes.release()
            for _ in range(rng.randrange(3)):
                house.server.requests[-1:]  # a moment of no fixed length

    with ScriptedServer(loop) as server:
        agent = house.agent(providers={"scripted": ProviderSettings(server.base_url, api_key="k")}, sessions=busy(way))
        session = agent.begin()
        threads = [threading.Thread(target=talk, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or wakes.acquire(blocking=False):
            while (result := agent.run_next()) is not None:
                assert (result.stored, result.steering) == (True, ()), seed
        assert server.problems == [], seed
    log = agent.store.open(session)
    texts = [p.text for m in log.load().messages for p in m.parts if getattr(p, "text", "").startswith("<")]  # type: ignore[union-attr]
    assert sorted(texts) == sorted(f"<{name}{number}>" for name in "abc" for number in range(8)), seed
    for name in "abc":
        assert [t for t in texts if name in t] == [f"<{name}{number}>" for number in range(8)], seed
    assert [*log.waiting("input"), *log.waiting("steer")] == [], seed


# ---- Crashes --------------------------------------------------------------------------------------------------------

# Another process, which dies at the moment that its last argument names.
DYING = """
import os, signal, sys
from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import *
from hermes.kernel.events import ModelCallStarted, ToolStarted, TurnStarted

def die(event):
    global turns
    turns += isinstance(event, TurnStarted)
    if isinstance(event, ToolStarted):
        for words in ("second", "third"):
            agent.send(words)
    kinds = {"tool": ToolStarted, "turn": TurnStarted, "call": ModelCallStarted}
    if isinstance(event, kinds[moment]) and turns == int(number):
        os.kill(os.getpid(), signal.SIGKILL)

url, busy, moment, number = sys.argv[1:]
turns = 0
settings = Settings(model="scripted:any", providers={"scripted": ProviderSettings(base_url=url, api_key="k")},
                    tools=ToolSettings(toolsets=("files",)), sessions=SessionSettings(busy=busy))
agent = Agent(settings, on_event=die)
agent.run("first")
while agent.run_next():
    pass
"""


def killed(house: Any, way: str, moment: str, turn: int) -> Any:
    """An agent at the session of a process that sent two messages from its first turn, and was killed."""
    done = subprocess.run(
        [sys.executable, "-c", DYING, house.server.base_url, way, moment, str(turn)],
        cwd=house.work,
        env={**os.environ},
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S * 5,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    agent = house.agent(sessions=busy(way))
    (info,) = agent.store.list()
    agent.attach(info.id)
    return agent


def said_by_the_user(messages: Any) -> list[str]:
    return [
        p.text
        for m in messages
        for p in m.parts
        if (m.role == "user" and m.origin in ("", "steer")) or getattr(p, "origin", "") == "steer"
    ]


TODO = call("todo", todos=[])


@pytest.mark.parametrize(
    ("way", "moment", "turn", "script", "answers"),
    [
        ("queue", "tool", 1, [TODO, text("1"), text("2"), text("3")], ["1", "2", "3", None]),
        ("queue", "turn", 2, [TODO, text("1"), text("2 and 3")], ["2 and 3", None]),
        ("queue", "call", 2, [TODO, text("1"), text("2"), text("3")], ["2", "3", None]),
        ("steer", "tool", 1, [TODO, text("all")], ["all", None]),
        ("interrupt", "tool", 1, [TODO, text("1"), text("2 and 3")], ["1", "2 and 3", None]),
    ],
)
def test_after_a_kill_the_turn_is_finished_and_what_waits_follows_in_its_order(
    house, way: str, moment: str, turn: int, script: list[Reply], answers: list[str | None]
) -> None:
    house.server.add(*script)
    agent = killed(house, way, moment, turn)
    results = [agent.run_next() for _ in answers]
    assert [r and r.answer for r in results] == answers
    log = agent.store.open(agent.session_id)
    assert said_by_the_user(log.load().messages) == ["first", "second", "third"]
    assert [*log.waiting("input"), *log.waiting("steer")] == []
    assert house.server.problems == []
