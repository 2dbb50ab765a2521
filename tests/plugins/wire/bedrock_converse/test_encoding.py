"""Messages and the prefix in the JSON of Converse: what a strict server takes, and what is never said to others."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from hermes.kernel.messages import Image, Message, Refusal, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import ModelRow, Target, ToolSchema
from hermes.plugins.wire.bedrock_converse import BedrockConverse
from hermes.plugins.wire.toolnames import own_name
from hermes.testing.strict_converse import problems

NOVA, LLAMA, R1, MISTRAL = (
    "us.amazon.nova-pro-v1:0",
    "us.meta.llama4-scout-17b-instruct-v1:0",
    "us.deepseek.r1-v1:0",
    "mistral.mistral-large-2402-v1:0",
)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
OBJECT = {"type": "object", "properties": {}}
READ = ToolSchema("read_file", "Read a file.", OBJECT)

NewTarget = Callable[..., Target]


def encoded(target: Target, role: Any, *parts: Any) -> Any:
    return json.loads(BedrockConverse().encode(Message(role, parts), target))


def prefix(target: Target, *tools: ToolSchema, system: str = "Be brief.") -> Any:
    return json.loads(BedrockConverse().prefix(system, tools, target) + b"]}")


# ---- Prefix ---------------------------------------------------------------------------------------------------------


def test_the_prefix_is_the_same_bytes_each_time_and_imports_no_sdk() -> None:
    program = (
        "import sys; from hermes.plugins.wire.bedrock_converse import BedrockConverse;"
        "from hermes.kernel.providers import *; from hermes.kernel.messages import *;"
        "t = Target('b:m', Profile('bedrock'), 'us.anthropic.claude-opus-4-8', '', 'bedrock_converse');"
        "w = BedrockConverse(); tools = [ToolSchema('f', 'd', {'type': 'object', 'properties': {'b': {}, 'a': {}}})];"
        "body = w.envelope(w.prefix('s', tools, t), [w.encode(Message('user', (Text('hi'),)), t)], Parameters(), t);"
        "w.open(body, Parameters(), t, Timeouts());"
        "print(any(m.split('.')[0] in ('boto3', 'botocore') for m in sys.modules), b''.join(body))"
    )
    said = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(said) == 1
    assert said.pop().startswith("False b'{")


def test_a_blank_system_prompt_is_left_out_and_no_tools_mean_no_toolConfig(target: Target) -> None:
    assert prefix(target, system=" \n") == {"messages": []}


def test_one_cache_point_stands_after_the_system_prompt_for_it_covers_the_tools_too(target: Target) -> None:
    body = prefix(target, READ)
    assert body["system"] == [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    assert body["toolConfig"]["tools"] == [
        {"toolSpec": {"name": "read_file", "description": "Read a file.", "inputSchema": {"json": OBJECT}}}
    ]


def test_without_a_system_prompt_the_cache_point_stands_after_the_tools_but_never_for_nova(
    target: Target, new_target: NewTarget
) -> None:
    assert prefix(target, READ, system="")["toolConfig"]["tools"][-1] == {"cachePoint": {"type": "default"}}
    assert len(prefix(new_target(model=NOVA), READ, system="")["toolConfig"]["tools"]) == 1
    assert "cachePoint" in prefix(new_target(model=NOVA), READ)["system"][-1]


@pytest.mark.parametrize(
    ("model", "ttl", "point"),
    [
        ("us.anthropic.claude-opus-4-8", "1h", {"type": "default", "ttl": "1h"}),
        ("us.anthropic.claude-opus-4-8", "5m", {"type": "default"}),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "1h", {"type": "default"}),
        (NOVA, "1h", {"type": "default"}),
        ("us.anthropic.claude-opus-4-8", "", None),
        (LLAMA, "5m", None),
    ],
)
def test_a_cache_point_asks_for_an_hour_only_where_that_is_known(
    new_target: NewTarget, model: str, ttl: str, point: Any
) -> None:
    last = prefix(new_target(model=model, cache_ttl=ttl))["system"][-1]
    assert last.get("cachePoint") == point


def test_B025_B110_odd_tools_are_made_acceptable_or_left_out(target: Target) -> None:
    odd = [
        ToolSchema("none", "", {}),
        ToolSchema("null", "d", {"type": "object", "properties": None}),
        ToolSchema("read_file", "again", OBJECT),
        ToolSchema(" ", "nameless", OBJECT),
        ToolSchema("union", "d", {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]}),
    ]
    body = prefix(target, READ, *odd)
    specs = [tool["toolSpec"] for tool in body["toolConfig"]["tools"]]
    assert [spec["name"] for spec in specs] == ["read_file", "none", "null", "union"]
    assert "description" not in specs[1]  # an empty one is refused
    assert not problems({**body, "messages": [{"role": "user", "content": [{"text": "hi"}]}]})


def test_B141_no_tool_is_strict_for_the_limits_of_that_are_low(target: Target) -> None:
    optional = {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}
    tools = prefix(target, *(ToolSchema(f"tool_{n}", "d", optional) for n in range(30)))["toolConfig"]["tools"]
    assert len(tools) == 30
    assert not any("strict" in tool["toolSpec"] for tool in tools)


def test_B140_references_are_resolved_before_they_are_sent(target: Target) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "string", "maxLength": 9}},
    }
    sent = json.dumps(prefix(target, ToolSchema("f", "d", schema)))
    assert "$ref" not in sent
    assert '"maxLength": 9' in sent


def test_B026_tool_names_are_mapped_and_come_back(target: Target) -> None:
    names = ["calendar.respondToEvent", "calendar_respondToEvent", "a" * 90, "工具"]
    tools = prefix(target, *(ToolSchema(name, "d", OBJECT) for name in names))["toolConfig"]["tools"]
    sent = [tool["toolSpec"]["name"] for tool in tools]
    assert [own_name(name) for name in sent] == names
    call = encoded(target, "assistant", ToolCall("c1", names[0], {}))["content"][0]["toolUse"]
    assert call["name"] == sent[0]


@pytest.mark.parametrize("model", [R1, "mistral.mistral-7b-instruct-v0:2", "us.meta.llama3-2-3b-instruct-v1:0"])
def test_spec_7920_models_without_tools_get_no_toolConfig(new_target: NewTarget, model: str) -> None:
    assert "toolConfig" not in prefix(new_target(model=model), READ)


def test_spec_7920_what_is_known_of_the_model_wins_over_its_family(new_target: NewTarget) -> None:
    assert "toolConfig" in prefix(new_target(model=R1, row=ModelRow(R1, tools=True)), READ)
    assert "toolConfig" not in prefix(new_target(row=ModelRow("m", tools=False)), READ)


# ---- Users ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u2003"])
def test_spec_9486_blank_text_is_never_sent(target: Target, blank: str) -> None:
    assert encoded(target, "user", Text(blank)) == {"role": "user", "content": [{"text": "(no output)"}]}
    assert encoded(target, "user", Text(blank), Text("hi"))["content"] == [{"text": "hi"}]


def test_B005_blank_text_beside_calls_is_dropped(target: Target) -> None:
    call = ToolCall("c1", "read_file", {"path": "ä"})
    assert encoded(target, "assistant", Text(" "), call)["content"] == [
        {"toolUse": {"toolUseId": "c1", "name": "read_file", "input": {"path": "ä"}}}
    ]
    assert encoded(target, "assistant", Text(""))["content"] == [{"text": "(no output)"}]


def test_spec_33317_the_bytes_of_a_picture_are_encoded_once(target: Target) -> None:
    content = encoded(target, "user", Text("look"), Image("image/png", PNG))["content"]
    assert content[1]["image"]["format"] == "png"
    assert base64.b64decode(content[1]["image"]["source"]["bytes"]) == base64.b64decode(PNG)


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (Image("image/jpg", "AAAA"), "jpeg"),
        (Image("", "AAAA"), "png"),
        (Image("image/jpeg", PNG), "png"),  # the bytes know better than the label
        (Image("image/png", "UklGRgAA"), "webp"),
        (Image(url=f"data:image/gif;base64,{PNG}"), "png"),
        (Image(url="data:image/gif;base64,AAAA"), "gif"),
    ],
)
def test_a_picture_is_named_by_what_it_is(target: Target, image: Image, kind: str) -> None:
    assert encoded(target, "user", image)["content"][0]["image"]["format"] == kind


@pytest.mark.parametrize(
    ("image", "said"),
    [(Image(url="https://x/y.png"), "https://x/y.png"), (Image("image/tiff", "AAAA"), "image/tiff")],
)
def test_what_cannot_be_shown_is_told_in_words(target: Target, image: Image, said: str) -> None:
    assert said in encoded(target, "user", image)["content"][0]["text"]


def test_lone_surrogates_never_reach_the_wire(target: Target) -> None:
    assert encoded(target, "user", Text("a\ud800b"))["content"] == [{"text": "a\ufffdb"}]


# ---- Assistants -----------------------------------------------------------------------------------------------------


def test_B080_reasoning_goes_back_to_its_issuer_alone_in_its_order(target: Target, new_target: NewTarget) -> None:
    parts = (
        Thinking("hm", Replay(target.issuer, "reasoning", {"signature": "s1"})),
        Text("I look."),
        Thinking("", Replay(target.issuer, "reasoning", {"redactedContent": "b64="})),
        ToolCall("c1", "read_file", {}),
    )
    content = encoded(target, "assistant", *parts)["content"]
    assert content[0] == {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s1"}}}
    assert content[2] == {"reasoningContent": {"redactedContent": "b64="}}
    assert [next(iter(block)) for block in content] == ["reasoningContent", "text", "reasoningContent", "toolUse"]
    for other in (new_target(model=NOVA), new_target("http://127.0.0.1:10")):
        assert [next(iter(b)) for b in encoded(other, "assistant", *parts)["content"]] == ["text", "toolUse"]


@pytest.mark.parametrize(
    "replay",
    [None, Replay("anthropic_messages https://api.anthropic.com m", "thinking", {"signature": "x"})],
)
def test_unsigned_and_foreign_thinking_is_dropped(target: Target, replay: Replay | None) -> None:
    assert encoded(target, "assistant", Thinking("hm", replay), Text("a"))["content"] == [{"text": "a"}]


def test_reasoning_at_the_very_end_is_dropped_for_it_is_refused_there(target: Target) -> None:
    late = Thinking("hm", Replay(target.issuer, "reasoning", {"signature": "s1"}))
    assert encoded(target, "assistant", Text("a"), late)["content"] == [{"text": "a"}]
    assert encoded(target, "assistant", late)["content"] == [{"text": "(no output)"}]


def test_a_refusal_is_sent_as_the_text_that_it_is(target: Target) -> None:
    assert encoded(target, "assistant", Refusal("I will not."))["content"] == [{"text": "I will not."}]


def test_llama_is_sent_no_words_beside_calls(new_target: NewTarget) -> None:
    llama = new_target(model=LLAMA)
    call = ToolCall("c1", "f", {})
    assert [next(iter(b)) for b in encoded(llama, "assistant", Text("words"), call)["content"]] == ["toolUse"]
    assert encoded(llama, "assistant", Text("words"))["content"] == [{"text": "words"}]


# ---- Results --------------------------------------------------------------------------------------------------------


def test_all_results_of_a_batch_are_one_message_of_the_user_in_their_order(target: Target) -> None:
    sent = encoded(
        target,
        "tool",
        ToolResult("c1", "ok", (Text("one"),)),
        ToolResult("c2", "timeout", (Text("late"),)),
        ToolResult("c3", "ok", (Text(" "),)),
    )
    assert sent == {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "c1", "content": [{"text": "one"}], "status": "success"}},
            {"toolResult": {"toolUseId": "c2", "content": [{"text": "late"}], "status": "error"}},
            {"toolResult": {"toolUseId": "c3", "content": [{"text": "(no output)"}], "status": "success"}},
        ],
    }


@pytest.mark.parametrize("given", ["[1, 2]", '"x"', "null", '{"a": 1}', '{"$ref": "#/$defs/x"}'])
def test_B112_B140_a_result_is_sent_as_text_whatever_json_it_is(target: Target, given: str) -> None:
    content = encoded(target, "tool", ToolResult("c1", "ok", (Text(given),)))["content"]
    assert content[0]["toolResult"]["content"] == [{"text": given}]


def test_B112_where_results_must_be_json_they_are_objects(new_target: NewTarget) -> None:
    content = encoded(new_target(model=MISTRAL), "tool", ToolResult("c1", "ok", (Text("[1]"),)))["content"]
    assert content[0]["toolResult"]["content"] == [{"json": {"output": "[1]"}}]


def test_pictures_in_results_are_shown_where_the_model_takes_them(target: Target, new_target: NewTarget) -> None:
    result = ToolResult("c1", "ok", (Text("shot"), Image("image/png", PNG)))
    shown = encoded(target, "tool", result)["content"][0]["toolResult"]["content"]
    assert shown == [{"text": "shot"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]
    told = encoded(new_target(model=LLAMA), "tool", result)["content"][0]["toolResult"]
    assert "status" not in told
    assert "an image was returned" in told["content"][1]["text"]


def test_an_error_with_a_picture_keeps_it_and_goes_without_a_status(target: Target) -> None:
    failed = ToolResult("c1", "error", (Text("failed"), Image("image/png", PNG)))
    block = encoded(target, "tool", failed)["content"][0]["toolResult"]
    assert "status" not in block
    assert len(block["content"]) == 2


def test_what_is_said_beside_results_goes_into_the_last(target: Target) -> None:
    results = [ToolResult(name, "ok", (Text(name),)) for name in ("c1", "c2")]
    content = encoded(target, "tool", *results, Text("stop that", "steer"))["content"]
    assert [next(iter(block)) for block in content] == ["toolResult", "toolResult"]
    said = content[1]["toolResult"]["content"]
    assert said[0] == {"text": "c2"}
    assert "stop that" in said[1]["text"]
    assert "user_message_while_working" in said[1]["text"]


def test_calls_and_results_of_another_model_are_told_to_one_that_takes_no_tools(new_target: NewTarget) -> None:
    r1 = new_target(model=R1)
    said = encoded(r1, "assistant", Text("Let me look."), ToolCall("c1", "read_file", {"path": "a"}))["content"]
    assert said[0] == {"text": "Let me look."}
    assert "read_file" in said[1]["text"]
    assert '{"path":"a"}' in said[1]["text"]
    told = encoded(r1, "tool", ToolResult("c1", "ok", (Text("text of a"), Image("image/png", PNG))))["content"]
    assert "c1" in told[0]["text"]
    assert told[1:] == [{"text": "text of a"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]
