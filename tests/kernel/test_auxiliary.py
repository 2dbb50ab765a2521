"""Auxiliary calls inside a turn: images are described for a model that cannot see."""

from __future__ import annotations

from typing import Any

import pytest
from driving import Stop, call, drive, fresh, reply, said, user

from hermes.kernel.auxiliary import OUTPUT_CAP, ask_auxiliary, auxiliary_request
from hermes.kernel.effects import Answered, AskModel, Fault, FaultKind, Notify, Record, RunTools, Spent, Stopped, Wait
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.history import result_text
from hermes.kernel.messages import Image, Message, Text, Usage, UserInput
from hermes.kernel.outcomes import digest
from hermes.kernel.providers import ModelRow, Profile, Target
from hermes.kernel.sight import UNSEEN, as_seen

PICTURE = Image("image/png", "aGk=")
LOOK = UserInput((Text("what is this?"), PICTURE), (1,))
BLIND: dict[str, Any] = {"targets": ("main",), "auxiliary": ("aux",), "blind": frozenset({"main"})}


def warnings(driven: Any) -> list[str]:
    events = [e.event for e in driven.effects if isinstance(e, Notify)]
    return [event.text for event in events if isinstance(event, Notice)]


def test_an_image_is_described_by_the_auxiliary_model_for_one_that_cannot_see() -> None:
    driven = drive(fresh(**BLIND), LOOK, replies=[reply("A red bicycle."), reply("It is a bicycle.")])
    described, asked = driven.requests
    assert (described.target, described.request.purpose, asked.target) == ("aux", "auxiliary", "main")
    assert [type(p) for p in described.request.messages[0].parts] == [Text, Image]
    assert "what is this?" in described.request.messages[0].text
    assert described.request.system
    assert described.request.output_cap == OUTPUT_CAP

    question, picture, description = driven.disk[0].parts
    assert (question, picture) == LOOK.parts
    assert isinstance(description, Text)
    assert description.origin == "context"
    assert "A red bicycle." in description.text
    assert driven.result.answer == "It is a bicycle."
    assert driven.taken == [1]


def test_a_model_that_can_see_or_of_which_nothing_is_known_is_shown_the_image() -> None:
    driven = drive(fresh(auxiliary=("aux",)), LOOK, replies=[reply("A bicycle.")])
    assert driven.disk[0].parts == LOOK.parts
    assert len(driven.requests) == 1


def test_a_text_alone_costs_no_auxiliary_call() -> None:
    assert len(drive(fresh(**BLIND), "hello", replies=[reply("Hi.")]).requests) == 1


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ([Fault(FaultKind.AUTH, "key refused")], "key refused"),
        ([reply()] * 3, "the model answered nothing"),
        ([Fault(FaultKind.SERVER_ERROR, "it broke")] * 3, "it broke"),
    ],
)
def test_a_description_that_fails_ends_nothing_and_both_are_told(replies: list[Any], why: str) -> None:
    driven = drive(fresh(**BLIND), LOOK, replies=[*replies, reply("I cannot see it.")])
    assert driven.result.reason is EndReason.COMPLETED
    told = driven.disk[0].parts[-1]
    assert isinstance(told, Text)
    assert why in told.text
    assert why in warnings(driven)[-1]
    assert driven.learned == {}
    assert [asked.target for asked in driven.requests] == ["aux"] * len(replies) + ["main"]


def test_where_no_model_can_see_nothing_is_asked_and_the_way_out_is_named() -> None:
    for auxiliary in ((), ("aux",)):
        state = fresh(targets=("main",), auxiliary=auxiliary, blind=frozenset({"main", "aux"}))
        driven = drive(state, LOOK, replies=[reply("I cannot see it.")])
        assert len(driven.requests) == 1
        assert "auxiliary.model" in warnings(driven)[0]


def test_faults_of_an_auxiliary_call_are_met_by_the_same_table() -> None:
    driven = drive(
        fresh(**BLIND), LOOK, replies=[Fault(FaultKind.RATE_LIMIT, retry_after_s=7.0), reply("A bicycle."), reply("ok")]
    )
    assert [e.seconds for e in driven.effects if isinstance(e, Wait)] == [7.0]
    assert [asked.attempt for asked in driven.requests] == [1, 2, 3]


