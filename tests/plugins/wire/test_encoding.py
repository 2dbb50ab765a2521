"""What the wire sends: valid for the strictest server, the same bytes for the same conversation, nothing of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.messages import Image, Message, Part, Refusal, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.chat_completions import ChatCompletions
from hermes.plugins.wire.chat_completions.encoding import FIELDS
from hermes.plugins.wire.toolnames import own_name, wire_name
from hermes.testing.strict_chat import problems

WIRE = ChatCompletions()
TOOL = ToolSchema("read_file", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})
USER = Message("user", (Text("hello"),))


def make(**quirks: Any) -> Target:
    return Target("t:m", Profile("t", quirks=quirks), "m", "http://x/v1", "chat_completions")


TARGET = make()


def body_of(
    *messages: Message,
    target: Target = TARGET,
    system: str = "sys",
    tools: tuple[ToolSchema, ...] = (),
    parameters: Parameters | None = None,
) -> Any:
    prefix = WIRE.prefix(system, tools, target)
    fragments = [WIRE.encode(m, target) for m in messages]
    return json.loads(b"".join(WIRE.envelope(prefix, fragments, parameters or Parameters(), target)))


def one(message: Message, target: Target = TARGET) -> Any:
    return json.loads(b"[" + WIRE.encode(message, target) + b"]")


# ---- Valid for everybody --------------------------------------------------------------------------------------------

words = st.text(min_size=1, max_size=12).filter(lambda t: bool(t.strip()))
texts = st.builds(Text, words, st.sampled_from(["", "context", "steer", "warning"]))
images = st.builds(Image, st.just("image/png"), st.just("aGk="))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Histories that the kernel's invariants allow, as they are sent: the last message is user or tool."""
    out: list[Message] = []
    number = 0
    for _ in range(draw(st.integers(1, 5))):
        out.append(Message("user", tuple(draw(st.lists(texts | images, min_size=1, max_size=3)))))
        for _ in range(draw(st.integers(0, 2))):
            calls: list[ToolCall] = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                problem = draw(st.sampled_from([None, "cut: it ended"]))
                arguments = {} if problem else {draw(words): draw(st.none() | st.integers() | words)}
                calls.append(ToolCall(f"c_{number}", draw(st.sampled_from(["read_file", "a.b"])), arguments, problem))
            before: list[Part] = draw(st.lists(st.builds(Thinking, words) | texts, max_size=2))
            results = [
                ToolResult(c.id, "ok", tuple(draw(st.lists(texts | images, min_size=1, max_size=2)))) for c in calls
            ]
            out.append(Message("assistant", (*before, *calls)))
            out.append(Message("tool", (*results, *draw(st.lists(texts, max_size=1)))))
        out.append(Message("assistant", (draw(st.builds(Text, words) | st.builds(Refusal, words)),)))
    return out[:-1]


QUIRKS: list[dict[str, Any]] = [
    {},
    {"images_in_tool_results": True},
    {"images_in_tool_results": True, "cache_layout": "envelope"},
    {"cache_layout": "envelope", "call_id": {"length": 9}},
    {"reasoning_field": "reasoning_content", "reasoning_required": True, "schema_dialect": "moonshot"},
    {"first_call_fields": {"extra_content": {"google": {}}}, "schema_dialect": "gemini"},
]


@settings(max_examples=60, deadline=None)
@given(conversations(), st.sampled_from(QUIRKS), st.booleans(), st.booleans())
def test_every_valid_conversation_is_a_request_that_the_strictest_server_takes(
    messages: list[Message], quirks: dict[str, Any], stream: bool, may_call: bool
) -> None:
    parameters = Parameters(stream=stream, may_call=may_call, temperature=0.5, output_cap=100, reasoning_effort="low")
    body = body_of(*messages, target=make(**quirks), tools=(TOOL,), parameters=parameters)
    assert problems(body) == []


@settings(max_examples=30, deadline=None)
@given(conversations())
def test_B034_a_longer_conversation_begins_with_the_bytes_of_the_shorter(messages: list[Message]) -> None:
    prefix = WIRE.prefix("sys", (TOOL,), TARGET)
    whole = b"".join(WIRE.envelope(prefix, [WIRE.encode(m, TARGET) for m in messages], Parameters(), TARGET))
    for n in range(1, len(messages)):
        part = WIRE.envelope(prefix, [WIRE.encode(m, TARGET) for m in messages[:n]], Parameters(), TARGET)
        assert whole.startswith(b"".join(part[:-1]))


