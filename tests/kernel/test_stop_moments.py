"""A stop at each kind of moment, in each wire format: the turn returns, every call is answered, the next turn works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.kernel.config.settings import ProviderSettings, RequestSettings, SessionSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import ModelCallStarted, TextDelta, ToolStarted, Waiting
from hermes.kernel.journal import MemoryStore
from hermes.kernel.roles import Finding, ToolContext
from hermes.kernel.toolspec import tool
from hermes.testing import Call, Reply, call, calls, fault, stall, text

PATIENCE_S = 20.0
SOON_S = 3.0
"""Ten times the goal of 300 ms."""

MODELS = {
    "chat_completions": "gpt-4o",
    "codex_responses": "gpt-5",
    "anthropic_messages": "claude-sonnet-4-5",
    "bedrock_converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}


class Scene:
    """An agent in one wire format with three tools, and the events that say how far its turn is."""

    def __init__(self, house: Any, api_mode: str) -> None:
        self.server = house.server
        self.deaf, self.asked, self.aside = threading.Event(), threading.Event(), threading.Event()
        self.gate = threading.Event()
        self.seen: dict[type, threading.Event] = {
            kind: threading.Event() for kind in (ModelCallStarted, TextDelta, ToolStarted, Waiting)
        }
        house.tools(*self.tools())
        provider = ProviderSettings(base_url=house.server.url_for(api_mode), api_mode=api_mode, api_key="k")
        self.agent = house.agent(
            model=f"scripted:{MODELS[api_mode]}",
            providers={"scripted": provider},
            request=RequestSettings(attempts=3),
            ask=SimpleNamespace(approve=self.approve, question=self.approve),
            on_event=lambda event: self.seen[type(event)].set() if type(event) in self.seen else None,
        )

    def approve(self, *_: Any) -> Any:
        self.asked.set()
        self.gate.wait(PATIENCE_S)
        return "deny"

    def tools(self) -> tuple[Any, ...]:
        @tool
        def deaf() -> str:
            """Work, whatever happens."""
            self.deaf.set()
            self.gate.wait(PATIENCE_S)
            return "what came later"

        @tool(assess=lambda arguments, context: Finding("it is dangerous"))
        def danger() -> str:
            """Do something dangerous."""
            return "done"

        @tool
        def wonder(context: ToolContext) -> str:
            """Ask a model on the side."""
            return context.ask_model("what now?")

        return deaf, danger, wonder


Moment = tuple[list[Reply], Callable[[Scene], Any], dict[str, tuple[str, str]]]
"""What the model says, what is waited for before the stop, and of each call: its status and what it must be told."""

MAY_HAVE = ("cancelled", "may have done part")
NEVER = ("cancelled", "was not run")

MOMENTS: dict[str, Moment] = {
    "before the first byte": ([stall(0)], lambda s: s.server.wait_for_requests(1), {}),
    "in the text": ([stall(6, "a text that goes on and on")], lambda s: s.server.wait_for_requests(1), {}),
    "in the arguments of a call": (
        [call("deaf", {"why": "because"}).but(stall_after=5)],
        lambda s: s.server.wait_for_requests(1),
        {},
    ),
    "in a wait": ([fault(429, "slow down", retry_after="60")], lambda s: s.seen[Waiting].wait(PATIENCE_S), {}),
    "in a tool that ignores it": (
        [calls(Call("deaf"), Call("todo", {"todos": []}))],
        lambda s: s.deaf.wait(PATIENCE_S),
        {"deaf": MAY_HAVE, "todo": NEVER},
    ),
    "while a person is asked": (
        [calls(Call("danger"), Call("todo", {"todos": []}))],
        lambda s: s.asked.wait(PATIENCE_S),
        {"danger": NEVER, "todo": NEVER},
    ),
    "in an auxiliary call": (
        [call("wonder"), stall(0)],
        lambda s: s.server.wait_for_requests(2),
        {"wonder": ("", "the turn was stopped")},
    ),
    "in a child": (
        [call("delegate_task", goal="count"), stall(0)],
        lambda s: s.server.wait_for_requests(2),
        {"delegate_task": ("", "interrupted")},
    ),
}


@pytest.fixture(params=MODELS)
def scene(request: pytest.FixtureRequest, house: Any) -> Any:
    made = Scene(house, request.param)
    yield made
    made.gate.set()


@pytest.mark.parametrize("moment", MOMENTS)
def test_B001_B102_a_stop_at_any_moment_answers_every_call_and_the_next_turn_works(
    scene: Scene, going: Any, moment: str
) -> None:
    script, until, told = MOMENTS[moment]
    scene.server.add(*script)
    turn = going(lambda: scene.agent.run("go"))
    assert until(scene)
    began = time.monotonic()
    scene.agent.interrupt()
    result = turn.result()
    assert time.monotonic() - began < SOON_S
    assert result.reason is EndReason.INTERRUPTED
    names = {c.id: c.name for m in result.messages for c in m.calls}
    results = {names[r.call_id]: r for m in result.messages for r in m.results}
    assert set(results) == set(told)
    for name, (status, words) in told.items():
        assert words in results[name].text, name
        assert results[name].status == (status or results[name].status)
        if status:
            assert name in results[name].text
    stored = scene.agent.store.open(result.session_id).load()
    assert (stored.info.end_reason, stored.messages) == ("interrupted", result.messages)
    scene.server.add(text("Here again."))
    assert scene.agent.run("and now?").answer == "Here again."
    assert scene.server.problems == []
    assert "came later" not in str(scene.server.requests[-1].body)


# ---- While something is recorded ------------------------------------------------------------------------------------


class Watched(MemoryStore):
    """A store in memory that tells before and after each Record."""

    tells: Callable[[str], None]

    def open(self, session_id: str) -> Any:
        log = super().open(session_id)
        record = log.record

        def watched(*args: Any, **more: Any) -> None:
            self.tells("before")
            record(*args, **more)
            self.tells("after")

        log.record = watched  # type: ignore[method-assign]
        return log


def test_a_stop_while_something_is_recorded_waits_for_the_record_and_loses_nothing(house: Any) -> None:
    stores: list[Watched] = []

    def open_store(settings: Any, home: Any) -> Watched:
        return stores[-1]

    house.plugin(
        "watched",
        group="hermes.stores",
        register_session_stores=lambda: [SimpleNamespace(name="watched", open_store=open_store)],
    )
    reasons: list[EndReason] = []
    while not reasons or reasons[-1] is not EndReason.COMPLETED or len(reasons) < 4:
        stores.append(Watched())
        house.server.play([call("todo", todos=[]), text("Done."), text("Here again."), text("Here again.")])
        agent = house.agent(sessions=SessionSettings(store="watched"))
        left = [len(reasons) + 1]

        def tells(_: str, agent: Any = agent, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                agent.interrupt()

        stores[-1].tells = tells
        result = agent.run("go")
        reasons.append(result.reason)
        assert result.stored
        assert stores[-1].open(result.session_id).load().messages == result.messages
        assert agent.run("and now?").reason in (EndReason.COMPLETED, EndReason.INTERRUPTED)
        assert house.server.problems == []
        agent.close()
    assert EndReason.INTERRUPTED in reasons
