"""How a conversation is sent on: ids, roles, images and reasoning, by what each provider refuses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.history import repair
from hermes.kernel.messages import Image, Message, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Profile, Target
from hermes.plugins.wire.chat_completions import ChatCompletions
from hermes.plugins.wire.chat_completions.callids import call_id
from hermes.testing.strict_chat import problems

WIRE = ChatCompletions()
IMAGE = Image("image/png", "iVBORw0KGgo=")


def make(model: str = "m", url: str = "http://x/v1", **quirks: Any) -> Target:
    return Target("t:m", Profile("t", quirks=quirks), model, url, "chat_completions")


TARGET = make()


def sent(*messages: Message, target: Target = TARGET) -> Any:
    return [item for m in messages for item in json.loads(b"[" + WIRE.encode(m, target) + b"]")]


def turn(*parts: Any, replay: Replay | None = None) -> list[Message]:
    said = Message("assistant", (*parts, ToolCall("c1", "f", {})), replay=replay)
    return [Message("user", (Text("go"),)), said, Message("tool", (ToolResult("c1", "ok", (Text("r"),)),))]


# ---- Ids ------------------------------------------------------------------------------------------------------------

NINE = make(call_id={"length": 9})


def test_B044_a_result_has_the_id_of_its_call_on_every_target() -> None:
    for target in (TARGET, NINE):
        _, assistant, tool = sent(*turn(), target=target)
        assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"]


def test_ids_are_of_the_form_that_mistral_wants_and_its_own_stay() -> None:
    _, assistant, _ = sent(*turn(), target=NINE)
    assert re.fullmatch(r"[a-zA-Z0-9]{9}", assistant["tool_calls"][0]["id"])
    assert call_id("aB3dE6gH9", NINE) == "aB3dE6gH9"
    assert call_id("aB3-E6gH9", NINE) != "aB3-E6gH9"
    assert call_id("call_1", TARGET) == "call_1"


@settings(max_examples=50, deadline=None)
@given(st.sets(st.text("abAB01_-", min_size=1, max_size=40), min_size=2, max_size=40))
def test_ids_that_differ_never_become_one(ids: set[str]) -> None:
    mapped = {call_id(one, NINE) for one in ids}
    assert len(mapped) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", one) for one in mapped)


def test_B045_an_id_that_a_provider_gave_twice_is_sent_as_two() -> None:
    twice = [*turn(), Message("assistant", (Text("done"),)), *turn()]
    messages = repair(twice)
    body = {"model": "m", "messages": sent(*messages)}
    ids = [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())]
    assert len(ids) == len(set(ids)) == 2
    assert ids[0] == "c1"
    assert problems(body) == []


# ---- Roles ----------------------------------------------------------------------------------------------------------


def test_B037_one_system_message_stands_first_and_roles_alternate_whatever_was_stored() -> None:
    stored = [
        Message("user", (Text("one"),)),
        Message("user", (Text("two"),)),
        Message("assistant", (Text("a"),)),
        Message("assistant", (Text("b"),)),
        Message("user", (Text("after a compression"),), "summary"),
        Message("user", (Text("three"),)),
    ]
    body = {"model": "m", "messages": [{"role": "system", "content": "s"}, *sent(*repair(stored))]}
    assert problems(body) == []
    assert [m["role"] for m in body["messages"]].count("system") == 1
    text = json.dumps(body)
    assert all(word in text for word in ("one", "two", "after a compression", "three"))


def test_spec_47868_nothing_of_the_journal_is_sent_with_a_message() -> None:
    parts = (ToolResult("c1", "error", (Text("r"),), {"todo": [1]}),)
    user, assistant, tool = sent(turn()[0], turn(Thinking("t"))[1], Message("tool", parts, "steer"))
    assert (set(user), set(tool)) == ({"role", "content"}, {"role", "tool_call_id", "content"})
    assert set(assistant) == {"role", "content", "tool_calls"}
    assert set(assistant["tool_calls"][0]) == {"id", "type", "function"}


def test_spec_58755_a_message_without_calls_has_no_list_of_them() -> None:
    assert "tool_calls" not in sent(Message("assistant", (Text("hi"),)))[0]


# ---- Images ---------------------------------------------------------------------------------------------------------

SHOT = Message("tool", (ToolResult("a", "ok", (Text("shot"), IMAGE)), ToolResult("b", "ok", (IMAGE,))))


def test_spec_27344_a_result_is_one_text_unless_the_provider_is_known_to_take_a_list() -> None:
    assert all(isinstance(m["content"], str) for m in sent(SHOT))
    assert [p["type"] for p in sent(SHOT, target=make(images_in_tool_results=True))[0]["content"]] == [
        "text",
        "image_url",
    ]


def test_images_of_results_stand_in_a_user_message_behind_them_only_where_the_provider_wants_it_so() -> None:
    first, second, after = sent(SHOT, target=make(images_in_tool_results="user_message"))
    assert (first["role"], second["role"], after["role"]) == ("tool", "tool", "user")
    assert isinstance(first["content"], str)
    assert "next message" in second["content"]
    assert [p["type"] for p in after["content"]] == ["text", "image_url", "image_url"]
    plain = sent(*turn(), target=make(images_in_tool_results="user_message"))
    assert [m["role"] for m in plain] == ["user", "assistant", "tool"]


def test_B077_B078_an_image_is_sent_where_it_stands_and_nowhere_else() -> None:
    """What is too large is for the kernel to take out: then the encoded message is another, and holds none of it."""
    large = Image("image/png", "A" * 100_000)
    message = Message("user", (Text("look"), large))
    assert len(WIRE.encode(message, TARGET)) > 100_000
    smaller = Message("user", (Text("look"), Text("[image left out]")))
    assert len(WIRE.encode(smaller, TARGET)) < 200
    assert b"AAAA" not in WIRE.encode(Message("tool", (ToolResult("a", "ok", (large,)),)), TARGET)


def test_B140_a_result_that_holds_a_schema_is_sent_as_a_text() -> None:
    schema = '{"$defs":{"A":{"$ref":"#/$defs/A"}}}'
    assert sent(Message("tool", (ToolResult("a", "ok", (Text(schema),)),)))[0]["content"] == schema


# ---- Reasoning ------------------------------------------------------------------------------------------------------

DEEPSEEK = {"reasoning_field": "reasoning_content", "reasoning_required": True}


def reasoning(target: Target, *parts: Any, replay: Replay | None = None) -> Any:
    return sent(*turn(*parts, replay=replay), target=target)[1].get("reasoning_content")


def own(target: Target) -> Replay:
    return Replay(target.issuer, "reasoning", None)


def test_spec_15812_own_reasoning_is_sent_back_and_not_a_blank() -> None:
    target = make(**DEEPSEEK)
    assert reasoning(target, Thinking("I thought", own(target))) == "I thought"


@pytest.mark.parametrize("stored", [(), (Thinking(""),)])
def test_spec_17341_15250_17400_a_turn_without_reasoning_has_one_blank_never_an_empty_text(stored: Any) -> None:
    assert reasoning(make(**DEEPSEEK), *stored) == " "
    assert reasoning(make(**DEEPSEEK), *(Thinking(p.text, own(make(**DEEPSEEK))) for p in stored)) == " "


def test_spec_15748_B080_reasoning_of_another_provider_or_model_is_never_sent() -> None:
    kimi = make("kimi", "https://api.moonshot.ai/v1", **DEEPSEEK)
    for other in (make("minimax", "https://api.minimax.io/v1"), make("kimi-2", "https://api.moonshot.ai/v1")):
        fields = Replay(other.issuer, "fields", {"reasoning_details": [{"type": "reasoning.text", "signature": "x"}]})
        encoded = sent(*turn(Thinking("foreign", own(other)), replay=fields), target=kimi)
        assert encoded[1]["reasoning_content"] == " "
        assert not re.search("foreign|signature|details", json.dumps(encoded))


def test_spec_45655_a_provider_that_knows_no_such_field_is_sent_none() -> None:
    deepseek, mistral = make(**DEEPSEEK), make(call_id={"length": 9})
    encoded = sent(*turn(Thinking("mine", own(deepseek))), target=mistral)
    assert set(encoded[1]) == {"role", "content", "tool_calls"}


PLACEHOLDER = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}


def test_B009_a_call_that_gemini_did_not_sign_has_the_documented_placeholder_once_a_message() -> None:
    target = make("gemini-3-pro", first_call_fields=PLACEHOLDER)
    calls = Message("assistant", (ToolCall("a", "f", {}), ToolCall("b", "f", {})))
    first, second = sent(calls, target=target)[0]["tool_calls"]
    assert first["extra_content"] == PLACEHOLDER["extra_content"]
    assert "extra_content" not in second
    assert "extra_content" not in json.dumps(sent(calls))


def test_B009_a_call_that_gemini_signed_keeps_its_signature() -> None:
    target = make("gemini-3-pro", first_call_fields=PLACEHOLDER)
    signed = {"extra_content": {"google": {"thought_signature": "abc"}}}
    mine = ToolCall("a", "f", {}, None, Replay(target.issuer, "fields", signed))
    others = ToolCall("a", "f", {}, None, Replay("chat_completions http://y m", "fields", signed))
    assert (
        sent(Message("assistant", (mine,)), target=target)[0]["tool_calls"][0]["extra_content"]
        == signed["extra_content"]
    )
    assert "abc" not in json.dumps(sent(Message("assistant", (others,)), target=target))


def test_B008_reasoning_goes_back_in_every_message_so_that_sent_bytes_never_change() -> None:
    target = make(**DEEPSEEK)
    early = turn(Thinking("first", own(target)))
    alone = [WIRE.encode(m, target) for m in early]
    later = [*early, Message("assistant", (Text("done"),)), Message("user", (Text("more"),))]
    assert [WIRE.encode(m, target) for m in later][: len(alone)] == alone
    assert b'"reasoning_content":"first"' in alone[1]
