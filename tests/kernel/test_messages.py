"""The conversation model: its texts, its stored form, and cleaning of what cannot be encoded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conversations import good_messages, json_values, some
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.messages import (
    Message,
    ModelReply,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserInput,
    clean,
    clean_json,
    message_from_json,
    message_to_json,
    part_from_json,
)

# ---- Cleaning -------------------------------------------------------------------------------------------------------


def test_surrogate_halves_that_belong_together_become_their_character() -> None:
    assert clean("a\ud83d\ude00b") == "a\U0001f600b"


@pytest.mark.parametrize(
    ("text", "cleaned"), [("\ud800", "\ufffd"), ("\udfffx", "\ufffdx"), ("x\ud800y\ud800", "x\ufffdy\ufffd")]
)
def test_a_lone_surrogate_is_replaced_and_its_neighbours_stay(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@some
@given(st.text(alphabet=st.characters(), max_size=20))
def test_what_is_cleaned_can_be_encoded_and_is_not_cleaned_twice(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert clean(cleaned) is cleaned


@some
@given(st.text(max_size=20))
def test_a_good_text_comes_back_as_the_same_object(text: str) -> None:
    assert clean(text) is text


@some
@given(json_values)
def test_a_good_json_value_comes_back_as_the_same_object(value: Any) -> None:
    assert clean_json(value) is value


def test_texts_and_keys_deep_in_a_json_value_are_cleaned_and_the_rest_stays() -> None:
    good = {"list": [1, None, True]}
    cleaned = clean_json({"a\ud800": ["x", {"y": "\udc00"}], "good": good})
    assert cleaned == {"a\ufffd": ["x", {"y": "\ufffd"}], "good": good}
    assert cleaned["good"] is good


# ---- Texts ----------------------------------------------------------------------------------------------------------


def test_a_refusal_counts_as_text_and_a_thought_does_not() -> None:
    parts = (Thinking("hm"), Text("I "), Refusal("won't"), ToolCall("c1", "read", {}))
    assert Message("assistant", parts).text == "I won't"
    assert ModelReply(parts).text == "I won't"
    assert [c.id for c in Message("assistant", parts).calls] == [c.id for c in ModelReply(parts).calls] == ["c1"]


def test_the_texts_of_a_result_are_lines() -> None:
    assert ToolResult("c1", "ok", (Text("one"), Text("two"))).text == "one\ntwo"


def test_an_input_of_one_text_takes_no_inbox_row() -> None:
    assert UserInput.of("hi") == UserInput((Text("hi"),), ())


# ---- The stored form ------------------------------------------------------------------------------------------------


@some
@given(good_messages)
def test_every_message_survives_its_stored_form(message: Message) -> None:
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


def test_the_stored_form_leaves_out_what_is_at_its_default() -> None:
    message = Message("assistant", (Text("hi"), ToolCall("c1", "read", {"path": "x"})))
    assert message_to_json(message) == {
        "role": "assistant",
        "parts": [
            {"type": "text", "text": "hi"},
            {"type": "call", "id": "c1", "name": "read", "arguments": {"path": "x"}},
        ],
    }


def test_an_empty_problem_or_state_is_not_taken_for_none() -> None:
    call, result = ToolCall("c1", "read", {}, ""), ToolResult("c1", "ok", (Text("x"),), {})
    for message in (Message("assistant", (call,)), Message("tool", (result,))):
        assert message_from_json(message_to_json(message)) == message


BODIES = (
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool", "system"]), "parts": st.lists(json_values)})
    | json_values
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "thinking", "refusal", "call", "result", "new"])},
    optional=dict.fromkeys(["text", "id", "name", "arguments", "call_id", "status", "parts", "replay"], json_values),
)


@some
@given(BODIES | PARTS.map(lambda part: {"role": "user", "parts": [part]}))
def test_a_damaged_body_is_one_of_three_errors_that_the_store_knows(body: Any) -> None:
    try:
        message = message_from_json(body)
    except (KeyError, TypeError, ValueError):
        return
    assert isinstance(message.text, str)


@pytest.mark.parametrize(
    "body",
    [
        {"role": "user", "parts": ["text"]},
        {"role": "system", "parts": []},
        {"role": "user", "parts": [{"type": "text", "text": 5}]},
        {"role": "user", "parts": [{"type": "video"}]},
    ],
)
def test_what_is_no_message_is_refused(body: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        message_from_json(body)


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(ValueError, match="'video'"):
        part_from_json({"type": "video"})


# ---- Usage ----------------------------------------------------------------------------------------------------------

counts = st.integers(0, 10**6)
usages = st.builds(Usage, counts, counts, counts, counts, counts)


@some
@given(usages, usages)
def test_usage_adds_up_bucket_by_bucket(one: Usage, other: Usage) -> None:
    both = one + other
    assert both.total_tokens == one.total_tokens + other.total_tokens
    assert both.prompt_tokens == one.prompt_tokens + other.prompt_tokens
    assert both.reasoning_tokens == one.reasoning_tokens + other.reasoning_tokens


def test_an_unknown_price_is_not_zero() -> None:
    assert (Usage(1) + Usage(2)).cost_usd is None
    assert (Usage(1, cost_usd=0.5) + Usage(2)).cost_usd == 0.5
    assert (Usage(cost_usd=0.0) + Usage()).cost_usd == 0.0
