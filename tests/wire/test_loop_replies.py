"""Replies that are no good answer, through the whole loop in every format: refusals, odd ends, faults in the middle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.kernel.config.settings import RequestSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import AttemptDropped, TextDelta
from hermes.testing import Call, Reply, calls, error_event, events, fault, text

CHAT = "chat_completions"
REFUSALS = {
    "without a word": text("", finish="content_filter"),
    "in words": text("I can't help with that.", finish="content_filter"),
    "with thinking": text("", thinking="Should I?", finish="content_filter"),
    "status 400": fault(400, "Content Exists Risk"),
}


def other(api_mode: str) -> str:
    return "anthropic_messages" if api_mode == CHAT else CHAT


@pytest.mark.parametrize("name", REFUSALS)
def test_B064_a_refusal_is_asked_once_and_said(house: Any, api_mode: str, name: str) -> None:
    house.server.add(REFUSALS[name])
    result = house.agent(api_mode, request=RequestSettings(attempts=3)).run("go")
    assert (result.reason, result.answer) == (EndReason.REFUSED, None), result.detail
    assert "refus" in result.detail or "Content Exists Risk" in result.detail
    assert "rate limit" not in result.detail
    assert len(house.server.requests) == 1


@pytest.mark.parametrize("name", REFUSALS)
def test_B064_one_other_model_is_asked_where_there_is_one(house: Any, api_mode: str, name: str) -> None:
    house.server.add(REFUSALS[name], text("Of course."))
    second = other(api_mode)
    result = house.agent(api_mode, request=RequestSettings(attempts=3), fallback=(house.model(second),)).run("go")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "Of course."), result.detail
    assert [request.api_mode for request in house.server.requests] == [api_mode, second]
    assert [message.text for message in result.messages] == ["go", "Of course."]


def test_B064_a_childs_refusal_is_told_to_its_parent(house: Any, api_mode: str) -> None:
    house.server.add(
        calls(Call("delegate_task", {"goal": "do it"})), REFUSALS["in words"], text("It would not be done.")
    )
    result = house.agent(api_mode).run("go")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "It would not be done.")
    assert "refused" in house.server.requests[-1].raw.decode()


ODD = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "error", "eos", "something_new"]


@pytest.mark.parametrize("finish", ODD)
def test_B065_an_odd_end_with_nothing_is_never_completed_and_soon_given_up(house: Any, finish: str) -> None:
    house.server.play(lambda request: Reply(finish=finish))
    result = house.agent(CHAT).run("go")
    assert result.reason is not EndReason.COMPLETED
    assert result.answer is None
    assert len(house.server.requests) <= 4


@pytest.mark.parametrize("finish", ODD)
def test_B065_after_an_odd_end_the_model_is_asked_once_more(house: Any, finish: str) -> None:
    house.server.add(Reply(finish=finish), text("Here I am."))
    assert house.agent(CHAT).run("go").answer == "Here I am."


@pytest.mark.parametrize("after", [0, 4])
def test_B056_an_overload_in_the_stream_is_tried_again_and_then_left_and_no_word_stands_twice(
    house: Any, api_mode: str, after: int
) -> None:
    overloaded = error_event("Overloaded", status=529, after=after)
    house.server.play(lambda request: overloaded if request.api_mode == api_mode else text("Here it is."))
    second = other(api_mode)
    agent = house.agent(api_mode, request=RequestSettings(attempts=2), fallback=(house.model(second),))
    result = agent.run("go")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "Here it is."), result.detail
    asked = [request.api_mode for request in house.server.requests]
    assert asked == [*[api_mode] * (len(asked) - 1), second]
    assert 2 <= len(asked) <= 3
    last = max(event.attempt for event in house.seen(TextDelta))
    assert "".join(event.text for event in house.seen(TextDelta) if event.attempt == last) == "Here it is."
    shown = {event.attempt for event in house.seen(TextDelta)} - {last}
    assert {event.attempt for event in house.seen(AttemptDropped)} == shown


# ---- Faults without words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["", "null", "[]", "{", '"no"', '{"error": null}', '{"error": "no"}'])
def test_spec_36109_an_error_without_a_usable_body_says_its_status(house: Any, api_mode: str, body: str) -> None:
    house.server.add(Reply(status=500, body=body))
    result = house.agent(api_mode).run("go")
    assert result.reason is EndReason.PROVIDER_FAILED
    assert "500" in result.detail
    assert "scripted-key" not in result.detail


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_spec_11616_a_target_is_asked_as_often_as_the_settings_say(house: Any, attempts: int) -> None:
    house.server.play(lambda request: fault(500, "It broke.", retry_after="0.01"))
    result = house.agent(CHAT, request=RequestSettings(attempts=attempts)).run("go")
    assert result.reason is EndReason.PROVIDER_FAILED
    assert len(house.server.requests) == attempts


def test_spec_10537_half_a_character_in_opaque_reasoning_does_not_break_the_next_request(house: Any) -> None:
    (house.work / "a.txt").write_text("content", encoding="utf-8")
    details = [{"type": "reasoning.text", "text": "hm \ud835", "signature": "s", "index": 0}]
    asked = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": '{"path":"a.txt"}'}}
    house.server.add(
        events(
            {"choices": [{"index": 0, "delta": {"reasoning_details": details}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [asked]}, "finish_reason": "tool_calls"}]},
            "[DONE]",
        ),
        text("Done."),
    )
    assert house.agent(CHAT).run("go").answer == "Done."
    assert "hm \ufffd" in json.dumps(house.server.requests[1].body, ensure_ascii=False)
