"""The frozen head of a request, and the parameters behind the conversation."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest

from hermes.kernel.messages import Message, Text
from hermes.kernel.providers import ModelRow, Parameters, Target, ToolSchema
from hermes.plugins.wire.codex_responses import CodexResponses
from hermes.testing.strict_responses import problems

WIRE = CodexResponses()
READ = ToolSchema("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
WRITE = ToolSchema("write_file", "Write a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
REASONS = ModelRow("m", reasoning=True)
PLAIN = ModelRow("m", reasoning=False)
HELLO = Message("user", (Text("hello"),))


def body_of(
    target: Target, parameters: Parameters | None = None, system: str = "Be good.", tools: tuple[ToolSchema, ...] = ()
) -> dict[str, Any]:
    """One request with one user message, as a strict server reads it."""
    fragments = [WIRE.encode(HELLO, target)]
    pieces = WIRE.envelope(WIRE.prefix(system, tools, target), fragments, parameters or Parameters(), target)
    body: dict[str, Any] = json.loads(b"".join(pieces))
    assert problems(body) == []
    return body


# ---- The head -------------------------------------------------------------------------------------------------------


def test_the_system_prompt_is_the_instructions_and_the_server_stores_nothing(target: Target) -> None:
    body = body_of(target, tools=(READ,))
    assert (body["model"], body["instructions"], body["store"]) == ("scripted-model", "Be good.", False)
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["tools"] == [
        {
            "type": "function",
            "name": "read_file",
            "description": "Read a file.",
            "parameters": READ.parameters,
            "strict": False,
        }
    ]


def test_a_blank_system_prompt_is_left_out(target: Target) -> None:
    assert "instructions" not in body_of(target, system=" \n")


def test_spec_32892_without_tools_there_is_no_tools_field(target: Target) -> None:
    assert "tools" not in body_of(target)


def test_the_same_epoch_has_the_same_bytes(target: Target) -> None:
    assert WIRE.prefix("Be good.", (READ, WRITE), target) == WIRE.prefix("Be good.", (READ, WRITE), target)


def test_what_varies_stands_behind_the_conversation(target: Target) -> None:
    prefix = WIRE.prefix("Be good.", (READ,), target)
    for parameters in (Parameters(), Parameters(stream=False, may_call=False, temperature=0.5, output_cap=100)):
        assert b"".join(WIRE.envelope(prefix, [], parameters, target)).startswith(prefix)


def test_spec_47707_18478_nameless_and_repeated_tools_are_not_sent(target: Target) -> None:
    again = ToolSchema("read_file", "Another.", {"type": "object"})
    sent = body_of(target, tools=(READ, ToolSchema(" ", "?", {}), again))["tools"]
    assert [(tool["name"], tool["description"]) for tool in sent] == [("read_file", "Read a file.")]


@pytest.mark.parametrize("name", ["calendar.respondToEvent", "user-profile/update", "a" * 90, "工具"])
def test_B026_names_of_tools_are_sent_in_a_form_that_is_accepted(target: Target, name: str) -> None:
    sent = body_of(target, tools=(ToolSchema(name, "", {"type": "object", "properties": {}}),))["tools"][0]["name"]
    assert sent != name
    assert body_of(target, tools=(ToolSchema(name, "", {}),))["tools"][0]["name"] == sent


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": None}, {}, {"type": "null"}])
def test_B110_a_tool_without_parameters_has_an_object_for_them(target: Target, schema: dict[str, Any]) -> None:
    parameters = body_of(target, tools=(ToolSchema("noop", "", schema),))["tools"][0]["parameters"]
    assert (parameters["type"], parameters["properties"]) == ("object", {})


def test_B141_no_tool_is_strict_since_left_out_it_would_be(target: Target) -> None:
    tools = tuple(
        ToolSchema(f"t{n}", "", {"type": "object", "properties": {"a": {"type": "string"}}}) for n in range(30)
    )
    assert {tool["strict"] for tool in body_of(target, tools=tools)["tools"]} == {False}


def test_spec_27907_the_schemas_for_xai_are_made_on_a_copy(new_target: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x", "enum": ["x/y", "x"]}}}
    before = copy.deepcopy(schema)
    sent = body_of(new_target(schema_dialect="xai"), tools=(ToolSchema("t", "", schema),))["tools"][0]
    assert "pattern" not in sent["parameters"]["properties"]["a"]
    assert schema == before
    kept = body_of(new_target(), tools=(ToolSchema("t", "", schema),))["tools"][0]
    assert kept["parameters"]["properties"]["a"]["pattern"] == "^x"


# ---- The cache key --------------------------------------------------------------------------------------------------


def test_spec_3_4_6_the_cache_key_is_a_hash_of_instructions_and_sorted_tools(target: Target) -> None:
    key = body_of(target, tools=(READ, WRITE))[  # the order of tools may differ between two plugins that load them
        "prompt_cache_key"
    ]
    assert key == body_of(target, tools=(WRITE, READ))["prompt_cache_key"]
    prefix, _, digest = key.partition("_")
    assert (prefix, len(digest), len(key) <= 64) == ("pck", 24, True)
    tools = body_of(target, tools=(READ, WRITE))["tools"]
    content = json.dumps(["Be good.", tools], ensure_ascii=False, separators=(",", ":")).encode()
    assert digest == hashlib.sha256(content).hexdigest()[:24]


def test_another_prompt_and_another_tool_make_another_cache_key(target: Target) -> None:
    keys = {
        body_of(target, system=system, tools=tools)["prompt_cache_key"]
        for system in ("a", "b")
        for tools in ((), (READ,), (READ, WRITE))
    }
    assert len(keys) == 6


def test_the_cache_key_can_be_left_out_for_good_and_for_a_call(new_target: Any, target: Target) -> None:
    assert "prompt_cache_key" not in body_of(new_target(drop_parameters=["prompt_cache_key"]), tools=(READ,))
    with_it = body_of(target, tools=(READ,))
    without = body_of(target, Parameters(leave_out=("prompt_cache_key",)), tools=(READ,))
    assert without == {name: value for name, value in with_it.items() if name != "prompt_cache_key"}


def test_a_model_name_with_quotes_does_not_confuse_the_head(new_target: Any) -> None:
    odd = new_target(model='a","tools":[ \\" b')
    body = body_of(odd, Parameters(may_call=False, leave_out=("prompt_cache_key",)))
    assert (body["model"], "tool_choice" in body, "prompt_cache_key" in body) == (odd.model, False, False)


# ---- Parameters -----------------------------------------------------------------------------------------------------


def test_calls_are_forbidden_by_tool_choice_and_the_tools_stay(target: Target) -> None:
    body = body_of(target, Parameters(may_call=False), tools=(READ,))
    assert (body["tool_choice"], len(body["tools"])) == ("none", 1)
    assert "tool_choice" not in body_of(target, Parameters(may_call=False))
    assert "tool_choice" not in body_of(target, tools=(READ,))


def test_the_output_cap_is_never_below_what_the_api_takes(target: Target) -> None:
    assert body_of(target, Parameters(output_cap=1000))["max_output_tokens"] == 1000
    assert body_of(target, Parameters(output_cap=1))["max_output_tokens"] == 16
    assert "max_output_tokens" not in body_of(target)


def test_spec_3_4_8_the_codex_backend_is_sent_no_output_cap_and_always_asked_for_a_stream(new_target: Any) -> None:
    codex = new_target(drop_parameters=["max_output_tokens", "temperature"], stream_only=True)
    body = body_of(codex, Parameters(stream=False, output_cap=1000, temperature=0.1))
    assert (body["stream"], "max_output_tokens" in body, "temperature" in body) == (True, False, False)
    assert "stream" not in body_of(new_target(), Parameters(stream=False))


def test_what_a_target_refused_is_left_out(new_target: Any) -> None:
    target = new_target(row=REASONS)
    left_out = ("temperature", "include", "reasoning.summary")
    body = body_of(target, Parameters(temperature=0.5, reasoning_effort="high", leave_out=left_out))
    assert body["reasoning"] == {"effort": "high"}
    assert not {"temperature", "include"} & set(body)
    assert "reasoning" not in body_of(target, Parameters(leave_out=("reasoning.summary",)))


def test_spec_28490b_what_a_provider_does_not_take_is_dropped_whoever_asks_for_it(new_target: Any) -> None:
    left_over = new_target(extra_parameters={"service_tier": "priority"}, drop_parameters=["service_tier"])
    assert "service_tier" not in body_of(left_over)
    assert body_of(new_target(extra_parameters={"service_tier": "flex"}))["service_tier"] == "flex"


# ---- Reasoning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "effort", "sent"),
    [
        (REASONS, "high", {"effort": "high", "summary": "auto"}),
        (REASONS, None, {"summary": "auto"}),
        (REASONS, "none", {"effort": "none"}),
        (REASONS, "minimal", {"effort": "low", "summary": "auto"}),  # specification 3.4.8
        (None, "low", {"effort": "low", "summary": "auto"}),
        (None, None, None),
        (PLAIN, "high", None),
    ],
)
def test_reasoning_is_asked_for_as_the_model_row_says(new_target: Any, row: Any, effort: Any, sent: Any) -> None:
    assert body_of(new_target(row=row), Parameters(reasoning_effort=effort)).get("reasoning") == sent


def test_a_model_that_does_not_reason_is_not_asked_for_encrypted_reasoning(new_target: Any) -> None:
    assert "include" not in body_of(new_target(row=PLAIN))
    assert "include" in body_of(new_target(row=None))


def test_spec_3_4_7_efforts_are_clamped_by_data_and_only_some_models_are_sent_one(new_target: Any) -> None:
    xai = {
        "effort_map": {"*": None},
        "by_model": {"grok-4.3*": {"effort_map": {"minimal": "low", "xhigh": "high"}}},
        "reasoning_summary": None,
    }
    capable, other = new_target(model="grok-4.3-fast", **xai), new_target(model="grok-4.5", row=REASONS, **xai)
    efforts = {
        asked: body_of(capable, Parameters(reasoning_effort=asked))["reasoning"]["effort"]
        for asked in ("minimal", "low", "high", "xhigh")
    }
    assert efforts == {"minimal": "low", "low": "low", "high": "high", "xhigh": "high"}
    assert "reasoning" not in body_of(other, Parameters(reasoning_effort="high"))


@pytest.mark.parametrize(
    ("row", "effort", "quirks", "is_sent"),
    [
        (REASONS, None, {}, False),
        (REASONS, "high", {}, False),
        (REASONS, "none", {}, True),
        (REASONS, "high", {"temperature_with_reasoning": True}, True),
        (PLAIN, None, {}, True),
        (None, None, {}, True),
    ],
)
def test_a_temperature_is_sent_where_reasoning_does_not_refuse_it(
    new_target: Any, row: Any, effort: Any, quirks: Any, is_sent: bool
) -> None:
    body = body_of(new_target(row=row, **quirks), Parameters(temperature=0.3, reasoning_effort=effort))
    assert body.get("temperature") == (0.3 if is_sent else None)


# ---- An answer by schema --------------------------------------------------------------------------------------------

CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(("schema", "is_strict"), [(CLOSED, True), (OPEN, False)])
def test_B141_an_answer_is_held_to_its_schema_and_strictly_only_where_that_is_valid(
    target: Target, schema: Any, is_strict: bool
) -> None:
    assert body_of(target, Parameters(schema=schema))["text"]["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": schema,
        "strict": is_strict,
    }


def test_a_provider_without_schemas_is_asked_for_less(new_target: Any) -> None:
    only_objects = body_of(new_target(schema_parameter="json_object"), Parameters(schema=OPEN))
    assert only_objects["text"]["format"] == {"type": "json_object"}
    assert "text" not in body_of(new_target(schema_parameter="none"), Parameters(schema=OPEN))
