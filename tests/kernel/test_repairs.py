"""A request that was refused for one part of it is changed and asked again at once; what was learned is kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from driving import Driven, call, drive, fresh, reply, told, user

from hermes.kernel.effects import Consult, Fault, FaultKind, Notify, RecoveryChoice, RepairKind
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.messages import ALL_IMAGES, Image, ImageRule, Message, ModelRequest, Text, ToolResult, UserInput
from hermes.kernel.providers import ToolSchema
from hermes.kernel.repairs import MOST_REPAIRS, as_learned, found_blind, repair, unrepaired
from hermes.kernel.sight import hidden_images, shown_images
from hermes.kernel.structured import plain_tool

K, R = FaultKind, RepairKind


def refused(kind: RepairKind, subject: str = "", limit: int | None = None) -> Fault:
    is_image = kind is R.IMAGES
    return Fault(
        K.IMAGE_REFUSED if is_image else K.BAD_REQUEST, "no", repair=kind, subject=subject, subject_limit=limit
    )


def picture(size: int = 8) -> Image:
    return Image("image/png", "A" * size)


def shown(*pictures: Image, text: str = "look") -> Message:
    return Message("user", (Text(text), *pictures))


def notices(driven: Driven) -> list[str]:
    return [e.event.text for e in driven.effects if isinstance(e, Notify) and isinstance(e.event, Notice)]


def left_out(driven: Driven) -> list[tuple[str, ...]]:
    return [asked.request.leave_out for asked in driven.requests]


# ---- Parameters -----------------------------------------------------------------------------------------------------


def test_a_parameter_that_was_refused_is_left_out_at_once_and_is_no_attempt() -> None:
    state = fresh(limits={"attempts": 1})
    driven = drive(state, "hi", replies=[refused(R.PARAMETER, "temperature"), reply("x")])
    assert driven.result.answer == "x"
    assert left_out(driven) == [(), ("temperature",)]
    assert driven.waits == []
    assert driven.learned == {"leave_out:primary": (["temperature"], None)}
    assert notices(driven) == ["primary refused the request (no); trying without the parameter temperature"]


def test_several_parameters_are_left_out_one_by_one_and_each_once() -> None:
    faults = [refused(R.PARAMETER, name) for name in ("temperature", "top_p", "temperature")]
    driven = drive(fresh(), "hi", replies=faults)
    assert left_out(driven) == [(), ("temperature",), ("temperature", "top_p")]
    assert driven.result.reason is EndReason.PROVIDER_FAILED


def test_what_a_target_refused_is_learned_of_it_alone() -> None:
    state = fresh(targets=("one", "two"), known={"leave_out:one": ["top_k"]})
    driven = drive(state, "hi", replies=[Fault(K.AUTH), refused(R.PARAMETER, "temperature"), reply("x")])
    assert left_out(driven) == [("top_k",), (), ("temperature",)]


def test_what_was_learned_holds_in_the_next_turn() -> None:
    driven = drive(fresh(), "hi", replies=[refused(R.THINKING), reply("x")])
    known = {key: value for key, (value, _) in driven.learned.items()}
    again = drive(fresh(*driven.disk, known=known), "more", replies=[reply("y")])
    assert left_out(again) == [("thinking_blocks",)]


@pytest.mark.parametrize("name", ["messages", "messages.0.content", "model", "tools", "input", "toolConfig.tools"])
def test_what_makes_a_request_is_never_left_out(name: str) -> None:
    assert drive(fresh(), "hi", replies=[refused(R.PARAMETER, name)]).result.reason is EndReason.PROVIDER_FAILED


def test_a_parameter_without_a_name_is_not_repaired() -> None:
    assert drive(fresh(), "hi", replies=[refused(R.PARAMETER)]).result.reason is EndReason.PROVIDER_FAILED


def test_a_parameter_in_a_providers_own_spelling_is_left_out_as_it_is_sent() -> None:
    driven = drive(fresh(), "hi", replies=[refused(R.PARAMETER, "reasoningEffort"), reply("x")])
    assert left_out(driven)[1] == ("reasoningEffort", "reasoning_effort")


@pytest.mark.parametrize(("kind", "name"), [(R.THINKING, "thinking_blocks"), (R.GRAMMAR, "schema_keywords")])
def test_B080_dead_thoughts_and_odd_schemas_are_left_out_once(kind: RepairKind, name: str) -> None:
    driven = drive(fresh(), "hi", replies=[refused(kind), refused(kind)])
    assert left_out(driven) == [(), (name,)]
    assert driven.result.reason is EndReason.PROVIDER_FAILED


def test_a_schema_of_an_answer_is_told_in_words_before_its_parameter_is_left_out() -> None:
    state = fresh(schema={"type": "object"})
    driven = drive(state, "hi", replies=[refused(R.PARAMETER, "response_format"), reply("{}")])
    assert left_out(driven) == [(), ("schema",)]
    other = drive(fresh(schema={"type": "object"}), "hi", replies=[refused(R.PARAMETER, "temperature"), reply("{}")])
    assert left_out(other) == [(), ("temperature",)]


def test_a_provider_that_finds_ever_more_to_refuse_is_not_asked_for_ever() -> None:
    faults = [refused(R.PARAMETER, f"p{n}") for n in range(MOST_REPAIRS + 1)]
    driven = drive(fresh(), "hi", replies=faults)
    assert len(driven.requests) == MOST_REPAIRS + 1
    assert driven.result.detail == "primary: no"


def test_a_plugin_decides_before_a_request_is_changed() -> None:
    driven = drive(
        fresh(),
        "hi",
        replies=[refused(R.PARAMETER, "temperature")],
        consult={"recovery": [RecoveryChoice("give_up")]},
    )
    assert driven.result.reason is EndReason.PROVIDER_FAILED
    assert driven.learned == {}
    facts = [e.facts["fault"].subject for e in driven.effects if isinstance(e, Consult) and e.question == "recovery"]
    assert facts == ["temperature"]


def test_attempts_are_counted_without_repairs() -> None:
    faults = [Fault(K.CONNECTION), refused(R.PARAMETER, "top_p"), Fault(K.CONNECTION), Fault(K.CONNECTION, "gone")]
    driven = drive(fresh(), "hi", replies=faults)
    assert driven.result.detail == "primary: gone (after 3 attempts)"


# ---- The size of the output -----------------------------------------------------------------------------------------


def caps(driven: Driven) -> list[int | None]:
    return [asked.request.output_cap for asked in driven.requests]


def test_B069_a_models_own_limit_is_kept_for_the_session() -> None:
    fault = Fault(K.OUTPUT_CAP, "too large", output_limit_tokens=16384)
    driven = drive(fresh(limits={"output_cap": 65536}), "hi", replies=[fault, reply("x")])
    assert caps(driven) == [65536, 16384]
    assert driven.learned == {"output_cap:primary": (16384, None)}


def test_B068_a_sum_that_is_too_large_is_made_smaller_by_its_output_and_the_window_is_adopted() -> None:
    fault = Fault(K.OUTPUT_CAP, "sum", limit_tokens=131072, input_tokens=66992, output_limit_tokens=64080)
    driven = drive(fresh(), "hi", replies=[fault, reply("x")])
    assert caps(driven) == [None, 64080 - 64]
    assert driven.learned == {"output_cap:primary": (64016, 300.0), "window:primary": (131072, None)}
    assert driven.state.window_tokens == 131072


def test_B068_a_sum_that_is_refused_again_is_an_overflow() -> None:
    fault = Fault(K.OUTPUT_CAP, "sum", limit_tokens=1000, input_tokens=500, output_limit_tokens=500)
    assert drive(fresh(), "hi", replies=[fault, fault]).result.reason is EndReason.CONTEXT_FULL


def test_B090_what_can_be_afforded_is_tried_once_and_then_it_is_billing() -> None:
    fault = Fault(K.OUTPUT_CAP, "no money", status=402, output_limit_tokens=56272)
    fine = drive(fresh(), "hi", replies=[fault, reply("x")])
    assert caps(fine) == [None, 56272]
    assert fine.learned == {"output_cap:primary": (56272, 300.0)}
    again = drive(fresh(), "hi", replies=[fault, replace(fault, output_limit_tokens=50000)])
    assert again.result.reason is EndReason.BILLING


def test_a_size_that_was_not_asked_for_or_is_not_told_is_no_repair() -> None:
    larger = Fault(K.OUTPUT_CAP, output_limit_tokens=9000)
    assert drive(fresh(limits={"output_cap": 4096}), "hi", replies=[larger]).result.reason is EndReason.PROVIDER_FAILED
    assert drive(fresh(), "hi", replies=[Fault(K.OUTPUT_CAP)]).result.reason is EndReason.PROVIDER_FAILED


def test_only_a_fault_about_the_output_becomes_another_one() -> None:
    assert unrepaired(Fault(K.BAD_REQUEST, status=402)).kind is K.BAD_REQUEST


# ---- Images ---------------------------------------------------------------------------------------------------------


def places(driven: Driven) -> list[list[int]]:
    """For each request the places of the messages whose images were sent."""
    return [[image.message for image in shown_images(asked.request)] for asked in driven.requests]


ALBUM = (shown(picture(), picture()), Message("assistant", (Text("nice"),)))
LAST = UserInput((Text("and this?"), picture()))


def test_spec_23570_21160_a_model_that_takes_no_images_is_told_of_them_in_words_for_good() -> None:
    driven = drive(fresh(*ALBUM), LAST, replies=[refused(R.IMAGES, "unsupported"), reply("x")])
    assert places(driven) == [[0, 0, 2], []]
    known = {key: value for key, (value, _) in driven.learned.items()}
    assert known == {"images:primary": {"most": 0}}
    assert found_blind(known) == {"primary"}
    assert places(drive(fresh(*driven.disk, known=known), LAST, replies=[reply("y")])) == [[]]


def test_more_images_than_a_server_takes_lose_the_oldest() -> None:
    driven = drive(fresh(*ALBUM), LAST, replies=[refused(R.IMAGES, "too_many", 2), reply("x")])
    assert places(driven) == [[0, 0, 2], [0, 2]]
    assert found_blind({"images:primary": {"most": 2}}) == frozenset()


def test_B078_an_image_that_is_too_large_is_left_out_and_the_others_stay() -> None:
    state = fresh(shown(picture(100), picture(10)), ALBUM[1])
    driven = drive(state, LAST, replies=[refused(R.IMAGES, "too_large", 50), reply("x")])
    assert [[i.size_bytes for i in shown_images(a.request)] for a in driven.requests] == [[100, 10, 8], [10, 8]]


@pytest.mark.parametrize("subject", ["invalid", "too_large"])
def test_B078_images_that_nobody_can_tell_apart_are_left_out_till_here_and_new_ones_are_shown(subject: str) -> None:
    driven = drive(fresh(*ALBUM), LAST, replies=[refused(R.IMAGES, subject), reply("x")])
    assert places(driven) == [[0, 0, 2], []]
    known = {key: value for key, (value, _) in driven.learned.items()}
    assert places(drive(fresh(*driven.disk, known=known), LAST, replies=[reply("y")])) == [[4]]


def test_images_are_not_blamed_where_there_are_none() -> None:
    driven = drive(fresh(), "hi", replies=[refused(R.IMAGES, "unsupported")])
    assert driven.result.reason is EndReason.PROVIDER_FAILED
    assert driven.learned == {}


def test_spec_27344_pictures_in_tool_results_are_left_out_and_the_users_stay() -> None:
    seen = ToolResult("c1", "ok", (Text("a screen"), picture()))
    driven = drive(
        fresh(),
        LAST,
        replies=[reply(call()), refused(R.TOOL_IMAGES), reply("x")],
        tools=lambda asked: seen,
    )
    assert places(driven) == [[0], [0, 2], [0]]
    assert driven.learned == {"images:primary": ({"in_results": False}, None)}


def test_B077_a_body_of_too_many_bytes_loses_its_older_images_first_then_all_and_then_is_compressed() -> None:
    full = Fault(K.BODY_TOO_LARGE, "HTTP 413")
    driven = drive(
        fresh(*ALBUM),
        LAST,
        replies=[full, full, full, reply("x")],
        consult={"compression": [[user("short")]]},
    )
    assert places(driven) == [[0, 0, 2], [2], [], []]
    assert "refused the size of the request in bytes" in notices(driven)[0]
    assert driven.state.known == {}, "not remembered as a model that cannot see"


def test_B077_a_body_that_stays_too_large_ends_the_turn() -> None:
    full = Fault(K.BODY_TOO_LARGE, "HTTP 413")
    assert drive(fresh(), "hi", replies=[full]).result.reason is EndReason.CONTEXT_FULL


def test_a_place_in_the_conversation_means_nothing_to_another_request() -> None:
    known = {"images:primary": {"start": 5, "max_bytes": 50}}
    own = ModelRequest((shown(picture()),), purpose="auxiliary", system="describe")
    assert as_learned(own, known, "primary").images == ImageRule(max_bytes=50)


def test_a_rule_hides_as_it_says_and_nothing_else() -> None:
    rng = Random(20261130)
    for _ in range(300):
        messages = [shown(*(picture(rng.choice((5, 50))) for _ in range(rng.randrange(3)))) for _ in range(5)]
        messages += [told(ToolResult("c", "ok", (picture(5),)))] * rng.randrange(2)
        rule = ImageRule(rng.randrange(4), rng.choice((None, 0, 1, 3)), rng.choice((None, 10)), rng.random() < 0.5)
        sent = shown_images(ModelRequest(tuple(messages), images=rule))
        every = shown_images(ModelRequest(tuple(messages)))
        may = [i for i in every if i.message >= rule.start and i.size_bytes <= (rule.max_bytes or 99)]
        may = [i for i in may if rule.in_results or not i.in_result]
        assert sent == (may if rule.most is None else may[len(may) - min(rule.most, len(may)) :]), (rule, messages)
        assert hidden_images(messages, ALL_IMAGES) == {}


# ---- Every repair ---------------------------------------------------------------------------------------------------

FAULTS = [
    refused(R.PARAMETER, "temperature"),
    refused(R.PARAMETER, "reasoning.summary"),
    refused(R.THINKING),
    refused(R.GRAMMAR),
    refused(R.TOOL_IMAGES),
    refused(R.IMAGES, "unsupported"),
    refused(R.IMAGES, "too_many", 2),
    refused(R.IMAGES, "too_many"),
    refused(R.IMAGES, "too_large", 20),
    refused(R.IMAGES, "invalid"),
    Fault(K.BODY_TOO_LARGE),
    Fault(K.OUTPUT_CAP, output_limit_tokens=4000),
    Fault(K.OUTPUT_CAP, limit_tokens=9000, input_tokens=6000, output_limit_tokens=3000),
]


def test_every_repair_changes_what_is_sent_and_so_they_end() -> None:
    """Whatever a provider goes on to refuse, no request is sent twice the same, and there is an end."""
    rng = Random(8)
    messages = (*ALBUM, told(ToolResult("c", "ok", (picture(50),))), shown(picture()))
    for round_number in range(200):
        known: dict[str, Any] = {}
        sent = as_learned(ModelRequest(messages, output_cap=8000), known, "t")
        for _ in range(40):
            found = repair(rng.choice(FAULTS), sent, known, "t")
            if found is None:
                continue
            known[found.key] = found.value
            changed = as_learned(ModelRequest(messages, output_cap=8000), known, "t")
            assert changed != sent, (round_number, found)
            sent = changed
        for fault in FAULTS:
            while found := repair(fault, sent, known, "t"):
                known[found.key] = found.value
                sent = as_learned(ModelRequest(messages, output_cap=8000), known, "t")
        assert [repair(fault, sent, known, "t") for fault in FAULTS] == [None] * len(FAULTS)


def test_a_tool_is_offered_without_the_keywords_but_with_parameters_of_these_names() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "pattern": "^x$"},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        },
        "$defs": {"format": {"type": "string", "format": "uri"}},
    }
    assert plain_tool(ToolSchema("t", "d", schema)).parameters == {
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "when": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "$defs": {"format": {"type": "string"}},
    }
