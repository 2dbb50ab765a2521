"""What varies from call to call: cache points, limits, thinking by family, the form of the answer, what is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from hermes.kernel.messages import Message, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import ModelRow, Parameters, Target, ToolSchema
from hermes.plugins.wire.bedrock_converse.families import FAMILIES, family_of
from hermes.testing.strict_converse import problems

NewTarget = Callable[..., Target]
HELLO = Message("user", (Text("hello"),))
READ = ToolSchema("read_file", "Read.", {"type": "object", "properties": {}})
CALLED = Message("assistant", (Text("I look."), ToolCall("c1", "read_file", {})))
ANSWERED = Message("tool", (ToolResult("c1", "ok", (Text('{"toolUse":{"toolResult":1}}'),)),))
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def sent(new_caller: Any, new_target: NewTarget) -> Callable[..., Any]:
    """The body for a model with these parameters; it passes the strict validator."""

    def make(model: str, *messages: Message, parameters: Parameters | None = None, tools: Any = (), **more: Any) -> Any:
        caller = new_caller(new_target(model=model, **more))
        body = caller.sent(*messages, parameters=parameters, tools=tools)
        assert problems(body) == []
        return body

    return make


CLAUDE_37, CLAUDE_45, CLAUDE_46, CLAUDE_48, CLAUDE_5, FABLE, NOVA, NOVA_2, OSS, GPT, R1, LLAMA = (
    "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
    "global.anthropic.claude-opus-4-5-20251101-v1:0",
    "us.anthropic.claude-sonnet-4-6",
    "us.anthropic.claude-opus-4-8",
    "global.anthropic.claude-opus-5",
    "us.anthropic.claude-fable-5",
    "us.amazon.nova-pro-v1:0",
    "us.amazon.nova-2-lite-v1:0",
    "openai.gpt-oss-120b-1:0",
    "us.openai.gpt-5.6-luna",
    "us.deepseek.r1-v1:0",
    "us.meta.llama4-scout-17b-instruct-v1:0",
)


# ---- Bytes ----------------------------------------------------------------------------------------------------------


def test_history_is_the_same_bytes_in_every_body_but_for_the_cache_points(new_caller: Any, target: Target) -> None:
    caller = new_caller(target)
    wire = caller.wire
    messages = [Message(role, (Text(f"text {n}"),)) for n in range(12) for role in ("user", "assistant")][:-1]
    prefix, fragments = wire.prefix("sys", [READ], target), [wire.encode(m, target) for m in messages]
    assert fragments == [wire.encode(m, target) for m in messages]
    mark = b',{"cachePoint":{"type":"default"}}'
    bodies = [b"".join(wire.envelope(prefix, fragments[:n], Parameters(), target)) for n in range(1, 24, 2)]
    for shorter, longer in pairwise(bodies):
        assert longer.replace(mark, b"").startswith(shorter.replace(mark, b"").removesuffix(b"]}"))
    assert bodies[-1].count(mark) == 4
    assert [wire.encode(m, target) for m in messages] == fragments  # marks never change what is kept


def test_cache_points_stand_on_the_last_three_messages_of_the_user(sent: Any) -> None:
    own = Replay("bedrock_converse http://127.0.0.1:9 " + CLAUDE_45, "reasoning", {"signature": "s"})
    called = Message("assistant", (Thinking("hm", own), ToolCall("c1", "read_file", {})))
    body = sent(CLAUDE_45, HELLO, called, ANSWERED, Message("assistant", (Text("so"),)), HELLO, tools=[READ])
    marked = ["cachePoint" in message["content"][-1] for message in body["messages"]]
    assert marked == [True, False, True, False, True]
    assert "cachePoint" in body["system"][-1]


def test_a_model_that_takes_no_cache_points_gets_none(sent: Any) -> None:
    assert "cachePoint" not in json.dumps(sent(LLAMA, HELLO))


# ---- Tools ----------------------------------------------------------------------------------------------------------


def test_a_history_with_calls_has_a_toolConfig_even_when_no_tool_is_offered_any_more(sent: Any) -> None:
    body = sent(CLAUDE_45, HELLO, CALLED, ANSWERED)
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["unavailable"]
    assert "toolConfig" not in sent(CLAUDE_45, Message("user", (Text('{"toolUse":{}} {"toolResult":{}}'),)))


def test_may_call_false_keeps_the_tools_for_converse_has_no_choice_of_none(sent: Any) -> None:
    body = sent(CLAUDE_45, HELLO, CALLED, ANSWERED, tools=[READ], parameters=Parameters(may_call=False))
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["read_file"]
    assert "toolChoice" not in body["toolConfig"]


def test_spec_7920_a_switch_to_a_model_without_tools_needs_no_toolConfig(sent: Any) -> None:
    assert "toolConfig" not in sent(R1, HELLO, CALLED, ANSWERED, tools=[READ])


# ---- Thinking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "effort", "fields", "output"),
    [
        (CLAUDE_37, "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}, {}),
        (CLAUDE_45, "xhigh", {"thinking": {"type": "enabled", "budget_tokens": 32768}}, {}),
        (CLAUDE_45, "none", {}, {}),
        (CLAUDE_46, "xhigh", {"thinking": {"type": "adaptive", "display": "summarized"}}, {"effort": "max"}),
        (CLAUDE_48, "high", {"thinking": {"type": "adaptive", "display": "summarized"}}, {"effort": "high"}),
        (CLAUDE_48, None, {}, {}),
        (CLAUDE_5, None, {"thinking": {"type": "adaptive", "display": "summarized"}}, {}),
        (CLAUDE_5, "none", {"thinking": {"type": "disabled"}}, {}),
        (FABLE, "none", {"thinking": {"type": "adaptive", "display": "summarized"}}, {}),
        (NOVA, "high", {}, {}),
        (NOVA_2, "medium", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}}, {}),
        (OSS, "xhigh", {"reasoning_effort": "high"}, {}),
        (GPT, "minimal", {"reasoning": {"effort": "low"}}, {}),
        (GPT, "none", {"reasoning": {"effort": "none"}}, {}),
        (R1, "high", {}, {}),
        ("somebody.else-v1:0", "high", {}, {}),
    ],
)
def test_each_family_is_told_to_think_in_its_own_words(
    sent: Any, model: str, effort: str | None, fields: Any, output: Any
) -> None:
    body = sent(model, parameters=Parameters(reasoning_effort=effort))
    assert body.get("additionalModelRequestFields", {}) == fields
    assert body.get("outputConfig", {}) == output


@pytest.mark.parametrize(
    ("model", "effort", "inference"),
    [
        (CLAUDE_45, None, {"maxTokens": 9000, "temperature": 0.5}),
        (CLAUDE_45, "low", {"maxTokens": 9000}),
        (CLAUDE_46, None, {"maxTokens": 9000, "temperature": 0.5}),
        (CLAUDE_48, None, {"maxTokens": 9000}),
        (NOVA_2, "medium", {"maxTokens": 9000, "temperature": 0.5}),
        (NOVA_2, "high", {}),
        (GPT, "high", {"maxTokens": 9000, "temperature": 0.5}),
    ],
)
def test_a_temperature_is_sent_only_where_it_is_taken(sent: Any, model: str, effort: str, inference: Any) -> None:
    asked = Parameters(output_cap=9000, temperature=0.5, reasoning_effort=effort)
    assert sent(model, parameters=asked).get("inferenceConfig", {}) == inference


def test_a_temperature_is_never_more_than_converse_takes(sent: Any) -> None:
    assert sent(NOVA, parameters=Parameters(temperature=1.8))["inferenceConfig"] == {"temperature": 1.0}


def test_an_effort_can_be_left_out(sent: Any) -> None:
    asked = Parameters(reasoning_effort="high", leave_out=("reasoning_effort",))
    assert "additionalModelRequestFields" not in sent(GPT, parameters=asked)
    assert "outputConfig" not in sent(CLAUDE_5, parameters=asked)


@pytest.mark.parametrize(("cap", "budget"), [(9000, 4904), (5120, 1024), (5119, None), (None, 16384)])
def test_a_thinking_budget_leaves_room_for_the_answer_or_is_not_sent(
    sent: Any, cap: int | None, budget: int | None
) -> None:
    body = sent(CLAUDE_45, parameters=Parameters(output_cap=cap, reasoning_effort="high"))
    assert body.get("additionalModelRequestFields", {}).get("thinking", {}).get("budget_tokens") == budget


def test_in_a_tool_loop_that_another_model_began_no_budget_is_sent(sent: Any) -> None:
    asked = Parameters(reasoning_effort="high")
    assert "additionalModelRequestFields" not in sent(
        CLAUDE_45, HELLO, CALLED, ANSWERED, tools=[READ], parameters=asked
    )
    later = (HELLO, CALLED, ANSWERED, Message("assistant", (Text("done"),)), HELLO)
    assert "additionalModelRequestFields" in sent(CLAUDE_45, *later, tools=[READ], parameters=asked)


def test_B080_thinking_blocks_can_be_left_out_after_a_signature_was_refused(sent: Any) -> None:
    own = Replay("bedrock_converse http://127.0.0.1:9 " + CLAUDE_48, "reasoning", {"signature": "s"})
    said = Message("assistant", (Thinking("hm", own), Text('"reasoningContent"')))
    assert "reasoningText" in json.dumps(sent(CLAUDE_48, HELLO, said, HELLO))
    body = sent(CLAUDE_48, HELLO, said, HELLO, parameters=Parameters(leave_out=("thinking_blocks",)))
    assert body["messages"][1]["content"] == [{"text": '"reasoningContent"'}]


def test_a_model_behind_a_name_that_does_not_tell_is_known_by_its_quirk(sent: Any) -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
    asked = Parameters(reasoning_effort="low")
    assert "additionalModelRequestFields" not in sent(arn, parameters=asked)
    assert "additionalModelRequestFields" in sent(arn, parameters=asked, model_family=CLAUDE_45)


# ---- The rest -------------------------------------------------------------------------------------------------------


def test_the_cap_of_the_call_wins_over_the_targets(sent: Any) -> None:
    assert "inferenceConfig" not in sent(CLAUDE_45)
    assert sent(CLAUDE_45, output_cap=500)["inferenceConfig"] == {"maxTokens": 500}
    body = sent(CLAUDE_45, output_cap=500, parameters=Parameters(output_cap=8000))
    assert body["inferenceConfig"] == {"maxTokens": 8000}  # the boost after a cut answer (spec 9.3)


def test_an_answer_by_a_schema_uses_the_field_of_the_wire(sent: Any) -> None:
    text_format = sent(CLAUDE_45, parameters=Parameters(schema=SCHEMA))["outputConfig"]["textFormat"]
    assert text_format["type"] == "json_schema"
    written = json.loads(text_format["structure"]["jsonSchema"]["schema"])
    assert written == {**SCHEMA, "additionalProperties": False}  # an open object is refused
    row = ModelRow("m", schemas=False)
    assert "outputConfig" not in sent(CLAUDE_45, parameters=Parameters(schema=SCHEMA), row=row)


@pytest.mark.parametrize(
    "name", ["temperature", "inferenceConfig.temperature", "inferenceConfig", "additionalModelRequestFields"]
)
def test_what_is_left_out_is_not_sent(sent: Any, name: str) -> None:
    asked = Parameters(temperature=0.5, output_cap=10, leave_out=(name,))
    body = sent(NOVA, parameters=asked, extra_parameters={"additionalModelRequestFields": {"topK": 1}})
    assert (name == "additionalModelRequestFields") is ("additionalModelRequestFields" not in body)
    assert ("temperature" in body.get("inferenceConfig", {})) is (name == "additionalModelRequestFields")
    assert ("inferenceConfig" in body) is (name != "inferenceConfig")
    assert "temperature" not in json.dumps(sent(NOVA, parameters=asked, drop_parameters=["temperature"]))


def test_extra_parameters_of_a_profile_are_laid_over(sent: Any) -> None:
    extra = {
        "guardrailConfig": {"guardrailIdentifier": "g1", "guardrailVersion": "1"},
        "inferenceConfig": {"topP": 0.9},
        "serviceTier": {"type": "flex"},
    }
    body = sent(NOVA, parameters=Parameters(output_cap=10), extra_parameters=extra)
    assert body["inferenceConfig"] == {"maxTokens": 10, "topP": 0.9}
    assert body["guardrailConfig"] == extra["guardrailConfig"]
    assert body["serviceTier"] == {"type": "flex"}


@pytest.mark.parametrize("place", range(len(FAMILIES)))
def test_every_row_of_the_table_is_reached_by_each_of_its_patterns(new_target: NewTarget, place: int) -> None:
    for pattern in FAMILIES[place].models:
        model = pattern.replace("[78]", "8").replace("*", "-x-").strip("-")
        assert family_of(new_target(model=model)) is FAMILIES[place], model
