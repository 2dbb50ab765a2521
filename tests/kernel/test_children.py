"""Delegated children: a turn each in a session of its own, side by side, with the parent's budget and interrupt."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from hermes import ToolContext, tool
from hermes.kernel.config.settings import DelegateSettings, LimitSettings, ProviderSettings
from hermes.kernel.effects import Append, CallOpinion
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import StoreError
from hermes.kernel.events import ToolStarted, TurnFinished
from hermes.kernel.messages import Message, Text, ToolCall, Usage
from hermes.testing import Reply, ScriptedServer, call, fault, stall, text

PATIENCE_S = 20.0
STOPPED_WITHIN_S = 3.0
"""Ten times the goal of 300 ms (issue 2)."""

ONE = call("delegate_task", goal="count the files", context="in src")
THREE = call("delegate_task", tasks=[{"goal": f"task {n}"} for n in "abc"])


def told(house: Any) -> dict[str, Any]:
    """What the parent's model read of its children."""
    [content] = [m["content"] for m in house.server.requests[-1].messages if m["role"] == "tool"]
    answer: dict[str, Any] = json.JSONDecoder().raw_decode(content)[0]  # a note of the kernel may follow
    return answer


def test_one_child_does_its_task_in_a_session_of_its_own(house) -> None:
    house.server.add(ONE, call("todo", todos=[]), text("Seven files."), text("There are seven."))
    agent = house.agent()
    result = agent.run("how many?")
    assert (result.answer, result.iterations, result.stored) == ("There are seven.", 2, True)
    [row] = told(house)["results"]
    assert (row["status"], row["summary"], row["iterations"]) == ("completed", "Seven files.", 2)
    [child] = agent.store.children(result.session_id)
    assert (child.id, child.source, child.parent_call, child.end_reason) == (
        row["session"], "child", "call_1", "completed",
    )  # fmt: skip
    first = house.server.requests[1]
    assert first.last["content"] == "count the files\n\nContext:\nin src"
    assert "how many?" not in json.dumps(first.body)
    assert "another agent" in first.system
    assert not {"delegate_task", "clarify", "memory"} & set(first.tool_names)
    assert agent.store.open(result.session_id).calls(["call_1"])["call_1"].child == child.id
    assert agent.store.list() == [agent.store.info(result.session_id)]


def test_what_a_child_costs_is_the_parents_too(house) -> None:
    house.server.add(ONE, text("Seven."), text("There are seven."))
    agent = house.agent()
    result = agent.run("go")
    assert result.usage.total_tokens == 45
    assert agent.services.ledger.used.total_tokens == 45
    assert told(house)["results"][0]["tokens"] == {"input": 10, "output": 5}


def test_three_children_run_beside_each_other(house) -> None:
    together = threading.Barrier(3)

    def script(request: Any) -> Reply:
        content = str(request.last["content"])
        if request.last["role"] == "tool":
            return text("All three are done.")
        if content == "go":
            return THREE
        together.wait(PATIENCE_S)
        return text(f"did {content}")

    with ScriptedServer(script) as server:
        provider = ProviderSettings(base_url=server.base_url, api_key="k")
        agent = house.agent(providers={"scripted": provider})
        result = agent.run("go")
        house.server = server
        rows = told(house)["results"]
    assert result.answer == "All three are done."
    assert [row["summary"] for row in rows] == ["did task a", "did task b", "did task c"]
    assert {child.id for child in agent.store.children(result.session_id)} == {row["session"] for row in rows}
    assert server.problems == []


def test_events_of_a_child_bear_its_session(house) -> None:
    house.server.add(ONE, call("todo", todos=[]), text("Seven."), text("ok"))
    agent = house.agent()
    result = agent.run("go")
    [child] = agent.store.children(result.session_id)
    assert [(e.name, e.session) for e in house.seen(ToolStarted)] == [
        ("delegate_task", result.session_id),
        ("todo", child.id),
    ]
    assert [e.session for e in house.seen(TurnFinished)] == [child.id, result.session_id]