def test_what_it_cost_and_the_budget_that_it_used_up_count_for_the_turn() -> None:
    usage = Usage(100, 20)
    described = Answered(reply("A bicycle."), Spent(usage, EndReason.BUDGET_TOKENS))
    driven = drive(fresh(**BLIND), LOOK, replies=[described, reply("so far")])
    assert driven.result.usage.total_tokens >= usage.total_tokens
    assert driven.result.reason is EndReason.BUDGET_TOKENS
    assert "A bicycle." in str(driven.disk[0].parts[-1])

    refused = Fault(FaultKind.BUDGET, budget=EndReason.BUDGET_COST)
    driven = drive(fresh(**BLIND), LOOK, replies=[refused, reply("so far")])
    assert driven.result.reason is EndReason.BUDGET_COST


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_stop_in_the_middle_keeps_the_message_and_no_word_of_the_description(when: Any) -> None:
    driven = drive(fresh(**BLIND), LOOK, replies=[reply("A red bicycle.")], stop=Stop(0, when))
    assert driven.result.reason is EndReason.INTERRUPTED
    assert driven.disk[0].parts == LOOK.parts
    assert driven.disk[-1].origin == "closing"
    assert "bicycle" not in "".join(driven.texts)


def test_a_stop_while_describing_keeps_what_is_known_of_calls_that_a_crash_left_open() -> None:
    open_end = (user("go"), Message("assistant", (call("write", "w1"),)))
    state = fresh(*open_end, **BLIND)
    driven = drive(state, LOOK, replies=[Stopped(EndReason.INTERRUPTED)])
    assert isinstance(driven.effects[0], RunTools)
    assert [r.status for r in driven.disk[2].results] == ["cancelled"]
    assert driven.disk[2].results[0].text == result_text("w1", "cancelled", "write was not run.").text
    assert len([e for e in driven.effects if isinstance(e, Record)]) == 1


def test_the_digest_tells_two_auxiliary_calls_apart() -> None:
    first = drive(fresh(**BLIND), LOOK, replies=[reply("A bicycle."), reply("ok")]).requests[0]
    other = UserInput((Text("and this?"), PICTURE))
    second = drive(fresh(**BLIND), other, replies=[reply("A bicycle."), reply("ok")]).requests[0]
    assert digest(first) != digest(second)
    assert digest(first) == digest(first)


# ---- What a model that cannot see is sent ---------------------------------------------------------------------------


def target(images: bool | None) -> Target:
    return Target("p:m", Profile("p"), "m", "http://x", "chat_completions", row=ModelRow("m", images=images))


def test_images_give_way_to_a_note_for_a_model_that_cannot_see() -> None:
    shown = as_seen(Message("user", (Text("look"), PICTURE)), target(False))
    assert [p.text for p in shown.parts if isinstance(p, Text)] == ["look", UNSEEN]
    result = result_text("c1", "ok", "a screenshot")
    message = Message("tool", (type(result)("c1", "ok", (*result.parts, PICTURE)),))
    assert as_seen(message, target(False)).results[0].text == f"a screenshot\n{UNSEEN}"


@pytest.mark.parametrize("images", [True, None])
def test_a_message_is_the_same_object_for_a_model_that_may_see(images: bool | None) -> None:
    message = Message("user", (PICTURE,))
    assert as_seen(message, target(images)) is message


def test_a_message_without_images_is_the_same_object_for_every_model() -> None:
    message = said("hello")
    assert as_seen(message, target(False)) is message


# ---- Which targets are asked ----------------------------------------------------------------------------------------


def asked_for(state: Any, outcome: Any) -> tuple[list[str], Any]:
    """The targets that an auxiliary call asks when each gives this outcome, and what comes of it."""
    steps = ask_auxiliary(state, auxiliary_request("2 + 2?"))
    effect, asked = next(steps), []
    while True:
        if is_asking := isinstance(effect, AskModel):
            asked.append(effect.target)
        try:
            effect = steps.send(outcome if is_asking else None)
        except StopIteration as end:
            return asked, end.value


def test_the_auxiliary_target_has_all_its_attempts_and_the_one_in_use_has_one() -> None:
    asked, given = asked_for(fresh(targets=("main",), auxiliary=("aux",)), Fault(FaultKind.SERVER_ERROR, "it broke"))
    assert asked == ["aux", "aux", "aux", "main"]
    assert isinstance(given, Fault)
    assert given.detail == "main: it broke"


def test_without_an_auxiliary_target_the_one_in_use_has_all_attempts() -> None:
    state = fresh(targets=("first", "second"), target=1)
    assert asked_for(state, Fault(FaultKind.SERVER_ERROR))[0] == ["second"] * 3
    assert state.target_name == "second"
    assert state.known == {}
    assert asked_for(fresh(targets=("main",), auxiliary=("main",)), Fault(FaultKind.AUTH))[0] == ["main"]


def test_a_budget_that_does_not_pay_is_asked_once() -> None:
    state = fresh(targets=("main",), auxiliary=("aux",))
    assert asked_for(state, Fault(FaultKind.BUDGET, budget=EndReason.BUDGET_COST))[0] == ["aux"]
    assert state.exhausted is EndReason.BUDGET_COST


def test_an_answer_is_its_text() -> None:
    assert asked_for(fresh(), Answered(reply("four")))[1] == "four"
