"""The strict validator of Responses itself: it takes what is right and names each thing that some server refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hermes.testing.strict_responses import problems

PNG = "data:image/png;base64,iVBORw0KGgpyZXN0"


def good() -> dict[str, Any]:
    def shown(words: str) -> Any:
        return {"type": "input_text", "text": words}

    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"],
              "additionalProperties": False}  # fmt: skip
    return {
        "model": "gpt",
        "instructions": "s",
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "pck_1",
        "max_output_tokens": 16,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}},
        "tool_choice": "none",
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": True}],
        "input": [
            {"role": "user", "content": [shown("a"), {"type": "input_image", "image_url": PNG, "detail": "auto"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "enc-1"},
            {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "commentary",
             "content": [{"type": "output_text", "text": "I call", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": '{"x":1}'},
            {"type": "function_call_output", "call_id": "b", "output": "x"},
            {"type": "function_call_output", "call_id": "a",
             "output": [shown("y"), {"type": "input_image", "image_url": "https://x.y/z.png"}]},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
            {"role": "user", "content": "more"},
        ],
    }  # fmt: skip


def test_a_right_request_has_no_problem() -> None:
    assert problems(good()) == []
    assert problems(good(), issued={"enc-1"}) == []
    assert problems({"model": "m", "store": False, "input": [{"role": "user", "content": "x"}]}) == []


def test_an_encrypted_content_that_the_server_did_not_give_out_is_refused() -> None:
    assert problems(good(), issued={"enc-2"}) == ["input[1]: the encrypted content could not be verified"]


def item(body: Any, place: int) -> Any:
    return body["input"][place]


def form(body: Any) -> Any:
    return body["text"]["format"]


def insert(place: int, **new: Any) -> Callable[[Any], None]:
    return lambda body: body["input"].insert(place, new)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    # the top level
    (lambda b: b.pop("model"), "model is missing"),
    (lambda b: b.update(input="hello"), "input has a bad value"),
    (lambda b: b.update(input=[]), "input has a bad value"),
    (lambda b: b.update(messages=[]), "messages is not known"),
    (lambda b: b.update(max_tokens=9), "max_tokens is not known"),
    (lambda b: b.update(max_output_tokens=15), "max_output_tokens has a bad value"),
    (lambda b: b.update(store=True), "store has a bad value"),
    (lambda b: b.pop("store"), "store is missing"),
    (lambda b: b.update(include=["reasoning"]), "include has a bad value"),
    (lambda b: b.update(prompt_cache_key="k" * 65), "prompt_cache_key has a bad value"),
    (lambda b: b.update(instructions=""), "instructions has a bad value"),
    (lambda b: b.update(temperature=3), "temperature has a bad value"),
    (lambda b: b.update(stream=False, stream_options={"include_obfuscation": False}), "stream_options without stream"),
    (lambda b: b["reasoning"].update(effort="ultra"), "reasoning.effort has a bad value"),
    (lambda b: b.update(reasoning_effort="low"), "reasoning_effort is not known"),
    # tools
    (lambda b: b.update(tools=[]), "tools has a bad value"),
    (lambda b: b.pop("tools"), "tool_choice without tools"),
    (lambda b: b.update(tool_choice={"type": "function", "name": "g"}), "tool_choice: no tool 'g'"),
    (lambda b: b["tools"].append(copy.deepcopy(b["tools"][0])), "tools[1]: the name 'f' is there twice"),
    (lambda b: b["tools"][0].update(name="a.b"), "tools[0]: bad name 'a.b'"),
    (lambda b: b.update(tools=[{"type": "function", "function": {"name": "f"}}]), "tools[0].function is not known"),
    (lambda b: b["tools"][0].update(parameters={"type": "string"}), "tools[0].parameters is not the schema of an"),
    (lambda b: b["tools"][0].update(parameters={"type": "object", "oneOf": []}), "oneOf, allOf or anyOf at the top"),
    (lambda b: b["tools"][0].update(parameters={"type": "object"}), "tools[0].parameters: additionalProperties must"),
    # the form of the answer
    (lambda b: form(b).update(name="a b"), "text.format: bad name 'a b'"),
    (lambda b: form(b).pop("name"), "text.format.name is missing"),
    (lambda b: form(b).update(json_schema={}), "text.format.json_schema is not known"),
    (lambda b: form(b).update(schema={"type": "array"}), "text.format.schema is not the schema of an object"),
    (lambda b: form(b)["schema"].pop("additionalProperties"), "text.format.schema: additionalProperties must be false"),
    (lambda b: form(b)["schema"].update(required=[]), "text.format.schema: required must name every property"),
    (lambda b: b["text"].update(verbosity="loud"), "text.verbosity has a bad value"),
    # items
    (insert(0, type="item_reference", id="msg_0"), "input[0]: an item of type 'item_reference'"),
    (insert(0, role="tool", content="x"), "input[0].role has a bad value"),
    (lambda b: b["input"].insert(0, "hello"), "input[0]: an item of type ''"),
    (lambda b: item(b, 0).update(name="n"), "input[0].name is not known"),
    (lambda b: item(b, 0).update(content=" "), "input[0].content has a bad value"),
    (lambda b: item(b, 0).update(content=[]), "input[0].content has a bad value"),
    (lambda b: item(b, 0)["content"][0].update(text=""), "input[0].content[0].text has a bad value"),
    (lambda b: item(b, 0)["content"][0].update(type="output_text"), "invalid value 'output_text', supported"),
    (lambda b: item(b, 2)["content"][0].update(type="input_text"), "input[2].content[0]: invalid value 'input_text'"),
    (lambda b: item(b, 0).update(id="msg_9"), "input[0].id is not known"),
    (lambda b: item(b, 0).update(phase="final_answer"), "input[0].phase is not known"),
    (lambda b: item(b, 2).update(id="rs_1"), "input[2].id has a bad value"),
    (lambda b: item(b, 2).update(id="msg_" + "1" * 61), "input[2].id has a bad value"),
    (lambda b: item(b, 7).update(id="msg_1"), "input[7]: duplicate item found with id 'msg_1'"),
    (lambda b: item(b, 2).update(phase="analysis"), "input[2].phase has a bad value"),
    (lambda b: item(b, 0)["content"][1].update(image_url="data:image/png;base64,**"), "invalid base64 data"),
    (lambda b: item(b, 0)["content"][1].update(image_url="data:image/tiff;base64,aGk="), "bad media type 'tiff'"),
    (lambda b: item(b, 0)["content"][1].update(image_url="ftp://x"), "input[0].content[1]: bad image address"),
    (lambda b: item(b, 0)["content"][1].update(image_url={"url": PNG}), "image_url has a bad value"),
    (lambda b: item(b, 0)["content"][1].update(detail="max"), "input[0].content[1].detail has a bad value"),
    # calls and their outputs
    (lambda b: item(b, 3).update(id="call_1"), "input[3].id has a bad value"),
    (lambda b: item(b, 3).update(call_id="x" * 65), "input[3]: bad id"),
    (lambda b: item(b, 3).update(call_id="b"), "the id 'b' was used before"),
    (lambda b: item(b, 3).update(name="a.b"), "input[3]: bad name 'a.b'"),
    (lambda b: item(b, 3).update(arguments={}), "input[3].arguments has a bad value"),
    (lambda b: item(b, 3).update(arguments="[]"), "input[3].arguments has a bad value"),
    (lambda b: b["input"].pop(5), "no tool output found for function call b"),
    (lambda b: b.update(input=b["input"][:6]), "input: no tool output found for function call a"),
    (lambda b: b["input"].append({"type": "function_call_output", "call_id": "a", "output": "x"}),
     "duplicate function_call_output for call_id 'a'"),
    (insert(0, type="function_call_output", call_id="z", output="x"), "no tool call found for function call output"),
    (lambda b: item(b, 5).update(output=""), "input[5].output has a bad value"),
    (lambda b: item(b, 5).update(output={"a": 1}), "input[5].output has a bad value"),
    (lambda b: item(b, 6)["output"][0].update(type="output_text"), "input[6].output[0]: invalid value"),
    # reasoning
    (lambda b: item(b, 1).pop("summary"), "input[1].summary is missing"),
    (lambda b: item(b, 1).update(summary=["t"]), "input[1].summary has a bad value"),
    (lambda b: item(b, 1).pop("encrypted_content"), "input[1].encrypted_content is missing"),
    (lambda b: item(b, 1).update(encrypted_content=None), "input[1].encrypted_content has a bad value"),
    (lambda b: item(b, 1).update(id="msg_2"), "input[1].id has a bad value"),
    (lambda b: b["input"].insert(8, copy.deepcopy(item(b, 1))), "input[8]: a reasoning item without its required"),
    (lambda b: b["input"].append(copy.deepcopy(item(b, 1))), "input[9]: a reasoning item without its required"),
    (lambda b: b["input"].pop(), "the last item is the model's own"),
    (lambda b: item(b, 8).update(content="x\ud800"), "a lone surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "said"), WRONG, ids=[f"{n}: {said}" for n, (_, said) in enumerate(WRONG)])
def test_each_wrong_thing_is_named(spoil: Callable[[Any], Any], said: str) -> None:
    body = good()
    spoil(body)
    assert any(said in problem for problem in problems(body)), problems(body)


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"model": 1, "input": [None, {"type": []}, {"role": {}}], "tools": [1], "tool_choice": {}},
     {"input": [{"type": "message", "role": "user", "content": [None, {"type": "input_image"}]}], "text": 1},
     {"input": [{"type": "function_call", "call_id": [], "id": {}}, {"type": "function_call_output", "call_id": {}}]}],
)  # fmt: skip
def test_no_body_breaks_the_validator(body: Any) -> None:
    assert problems(body, issued=frozenset())