def test_the_body_is_model_tools_messages_and_then_what_varies() -> None:
    assert list(body_of(USER, tools=(TOOL,))) == ["model", "tools", "messages", "stream", "stream_options"]
    assert list(body_of(USER, system=" ", parameters=Parameters(stream=False))) == ["model", "messages"]
    assert body_of(USER, system="")["messages"] == [{"role": "user", "content": "hello"}]


def test_the_envelope_never_joins_the_conversation() -> None:
    small, large = WIRE.encode(USER, TARGET), WIRE.encode(Message("user", (Text("x" * 300_000),)), TARGET)
    fragments = [small] * 100 + [large] * 2 + [small] * 100
    pieces = WIRE.envelope(WIRE.prefix("s", (), TARGET), fragments, Parameters(), TARGET)
    assert sum(piece is large for piece in pieces) == 2
    assert max(len(piece) for piece in pieces if piece is not large) <= 1 << 18
    assert len(pieces) < 12
    assert [m["content"][:1] for m in json.loads(b"".join(pieces))["messages"]] == [
        "s",
        *"h" * 100,
        "x",
        "x",
        *"h" * 100,
    ]


def test_what_was_put_together_once_is_not_joined_again_and_never_taken_for_another() -> None:
    parts = [WIRE.encode(Message("user", (Text(f"{n} " + "x" * 3000),)), TARGET) for n in range(200)]
    prefix = WIRE.prefix("s", (), TARGET)
    first = WIRE.envelope(prefix, parts, Parameters(), TARGET)
    second = WIRE.envelope(prefix, [*parts, parts[0]], Parameters(), TARGET)
    assert max(first, key=len) in second
    assert any(a is b for a in first for b in second if len(a) > 100_000)
    changed = [parts[0], parts[2], *parts[2:]]
    third = b"".join(WIRE.envelope(prefix, changed, Parameters(), TARGET))
    assert [m["content"].split()[0] for m in json.loads(third)["messages"][1:4]] == ["0", "2", "2"]


# ---- Messages -------------------------------------------------------------------------------------------------------


def test_B005_an_assistant_message_with_calls_has_null_in_place_of_a_blank_text() -> None:
    call = ToolCall("c1", "read_file", {"path": "ä"})
    assert one(Message("assistant", (Text("  "), call))) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"ä"}'}}
            ],
        }
    ]


def test_a_tool_message_is_one_object_a_result_and_steering_stands_marked_in_the_last() -> None:
    results = (ToolResult("a", "ok", (Text("one"), Text(" "))), ToolResult("b", "error", (Text("two"),)))
    first, second = one(Message("tool", (*results, Text("stop that", "steer"))))
    assert first == {"role": "tool", "tool_call_id": "a", "content": "one"}
    assert second["content"].startswith("two\n\n<user_message_while_working>\nstop that\n")


def test_B062_lone_surrogates_never_reach_the_wire() -> None:
    assert one(Message("user", (Text("x\ud800"),))) == [{"role": "user", "content": "x\ufffd"}]


def test_images_of_the_user_are_parts_and_images_of_a_tool_only_where_the_server_takes_them() -> None:
    image = Image("image/png", "aGk=")
    assert one(Message("user", (Text("look"), image)))[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]
    message = Message("tool", (ToolResult("a", "ok", (Text("shot"), image)),))
    assert "cannot be shown images" in one(message)[0]["content"]
    assert one(message, make(images_in_tool_results=True))[0]["content"][1]["type"] == "image_url"


def test_a_refusal_goes_back_as_text() -> None:
    assert one(Message("assistant", (Refusal("no"),))) == [{"role": "assistant", "content": "no"}]


# ---- Thinking and replay --------------------------------------------------------------------------------------------

OWN = Replay(TARGET.issuer, "reasoning", None)


def test_thinking_is_sent_back_only_in_the_field_that_the_provider_names() -> None:
    message = Message("assistant", (Thinking("hm", OWN), Text("yes")))
    assert one(message) == [{"role": "assistant", "content": "yes"}]
    assert one(message, make(reasoning_field="reasoning_content"))[0]["reasoning_content"] == "hm"


def test_B008_thinking_of_another_provider_never_leaks_and_a_required_field_gets_a_blank() -> None:
    message = Message("assistant", (Thinking("secret", Replay("other http://y", "reasoning", None)), Text("yes")))
    target = make(reasoning_field="reasoning_content", reasoning_required=True)
    assert one(message, target)[0]["reasoning_content"] == " "
    assert "reasoning_content" not in one(message, make(reasoning_field="reasoning_content"))[0]


