"""The facts of each provider as its row in the catalogue makes them: what is sent by a target of that provider."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hermes.kernel.discovery import scan
from hermes.kernel.messages import Message, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.profiles import read_profiles
from hermes.kernel.providers import Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.chat_completions import ChatCompletions

WIRE = ChatCompletions()
ROWS = {row.name: row for row in read_profiles(scan())}
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"]
SCHEMA = {"type": "object", "properties": {"a": {"type": ["string", "null"], "pattern": "x", "enum": ["a/b", None]}}}


def make(provider: str, model: str) -> Target:
    row = ROWS[provider]
    return Target(f"{provider}:{model}", row, model, row.base_url, "chat_completions")


def body(target: Target, *messages: Message, tools: tuple[ToolSchema, ...] = (), **parameters: Any) -> Any:
    said = messages or (Message("user", (Text("hi"),)),)
    fragments = [WIRE.encode(m, target) for m in said]
    return json.loads(
        b"".join(WIRE.envelope(WIRE.prefix("s", tools, target), fragments, Parameters(**parameters), target))
    )


def efforts(provider: str, model: str) -> dict[str, Any]:
    """What is sent for each effort of the settings, beside what is always sent."""
    plain = body(make(provider, model))
    out = {}
    for effort in EFFORTS:
        sent = body(make(provider, model), reasoning_effort=effort)
        out[effort] = {key: value for key, value in sent.items() if plain.get(key) != value}
    return out


TURN = (
    Message("user", (Text("go"),)),
    Message(
        "assistant",
        (Thinking("foreign", Replay("chat_completions http://y m", "reasoning", None)), ToolCall("c1", "f", {})),
    ),
    Message("tool", (ToolResult("c1", "ok", (Text("r"),)),)),
)


# ---- Reasoning in the history ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("provider", "model"), [("deepseek", "deepseek-v4-pro"), ("moonshot", "kimi-k2.6")])
def test_B008_spec_3_2_2_deepseek_and_kimi_have_reasoning_on_every_assistant_message(provider: str, model: str) -> None:
    target = make(provider, model)
    assert body(target, *TURN)["messages"][2]["reasoning_content"] == " "
    mine = Message("assistant", (Thinking("mine", Replay(target.issuer, "reasoning", None)), ToolCall("c1", "f", {})))
    assert body(target, TURN[0], mine, TURN[2])["messages"][2]["reasoning_content"] == "mine"


@pytest.mark.parametrize("provider", ["mistral", "cerebras", "groq", "openai", "together", "openrouter", "gemini"])
def test_spec_3_2_3_45655_all_others_are_sent_no_reasoning(provider: str) -> None:
    assert set(body(make(provider, "m"), *TURN)["messages"][2]) == {"role", "content", "tool_calls"}


# ---- How long to think ----------------------------------------------------------------------------------------------


def level(effort: str) -> Any:
    return {"extra_body": {"google": {"thinking_config": {"include_thoughts": True, "thinking_level": effort}}}}


@pytest.mark.parametrize("prefix", ["", "models/"])
def test_spec_3_2_6_gemini_3_flash_has_three_levels_and_pro_two(prefix: str) -> None:
    flash, pro = efforts("gemini", f"{prefix}gemini-3-flash"), efforts("gemini", f"{prefix}gemini-3-pro-preview")
    assert flash == {e: level({"medium": "medium", "high": "high", "xhigh": "high"}.get(e, "low")) for e in EFFORTS}
    assert pro == {e: level("low" if e in ("none", "minimal", "low") else "high") for e in EFFORTS}


def test_spec_3_2_6_gemini_2_5_shows_its_thoughts_and_has_no_budget() -> None:
    sent = body(make("gemini", "gemini-2.5-flash"), reasoning_effort="high")
    assert sent["extra_body"] == {"google": {"thinking_config": {"include_thoughts": True}}}
    assert "reasoning_effort" not in sent


def test_spec_17426_gemma_never_gets_a_thinking_config() -> None:
    sent = body(make("gemini", "gemma-4-27b-it"), reasoning_effort="high")
    assert not {"extra_body", "reasoning_effort"} & set(sent)


def test_B009_only_gemini_3_gets_the_placeholder_on_a_call_of_another() -> None:
    for model, expected in (("gemini-3-pro", True), ("gemini-2.5-pro", False)):
        call = body(make("gemini", model), *TURN)["messages"][2]["tool_calls"][0]
        assert ("extra_content" in call) is expected


def test_spec_3_2_5_kimi_is_told_by_its_thinking_switch() -> None:
    sent = efforts("moonshot", "kimi-k2.6")
    assert sent["none"] == {"thinking": {"type": "disabled"}}
    assert {e: sent[e] for e in EFFORTS[1:]} == {e: {"thinking": {"type": "enabled"}} for e in EFFORTS[1:]}
    assert efforts("moonshot", "kimi-next")["low"] == {"reasoning_effort": "low", "thinking": {"type": "enabled"}}
    assert efforts("moonshot", "kimi-k3")["xhigh"] == {"reasoning_effort": "max"}


def test_B008_deepseek_is_switched_off_by_its_own_switch() -> None:
    assert efforts("deepseek", "deepseek-v4-flash")["none"] == {"thinking": {"type": "disabled"}}
    assert efforts("deepseek", "deepseek-v4-flash")["high"] == {"reasoning_effort": "high"}


def test_spec_3_2_7_openrouter_has_a_reasoning_object() -> None:
    assert efforts("openrouter", "anthropic/claude-x")["low"] == {"reasoning": {"effort": "low"}}


def test_spec_3_2_7_ultra_of_gpt_5_6_is_max() -> None:
    assert body(make("openai", "gpt-5.6"), reasoning_effort="ultra")["reasoning_effort"] == "max"


@pytest.mark.parametrize(
    ("provider", "model"), [("mistral", "mistral-large"), ("groq", "llama-4"), ("openai", "gpt-4.1")]
)
def test_a_model_that_does_not_reason_is_sent_no_effort(provider: str, model: str) -> None:
    assert efforts(provider, model) == {effort: {} for effort in EFFORTS}


# ---- The rest -------------------------------------------------------------------------------------------------------


def test_spec_3_1_11_the_output_cap_has_the_name_that_each_provider_wants() -> None:
    for provider in ("openai", "azure", "groq", "cerebras", "moonshot"):
        assert body(make(provider, "m"), output_cap=7)["max_completion_tokens"] == 7
    for provider in ("deepseek", "mistral", "openrouter", "ollama", "gemini"):
        assert body(make(provider, "m"), output_cap=7)["max_tokens"] == 7


def test_mistral_gets_ids_of_nine_letters_and_no_stream_options() -> None:
    sent = body(make("mistral", "mistral-large"), *TURN)
    assert re.fullmatch("[a-zA-Z0-9]{9}", sent["messages"][3]["tool_call_id"])
    assert sent["stream"] is True
    assert "stream_options" not in sent


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai", SCHEMA["properties"]["a"]),
        ("xai", {"type": ["string", "null"], "description": '(enum: ["a/b", null]; pattern: "x")'}),
        ("moonshot", {"type": "string", "enum": ["a/b"], "description": '(pattern: "x")'}),
        ("gemini", {"type": "string", "pattern": "x", "enum": ["a/b"], "nullable": True}),
    ],
)
def test_spec_3_2_5_27197_28490_tools_have_the_schema_that_each_provider_takes(provider: str, expected: Any) -> None:
    tool = ToolSchema("f", "F.", SCHEMA)
    assert body(make(provider, "m"), tools=(tool,))["tools"][0]["function"]["parameters"]["properties"]["a"] == expected


def test_spec_28490_xai_gets_no_service_tier() -> None:
    assert "service_tier" not in body(make("xai", "grok-4"), reasoning_effort="high")


@pytest.mark.parametrize("provider", sorted(ROWS))
def test_every_row_makes_a_body_and_names_only_quirks_that_are_documented(provider: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    target = make(provider, "m")
    for effort in EFFORTS:
        tools = (ToolSchema("f", "F.", SCHEMA),)
        assert body(target, *TURN, tools=tools, reasoning_effort=effort, schema=schema, output_cap=5)["model"] == "m"
    quirks = ROWS[provider].quirks
    named = {*quirks, *(name for more in quirks.get("by_model", {}).values() for name in more)}
    assert [name for name in sorted(named) if f"`{name}`" not in str(Profile.__doc__)] == []
