"""Cache marks in chat completions (the OpenRouter layout): they move, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

from hermes.kernel.messages import Image, Message, Text, ToolCall, ToolResult
from hermes.kernel.providers import CacheLife, Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.chat_completions import ChatCompletions
from hermes.testing import ScriptedServer
from hermes.testing import call as call_reply
from hermes.testing import text as text_reply
from hermes.testing.strict_chat import problems

WIRE = ChatCompletions()
MARK = {"type": "ephemeral"}
IMAGE = Image("image/png", "iVBORw0KGgo=")
TOOL = ToolSchema("f", "F.", {"type": "object", "properties": {}})


def make(ttl: CacheLife = "5m", **quirks: Any) -> Target:
    url = "https://openrouter.ai/api/v1"
    return Target(
        "t", Profile("openrouter", quirks=quirks), "anthropic/claude-x", url, "chat_completions", cache_ttl=ttl
    )


def body(messages: list[Message], target: Target, system: str = "sys") -> Any:
    fragments = [WIRE.encode(m, target) for m in messages]
    pieces = WIRE.envelope(WIRE.prefix(system, (TOOL,), target), fragments, Parameters(), target)
    return json.loads(b"".join(pieces))


def marked(messages: list[Message], target: Target, system: str = "sys") -> list[str]:
    """The text of each part that carries a mark; fails where something else carries one."""
    sent = body(messages, target, system)
    assert problems(sent) == []
    parts = [part for m in sent["messages"] if isinstance(m["content"], list) for part in m["content"]]
    texts = [part["text"] for part in parts if "cache_control" in part]
    assert json.dumps(sent).count('"cache_control"') == len(texts)
    return texts


def user(*parts: Text | Image) -> Message:
    return Message("user", parts)


def call(number: int, text: str = "") -> list[Message]:
    said = (Text(text),) if text else ()
    return [
        Message("assistant", (*said, ToolCall(f"c{number}", "f", {}))),
        Message("tool", (ToolResult(f"c{number}", "ok", (Text(f"result {number}"),)),)),
    ]


LONG = [user(Text("hello")), *call(1, "look"), *call(2), *call(3)]


def test_spec_10_2_the_system_prompt_and_the_last_three_that_can_carry_one_are_marked() -> None:
    assert marked(LONG, make()) == ["sys", "result 1", "result 2", "result 3"]
    assert marked(LONG[:3], make()) == ["sys", "hello", "look", "result 1"]


def test_spec_10_2_without_a_system_prompt_the_last_four_are_marked() -> None:
    assert marked(LONG, make(), system=" ") == ["look", "result 1", "result 2", "result 3"]


def test_spec_10_2_a_message_of_calls_alone_is_no_carrier_and_B005_nothing_empty_is_marked() -> None:
    quiet = [user(Text("hello")), *call(1), Message("assistant", (ToolCall("c2", "f", {}),))]
    nothing = Message("tool", (ToolResult("c2", "ok", (Text(" "),)),))
    assert marked([*quiet, nothing], make()) == ["sys", "hello", "result 1", "(no output)"]
    assert body(quiet, make())["messages"][2]["content"] is None


def test_spec_10_2_a_mark_stands_in_a_text_part_and_never_on_the_message_itself() -> None:
    tool = body(LONG, make())["messages"][-1]
    assert tool["content"] == [{"type": "text", "text": "result 3", "cache_control": MARK}]
    assert set(tool) == {"role", "tool_call_id", "content"}


def test_the_mark_of_several_results_stands_in_the_last_one() -> None:
    calls = Message("assistant", (ToolCall("a", "f", {}), ToolCall("b", "f", {})))
    results = Message("tool", tuple(ToolResult(i, "ok", (Text(f"of {i}"),)) for i in "ab"))
    assert marked([user(Text("x")), calls, results], make()) == ["sys", "x", "of b"]


def test_an_image_carries_no_mark_the_text_before_it_does() -> None:
    assert marked([user(Text("look"), IMAGE, IMAGE)], make()) == ["sys", "look"]
    assert marked([user(IMAGE)], make()) == ["sys"]
    calls = Message("assistant", (ToolCall("a", "f", {}),))
    shot = Message("tool", (ToolResult("a", "ok", (Text("shot"), IMAGE)),))
    assert marked([user(IMAGE), calls, shot], make(images_in_tool_results=True)) == ["sys", "shot"]


def test_spec_14971_the_life_of_an_hour_is_said_in_each_mark() -> None:
    sent = body(LONG, make("1h"))
    assert json.dumps(sent).count(json.dumps({"type": "ephemeral", "ttl": "1h"})) == 4


def test_marks_that_are_switched_off_leave_plain_texts() -> None:
    assert [m["content"] for m in body(LONG, make(""))["messages"][:2]] == ["sys", "hello"]
    assert marked(LONG, make("")) == []


def test_B034_marks_move_and_the_bytes_of_the_history_do_not() -> None:
    target = make()
    prefix, fragments = WIRE.prefix("sys", (TOOL,), target), [WIRE.encode(m, target) for m in LONG]
    kept = list(map(bytes, fragments))
    bodies = [b"".join(WIRE.envelope(prefix, fragments[:n], Parameters(), target)) for n in (3, 5, 7)]
    assert list(map(bytes, fragments)) == kept
    shorter, longer = (
        body[len(prefix) :].replace(b',"cache_control":{"type":"ephemeral"}', b"") for body in bodies[:2]
    )
    assert all(body.startswith(prefix) for body in bodies)
    assert longer.startswith(shorter.partition(b'],"stream"')[0])
    assert longer.startswith(b"," + b",".join(kept[:5]))


def test_a_text_that_looks_like_the_end_of_a_part_does_not_move_the_mark() -> None:
    odd = '"}]}}],"cache_control":'
    assert marked([user(Text(odd), IMAGE)], make()) == ["sys", odd]


def test_a_strict_server_takes_a_marked_tool_loop(scripted: ScriptedServer, new_target: Any, new_caller: Any) -> None:
    scripted.add(call_reply("f", {}), text_reply("done"))
    caller = new_caller(new_target(scripted.base_url, cache_layout="envelope"))
    asked = user(Text("go"))
    reply = caller(asked, tools=(TOOL,))
    results = tuple(ToolResult(c.id, "ok", (Text("out"),)) for c in reply.calls)
    final = caller(asked, Message("assistant", reply.parts), Message("tool", results), tools=(TOOL,))
    assert final.text == "done"
    assert [request.raw.count(b"cache_control") for request in scripted.requests] == [2, 3]
