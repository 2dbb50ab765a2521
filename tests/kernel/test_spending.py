"""What a run cost is what the server counted: children, calls on the side and dropped attempts included."""

from __future__ import annotations

from typing import Any

import pytest

from hermes import ToolContext, tool
from hermes.kernel.cli.tally import Tally
from hermes.kernel.config.settings import AuxiliarySettings, RequestSettings
from hermes.kernel.messages import Usage
from hermes.testing import Call, calls, cut, text


@tool
def consult(question: str, *, context: ToolContext) -> str:
    return context.ask_model(question)


BILLS = (Usage(1000, 100, 400, 20), Usage(30, 3), Usage(7, 1), Usage(2000, 50, 1400, 0, 9))


def test_B128_a_run_with_a_child_and_a_call_on_the_side_costs_what_the_server_counted(house: Any) -> None:
    house.tools(consult)
    both = calls(Call("delegate_task", {"goal": "count"}), Call("consult", {"question": "why?"}))
    said = (both, text("Seven."), text("Because."), text("All done."))
    house.server.add(*(reply.but(usage=usage) for reply, usage in zip(said, BILLS, strict=True)))
    tally = Tally()
    agent = house.agent(
        auxiliary=AuxiliarySettings("scripted:small"),
        on_event=tally.on_event,
    )
    result = agent.run("go")
    assert result.answer == "All done."
    counted = sum(BILLS, Usage())
    assert result.usage.total_tokens == counted.total_tokens
    assert result.usage.cache_read_tokens == counted.cache_read_tokens
    rows = {(row["model"], row["purpose"]): row for row in tally.rows()}
    assert sum(row["calls"] for row in rows.values()) == len(house.server.requests) == 4
    assert sum(row["total_tokens"] for row in rows.values()) == counted.total_tokens
    [small] = [row for (model, _), row in rows.items() if model == "scripted:small"]
    assert small["calls"] == 1


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": None, "completion_tokens": None}, {"prompt_tokens": "9", "completion_tokens": "3"}],
)
def test_B128_usage_that_is_missing_or_odd_ends_nothing_and_is_never_a_cost_of_zero(house: Any, usage: Any) -> None:
    body = {"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}], "usage": usage}
    house.server.add(text("").but(body=body))
    result = house.agent().run("go")
    assert result.answer == "Done."
    assert result.usage.cost_usd is None
    assert result.usage.total_tokens in (0, 12)


def test_B128_an_attempt_that_was_dropped_and_one_that_took_its_place_are_two_calls(house: Any) -> None:
    house.server.add(cut(2), text("Done.").but(usage=Usage(5, 2)))
    tally = Tally()
    result = house.agent(request=RequestSettings(attempts=2), on_event=tally.on_event).run("go")
    assert (result.answer, result.usage.total_tokens) == ("Done.", 7)
    assert [row["calls"] for row in tally.rows()] == [2]
