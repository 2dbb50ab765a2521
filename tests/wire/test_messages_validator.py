"""The strict validator of Messages itself: it takes what is right and names each thing that some server refuses."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from typing import Any

import pytest

from hermes.testing.strict_messages import MOST_IMAGE_BYTES, problems

MARK = {"type": "ephemeral"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0rest").decode()


def picture(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def good() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a.b-c_1": {"type": "string"}}}
    return {
        "model": "claude",
        "max_tokens": 4096,
        "stream": True,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "high"},
        "tool_choice": {"type": "none"},
        "tools": [{"name": "f", "description": "", "input_schema": schema, "cache_control": {**MARK, "ttl": "1h"}}],
        "system": [text("s", cache_control={**MARK, "ttl": "1h"})],
        "messages": [
            {"role": "user", "content": [
                text("look", cache_control=MARK),
                picture("image/png", PNG),
                {"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "sig-1"},
                {"type": "redacted_thinking", "data": "red-1"},
                text("I call"),
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
                {"type": "tool_result", "tool_use_id": "a", "content": [text("y"), picture("image/jpeg", JPEG)]},
                text("and", cache_control=MARK)]},
        ],
    }  # fmt: skip


def test_a_right_request_has_no_problem() -> None:
    assert problems(good()) == []
    assert problems(good(), issued={"sig-1", "red-1"}) == []
    assert problems({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}) == []


def blocks(body: Any, place: int) -> Any:
    return body["messages"][place]["content"]


def without_tools(body: Any) -> None:
    del body["tools"], body["tool_choice"]


def with_format(body: Any, schema: Any) -> None:
    body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}


def without_thinking_first(body: Any) -> None:
    del blocks(body, 1)[:2]


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    # the top level
    (lambda b: b.pop("model"), "model is missing"),
    (lambda b: b.pop("max_tokens"), "max_tokens is missing"),
    (lambda b: b.update(max_tokens=0), "max_tokens has a bad value"),
    (lambda b: b.update(max_tokens=0.5), "max_tokens has a bad value"),
    (lambda b: b.update(messages=[]), "messages has a bad value"),
    (lambda b: b.update(instructions="x"), "instructions is not known"),
    (lambda b: b.update(temperature=1.5), "temperature has a bad value"),
    (lambda b: b.update(stop_sequences=[" "]), "stop_sequences has a bad value"),
    (lambda b: b.update(tool_choice={"type": "required"}), "tool_choice has a bad value"),
    (lambda b: b.update(system=" "), "system: blank text"),
    (lambda b: b.update(system=[text("")]), "system[0].text has a bad value"),
    (lambda b: b.update(system=[picture("image/png", PNG)]), "system[0] is no text block"),
    # tools
    (lambda b: b["tools"][0].update(name="a.b"), "tools[0]: bad name 'a.b'"),
    (lambda b: b["tools"][0].update(name="a" * 65), "tools[0]: bad name"),
    (lambda b: b["tools"].append(copy.deepcopy(b["tools"][0])), "tools[1]: the name 'f' is there twice"),
    (lambda b: b["tools"][0].pop("input_schema"), "tools[0].input_schema is missing"),
    (lambda b: b["tools"][0].update(parameters={}), "tools[0].parameters is not known"),
    (lambda b: b["tools"][0].update(input_schema={"type": "array"}), "not the schema of an object"),
    (lambda b: b["tools"][0]["input_schema"].update(anyOf=[]), "oneOf, allOf or anyOf at the top level"),
    (lambda b: b["tools"][0]["input_schema"]["properties"].update({"a b": {}}), "the key 'a b' does not fit"),
    (without_tools, "must define tools"),
    (lambda b: b.pop("tools"), "tool_choice without tools"),
    (lambda b: b.update(tool_choice={"type": "tool", "name": "g"}), "tool_choice: no tool 'g'"),
    # thinking and output
    (lambda b: b.update(thinking={"type": "on"}), "thinking.type: 'on' is not known"),
    (lambda b: b["thinking"].update(effort="high"), "thinking.effort is not known"),
    (lambda b: b["thinking"].update(budget_tokens=1000), "thinking.budget_tokens: 1000 is not 1024 or more"),
    (lambda b: b.update(max_tokens=1024), "1024 is not more than thinking.budget_tokens"),
    (lambda b: b.update(temperature=0), "temperature may only be 1"),
    (lambda b: b.update(tool_choice={"type": "any"}), "may not force a call when thinking is on"),
    (without_thinking_first, "messages[1].content[0]: expected thinking"),
    (lambda b: b["output_config"].update(effort="huge"), "output_config.effort: 'huge'"),
    (lambda b: b["output_config"].update(schema={}), "output_config.schema is not known"),
    (lambda b: with_format(b, {"type": "object"}), "additionalProperties must be false"),
    (lambda b: with_format(b, {"type": "object", "additionalProperties": False,
                               "properties": {"x": {"type": "object"}}}), "schema.properties.x: additional"),
    # order and roles
    (lambda b: b["messages"].insert(0, {"role": "system", "content": "s"}), "messages[0]: bad role 'system'"),
    (lambda b: b["messages"].pop(0), "messages[0]: the first must be of the user"),
    (lambda b: b["messages"].insert(0, {"role": "user", "content": "u"}), "messages[1]: two messages of user in a row"),
    (lambda b: b["messages"].append({"role": "assistant", "content": "Sure: "}), "the last must be of the user"),
    (lambda b: b["messages"][0].update(name="x"), "messages[0].name is not known"),
    (lambda b: b["messages"][0].update(content=[]), "messages[0]: no content"),
    (lambda b: b["messages"][0].update(content="\n"), "messages[0]: no content"),
    # pairs
    (lambda b: blocks(b, 2).pop(0), "messages[2]: no result for b"),
    (lambda b: blocks(b, 2).insert(0, blocks(b, 2).pop()), "the result of b stands after other blocks"),
    (lambda b: blocks(b, 2).insert(0, copy.deepcopy(blocks(b, 2)[0])), "messages[2]: more than one result of b"),
    (lambda b: blocks(b, 2)[0].update(tool_use_id="c"), "unexpected tool_use_id 'c'"),
    (lambda b: blocks(b, 0).insert(0, copy.deepcopy(blocks(b, 2)[0])), "messages[0]: unexpected tool_use_id 'b'"),
    (lambda b: blocks(b, 1)[3].update(id="b"), "the id 'b' was used before"),
    (lambda b: blocks(b, 1)[3].update(id="a.1"), "bad id 'a.1'"),
    (lambda b: blocks(b, 1)[3].update(name="a.b"), "messages[1].content[3]: bad name 'a.b'"),
    (lambda b: blocks(b, 1)[3].update(input="{}"), "messages[1].content[3].input has a bad value"),
    (lambda b: blocks(b, 1)[3].pop("input"), "messages[1].content[3].input is missing"),
    # blocks
    (lambda b: blocks(b, 0).append(copy.deepcopy(blocks(b, 1)[0])), "a block of type 'thinking' in a message of user"),
    (lambda b: blocks(b, 1).append(picture("image/png", PNG)), "a block of type 'image' in a message of assistant"),
    (lambda b: blocks(b, 0).append("x"), "a block of type ''"),
    (lambda b: blocks(b, 0)[0].update(text=" "), "messages[0].content[0].text has a bad value"),
    (lambda b: blocks(b, 1)[2].update(text=""), "messages[1].content[2].text has a bad value"),
    (lambda b: blocks(b, 1)[2].update(origin="x"), "messages[1].content[2].origin is not known"),
    (lambda b: blocks(b, 2)[0].update(content=""), "messages[2].content[0].content has a bad value"),
    (lambda b: blocks(b, 2)[0].update(status="error"), "messages[2].content[0].status is not known"),
    (lambda b: blocks(b, 2)[1]["content"][0].update(text=""), "messages[2].content[1].content[0].text has a bad"),
    (lambda b: blocks(b, 2)[1]["content"].append({"type": "json"}), "a block of type 'json' in a result"),
    (lambda b: blocks(b, 2)[1].update(is_error=True), "must be of type text if is_error is true"),
    # thinking blocks
    (lambda b: blocks(b, 1)[0].pop("signature"), "messages[1].content[0].signature is missing"),
    (lambda b: blocks(b, 1)[0].update(cache_control=MARK), "messages[1].content[0].cache_control is not known"),
    (lambda b: blocks(b, 1)[1].update(data=""), "messages[1].content[1].data has a bad value"),
    (lambda b: b["messages"].__setitem__(slice(1, 3), [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
        {"role": "user", "content": "go on"}]), "the final block cannot be thinking"),
    # pictures
    (lambda b: blocks(b, 0)[1]["source"].update(media_type="image/bmp"), "bad media type 'bmp'"),
    (lambda b: blocks(b, 0)[1]["source"].update(media_type="application/pdf"), "bad media type 'application/pdf'"),
    (lambda b: blocks(b, 0)[1]["source"].update(media_type="image/jpeg"), "as jpeg, but it appears to be a png"),
    (lambda b: blocks(b, 0)[1]["source"].update(data="***"), "invalid base64 data"),
    (lambda b: blocks(b, 0)[1]["source"].update(data="A" * (MOST_IMAGE_BYTES + 4)), "image exceeds 5242880 bytes"),
    (lambda b: blocks(b, 0)[1]["source"].update(url="x"), "source.url is not known"),
    (lambda b: blocks(b, 0)[2]["source"].update(url="file:///x"), "bad image address"),
    (lambda b: blocks(b, 0)[2]["source"].update(url=f"data:image/png;base64,{PNG}"), "bad image address"),
    (lambda b: blocks(b, 0)[2].update(source={"type": "path"}), "source: bad type 'path'"),
    # marks
    (lambda b: blocks(b, 1)[2].update(cache_control=MARK), "a maximum of 4 cache marks may be provided, found 5"),
    (lambda b: b["system"][0].update(cache_control=MARK) or blocks(b, 0)[0].update(cache_control={**MARK, "ttl": "1h"}),
     "messages[0].content[0]: a mark of 1h comes after a mark of 5m"),
    (lambda b: blocks(b, 0)[0].update(cache_control={"type": "ephemeral", "ttl": "2h"}), "cache_control has a bad"),
    (lambda b: blocks(b, 0)[0].update(text="x\ud800"), "a lone surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "said"), WRONG, ids=[f"{n}: {said}" for n, (_, said) in enumerate(WRONG)])
def test_each_wrong_thing_is_named(spoil: Callable[[Any], Any], said: str) -> None:
    body = good()
    spoil(body)
    assert any(said in problem for problem in problems(body)), problems(body)


@pytest.mark.parametrize(("place", "name"), [(0, "signature"), (1, "data")])
def test_thinking_that_the_server_did_not_sign_is_refused(place: int, name: str) -> None:
    body = good()
    blocks(body, 1)[place][name] = "made up"
    assert problems(body, issued={"sig-1", "red-1"}) == [
        f"messages[1].content[{place}]: invalid {name} in a {blocks(body, 1)[place]['type']} block"
    ]


def test_a_budget_asks_for_thinking_only_where_results_belong_to_a_turn_that_is_running() -> None:
    body = good()
    without_thinking_first(body)
    body["messages"] += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "next"}]
    assert problems(body) == []


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"model": 1, "messages": [None, {"role": []}], "tools": [1], "system": [2], "thinking": 3},
     {"messages": [{"role": "user", "content": [None, {"type": "image"}, {"type": "tool_result", "content": [1]}]}]},
     {"messages": [{"role": "assistant", "content": [{"type": "tool_use"}, {"type": []}]}]},
     {"output_config": {"format": 1}}],
)  # fmt: skip
def test_no_body_breaks_the_validator(body: Any) -> None:
    assert problems(body)