def test_B009_what_the_issuer_wants_back_goes_to_it_word_for_word_and_to_nobody_else() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "abc"}}}
    for issuer, expected in ((TARGET.issuer, signed), ("chat_completions http://y/v1", {})):
        call = ToolCall("c1", "f", {}, None, Replay(issuer, "fields", signed))
        message = Message("assistant", (call,), replay=Replay(issuer, "fields", {"reasoning_details": [1]}))
        sent = one(message)[0]
        assert {k: v for k, v in sent["tool_calls"][0].items() if k == "extra_content"} == expected
        assert sent.get("reasoning_details") == ([1] if expected else None)


# ---- Tools and parameters -------------------------------------------------------------------------------------------


def test_a_final_request_keeps_the_tools_and_forbids_calls() -> None:
    body = body_of(USER, tools=(TOOL,), parameters=Parameters(may_call=False))
    assert body["tool_choice"] == "none"
    assert body["tools"]
    assert "tool_choice" not in body_of(USER, parameters=Parameters(may_call=False))


def test_nameless_and_repeated_tools_are_not_sent() -> None:
    body = body_of(USER, tools=(TOOL, ToolSchema(" ", "", {}), TOOL, ToolSchema("empty", "", {})))
    assert [t["function"]["name"] for t in body["tools"]] == ["read_file", "empty"]
    assert problems(body) == []


@pytest.mark.parametrize(
    "name", ["calendar.respondToEvent", "user-profile/update", "Dockerfile problems scanner", "a" * 90, "工具", "a.b"]
)
def test_B026_every_tool_name_is_mapped_to_an_accepted_one_and_back(name: str) -> None:
    mapped = wire_name(name)
    assert mapped != wire_name("a_b")
    assert own_name(mapped) == name
    assert problems(body_of(USER, tools=(ToolSchema(name, "", {}),))) == []
    assert wire_name(name) == mapped


def test_names_that_share_a_beginning_or_a_cleaned_form_stay_apart() -> None:
    names = ["a.b", "a_b", "a/b", "x" * 70, "x" * 71]
    assert len({wire_name(n) for n in names}) == len(names)


def test_quirks_name_parameters_and_leave_out_wins_over_everything() -> None:
    parameters = Parameters(temperature=0.1, output_cap=9, reasoning_effort="low")
    target = make(output_cap_parameter="max_completion_tokens", effort_parameter="reasoning.effort",
                  stream_usage=False, extra_parameters={"seed": 1})  # fmt: skip
    body = body_of(USER, target=target, parameters=parameters)
    assert body["max_completion_tokens"] == 9
    assert body["reasoning"] == {"effort": "low"}
    assert body["seed"] == 1
    assert "stream_options" not in body
    target = make(drop_parameters=["temperature"])
    left = body_of(USER, target=target, parameters=Parameters(temperature=0.1, output_cap=9, leave_out=("max_tokens",)))
    assert not {"temperature", "max_tokens"} & set(left)


def test_tools_offered_by_grammar_are_told_in_the_prompt_and_forbidden_by_an_empty_grammar() -> None:
    target = make(offering="grammar")
    body = body_of(USER, target=target, tools=(TOOL,))
    assert "tools" not in body
    assert "read_file" in body["messages"][0]["content"]
    assert body["grammar"]
    forbidden = body_of(USER, target=target, tools=(TOOL,), parameters=Parameters(may_call=False))
    assert forbidden["grammar"].startswith("root ::= text")


# ---- What a target refused ------------------------------------------------------------------------------------------


def test_B080_signed_thoughts_that_a_router_gave_are_left_out_after_a_refusal() -> None:
    told = Replay(TARGET.issuer, FIELDS, {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}], "o": 1})
    said = Message("assistant", (Text("so"),), replay=told)
    sent = body_of(USER, said, USER)["messages"][2]
    left = body_of(USER, said, USER, parameters=Parameters(leave_out=("thinking_blocks",)))["messages"][2]
    assert "reasoning_details" in sent
    assert left == {name: value for name, value in sent.items() if name != "reasoning_details"}


def test_a_field_of_a_parameter_can_be_left_out_and_the_parameter_with_its_last_field() -> None:
    target = make(extra_parameters={"reasoning": {"effort": "low", "exclude": True}, "own": {}})
    one = body_of(USER, target=target, parameters=Parameters(leave_out=("reasoning.effort",)))
    assert (one["reasoning"], one["own"]) == ({"exclude": True}, {})
    both = body_of(USER, target=target, parameters=Parameters(leave_out=("reasoning.effort", "reasoning.exclude")))
    assert "reasoning" not in both
