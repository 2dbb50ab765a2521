"""The strict validator itself: it takes what is right and names each thing that some server refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hermes.testing.strict_chat import problems


def good() -> dict[str, Any]:
    def function(name: str) -> Any:
        return {"name": name, "arguments": "{}"}

    return {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tool_choice": "none",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": [{"type": "text", "text": "a"},
                                         {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": function("f")},
                {"id": "b", "type": "function", "function": function("g"), "extra_content": {}}]},
            {"role": "tool", "tool_call_id": "b", "content": "x"},
            {"role": "tool", "tool_call_id": "a", "content": "y"},
            {"role": "assistant", "content": "z", "reasoning_content": "r"},
            {"role": "user", "content": "more"},
        ],
    }  # fmt: skip


def test_a_right_request_has_no_problem() -> None:
    assert problems(good()) == []
    assert problems({"model": "m", "messages": [{"role": "user", "content": "x"}]}) == []


def _call(body: Any) -> Any:
    return body["messages"][2]["tool_calls"][0]


def _insert(place: int, **message: Any) -> Callable[[Any], None]:
    return lambda body: body["messages"].insert(place, message)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda b: b.pop("model"), "model is missing"),
    (lambda b: b.update(model=" "), "model has a bad value"),
    (lambda b: b.update(messages=[]), "messages has a bad value"),
    (lambda b: b.update(foo=1), "unknown parameter 'foo'"),
    (lambda b: b.pop("stream"), "stream_options without stream"),
    (lambda b: b.pop("tools"), "tool_choice without tools"),
    (lambda b: b.update(max_tokens=0), "max_tokens"),
    (lambda b: b.update(temperature=True), "temperature"),
    (lambda b: b["tools"].append(copy.deepcopy(b["tools"][0])), "is there twice"),
    (lambda b: b["tools"][0]["function"].update(name="a.b"), "bad name 'a.b'"),
    (lambda b: b["tools"][0]["function"].update(name="a" * 65), "bad name"),
    (lambda b: b["tools"][0]["function"].update(parameters={"type": "string"}), "schema of an object"),
    (lambda b: b["tools"][0]["function"].update(parameters={"type": "object", "anyOf": []}), "at the top level"),
    (lambda b: b["tools"][0]["function"].update(strict=True), "additionalProperties must be false"),
    (lambda b: b["tools"].append({"type": "function"}), "is no function"),
    (lambda b: b.update(response_format={"type": "grammar"}), "response_format has a bad value"),
    (lambda b: b["response_format"].update(schema={}), "response_format.schema is not known"),
    (lambda b: b["response_format"]["json_schema"].update(name="a b"), "json_schema: bad name 'a b'"),
    (lambda b: b["response_format"]["json_schema"].pop("schema"), "response_format.json_schema.schema is missing"),
    (lambda b: b["response_format"]["json_schema"].update(strict=True), "json_schema.schema: additionalProperties"),
    (_insert(1, role="system", content="s"), "a system message that is not the first"),
    (_insert(1, role="user", content="u"), "two user messages in a row"),
    (_insert(1, role="assistant", content="u"), "an assistant message after system"),
    (_insert(5, role="user", content="u"), "a user message after a tool message"),
    (_insert(6, role="assistant", content="u"), "an assistant message after assistant"),
    (_insert(4, role="user", content="u"), "no result for a"),
    (_insert(5, role="tool", tool_call_id="a", content="again"), "answers no open call"),
    (lambda b: b["messages"].pop(), "the last message is of assistant"),
    (lambda b: b.update(messages=b["messages"][:4]), "no result for a"),
    (lambda b: b["messages"][0].update(timestamp=1), "unknown keys ['timestamp']"),
    (lambda b: b["messages"][0].update(role="developer"), "bad role"),
    (lambda b: b["messages"][6].update(content=" "), "blank content"),
    (lambda b: b["messages"][6].update(content=None), "no content"),
    (lambda b: b["messages"][6].update(content=[]), "neither a text nor a list"),
    (lambda b: b["messages"][1]["content"][0].update(text=""), "blank text"),
    (lambda b: b["messages"][1]["content"][1].update(image_url={"url": "data:image/png;base64,***"}), "invalid base64"),
    (lambda b: b["messages"][1]["content"][1].update(image_url={"url": "data:image/bmp;base64,aGk="}), "type 'bmp'"),
    (lambda b: b["messages"][1]["content"][1].update(image_url={"url": "file:///a.png"}), "bad image address"),
    (lambda b: b["messages"][1]["content"].append({"type": "video"}), "bad part type"),
    (lambda b: b["messages"][1]["content"][0].update(origin="x"), "content[0].origin is not known"),
    (lambda b: b["messages"][0]["content"][0].update(cache_control={"type": "x"}), "messages[0].content[0]: bad cache"),
    (lambda b: b["messages"][5].update(cache_control={"type": "ephemeral"}), "unknown keys ['cache_control']"),
    (lambda b: b["messages"][0].update(content=[b["messages"][1]["content"][1]]), "bad part type 'image_url'"),
    (lambda b: b["messages"][1].update(content=[b["messages"][0]["content"][0]] * 4), "a maximum of 4 cache marks"),
    (lambda b: b["messages"][5].update(tool_calls=[]), "not a list with calls"),
    (lambda b: _call(b).update(id="b"), "the id 'b' was used before"),
    (lambda b: _call(b).update(id="x.1"), "bad id"),
    (lambda b: _call(b).update(index=0), "unknown keys ['index']"),
    (lambda b: _call(b)["function"].update(name=""), "bad name ''"),
    (lambda b: _call(b)["function"].update(arguments={}), "not the text of a JSON object"),
    (lambda b: _call(b)["function"].update(arguments="[]"), "not the text of a JSON object"),
    (lambda b: b["messages"][6].update(content="x\ud800"), "a lone surrogate"),
]


@pytest.mark.parametrize(("spoil", "said"), WRONG, ids=[said for _, said in WRONG])
def test_each_wrong_thing_is_named(spoil: Callable[[Any], Any], said: str) -> None:
    body = good()
    spoil(body)
    assert any(said in text for text in problems(body)), problems(body)


@pytest.mark.parametrize(
    "body", [None, [], "x", {}, {"model": 1, "messages": [None, {"role": []}]}, {"messages": [{}]}]
)
def test_no_body_breaks_the_validator(body: Any) -> None:
    assert problems(body)
