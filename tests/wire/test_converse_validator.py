"""The strict validator of Converse itself: it takes what is right and names each thing that Bedrock refuses."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from typing import Any

import pytest

from hermes.testing.strict_converse import MOST_IMAGE_BYTES, problems

POINT = {"cachePoint": {"type": "default"}}
HOUR = {"cachePoint": {"type": "default", "ttl": "1h"}}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()


def picture() -> dict[str, Any]:
    return {"image": {"format": "png", "source": {"bytes": PNG}}}


def good() -> dict[str, Any]:
    def use(call_id: str) -> Any:
        return {"toolUse": {"toolUseId": call_id, "name": "f", "input": {}}}

    def result(call_id: str, *content: Any) -> Any:
        return {"toolResult": {"toolUseId": call_id, "content": list(content), "status": "success"}}

    schema = {"schema": '{"type":"object"}', "name": "answer"}
    return {
        "system": [{"text": "s"}, copy.deepcopy(HOUR)],
        "inferenceConfig": {"maxTokens": 4096, "stopSequences": ["x"]},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}},
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": {"type": "object"}}}},
            copy.deepcopy(HOUR)]},
        "messages": [
            {"role": "user", "content": [{"text": "look"}, picture(), copy.deepcopy(POINT)]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "", "signature": "sig-1"}}},
                {"reasoningContent": {"redactedContent": "cmVkLTE="}},
                {"text": "I call"}, use("a"), use("b")]},
            {"role": "user", "content": [
                result("b", {"text": "x"}, picture()), result("a", {"json": {}}), {"text": "and"},
                copy.deepcopy(POINT)]},
        ],
    }  # fmt: skip


def test_a_right_request_has_no_problem() -> None:
    assert problems(good()) == []
    assert problems(good(), issued={"sig-1", "cmVkLTE="}) == []
    assert problems({"messages": [{"role": "user", "content": [{"text": "x"}]}]}) == []


def test_reasoning_that_the_server_did_not_sign_is_refused() -> None:
    assert problems(good(), issued={"sig-1"}) == [
        "messages[1].content[1]: invalid signature in a reasoningContent block"
    ]
    assert problems(good(), issued={"cmVkLTE="}) == [
        "messages[1].content[0]: invalid signature in a reasoningContent block"
    ]


def blocks(body: Any, place: int) -> Any:
    return body["messages"][place]["content"]


def spec(body: Any) -> Any:
    return body["toolConfig"]["tools"][0]["toolSpec"]


def use(body: Any) -> Any:
    return blocks(body, 1)[3]["toolUse"]


def result(body: Any) -> Any:
    return blocks(body, 2)[0]["toolResult"]


def image(body: Any) -> Any:
    return blocks(body, 0)[1]["image"]


def thinking(body: Any) -> Any:
    return body["additionalModelRequestFields"]["thinking"]


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    # the top level
    (lambda b: b.pop("messages"), "messages is missing"),
    (lambda b: b.update(messages=[]), "messages has a bad value"),
    (lambda b: b.update(modelId="m"), "modelId is not known"),
    (lambda b: b["inferenceConfig"].update(maxTokens=0), "inferenceConfig.maxTokens has a bad value"),
    (lambda b: b["inferenceConfig"].update(temperature=1.5), "inferenceConfig.temperature has a bad value"),
    (lambda b: b["inferenceConfig"].update(max_tokens=5), "inferenceConfig.max_tokens is not known"),
    (lambda b: b.update(system="s"), "system has a bad value"),
    (lambda b: b["system"][0].update(text=" "), "system[0]: the text field is blank"),
    (lambda b: b["system"].append(picture()), "system[2]: a image block may not stand here"),
    (lambda b: b["outputConfig"].update(format={}), "outputConfig.format is not known"),
    (lambda b: b["outputConfig"]["textFormat"].update(structure={}), "structure: one of jsonSchema"),
    (lambda b: b["outputConfig"]["textFormat"]["structure"]["jsonSchema"].update(schema={"type": "object"}),
     "jsonSchema.schema has a bad value"),
    # tools
    (lambda b: b.pop("toolConfig"), "the toolConfig field must be defined"),
    (lambda b: b.update(toolConfig={"tools": []}), "toolConfig.tools: there is no tool"),
    (lambda b: b["toolConfig"].update(toolChoice={"none": {}}), "toolConfig.toolChoice: one of auto, any, tool"),
    (lambda b: b["toolConfig"].update(toolChoice={"tool": {"name": "g"}}), "toolConfig.toolChoice: no tool 'g'"),
    (lambda b: b["toolConfig"]["tools"].append(copy.deepcopy(b["toolConfig"]["tools"][0])), "'f' is there twice"),
    (lambda b: spec(b).update(name="a.b"), "bad name 'a.b'"),
    (lambda b: spec(b).update(description=""), "toolSpec.description has a bad value"),
    (lambda b: spec(b).pop("inputSchema"), "toolSpec.inputSchema is missing"),
    (lambda b: spec(b).update(inputSchema={"type": "object"}), "toolSpec.inputSchema has a bad value"),
    (lambda b: spec(b).update(inputSchema={"json": {"type": "string"}}), "is not the schema of an object"),
    (lambda b: spec(b).update(inputSchema={"json": {"type": "object", "allOf": []}}), "oneOf, allOf or anyOf"),
    # thinking
    (lambda b: thinking(b).update(type="on"), "thinking.type: 'on' is not known"),
    (lambda b: thinking(b).update(budget_tokens=5000), "the output limit 4096 is not more than thinking.budget_tokens"),
    (lambda b: b["inferenceConfig"].update(temperature=0), "temperature may only be 1"),
    (lambda b: b["toolConfig"].update(toolChoice={"any": {}}), "may not force a call when thinking is on"),
    (lambda b: blocks(b, 1).__delitem__(slice(0, 2)), "messages[1].content[0]: expected thinking"),
    # order and roles
    (lambda b: b["messages"].insert(0, {"role": "tool", "content": [{"text": "s"}]}), "messages[0]: bad role 'tool'"),
    (lambda b: b["messages"].pop(0), "messages[0]: a conversation must start with a user message"),
    (lambda b: b["messages"].insert(0, {"role": "user", "content": [{"text": "u"}]}),
     "messages[1]: a conversation must alternate"),
    (lambda b: b["messages"].append({"role": "assistant", "content": [{"text": "Sure"}]}), "last must be of the user"),
    (lambda b: b["messages"][0].update(name="x"), "messages[0].name is not known"),
    (lambda b: b["messages"][0].update(content=[]), "messages[0].content: the content is empty"),
    (lambda b: b["messages"][0].update(content="text"), "messages[0].content: the content is empty"),
    # pairs
    (lambda b: blocks(b, 2).pop(0), "expected toolResult blocks for the following Ids: b"),
    (lambda b: blocks(b, 2).insert(0, blocks(b, 2).pop(2)), "the result of b stands after other blocks"),
    (lambda b: blocks(b, 2).insert(0, copy.deepcopy(blocks(b, 2)[0])), "contain duplicate Ids: b"),
    (lambda b: result(b).update(toolUseId="c"), "the toolResult 'c' answers no toolUse of the previous turn"),
    (lambda b: use(b).update(toolUseId="b"), "the id 'b' was used before"),
    (lambda b: use(b).update(toolUseId="x" * 65), "messages[1].content[3]: bad id"),
    (lambda b: use(b).update(name="a.b"), "messages[1].content[3]: bad name 'a.b'"),
    (lambda b: use(b).update(input="{}"), "toolUse.input has a bad value"),
    (lambda b: use(b).update(status="x"), "toolUse.status is not known"),
    # blocks
    (lambda b: blocks(b, 0)[0].update(text="\n"), "messages[0].content[0]: the text field is blank"),
    (lambda b: blocks(b, 0)[0].update(type="text"), "messages[0].content[0]: exactly one of"),
    (lambda b: blocks(b, 0).append({"reasoningContent": {}}), "a reasoningContent block may not stand here"),
    (lambda b: blocks(b, 1).insert(2, picture()), "messages[1].content[2]: a image block may not stand here"),
    (lambda b: blocks(b, 0).extend(picture() for _ in range(20)), "messages[0].content: more than 20 images"),
    (lambda b: result(b).update(content=[]), "toolResult.content has a bad value"),
    (lambda b: result(b)["content"][0].update(text=""), "toolResult.content[0]: the text field is blank"),
    (lambda b: result(b)["content"].append({"json": []}), "provide a json object"),
    (lambda b: result(b)["content"].append(copy.deepcopy(POINT)), "a cachePoint block may not stand here"),
    (lambda b: result(b).update(status="ok"), "toolResult.status has a bad value"),
    (lambda b: result(b).update(status="error"), "must be of type text if the status is error"),
    # pictures
    (lambda b: image(b).update(format="image/png"), "bad media type 'image/png'"),
    (lambda b: image(b).update(format="webp"), "specified as webp, but it appears to be a png"),
    (lambda b: image(b)["source"].update(bytes="***"), "invalid base64 data"),
    (lambda b: image(b)["source"].update(bytes="A" * (MOST_IMAGE_BYTES + 4)), "image exceeds 5000000 bytes"),
    (lambda b: image(b).update(source={"url": "https://x"}), "image.source has a bad value"),
    # reasoning
    (lambda b: blocks(b, 1)[0]["reasoningContent"]["reasoningText"].pop("signature"), "signature is missing"),
    (lambda b: blocks(b, 1)[0]["reasoningContent"].update(redactedContent="cg=="), "exactly one of reasoningText"),
    (lambda b: blocks(b, 1)[1]["reasoningContent"].update(redactedContent="***"), "redactedContent: invalid base64"),
    (lambda b: blocks(b, 1)[1]["reasoningContent"].update({"redactedContent": "cmVkLTE=", "x": 1}), "exactly one of"),
    (lambda b: b["messages"].__setitem__(slice(1, 3), [
        {"role": "assistant", "content": [{"text": "x"}, copy.deepcopy(blocks(b, 1)[0])]},
        {"role": "user", "content": [{"text": "go on"}]}]), "the final block cannot be reasoningContent"),
    # cache points
    (lambda b: blocks(b, 1).append(copy.deepcopy(POINT)), "a maximum of 4 cache marks may be provided, found 5"),
    (lambda b: blocks(b, 0).insert(0, blocks(b, 0).pop()), "messages[0].content[0]: there is nothing available to"),
    (lambda b: blocks(b, 1).insert(2, copy.deepcopy(POINT)), "cannot be inserted after reasoning block"),
    (lambda b: blocks(b, 2).__setitem__(3, copy.deepcopy(HOUR)), "a mark of 1h comes after a mark of 5m"),
    (lambda b: blocks(b, 0)[2]["cachePoint"].update(ttl="2h"), "cachePoint.ttl has a bad value"),
    (lambda b: blocks(b, 0)[2]["cachePoint"].update(type="ephemeral"), "cachePoint.type has a bad value"),
    (lambda b: blocks(b, 0)[0].update(text="x\ud800"), "a lone surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "said"), WRONG, ids=[f"{n}: {said}" for n, (_, said) in enumerate(WRONG)])
def test_each_wrong_thing_is_named(spoil: Callable[[Any], Any], said: str) -> None:
    body = good()
    spoil(body)
    assert any(said in problem for problem in problems(body)), problems(body)


def test_spec_9486_a_single_space_is_a_blank_text() -> None:
    body = good()
    blocks(body, 0)[0]["text"] = " "
    assert problems(body) == ["messages[0].content[0]: the text field is blank"]


def test_spec_33317_a_picture_that_was_encoded_again_is_refused() -> None:
    body = good()
    image(body)["source"]["bytes"] = base64.b64encode(PNG.encode()).decode()
    assert problems(body) == ["messages[0].content[1].image: encoded twice, this is base64 of base64"]


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"messages": [None, {"role": []}], "system": [1], "toolConfig": {"tools": [{"toolSpec": 2}]}},
     {"messages": [{"role": "user", "content": [None, {"image": 1}, {"toolResult": {"content": [1]}}]}]},
     {"messages": [{"role": "assistant", "content": [{"toolUse": {"name": []}}, {"reasoningContent": [1]}]}]},
     {"messages": 1, "outputConfig": {"textFormat": 1}, "additionalModelRequestFields": {"thinking": 1}}],
)  # fmt: skip
def test_no_body_breaks_the_validator(body: Any) -> None:
    assert problems(body, issued=frozenset())
