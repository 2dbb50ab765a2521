"""A conversation that becomes too long: what an engine may do with it, and what it may never take away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from driving import Driven, Scripted, asks, call, done, drive, fresh, reply, said, told, user

from hermes.kernel.effects import Fault, FaultKind, Rewrite
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Message, ToolCall

FULL = Fault(FaultKind.CONTEXT_OVERFLOW, "prompt is too long")
ACTED = reply(call("write", "new"))
DONE = reply("It is done.")
OLD = call("write", "old")
LONG = (user("long " * 100), asks(OLD), told(done(OLD, "written " * 100)), said("done " * 100))
"""An earlier turn, with a call and its result."""

Engine = Callable[[dict[str, Any]], Sequence[Message] | None]


def overflowing(engine: Engine, *replies: Scripted) -> Driven:
    """A turn in which these replies come, an overflow among them."""
    return drive(fresh(*LONG), "go on", replies=replies, consult={"compression": [engine]})


def summary_of(facts: dict[str, Any], kept: int) -> list[Message]:
    return [user("summary of it all", "summary"), *facts["messages"][len(facts["messages"]) - kept :]]


def rewrites(driven: Driven) -> list[Rewrite]:
    return [c for e in driven.effects for c in getattr(e, "changes", ()) if isinstance(c, Rewrite)]


def test_B041_the_calls_of_an_open_batch_survive_a_compression_with_their_results_and_run_once() -> None:
    driven = overflowing(lambda facts: summary_of(facts, 2), ACTED, FULL, DONE)
    assert (driven.result.answer, [c.id for c in driven.ran]) == ("It is done.", ["new"])
    assert [m.role for m in driven.requests[-1].request.messages] == ["user", "assistant", "tool"]
    assert [r.call_id for r in driven.requests[-1].request.messages[-1].results] == ["new"]


@pytest.mark.parametrize(
    "engine",
    [
        lambda facts: [user("summary of it all", "summary")],
        lambda facts: [user("summary", "summary"), asks(OLD), told(done(OLD))],
    ],
    ids=["takes them away", "gives others"],
)
def test_B041_an_engine_that_takes_away_results_that_no_model_has_seen_is_not_followed(engine: Engine) -> None:
    driven = overflowing(engine, ACTED, FULL)
    assert (driven.result.reason, rewrites(driven)) == (EndReason.CONTEXT_FULL, [])
    assert [c.id for c in driven.ran] == ["new"]
    assert "write gave new" in "\n".join(driven.texts)


def _without_results(facts: dict[str, Any]) -> list[Message]:
    return [m for m in facts["messages"] if m.role != "tool"]


def _without_calls(facts: dict[str, Any]) -> list[Message]:
    return [m for m in facts["messages"] if not m.calls]


def _other_ids(facts: dict[str, Any]) -> list[Message]:
    renamed = ToolCall("other", OLD.name, OLD.arguments)
    return [user("long"), asks(renamed), told(done(OLD)), said("done"), facts["messages"][-1]]


@pytest.mark.parametrize("engine", [_without_results, _without_calls, _other_ids])
def test_B040_a_compression_that_parts_calls_and_results_is_not_followed(engine: Engine) -> None:
    driven = overflowing(engine, FULL)
    assert (driven.result.reason, rewrites(driven)) == (EndReason.CONTEXT_FULL, [])
    assert driven.disk[: len(LONG)] == list(LONG)


def test_B040_a_compression_that_shortens_old_results_where_they_stand_is_sent() -> None:
    def pruned(facts: dict[str, Any]) -> list[Message]:
        question, asked, _, answered, new = facts["messages"]
        return [question, asked, told(done(OLD, "[old result left out]")), answered, new]

    driven = overflowing(pruned, FULL, DONE)
    assert driven.result.answer == "It is done."
    assert "[old result left out]" in driven.texts[2]