def test_children_of_children_need_a_deeper_limit(house) -> None:
    house.server.add(ONE, ONE, text("Deep."), text("Less deep."), text("Top."))
    agent = house.agent(delegate=DelegateSettings(max_depth=2))
    result = agent.run("go")
    assert result.answer == "Top."
    [child] = agent.store.children(result.session_id)
    [grandchild] = agent.store.children(child.id)
    assert grandchild.end_reason == "completed"
    names = [set(r.tool_names) for r in house.server.requests]
    assert ["delegate_task" in n for n in names] == [True, True, False, True, True]


def test_no_depth_no_tool(house) -> None:
    house.server.add(text("ok"))
    house.agent(delegate=DelegateSettings(max_depth=0)).run("go")
    assert "delegate_task" not in house.server.requests[0].tool_names


def test_a_child_has_iterations_of_its_own(house) -> None:
    house.server.add(ONE, call("todo", todos=[]), text("This far."), text("ok"))
    result = house.agent(delegate=DelegateSettings(iterations=1), limits=LimitSettings(iterations=5)).run("go")
    [row] = told(house)["results"]
    assert (row["status"], row["reason"], row["summary"]) == ("out_of_budget", "budget_iterations", "This far.")
    assert result.reason is EndReason.COMPLETED


def test_parent_and_children_share_one_budget(house) -> None:
    house.server.add(ONE, call("todo", todos=[]).but(usage=Usage(900, 200)), text("This far."), text("It ran out."))
    result = house.agent(limits=LimitSettings(max_tokens=1000)).run("go")
    [row] = told(house)["results"]
    assert (row["reason"], result.reason, result.answer) == ("budget_tokens", EndReason.BUDGET_TOKENS, "It ran out.")


def test_a_child_that_fails_is_told_and_the_parent_goes_on(house) -> None:
    house.server.add(ONE, fault(401, "bad key"), text("It failed."))
    agent = house.agent()
    result = agent.run("go")
    [row] = told(house)["results"]
    assert (row["status"], row["reason"], result.answer) == ("failed", "auth", "It failed.")
    assert agent.store.children(result.session_id)[0].end_reason == "auth"


def test_a_child_whose_session_cannot_be_opened_is_told_as_failed(house, monkeypatch: pytest.MonkeyPatch) -> None:
    house.server.add(ONE, text("It failed."))
    agent = house.agent()
    agent.begin()
    real = agent.store.open

    def broken(session_id: str) -> Any:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(agent.store, "open", broken)
    result = agent.run("go")
    monkeypatch.setattr(agent.store, "open", real)
    [row] = told(house)["results"]
    assert (row["status"], row["reason"], result.answer) == ("failed", "store_failed", "It failed.")


def test_a_child_can_ask_nobody(house) -> None:
    class Person:
        def question(self, words: str, choices: Any) -> str | None:
            raise AssertionError

        def approve(self, request: Any) -> Any:
            raise AssertionError

    house.plugin("guard", decide_tool_call=lambda call: CallOpinion("ask", "hm") if call.name == "todo" else None)
    house.server.add(ONE, call("todo", todos=[]), text("I may not."), text("ok"))
    agent = house.agent(ask=Person())
    assert agent.run("go").answer == "ok"
    assert "nobody can be asked" in str(house.server.requests[2].last["content"])


def test_observers_see_children_begin_and_end(house) -> None:
    seen: list[Any] = []
    house.plugin("watch", before_delegate=lambda delegate: seen.append(delegate))
    house.plugin("watch2", after_delegate=lambda delegate: seen.append(delegate))
    house.server.add(ONE, text("Seven."), text("ok"))
    agent = house.agent()
    result = agent.run("go")
    agent.close()
    before, after = sorted(seen, key=lambda d: d.reason)
    assert (before.session, before.call_id, before.goal, before.reason) == (
        result.session_id, "call_1", "count the files", "",
    )  # fmt: skip
    assert (after.child, after.reason, after.usage.total_tokens) == (before.child, "completed", 15)


# ---- Stopped --------------------------------------------------------------------------------------------------------


def stop(agent: Any, turn: Any) -> Any:
    began = time.monotonic()
    agent.interrupt(EndReason.TERMINATED)
    result = turn.result()
    assert time.monotonic() - began < STOPPED_WITHIN_S
    assert result.reason is EndReason.TERMINATED
    return result


