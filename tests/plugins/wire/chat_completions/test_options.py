"""What varies from call to call, by the quirks of a provider and of its models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.kernel.messages import Message, Text
from hermes.kernel.providers import Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.chat_completions import ChatCompletions

WIRE = ChatCompletions()
TOOL = ToolSchema("f", "F.", {"type": "object", "properties": {}})
ANSWER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def body(model: str = "m", tools: tuple[ToolSchema, ...] = (), quirks: Any = None, **parameters: Any) -> Any:
    target = Target("t:m", Profile("t", quirks=quirks or {}), model, "http://x/v1", "chat_completions")
    fragments = [WIRE.encode(Message("user", (Text("hi"),)), target)]
    parts = WIRE.envelope(WIRE.prefix("", tools, target), fragments, Parameters(stream=False, **parameters), target)
    sent = json.loads(b"".join(parts))
    return {key: value for key, value in sent.items() if key not in ("model", "messages", "tools")}


# ---- How long to think ----------------------------------------------------------------------------------------------


def test_an_effort_is_sent_under_the_parameter_that_the_provider_names() -> None:
    assert body(reasoning_effort="low") == {"reasoning_effort": "low"}
    assert body(quirks={"effort_parameter": "a.b.c"}, reasoning_effort="low") == {"a": {"b": {"c": "low"}}}
    assert body() == {}


@pytest.mark.parametrize(
    ("effort", "sent"),
    [
        ("ultra", {"reasoning_effort": "max"}),
        ("none", {"thinking": {"type": "disabled"}}),
        ("low", {}),
        ("high", {"reasoning_effort": "high"}),
    ],
)
def test_spec_3_2_7_efforts_are_mapped_by_data_to_a_word_to_parameters_or_to_nothing(effort: str, sent: Any) -> None:
    words = {"ultra": "max", "none": {"thinking": {"type": "disabled"}}, "low": None}
    assert body(quirks={"effort_map": words}, reasoning_effort=effort) == sent


def test_the_word_for_every_other_effort_is_under_the_star() -> None:
    quirks = {"effort_map": {"none": "off", "*": None}}
    assert body(quirks=quirks, reasoning_effort="none") == {"reasoning_effort": "off"}
    assert body(quirks=quirks, reasoning_effort="high") == {}


def test_B008_thinking_is_switched_off_by_the_providers_own_switch() -> None:
    quirks = {"effort_map": {"none": {"thinking": {"type": "disabled"}}, "*": {"thinking": {"type": "enabled"}}}}
    assert body(quirks=quirks, reasoning_effort="none") == {"thinking": {"type": "disabled"}}
    assert body(quirks=quirks, reasoning_effort="high") == {"thinking": {"type": "enabled"}}


THINKING = {"extra_body": {"google": {"thinking_config": {"include_thoughts": True}}}}
GEMINI = {
    "effort_map": {"*": None},
    "by_model": {
        "*gemini-3*flash*": {
            "effort_parameter": "extra_body.google.thinking_config.thinking_level",
            "effort_map": {"none": "low"},
            "extra_parameters": THINKING,
        },
        "*gemini-2.5*": {"extra_parameters": THINKING},
    },
}


def test_spec_3_2_6_what_a_provider_wants_inside_one_parameter_is_sent_together() -> None:
    sent = body("models/Gemini-3-flash", quirks=GEMINI, reasoning_effort="medium")
    config = {"include_thoughts": True, "thinking_level": "medium"}
    assert sent == {"extra_body": {"google": {"thinking_config": config}}}
    assert body("gemini-2.5-pro", quirks=GEMINI, reasoning_effort="medium") == THINKING
    assert "thinking_level" not in json.dumps(THINKING), "the row of the catalogue must not change"


def test_spec_17426_a_model_that_no_pattern_names_gets_no_thinking_config() -> None:
    assert body("gemma-3-27b-it", quirks=GEMINI, reasoning_effort="high") == {}


def test_a_quirk_of_the_model_wins_over_that_of_the_provider_and_leaves_the_others() -> None:
    quirks = {
        "output_cap_parameter": "a",
        "drop_parameters": ["x"],
        "by_model": {"special*": {"output_cap_parameter": "b"}},
    }
    assert body("special-1", quirks=quirks, output_cap=5) == {"b": 5}
    assert body("other", quirks=quirks, output_cap=5) == {"a": 5}


def test_spec_3_2_7_what_the_user_wants_of_a_router_is_sent_as_it_is() -> None:
    quirks = {
        "effort_parameter": "reasoning.effort",
        "extra_parameters": {"provider": {"order": ["a"]}, "reasoning": {"exclude": True}},
    }
    assert body(quirks=quirks, reasoning_effort="low") == {
        "provider": {"order": ["a"]},
        "reasoning": {"exclude": True, "effort": "low"},
    }


# ---- The schema of an answer ----------------------------------------------------------------------------------------


def test_the_schema_of_an_answer_is_a_response_format() -> None:
    named = {"name": "answer", "schema": ANSWER, "strict": True}
    assert body(schema=ANSWER) == {"response_format": {"type": "json_schema", "json_schema": named}}


def test_B141_strict_is_claimed_only_for_a_schema_that_allows_it() -> None:
    loose = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(30)}}
    assert body(schema=loose)["response_format"]["json_schema"]["strict"] is False


def test_B141_tools_with_optional_arguments_are_never_strict() -> None:
    target = Target("t:m", Profile("t"), "m", "http://x/v1", "chat_completions")
    optional = {"type": "object", "properties": {"o": {"type": "string"}}}
    prefix = WIRE.prefix("", [ToolSchema(f"t{n}", "", optional) for n in range(30)], target)
    assert prefix.count(b'"name"') == 30
    assert b"strict" not in prefix


def test_where_a_provider_has_no_field_for_a_schema_it_gets_what_it_has() -> None:
    assert body(quirks={"schema_parameter": "json_object"}, schema=ANSWER) == {
        "response_format": {"type": "json_object"}
    }
    assert body(quirks={"schema_parameter": "none"}, schema=ANSWER) == {}


def test_the_schema_of_an_answer_is_sent_in_the_dialect_of_the_provider() -> None:
    odd = {"type": "object", "properties": {"n": {"type": ["integer", "null"], "minimum": 1}}}
    sent = body(quirks={"schema_dialect": "moonshot"}, schema=odd)["response_format"]["json_schema"]["schema"]
    assert sent["properties"]["n"] == {"type": "integer", "description": "(minimum: 1)"}


def test_no_schema_stands_beside_a_grammar_that_offers_tools() -> None:
    quirks = {"offering": "grammar"}
    assert "response_format" not in body(tools=(TOOL,), quirks=quirks, schema=ANSWER)
    assert "response_format" in body(quirks=quirks, schema=ANSWER)


def test_a_response_format_that_was_refused_is_left_out() -> None:
    assert body(schema=ANSWER, leave_out=("response_format",)) == {}


# ---- Tools ----------------------------------------------------------------------------------------------------------


def tools_of(*tools: ToolSchema, **quirks: Any) -> Any:
    target = Target("t:m", Profile("t", quirks=quirks), "m", "http://x/v1", "chat_completions")
    return json.loads(WIRE.prefix("", tools, target) + b"]}").get("tools")


def test_spec_47707_18478_a_nameless_tool_and_a_second_one_of_a_name_are_not_sent() -> None:
    sent = tools_of(TOOL, ToolSchema(" ", "", {}), TOOL, ToolSchema("", "", {}), ToolSchema("g", "", {}))
    assert [tool["function"]["name"] for tool in sent] == ["f", "g"]


def test_B025_a_tool_that_cannot_be_sent_leaves_the_others_alone() -> None:
    assert [t["function"]["name"] for t in tools_of(ToolSchema("odd", "", {"type": "string"}), TOOL)] == ["f"]
    assert tools_of(ToolSchema("odd", "", {"type": "string"})) is None


def test_B110_a_tool_without_arguments_has_no_parameters_where_empty_ones_are_refused() -> None:
    assert tools_of(TOOL)[0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert set(tools_of(TOOL, schema_dialect="gemini")[0]["function"]) == {"name", "description"}


def test_spec_27907_17335_a_list_of_tools_that_several_targets_share_is_never_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "format": "uuid"}}}
    shared = ToolSchema("f", "F.", schema)
    before = json.dumps(schema)
    xai, plain = tools_of(shared, shared, schema_dialect="xai"), tools_of(shared)
    assert json.dumps(schema) == before
    assert "format" not in xai[0]["function"]["parameters"]["properties"]["a"]
    assert plain[0]["function"]["parameters"] == schema


def test_B005_a_blank_system_prompt_is_not_sent() -> None:
    target = Target("t:m", Profile("t"), "m", "http://x/v1", "chat_completions")
    assert json.loads(WIRE.prefix(" \n", (), target) + b"]}")["messages"] == []
