"""A tool asks a model on the side: real agents, real tool plugins, the real wire format, a scripted server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from hermes import Image, Text, ToolContext, ToolError, ToolReturn, tool
from hermes.kernel.config.settings import (
    AuxiliarySettings,
    LimitSettings,
    ModelOptions,
    ProviderSettings,
    RequestSettings,
    SessionSettings,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.events import AttemptDropped, ModelCallEnded, ModelCallStarted, TextDelta
from hermes.kernel.replay import replay
from hermes.testing import ScriptedServer, call, fault, stall, text

CHEAP = {"auxiliary": AuxiliarySettings("scripted:small")}
STOPPED_WITHIN_S = 3.0
"""Ten times the goal of 300 ms (issue 2)."""
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PICTURE = Image("image/png", "aGk=")


@tool
def consult(context: ToolContext, question: str) -> str:
    """Ask another model."""
    return f"it said: {context.ask_model(question, system='Be terse.')}"


def tool_result(server: ScriptedServer) -> str:
    """What the main model was told of the one call."""
    return next(str(m["content"]) for m in server.requests[-1].messages if m["role"] == "tool")


def test_a_tool_asks_the_auxiliary_model_with_nothing_of_the_conversation(house) -> None:
    house.tools(consult)
    house.server.add(call("consult", question="2 + 2?"), text("four"), text("It is four."))
    assert house.agent(**CHEAP).run("my secret question").answer == "It is four."
    first, aside, last = house.server.requests
    assert [r.body["model"] for r in house.server.requests] == ["any", "small", "any"]
    assert [m["content"] for m in aside.messages] == ["Be terse.", "2 + 2?"]
    assert aside.tool_names == []
    assert tool_result(house.server) == "it said: four"
    assert b"my secret question" not in aside.raw
    assert first.raw.split(b'"content":"my secret question"')[0] == last.raw.split(b'"content":"my secret question"')[0]


def test_without_an_auxiliary_model_the_main_one_is_asked(house) -> None:
    house.tools(consult)
    house.server.add(call("consult", question="2 + 2?"), text("four"), text("It is four."))
    house.agent().run("go")
    assert [r.body["model"] for r in house.server.requests] == ["any"] * 3


def test_options_of_the_main_model_are_not_the_auxiliary_ones_and_no_model_is_asked_for_more_than_it_can(house) -> None:
    house.tools(consult)
    house.server.add(call("consult", question="2 + 2?"), text("four"), text("It is four."))
    models = {"any": {"output_tokens": 3000}, "small": {"output_tokens": 1000}}
    endpoint = ProviderSettings(base_url=house.server.base_url, api_key="k", models=models)
    options = ModelOptions(temperature=0.5, reasoning_effort="high", max_output_tokens=9000)
    house.agent(providers={"scripted": endpoint}, model_options=options, **CHEAP).run("go")
    main, aside, _ = (r.body for r in house.server.requests)
    assert (main["temperature"], main["reasoning_effort"], main["max_tokens"]) == (0.5, "high", 3000)
    assert (aside.get("temperature"), aside.get("reasoning_effort"), aside["max_tokens"]) == (None, None, 1000)


def test_it_is_seen_and_paid_for_and_none_of_its_words_are_streamed(house) -> None:
    house.tools(consult)
    house.server.add(call("consult", question="2 + 2?"), text("four"), text("It is four."))
    result = house.agent(**CHEAP).run("go")
    assert [(e.target, e.purpose) for e in house.seen(ModelCallStarted)] == [
        ("scripted:any", "turn"),
        ("scripted:small", "auxiliary"),
        ("scripted:any", "turn"),
    ]
    ended = house.seen(ModelCallEnded)
    assert [(e.target, e.purpose) for e in ended] == [(e.target, e.purpose) for e in house.seen(ModelCallStarted)]
    assert sum(e.usage.total_tokens for e in ended) == result.usage.total_tokens == 45
    assert "".join(e.text for e in house.seen(TextDelta)) == "It is four."


def test_hooks_see_the_purpose_of_each_call(house) -> None:
    seen: list[str] = []
    house.tools(consult)
    house.plugin("watch", before_model_call=lambda call: seen.append(call.purpose))
    house.server.add(call("consult", question="2 + 2?"), text("four"), text("It is four."))
    with house.agent() as agent:
        agent.run("go")
    assert seen == ["turn", "auxiliary", "turn"]


def test_when_the_auxiliary_model_fails_for_good_the_main_one_is_asked_once(house) -> None:
    house.tools(consult)
    broken = fault(500, "it broke")
    house.server.add(call("consult", question="2 + 2?"), broken, text("four"), text("Four."))
    house.agent(**CHEAP).run("go")
    assert [r.body["model"] for r in house.server.requests] == ["any", "small", "any", "any"]
    assert tool_result(house.server) == "it said: four"
    assert any("scripted:small failed" in line for line in house.notices("fallback"))

    house.server.add(call("consult", question="2 + 2?"), broken, broken, text("No idea."))
    result = house.agent(request=RequestSettings(attempts=1), **CHEAP).run("go")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "No idea.")
    assert "scripted:any: " in tool_result(house.server)
    assert "it broke" in tool_result(house.server)


def test_a_failed_auxiliary_call_leaves_no_target_and_drops_no_attempt(house) -> None:
    house.tools(consult)
    refused = fault(401, "no such key")
    house.server.add(call("consult", question="2 + 2?"), refused, refused, text("No idea."))
    agent = house.agent()
    agent.run("go")
    assert agent.store.open(agent.session_id or "").load().state == {}
    assert house.seen(AttemptDropped) == []


def test_with_a_schema_the_answer_is_json_that_fits_and_a_misfit_is_sent_back_once(house) -> None:
    answers: list[str] = []

    @tool
    def count(context: ToolContext) -> str:
        """Count."""
        answers.append(context.ask_model("how many?", schema=SCHEMA))
        return answers[-1]

    house.tools(count)
    house.server.add(call("count"), text('```json\n{"n": 7}\n```'), text("Seven."))
    house.agent().run("go")
    assert json.loads(answers[0]) == {"n": 7}

    house.server.add(call("count"), text("seven"), text('{"n": 8}'), text("Eight."))
    house.agent().run("go")
    assert json.loads(answers[1]) == {"n": 8}
    assert "does not fit" in str(house.server.requests[-2].last["content"])

    house.server.add(call("count"), fault(400, "no response_format here"), text('{"n": 9}'), text("Nine."))
    house.agent().run("go")
    assert json.loads(answers[2]) == {"n": 9}
    assert ["response_format" in r.body for r in house.server.requests[-3:-1]] == [True, False]
    assert json.dumps(SCHEMA) in str(house.server.requests[-2].last["content"])

    house.server.add(call("count"), text("seven"), text("eight"), text("No idea."))
    house.agent().run("go")
    assert "does not fit the schema" in tool_result(house.server)


def test_a_tool_shows_images_to_a_model_that_can_see_and_to_no_other(house) -> None:
    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        return context.ask_model("what is this?", images=[PICTURE])

    house.tools(look)
    house.server.add(call("look"), text("a bicycle"), text("A bicycle."))
    endpoint = ProviderSettings(
        base_url=house.server.base_url, api_key="k", models={"any": {"images": False}, "small": {"images": True}}
    )
    house.agent(providers={"scripted": endpoint}, **CHEAP).run("go")
    assert [part["type"] for part in house.server.requests[1].last["content"]] == ["text", "image_url"]
    assert house.server.requests[1].body["model"] == "small"

    house.server.add(call("look"), text("I see nothing."))
    house.agent(providers={"scripted": endpoint}).run("go")
    assert "auxiliary.model" in tool_result(house.server)


def test_an_image_that_a_tool_returns_is_left_out_for_a_model_that_cannot_see(house) -> None:
    @tool
    def shoot() -> ToolReturn:
        """Take a picture."""
        return ToolReturn((Text("done"), PICTURE))

    house.tools(shoot)
    house.server.add(call("shoot"), text("I cannot see it."))
    endpoint = ProviderSettings(base_url=house.server.base_url, api_key="k", models={"any": {"images": False}})
    house.agent(providers={"scripted": endpoint}).run("go")
    assert "cannot be shown" in tool_result(house.server)
    assert b"aGk=" not in house.server.requests[1].raw


def test_the_budget_is_the_runs_own(house) -> None:
    house.tools(consult)
    house.server.add(call("consult", question="2 + 2?"), text("This far."))
    result = house.agent(limits=LimitSettings(max_tokens=12), **CHEAP).run("go")
    assert result.reason is EndReason.BUDGET_TOKENS
    assert len(house.server.requests) == 2, "the auxiliary call was paid for over the limit"


def test_an_interrupt_stops_it(house, going: Callable[..., Any]) -> None:
    house.tools(consult)
    house.server.add(call("consult", question="2 + 2?"), stall(1))
    agent = house.agent(**CHEAP)
    running = going(lambda: agent.run("go"))
    house.server.wait_for_requests(2)
    began = time.monotonic()
    agent.interrupt()
    assert running.result().reason is EndReason.INTERRUPTED
    assert time.monotonic() - began < STOPPED_WITHIN_S
    assert house.server.requests[1].gone.wait(STOPPED_WITHIN_S), "the auxiliary call went on"


def test_the_deadline_of_the_tool_holds(house) -> None:
    slow = tool(deadline_s=0.3)(consult.run)
    house.tools(slow)
    house.server.add(call("consult", question="2 + 2?"), stall(1), text("It took too long."))
    assert house.agent(**CHEAP).run("go").answer == "It took too long."
    assert house.server.requests[1].gone.wait(STOPPED_WITHIN_S), "the auxiliary call went on"
    assert "did not end within its deadline" in tool_result(house.server)


def test_several_tools_may_ask_at_once_each_for_its_own_answer(house) -> None:
    @tool(reads="thing:{name}")
    def about(context: ToolContext, name: str) -> str:
        """Ask about something."""
        return context.ask_model(f"about {name}")

    house.tools(about)
    names = [f"thing{n}" for n in range(6)]
    first = [call("about", name=name).calls[0] for name in names]

    def script(request: Any) -> Any:
        if request.last["role"] == "tool":
            return text("All done.")
        said = str(request.last["content"])
        return text(f"told {said}") if said.startswith("about ") else call("about", name="x").but(calls=tuple(first))

    with ScriptedServer(script) as server:
        endpoint = ProviderSettings(base_url=server.base_url, api_key="k")
        result = house.agent(providers={"scripted": endpoint}).run("go")
        assert result.answer == "All done."
        told = [str(m["content"]) for m in server.requests[-1].messages if m["role"] == "tool"]
    assert told == [f"told about {name}" for name in names]
    assert result.usage.total_tokens == sum(e.usage.total_tokens for e in house.seen(ModelCallEnded))


@pytest.mark.parametrize("arguments", [{"prompt": " "}, {"prompt": "x", "schema": {"type": "objct"}}])
def test_what_cannot_be_asked_is_the_tools_error(house, arguments: dict[str, Any]) -> None:
    @tool
    def ask(context: ToolContext) -> str:
        """Ask."""
        return context.ask_model(**arguments)

    house.tools(ask)
    house.server.add(call("ask"), text("ok"))
    assert house.agent().run("go").reason is EndReason.COMPLETED
    assert len(house.server.requests) == 2
    assert tool_result(house.server)


def test_an_authors_test_says_what_the_model_answers_and_then_there_is_none(run_tool) -> None:
    run_tool.replies.append("four")
    assert run_tool(consult, question="2 + 2?").text == "it said: four"
    assert run_tool.prompts == ["2 + 2?"]
    assert not run_tool(consult, question="2 + 2?").ok
    with pytest.raises(ToolError, match="no model"):
        run_tool.context().ask_model("hello?")


def test_a_turn_with_images_described_for_it_is_replayed_without_any_call(house) -> None:
    endpoint = ProviderSettings(
        base_url=house.server.base_url, api_key="k", models={"any": {"images": False}, "small": {"images": True}}
    )
    house.server.add(text("A red bicycle."), text("It is a bicycle."))
    agent = house.agent(providers={"scripted": endpoint}, sessions=SessionSettings(outcomes=True), **CHEAP)
    result = agent.run("what is this?", [PICTURE])
    described, asked = house.server.requests
    assert (described.body["model"], asked.body["model"]) == ("small", "any")
    assert "A red bicycle." in str(asked.last["content"])
    assert b"aGk=" in described.raw
    assert b"aGk=" not in asked.raw
    again = replay(agent.store.open(result.session_id), result.turn)
    assert (again.answer, again.messages, again.usage) == (result.answer, result.messages, result.usage)
    assert len(house.server.requests) == 2