def test_B102_a_message_during_a_child_reaches_the_parent_and_lets_the_child_finish(house, going) -> None:
    house.server.add(ONE, text("Seven files.").but(hold_after=1), text("Seven, and I mind the gap."))
    agent = house.agent()
    turn = going(lambda: agent.run("how many?"))
    house.server.wait_for_requests(2)
    agent.steer("mind the gap")
    house.server.release()
    result = turn.result()
    assert (result.reason, result.answer, result.steering) == ("completed", "Seven, and I mind the gap.", ())
    [row] = told(house)["results"]
    assert (row["status"], row["summary"]) == ("completed", "Seven files.")
    child, parent = house.server.requests[1:]
    assert "mind the gap" in parent.raw.decode()
    assert "mind the gap" not in child.raw.decode()


def test_B102_an_interrupt_reaches_a_child_in_its_stream(house, going) -> None:
    house.server.add(ONE, stall(3, "so far so good"))
    agent = house.agent()
    turn = going(lambda: agent.run("go"))
    house.server.wait_for_requests(2)
    result = stop(agent, turn)
    [child] = agent.store.children(result.session_id)
    assert child.end_reason == "terminated"
    assert house.server.requests[1].gone.wait(PATIENCE_S)
    [told] = result.messages[-2].results
    assert child.id in told.text
    assert "interrupted" in told.text


def test_B102_an_interrupt_reaches_three_children_in_their_tools(house, going) -> None:
    inside = threading.Semaphore(0)

    @tool(reads="nothing")
    def listen(context: ToolContext) -> str:
        inside.release()
        context.cancelled.wait(PATIENCE_S)
        return "stopped"

    house.tools(listen)
    house.server.add(THREE, *(call("listen") for _ in range(3)))
    agent = house.agent()
    turn = going(lambda: agent.run("go"))
    for _ in range(3):
        assert inside.acquire(timeout=PATIENCE_S)
    result = stop(agent, turn)
    assert [c.end_reason for c in agent.store.children(result.session_id)] == ["terminated"] * 3


def test_a_child_with_a_deaf_tool_is_closed_before_its_parent_stops_waiting(house, going) -> None:
    begun, gate = threading.Event(), threading.Event()

    @tool
    def deaf() -> str:
        begun.set()
        gate.wait(PATIENCE_S)
        return "late"

    house.tools(deaf)
    house.server.add(ONE, call("deaf"))
    agent = house.agent()
    turn = going(lambda: agent.run("go"))
    assert begun.wait(PATIENCE_S)
    result = stop(agent, turn)
    finished = [e for e in house.seen(TurnFinished) if e.session != result.session_id]
    gate.set()
    assert [e.reason for e in finished] in (["terminated"], [])  # a slow machine may leave it behind
    house.server.add(text("Here again."))
    assert agent.run("and now?").answer == "Here again."


# ---- After a crash --------------------------------------------------------------------------------------------------


def test_children_that_a_crash_left_open_are_closed_and_named_on_resume(house) -> None:
    agent = house.agent()
    store = agent.store
    where = {"directory": str(house.work), "model": "scripted:any"}
    parent = store.create(**where)
    log = store.open(parent)
    turn = log.begin_turn({})
    delegate = ToolCall("call_1", "delegate_task", {"goal": "x"})
    log.record(
        turn, [Append((Message("user", (Text("go"),)), Message("assistant", (delegate,))))], iterations=1, attempts=1
    )
    log.start_calls(turn, [delegate])
    child = store.create(**where, source="child", parent=parent, parent_call="call_1")
    log.link_child("call_1", child)
    own = store.open(child)
    own_turn = own.begin_turn({})
    inner = ToolCall("call_9", "read_file", {"path": "a"})
    own.record(
        own_turn, [Append((Message("user", (Text("x"),)), Message("assistant", (inner,))))], iterations=1, attempts=1
    )
    own.start_calls(own_turn, [inner])

    house.server.add(text("I shall look again."))
    result = agent.resume(parent)
    assert (result.answer, result.turn) == ("I shall look again.", turn)
    [outcome] = result.messages[2].results
    assert outcome.status == "unknown"
    assert child in outcome.text
    closed = own.load()
    assert (store.info(child).end_reason, closed.open_turn) == ("crashed", None)
    assert [m.role for m in closed.messages] == ["user", "assistant", "tool", "assistant"]
    assert closed.messages[2].results[0].status == "unknown"
    assert len(house.server.requests) == 1
