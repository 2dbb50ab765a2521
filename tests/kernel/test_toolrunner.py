"""Tool calls through hooks and approval: who may block, who is asked, what the model is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hermes import Tool, ToolReturn, tool
from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import ApprovalRule, ApprovalSettings, ToolSettings
from hermes.kernel.effects import Append, CallOpinion
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import StopRun, ToolError
from hermes.kernel.events import ToolEnded, ToolStarted
from hermes.kernel.messages import Message, Text, ToolCall
from hermes.kernel.roles import Finding
from hermes.testing import Call, call, calls, text


class Person:
    """Gives these answers in turn, and keeps the questions."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []

    def question(self, words: str, choices: Any) -> str | None:
        return None

    def approve(self, request: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Acting:
    """A tool `act(what)` that remembers what it did; `answer()` is what the model was told last."""

    def __init__(self, house: Any) -> None:
        self.house, self.did = house, []
        house.tools(self.tool())

    def tool(self) -> Tool:
        @tool
        def act(what: str = "thing") -> str:
            self.did.append(what)
            return f"did {what}"

        return act

    def told(self) -> list[str]:
        return [m["content"] for m in self.house.server.requests[-1].messages if m["role"] == "tool"]


@pytest.fixture
def acting(house) -> Acting:
    return Acting(house)


def asks(house: Any, reason: str = "it acts") -> None:
    house.plugin("guard", decide_tool_call=lambda call: CallOpinion("ask", reason) if call.name == "act" else None)


def stops(*_: Any) -> Any:
    raise StopRun("the plugin had enough")


# ---- Around ---------------------------------------------------------------------------------------------------------


def test_a_wrapper_may_change_arguments_and_result(house, acting: Acting) -> None:
    def around(call: ToolCall, proceed: Callable[[ToolCall], ToolReturn]) -> ToolReturn:
        given = proceed(replace(call, arguments={"what": "something else"}))
        return replace(given, parts=(Text("[seen] " + given.parts[0].text),))

    house.plugin("wrap", around_tool_call=around)
    house.server.add(call("act", what="this"), text("ok"))
    house.agent().run("go")
    assert acting.did == ["something else"]
    assert acting.told() == ["[seen] did something else"]


def test_a_wrapper_may_answer_without_running_the_tool(house, acting: Acting) -> None:
    house.plugin("cache", around_tool_call=lambda call, proceed: ToolReturn("from memory"))
    house.server.add(call("act"), text("ok"))
    house.agent().run("go")
    assert (acting.did, acting.told()) == ([], ["from memory"])


@pytest.mark.parametrize("given", [None, "text", ToolReturn(7), ToolReturn((Text("  \ud800"),)), ToolReturn(())])  # type: ignore[arg-type]
def test_whatever_a_wrapper_gives_the_turn_goes_on(house, acting: Acting, given: Any) -> None:
    house.plugin("odd", around_tool_call=lambda call, proceed: given)
    house.server.add(call("act"), text("ok"))
    result = house.agent().run("go")
    assert (result.reason, result.answer, result.stored) == (EndReason.COMPLETED, "ok", True)
    assert len(acting.told()) == 1


def test_a_wrapper_that_raises_is_an_error_with_its_name_and_the_tool_error_of_a_tool_passes(house) -> None:
    @tool
    def fail() -> str:
        raise ToolError("no such thing; try another")

    def around(call: ToolCall, proceed: Callable[[ToolCall], ToolReturn]) -> ToolReturn:
        if call.name == "todo":
            raise ValueError("wrapper broke")
        return proceed(call)

    house.tools(fail)
    house.plugin("wrap", around_tool_call=around)
    house.server.add(calls(Call("fail"), Call("todo", {"todos": []})), text("ok"))
    house.agent().run("go")
    told = [m["content"] for m in house.server.requests[-1].messages if m["role"] == "tool"]
    assert told[0] == "no such thing; try another"
    assert "wrap" in told[1]
    assert "wrapper broke" in told[1]


# ---- decide_tool_call -----------------------------------------------------------------------------------------------


def test_a_hook_may_block_a_call_with_a_reason_that_the_model_reads(house, acting: Acting) -> None:
    house.plugin("block", decide_tool_call=lambda call: CallOpinion("block", "not on a Sunday"))
    house.plugin("shy", decide_tool_call=lambda call: None)
    house.server.add(call("act"), text("ok"))
    person = Person()
    agent = house.agent(ask=person)
    result = agent.run("go")
    assert (acting.did, person.asked) == ([], [])
    assert "not on a Sunday" in acting.told()[0]
    assert result.messages[2].results[0].status == "blocked"
    assert house.seen(ToolStarted) == []
    assert len(house.notices("denied")) == 1


def test_a_hook_that_fails_counts_as_ask_and_where_nobody_can_be_asked_as_deny(house, acting: Acting) -> None:
    def broken(call: Any) -> Any:
        raise ValueError("guard broke")

    house.plugin("guard", decide_tool_call=broken)
    house.server.add(call("act"), text("ok"), call("act"), text("ok"), call("act"), text("ok"))
    nobody = house.agent()
    nobody.run("go")
    assert acting.did == []
    assert "guard" in acting.told()[0]
    nobody.run("again")
    nobody.run("benched by now, and the door stays shut")
    assert acting.did == []


def test_a_tool_that_cannot_judge_its_own_call_asks(house) -> None:
    did: list[int] = []

    def assess(arguments: Any, context: Any) -> Any:
        raise RuntimeError("no idea")

    house.tools(replace(tool(name="act", parameters={"type": "object"})(lambda: did.append(1) or "x"), assess=assess))
    person = Person("deny")
    house.server.add(call("act"), text("ok"))
    house.agent(ask=person).run("go")
    assert did == []
    assert "no idea" in person.asked[0].reason


def test_the_hard_line_of_a_tool_is_asked_of_nobody(house) -> None:
    did: list[int] = []
    never = Finding("it ends the world", hard_line=True)
    house.tools(
        replace(tool(name="act", parameters={"type": "object"})(lambda: did.append(1)), assess=lambda a, c: never)
    )
    house.plugin("yes", decide_approval=lambda request: "once")
    person = Person()
    house.server.add(call("act"), text("ok"))
    house.agent(ask=person, approval=ApprovalSettings(mode="allow", rules=(ApprovalRule("allow"),))).run("go")
    assert (did, person.asked) == ([], [])


# ---- Approval -------------------------------------------------------------------------------------------------------


def test_B101_nobody_to_ask_means_no_and_the_model_reads_why(house, acting: Acting) -> None:
    asks(house, "it costs money")
    house.server.add(call("act"), text("ok"))
    assert house.agent().run("go").reason is EndReason.COMPLETED
    assert acting.did == []
    assert "it costs money" in acting.told()[0]
    assert "nobody can be asked" in acting.told()[0]


def test_once_is_once(house, acting: Acting) -> None:
    asks(house)
    person = Person("once", "deny")
    house.server.add(call("act", what="a"), call("act", what="b"), text("ok"))
    house.agent(ask=person).run("go")
    assert acting.did == ["a"]
    assert [r.call.arguments for r in person.asked] == [{"what": "a"}, {"what": "b"}]
    assert person.asked[0].reason == "it acts"
    assert "did not allow" in acting.told()[-1]


def test_for_the_session_is_remembered_in_it_after_a_resume_too_and_not_in_another(house, acting: Acting) -> None:
    asks(house)
    person = Person("session", "deny")
    replies = [call("act", what="a"), call("act", what="b"), text("ok"), call("act", what="c"), text("ok")]
    house.server.add(*replies, call("act", what="d"), text("ok"))
    first = house.agent(ask=person)
    session = first.run("go").session_id
    first.close()
    second = house.agent(ask=person)
    second.attach(session)
    second.run("more")
    assert acting.did == ["a", "b", "c"]
    assert len(person.asked) == 1
    second.begin()
    second.run("anew")
    assert acting.did == ["a", "b", "c"]
    assert len(person.asked) == 2


def test_always_holds_in_this_run_and_is_kept_as_a_rule_of_the_user(house, acting: Acting) -> None:
    asks(house)
    person = Person("always", "deny")
    house.server.add(call("act", what="a"), call("act", what="a"), text("ok"))
    house.agent(ask=person).run("go")
    assert acting.did == ["a", "a"]
    assert len(person.asked) == 1
    kept = (house.home / "hermes.yaml").read_text(encoding="utf-8")
    assert "allow" in kept
    assert "act" in kept


def test_always_that_cannot_be_kept_holds_for_the_run_and_says_so(house, acting: Acting) -> None:
    (house.home / "hermes.yaml").mkdir()
    asks(house)
    person = Person("always")
    house.server.add(call("act", what="a"), call("act", what="a"), text("ok"))
    house.agent(ask=person).run("go")
    assert acting.did == ["a", "a"]
    assert len(house.notices("warning")) == 1


def test_a_person_whose_side_breaks_ends_the_turn_and_runs_nothing(house, acting: Acting) -> None:
    asks(house)
    house.server.add(call("act"))
    agent = house.agent(ask=Person(OSError("the terminal is gone")))
    result = agent.run("go")
    assert result.reason is EndReason.INTERNAL
    assert "the terminal is gone" in result.detail
    assert acting.did == []
    assert agent.store.info(result.session_id).end_reason == "internal"


@pytest.mark.parametrize(
    ("answers", "did", "asked"),
    [
        (["once"], ["a"], 0),
        (["session"], ["a"], 0),
        (["deny"], [], 0),
        (["once", "deny"], [], 0),
        (["session", None], ["a"], 0),
        ([None], ["a"], 1),
        ([ValueError("broken")], ["a"], 1),
    ],
)
def test_a_hook_may_answer_for_the_person_and_the_strictest_wins(
    house, acting: Acting, answers: list[Any], did: list[str], asked: int
) -> None:
    def answering(answer: Any) -> Callable[[Any], Any]:
        def decide(request: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return decide

    asks(house)
    for number, answer in enumerate(answers):
        house.plugin(f"p{number}", decide_approval=answering(answer))
    person = Person("once")
    house.server.add(call("act", what="a"), text("ok"))
    house.agent(ask=person).run("go")
    assert (acting.did, len(person.asked)) == (did, asked)


def test_a_rule_of_the_settings_allows_without_a_question(house, acting: Acting) -> None:
    asks(house)
    house.server.add(call("act"), text("ok"))
    house.agent(approval=ApprovalSettings(rules=(ApprovalRule("allow", "act"),))).run("go")
    assert acting.did == ["thing"]


def test_calls_that_nobody_had_to_ask_about_run_beside_a_denied_one(house, acting: Acting) -> None:
    asks(house)
    house.server.add(calls(Call("act"), Call("todo", {"todos": []})), text("ok"))
    house.agent().run("go")
    assert [e.name for e in house.seen(ToolEnded)] == ["todo"]
    assert len(acting.told()) == 2


# ---- StopRun --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["decide_tool_call", "decide_approval", "around_tool_call", "the tool"])
def test_a_stop_on_purpose_ends_the_turn_and_leaves_a_whole_conversation(house, hook: str) -> None:
    def act() -> str:
        return stops() if hook == "the tool" else "did"

    house.tools(tool(act))
    hooks: dict[str, Any] = {
        "decide_tool_call": lambda call: stops(),
        "decide_approval": lambda request: stops(),
        "around_tool_call": lambda call, proceed: stops(),
    }
    if hook == "decide_approval":
        house.plugin("ask", decide_tool_call=lambda call: CallOpinion("ask", "hm"))
    if hook in hooks:
        house.plugin("stop", **{hook: hooks[hook]})
    house.server.add(call("act"), text("Next."))
    agent = house.agent()
    result = agent.run("go")
    assert (result.reason, result.detail) == (EndReason.INTERRUPTED, "the plugin had enough")
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert agent.store.info(result.session_id).end_reason == "interrupted"


def test_a_stop_before_some_calls_keeps_what_the_journal_has_of_the_others(house, acting: Acting) -> None:
    house.plugin("stop", decide_tool_call=lambda call: stops())
    agent = house.agent()
    session = crashed_after_one(agent, house)
    result = agent.resume(session)
    assert result.reason is EndReason.INTERRUPTED
    first, second = result.messages[2].results
    assert (first.status, first.text) == ("ok", "what it did")
    assert (second.status, acting.did) == ("cancelled", [])


def crashed_after_one(agent: Agent, house: Any) -> str:
    """A session whose process died when the first of two calls had ended and the second had not begun."""
    from hermes.kernel.messages import ToolResult

    session = agent.store.create(directory=str(house.work), model="scripted:any")
    log = agent.store.open(session)
    turn = log.begin_turn({})
    first, second = ToolCall("one", "act", {"what": "a"}), ToolCall("two", "act", {"what": "b"})
    messages = (Message("user", (Text("go"),)), Message("assistant", (first, second)))
    log.record(turn, [Append(messages)], iterations=1, attempts=1)
    log.start_calls(turn, [first])
    log.finish_call(ToolResult("one", "ok", (Text("what it did"),)))
    return session


# ---- Observers ------------------------------------------------------------------------------------------------------


def test_observers_see_calls_begin_and_end(house, acting: Acting) -> None:
    seen: list[tuple[str, Any]] = []
    house.plugin(
        "watch",
        before_tool_call=lambda call: seen.append(("before", call)),
        after_tool_call=lambda call: seen.append(("after", call)),
    )
    house.server.add(call("act", what="ü"), text("ok"))
    agent = house.agent()
    result = agent.run("go")
    agent.close()
    [(_, before), (_, after)] = seen
    assert (before.name, before.arguments, before.status) == ("act", {"what": "ü"}, "")
    assert (after.session, after.call_id, after.status, after.result_bytes) == (result.session_id, "call_1", "ok", 6)


def test_a_tool_that_is_turned_off_is_not_offered(house, acting: Acting) -> None:
    house.server.add(text("ok"))
    house.agent(tools=ToolSettings(toolsets=("installed",), disable=("act", "todo"))).run("go")
    assert not {"act", "todo", "read_file"} & set(house.server.requests[0].tool_names)
