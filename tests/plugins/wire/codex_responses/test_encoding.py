"""Messages as input items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.kernel.messages import Image, Message, Refusal, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import ModelRow, Target
from hermes.plugins.wire.codex_responses import CodexResponses

PNG = Image("image/png", "iVBORw0KGgo=")
SEALED = {"summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA", "id": "rs_1"}


def own(target: Target, kind: str, **payload: Any) -> Replay:
    return Replay(target.issuer, kind, payload)


def said(message: Any) -> Any:
    return message["content"]


# ---- Users and tools ------------------------------------------------------------------------------------------------


def test_a_user_message_has_its_texts_and_images_in_their_order(target: Target, items: Any) -> None:
    message = Message("user", (Text("look"), PNG, Image(url="https://x.test/a.png"), Text("note", "context")))
    assert items(target, message) == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
                {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
                {"type": "input_text", "text": "note"},
            ],
        }
    ]


def test_a_message_with_an_image_alone_has_no_blank_text(target: Target, items: Any) -> None:
    assert [part["type"] for part in said(items(target, Message("user", (PNG, Text(" "))))[0])] == ["input_image"]


def test_a_blank_user_message_says_so(target: Target, items: Any) -> None:
    assert said(items(target, Message("user", (Text(" "),)))[0]) == [{"type": "input_text", "text": "(no output)"}]


def test_parallel_results_are_items_in_their_order_and_the_words_beside_them_are_in_the_last(
    target: Target, items: Any
) -> None:
    results = (ToolResult("a", "ok", (Text("1"), Text("2"))), ToolResult("b", "error", (Text(" "),)))
    assert items(target, Message("tool", (*results, Text("stop", "steer")))) == [
        {"type": "function_call_output", "call_id": "a", "output": "1\n\n2"},
        {
            "type": "function_call_output",
            "call_id": "b",
            "output": "<user_message_while_working>\nstop\n</user_message_while_working>",
        },
    ]


def test_an_empty_result_says_so(target: Target, items: Any) -> None:
    result = ToolResult("a", "ok", (Text(""),))
    assert items(target, Message("tool", (result,)))[0]["output"] == "(no output)"


@pytest.mark.parametrize(
    ("row", "quirks"),
    [(ModelRow("m", images=True), {}), (None, {"images_in_tool_results": True})],
)
def test_images_in_results_are_sent_where_the_row_or_a_quirk_says_so(
    new_target: Any, items: Any, row: Any, quirks: Any
) -> None:
    result = ToolResult("a", "ok", (Text("a chart"), PNG))
    output = items(new_target(row=row, **quirks), Message("tool", (result, Text("go on", "warning"))))[0]["output"]
    assert [part["type"] for part in output] == ["input_text", "input_image", "input_text"]


def test_images_in_results_are_told_of_where_they_cannot_be_sent(new_target: Any, items: Any) -> None:
    message = Message("tool", (ToolResult("a", "ok", (Text("a chart"), PNG)),))
    for target in (new_target(), new_target(row=ModelRow("m", images=True), images_in_tool_results=False)):
        (item,) = items(target, message)
        assert item["output"].startswith("a chart\n\n[an image was returned; ")


def test_images_of_results_can_stand_in_a_user_message_behind_all_of_them(new_target: Any, items: Any) -> None:
    results = (ToolResult("a", "ok", (PNG,)), ToolResult("b", "ok", (Text("t"),)))
    sent = items(new_target(images_in_tool_results="user_message"), Message("tool", results))
    assert [item["type"] for item in sent] == ["function_call_output", "function_call_output", "message"]
    assert [part["type"] for part in said(sent[2])] == ["input_image"]
    assert "see the next message" in sent[0]["output"]


# ---- The model's own ------------------------------------------------------------------------------------------------


def test_a_text_of_others_is_one_plain_text(target: Target, items: Any) -> None:
    foreign = Replay("chat_completions http://x m", "fields", {"a": 1})
    message = Message("assistant", (Text("one "), Text("two", replay=foreign), Refusal("no")))
    assert items(target, message) == [{"type": "message", "role": "assistant", "content": "one twono"}]


def test_a_message_item_goes_back_as_it_came_with_id_and_phase(target: Target, items: Any) -> None:
    replay = own(target, "message", id="msg_1", phase="final_answer")
    message = Message("assistant", (Text("Well.", replay=replay), Refusal("No.", replay)))
    assert items(target, message) == [
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "id": "msg_1",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "Well.", "annotations": []},
                {"type": "refusal", "refusal": "No."},
            ],
        }
    ]


def test_two_message_items_stay_two(target: Target, items: Any) -> None:
    first, second = (own(target, "message", id=f"msg_{n}") for n in (1, 2))
    sent = items(target, Message("assistant", (Text("a", replay=first), Text("b", replay=second))))
    assert [item["id"] for item in sent] == ["msg_1", "msg_2"]


def test_no_id_is_sent_twice_when_a_part_in_the_middle_was_edited(target: Target, items: Any) -> None:
    replay = own(target, "message", id="msg_1")
    sent = items(target, Message("assistant", (Text("a", replay=replay), Text("b"), Text("c", replay=replay))))
    assert [(item.get("id"), said(item)) for item in sent[1:]] == [(None, "b"), (None, "c")]
    assert sent[0]["id"] == "msg_1"


def test_spec_32716_an_id_bound_to_a_connection_is_not_sent(new_target: Any, items: Any) -> None:
    copilot = new_target(replayed_ids=[])
    replay = own(copilot, "message", id="msg_1", phase="final_answer")
    assert items(copilot, Message("assistant", (Text("a", replay=replay),))) == [
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": "a"}
    ]


def test_spec_3_4_3_reasoning_goes_back_without_its_id_and_before_what_it_led_to(target: Target, items: Any) -> None:
    parts = (
        Thinking("hm", own(target, "reasoning", **SEALED)),
        ToolCall("call_1", "f", {"a": 1}),
        Thinking("", own(target, "reasoning", **{**SEALED, "encrypted_content": "gBBB"})),
        ToolCall("call_2", "g", {}),
    )
    sent = items(target, Message("assistant", parts))
    assert [item["type"] for item in sent] == ["reasoning", "function_call", "reasoning", "function_call"]
    assert sent[0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    }
    assert sent[1] == {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
    assert sent[2]["encrypted_content"] == "gBBB"


def test_a_host_that_wants_the_ids_of_reasoning_gets_them(new_target: Any, items: Any) -> None:
    foundry = new_target(replayed_ids=["message", "reasoning"])
    thinking = Thinking("hm", own(foundry, "reasoning", **SEALED))
    assert items(foundry, Message("assistant", (thinking, Text("a"))))[0]["id"] == "rs_1"


@pytest.mark.parametrize(
    "issuer", ["codex_responses http://127.0.0.1:9/v1 other-model", "codex_responses https://api.x.ai/v1 grok", ""]
)
def test_B080_reasoning_of_another_model_or_host_is_dropped(target: Target, items: Any, issuer: str) -> None:
    thinking = Thinking("secret thought", Replay(issuer, "reasoning", SEALED) if issuer else None)
    sent = items(target, Message("assistant", (thinking, Text("a"))))
    assert sent == [{"type": "message", "role": "assistant", "content": "a"}]


def test_B081_reasoning_that_nothing_follows_is_left_out(target: Target, items: Any) -> None:
    thinking = Thinking("hm", own(target, "reasoning", **SEALED))
    assert [
        item["type"] for item in items(target, Message("assistant", (thinking, Text("a"), thinking, thinking)))
    ] == [
        "reasoning",
        "message",
    ]
    assert CodexResponses().encode(Message("assistant", (thinking,)), target) == b""


def test_B081_the_id_of_a_message_goes_with_the_reasoning_that_it_belongs_to(target: Target, items: Any) -> None:
    answer = Text("a", replay=own(target, "message", id="msg_1", phase="final_answer", reasoned=True))
    thinking = Thinking("hm", own(target, "reasoning", **SEALED))
    (alone,) = items(target, Message("assistant", (answer,)))
    _, paired = items(target, Message("assistant", (thinking, answer)))
    assert ("id" in alone, paired["id"], alone["phase"]) == (False, "msg_1", "final_answer")


def test_spec_24933_narration_goes_back_to_its_issuer_as_the_message_that_it_was(
    new_target: Any, target: Target, items: Any
) -> None:
    narration = Thinking("I look first.", own(target, "message", id="msg_1", phase="commentary"))
    message = Message("assistant", (narration, ToolCall("call_1", "f", {})))
    sent = items(target, message)
    assert (sent[0]["phase"], said(sent[0])[0]["text"], sent[1]["type"]) == (
        "commentary",
        "I look first.",
        "function_call",
    )
    assert [item["type"] for item in items(new_target("http://other/v1"), message)] == ["function_call"]


def test_a_call_of_a_tool_that_is_not_offered_any_more_is_sent_all_the_same(target: Target, items: Any) -> None:
    call = ToolCall("call_1", "gone.tool", {}, problem="there is no such tool")
    assert items(target, Message("assistant", (call,)))[0]["name"].startswith("gone_tool_")


def test_spec_58168_B044_call_and_result_are_sent_under_the_one_stored_id(target: Target, items: Any) -> None:
    sent = items(
        target,
        Message("assistant", (ToolCall("call_00_abc", "f", {}),)),
        Message("tool", (ToolResult("call_00_abc", "ok", (Text("x"),)),)),
    )
    assert [item["call_id"] for item in sent] == ["call_00_abc", "call_00_abc"]


def test_blank_texts_of_the_model_are_not_sent(target: Target, items: Any) -> None:
    parts = (Text("\n"), Text(" ", replay=own(target, "message", id="msg_1")), ToolCall("c", "f", {}))
    assert [item["type"] for item in items(target, Message("assistant", parts))] == ["function_call"]


def test_lone_surrogates_are_replaced(target: Target) -> None:
    message = Message("assistant", (Text("a\ud800"), ToolCall("c", "f", {"k\udc00": "\ud800"})))
    json.loads(b"[" + CodexResponses().encode(message, target) + b"]")
