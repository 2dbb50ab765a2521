"""What comes in: every odd form of chunk that servers send comes to the reply that was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.messages import Message, ModelReply, Refusal, Replay, StopReason, Text, Thinking, Usage
from hermes.kernel.providers import Delta, Profile, Target, WireFault
from hermes.plugins.wire.chat_completions import ChatCompletions
from hermes.plugins.wire.chat_completions.decoding import Assembler
from hermes.plugins.wire.chat_completions.usage import read_usage, stop_reason

TARGET = Target("t:m", Profile("t"), "m", "http://x/v1", "chat_completions")


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def tool(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {"type": "function", "function": function, **more}


def feed(*chunks: Any, done: bool = True, target: Target = TARGET) -> tuple[ModelReply, list[Delta]]:
    assembler = Assembler(target)
    deltas = [d for c in chunks for d in assembler.feed(c)]
    deltas += assembler.rest()
    assembler.is_done = done
    return assembler.reply(), deltas


def reply_of(*chunks: Any, done: bool = True) -> ModelReply:
    return feed(*chunks, done=done)[0]


def calls_of(*deltas: Any, finish: str | None = "tool_calls", done: bool = True) -> list[tuple[str, str, Any]]:
    chunks = [chunk({"tool_calls": d}) for d in deltas]
    if finish is not None:
        chunks.append(chunk({}, finish))
    return [(c.id, c.name, dict(c.arguments)) for c in reply_of(*chunks, done=done).calls]


# ---- Text -----------------------------------------------------------------------------------------------------------


def test_B006_a_chunk_without_choices_is_skipped_and_its_usage_read() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3}
    reply = reply_of({"choices": []}, chunk({"content": "hi"}, "stop"), {"id": "c", "choices": [], "usage": usage})
    assert (reply.text, reply.usage, reply.stop_reason) == ("hi", Usage(9, 3), StopReason.STOP)


@pytest.mark.parametrize("odd", [None, {}, {"role": "assistant"}, {"content": None}, {"content": ""}, "x"])
def test_B052_empty_and_null_deltas_before_a_call_are_nothing(odd: Any) -> None:
    entry = tool("f", "{}", index=0, id="a")
    reply = reply_of(chunk(odd), chunk({"tool_calls": None}), chunk({"tool_calls": [entry]}), chunk(odd, "tool_calls"))
    assert [c.name for c in reply.calls] == ["f"]
    assert reply.text == ""
    assert reply.stop_reason is StopReason.TOOL_CALLS


def test_B053_any_choice_index_is_the_one_choice() -> None:
    def at(index: int, delta: Any, finish: Any = None) -> Any:
        return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    reply = reply_of(at(0, {"content": "a"}), at(1, {"tool_calls": [tool("f", "{}", id="c")]}), at(0, {}, "tool_calls"))
    assert (reply.text, [c.id for c in reply.calls]) == ("a", ["c"])


def test_spec_21944_content_may_be_a_list_of_typed_blocks() -> None:
    blocks = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    assert reply_of(chunk({"content": blocks}, "stop")).parts == (
        Thinking("hm", Replay(TARGET.issuer, "reasoning", None)),
        Text("yes"),
    )


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_spec_16844_16884_reasoning_is_read_from_every_field_of_a_delta_and_only_once(name: str) -> None:
    reply, deltas = feed(
        chunk({name: "hm "}), chunk({name: "so", "reasoning": "so"}), chunk({"content": "yes"}, "stop")
    )
    assert reply.parts[0] == Thinking("hm so", Replay(TARGET.issuer, "reasoning", None))
    assert [d.kind for d in deltas] == ["thinking", "thinking", "text"]


def test_reasoning_details_are_kept_for_their_issuer_and_joined_where_they_were_cut() -> None:
    first = {"type": "reasoning.text", "index": 0}
    hidden = {"type": "reasoning.encrypted", "data": "x"}
    details = [[{**first, "text": "a"}], [{**first, "text": "b"}], [{**first, "signature": "s"}], [hidden]]
    reply = reply_of(*(chunk({"reasoning_details": d}) for d in details), chunk({"content": "y"}, "stop"))
    whole = [{**first, "text": "ab", "signature": "s"}, hidden]
    assert reply.replay == Replay(TARGET.issuer, "fields", {"reasoning_details": whole})


def test_spec_3_2_8_B064_a_refusal_alone_is_a_refusal_and_beside_text_it_is_not_the_reason() -> None:
    reply = reply_of(chunk({"refusal": "I can"}), chunk({"refusal": "not"}, "stop"))
    assert (reply.parts, reply.stop_reason) == ((Refusal("I cannot"),), StopReason.REFUSAL)
    assert reply_of(chunk({"content": "x", "refusal": "y"}, "stop")).stop_reason is StopReason.STOP


def test_B062_surrogate_halves_of_two_deltas_are_one_character_and_lone_ones_are_replaced() -> None:
    reply, deltas = feed(chunk({"content": "a\ud83c"}), chunk({"content": "\udf78b\ud800"}), chunk({}, "stop"))
    assert reply.text == "a🍸b\ufffd"
    assert [d.text for d in deltas] == ["a", "🍸b"]


def test_reasoning_that_comes_in_blocks_alone_is_thinking_too() -> None:
    blocks = [{"type": "reasoning.text", "text": "hm "}, {"type": "reasoning.encrypted", "data": "x"}]
    reply, deltas = feed(chunk({"reasoning_details": blocks}), chunk({"content": "yes"}, "stop"))
    assert [(d.kind, d.text) for d in deltas] == [("thinking", "hm "), ("text", "yes")]
    assert reply.replay == Replay(TARGET.issuer, "fields", {"reasoning_details": blocks})
    both = chunk({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, "stop")
    assert [d.text for d in feed(both)[1]] == ["hm"]


def test_B009_the_signature_that_gemini_puts_on_a_text_goes_back_with_the_message() -> None:
    signed = {"google": {"thought_signature": "abc"}}
    reply = reply_of(chunk({"content": "hi"}), chunk({"extra_content": signed}, "stop"))
    assert reply.replay == Replay(TARGET.issuer, "fields", {"extra_content": signed})
    message = Message("assistant", reply.parts, replay=reply.replay)
    assert json.loads(ChatCompletions().encode(message, TARGET))["extra_content"] == signed


def test_a_message_that_repeats_what_was_streamed_is_not_added_again() -> None:
    closing = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}
    assert reply_of(chunk({"content": "hello"}), closing).text == "hello"
    assert reply_of(closing).text == "hello"


# ---- Calls ----------------------------------------------------------------------------------------------------------


def test_B048_a_repeated_name_is_assigned_and_a_resent_object_taken_once() -> None:
    assert calls_of(
        [tool("web_search", '{"q":', index=0, id="c")], [tool("web_search", "1}", index=0)]
    ) == [("c", "web_search", {"q": 1})]  # fmt: skip
    again = [tool("f", '{"a":1}', index=0, id="c")]
    assert calls_of(again, again, again) == [("c", "f", {"a": 1})]
    assert calls_of([tool("f", "{}", index=0, id="c")], [tool(None, '{"a":1}', index=0)]) == [("c", "f", {"a": 1})]


def test_B049_entries_with_one_index_are_one_call_in_one_chunk_too() -> None:
    first = [tool("f", index=0, id="c1"), {"index": 0, "function": {"arguments": '{"a"'}}]
    assert calls_of(first, [tool(None, ":1}", index=0)]) == [("c1", "f", {"a": 1})]


def test_B049_calls_are_in_the_order_of_their_indices() -> None:
    assert [c[0] for c in calls_of([tool("f", "{}", index=1, id="b")], [tool("f", "{}", index=0, id="a")])] == [
        "a",
        "b",
    ]


def test_B050_calls_without_an_index_are_told_apart_by_id_or_by_being_whole() -> None:
    x, y = '{"c":"X"}', '{"c":"Y"}'
    assert calls_of([tool("w", x, id="a")], [tool("w", y, id="b")]) == [("a", "w", {"c": "X"}), ("b", "w", {"c": "Y"})]
    assert calls_of([tool("w", x)], [tool("w", y)]) == [("", "w", {"c": "X"}), ("", "w", {"c": "Y"})]
    assert calls_of([tool("w", x)], [tool("w", x)]) == [("", "w", {"c": "X"})] * 2
    assert calls_of([tool("w", '{"c":', id="a")], [tool(None, '"X"}')]) == [("a", "w", {"c": "X"})]
    assert calls_of([tool("w", '{"c":', id="a")], [tool(None, '"X"}', id="a")]) == [("a", "w", {"c": "X"})]


def test_spec_3_7_11_a_used_index_with_a_new_id_is_a_new_call() -> None:
    assert calls_of([tool("f", '{"a":1}', index=0, id="x")], [tool("g", '{"b":2}', index=0, id="y")]) == [
        ("x", "f", {"a": 1}),
        ("y", "g", {"b": 2}),
    ]


def test_ids_that_change_with_every_delta_do_not_divide_a_call() -> None:
    assert calls_of(
        [tool("f", '{"a"', index=0, id="r1")], [tool(None, ":1", index=0, id="r2")], [tool(None, "}", index=0, id="r3")]
    ) == [("r1", "f", {"a": 1})]  # fmt: skip


def test_B046_two_whole_calls_under_one_id_are_two_calls() -> None:
    same = [tool("f", '{"x":1}', id="functions.eval:301"), tool("f", '{"x":2}', id="functions.eval:301")]
    assert [c[2] for c in calls_of(same)] == [{"x": 1}, {"x": 2}]
    numbered = [{**entry, "index": i} for i, entry in enumerate(same)]
    assert [c[2] for c in calls_of(numbered)] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("odd", [None, "", 7])
def test_spec_3_2_9_B046_null_empty_and_numeric_ids_become_texts(odd: Any) -> None:
    assert calls_of([tool("f", "{}", index=0, id=odd)])[0][0] == ("" if odd is None else str(odd))


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a":1}', '{"a": 1}\n'])
def test_arguments_may_come_as_an_object(arguments: Any) -> None:
    assert calls_of([tool("f", arguments, index=0, id="c")]) == [("c", "f", {"a": 1})]


@pytest.mark.parametrize("arguments", [None, "", "  "])
def test_a_call_without_arguments_has_none(arguments: Any) -> None:
    assert calls_of([tool("f", arguments, index=0, id="c")]) == [("c", "f", {})]


def test_legacy_function_calls_are_calls() -> None:
    chunks = [
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
    ]
    reply = reply_of(*chunks, chunk({}, "function_call"))
    assert [(c.name, dict(c.arguments)) for c in reply.calls] == [("f", {"a": 1})]
    assert reply.stop_reason is StopReason.TOOL_CALLS


def test_B009_what_an_issuer_adds_to_a_call_survives_the_assembly() -> None:
    extra = {"google": {"thought_signature": "abc"}}
    reply = reply_of(chunk({"tool_calls": [tool("f", "{}", index=0, id="c", extra_content=extra)]}, "tool_calls"))
    assert reply.calls[0].replay == Replay(TARGET.issuer, "fields", {"extra_content": extra})


def test_B061_a_call_that_cannot_be_read_keeps_a_problem_and_the_good_one_its_arguments() -> None:
    bad, good = tool("f", "{bad", index=0, id="a"), tool("f", '{"a":1}', index=1, id="b")
    reply = reply_of(chunk({"tool_calls": [bad, good]}, "tool_calls"))
    assert reply.calls[0].problem
    assert (reply.calls[0].arguments, reply.calls[1].problem) == ({}, None)


def test_B004_a_call_cut_by_length_or_by_the_end_of_the_stream_is_marked() -> None:
    cut = chunk(
        {"tool_calls": [tool("f", '{"a":1}', index=0, id="a"), tool("w", '{"path":"a.md","content":"# T', index=1)]}
    )
    for chunks, done in (((cut, chunk({}, "length")), True), ((cut,), False)):
        reply = reply_of(*chunks, done=done)
        assert reply.calls[0].problem is None
        assert reply.calls[1].problem is not None
        assert reply.calls[1].problem.startswith("cut: ")
        assert reply.calls[1].arguments == {}
    assert reply_of(cut, chunk({}, "length")).stop_reason is StopReason.LENGTH
    assert reply_of(cut, done=False).stop_reason is StopReason.CUT


def test_calls_with_the_reason_stop_are_calls() -> None:
    assert reply_of(chunk({"tool_calls": [tool("f", "{}", index=0)]}, "stop")).stop_reason is StopReason.TOOL_CALLS
    assert reply_of(chunk({"content": "x"}, "tool_calls")).stop_reason is StopReason.OTHER


# ---- Endings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "stop"), ("eos", "stop"), ("end_turn", "stop"), ("STOP", "stop"), ("max_tokens", "length"),
     ("model_context_window_exceeded", "length"), ("content_filter", "refusal"), ("MALFORMED_FUNCTION_CALL", "other"),
     ("UNEXPECTED_TOOL_CALL", "other"), ("error", "other"), ("pause_turn", "other"), (3, "other"),
     ("insufficient_system_resource", "cut")],
)  # fmt: skip
def test_spec_3_2_9_B065_every_finish_reason_has_a_meaning_numbers_too(finish: Any, reason: str) -> None:
    assert reply_of(chunk({"content": "x"}, finish)).stop_reason == reason
    assert stop_reason(None) is None
    assert stop_reason("") is None


def test_spec_32086_B054_no_finish_reason_is_a_cut_unless_the_server_said_that_it_was_done() -> None:
    assert reply_of(chunk({"content": "x"}), done=False).stop_reason is StopReason.CUT
    assert reply_of(chunk({"content": "x"}), done=True).stop_reason is StopReason.OTHER


def test_B054_reasoning_alone_with_a_finish_reason_is_a_reply() -> None:
    reply = reply_of(chunk({"reasoning": "hm"}), chunk({}, "stop"))
    assert (reply.text, reply.stop_reason, len(reply.parts)) == ("", StopReason.STOP, 1)


def test_nothing_at_all_is_an_invalid_reply() -> None:
    for chunks in ((), ({"choices": []},), (chunk({"role": "assistant", "content": ""}),)):
        with pytest.raises(WireFault) as caught:
            reply_of(*chunks)
        assert caught.value.cause == "invalid"


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, None, "overloaded_error"),
        ({"error": {"code": 502, "message": "Overloaded"}, "choices": []}, 502, ""),
        ({"error": "Overloaded"}, None, ""),
        ({"object": "error", "message": "Overloaded", "type": "x"}, None, "x"),
        ({"choices": [{"error": {"code": "rate", "message": "Overloaded"}, "finish_reason": "error"}]}, None, "rate"),
    ],
)
def test_B056_an_error_inside_a_stream_is_a_fault_with_its_code(data: Any, status: int | None, code: str) -> None:
    with pytest.raises(WireFault, match="Overloaded") as caught:
        feed(chunk({"content": "Hel"}), data)
    assert (caught.value.status, caught.value.code, caught.value.phase) == (status, code, "stream")


# ---- Usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "usage"),
    [
        ({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 900}, "completion_tokens": 10},
         Usage(100, 10, 900)),
        ({"prompt_tokens": 10, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}},
         Usage(10, 5, 0, 0, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 16, "completion_tokens_details":
          {"reasoning_tokens": 4}}, Usage(10, 2, 0, 0, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 16}, Usage(10, 2, 0, 0, 4)),
        ({"total_tokens": 16}, Usage()),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 6, "completion_tokens": 1}, Usage(4, 1, 6)),
        ({"prompt_tokens": 1050, "prompt_tokens_details": {"cached_tokens": 900}, "cache_creation_input_tokens": 50,
          "completion_tokens": 1}, Usage(100, 1, 900, 50)),
        ({"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 50, "output_tokens": 10},
         Usage(100, 10, 900, 50)),
        ({"prompt_tokens": 5, "completion_tokens": 1, "cost": 0.5}, Usage(5, 1, cost_usd=0.5)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}, "completion_tokens": 1,
          "completion_tokens_details": {"reasoning_tokens": 9}}, Usage(0, 0, 5, 0, 9)),
        ({"prompt_tokens": None, "completion_tokens": "x", "prompt_tokens_details": None}, Usage()),
        (None, Usage()), ("x", Usage()),
    ],
)  # fmt: skip
def test_B030_tokens_are_counted_in_disjoint_buckets(data: Any, usage: Usage) -> None:
    assert read_usage(data) == usage


# ---- Cut anywhere, the same reply -----------------------------------------------------------------------------------


written_arguments = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=9), max_size=3)


@settings(max_examples=80, deadline=None)
@given(
    st.text(max_size=30),
    st.text(max_size=20),
    st.lists(st.tuples(st.sampled_from(["f", "g"]), written_arguments), max_size=3),
    st.integers(1, 7),
)
def test_a_reply_cut_into_any_pieces_is_the_reply_that_comes_whole(
    text: str, thinking: str, wanted: list[tuple[str, Any]], size: int
) -> None:
    def pieces(words: str) -> list[str]:
        return [words[i : i + size] for i in range(0, len(words), size)]

    raw = [(f"id{n}", name, json.dumps(arguments)) for n, (name, arguments) in enumerate(wanted)]
    chunks: list[Any] = [chunk({"reasoning_content": p}) for p in pieces(thinking)]
    chunks += [chunk({"content": p}) for p in pieces(text)]
    for n, (call_id, name, arguments) in enumerate(raw):
        chunks.append(chunk({"tool_calls": [tool(name, "", index=n, id=call_id)]}))
        chunks += [chunk({"tool_calls": [tool(None, p, index=n)]}) for p in pieces(arguments)]
    streamed, deltas = feed(*chunks, chunk({}, "stop"))
    message = {"content": text, "reasoning_content": thinking,
               "tool_calls": [tool(name, arguments, id=i) for i, name, arguments in raw]}  # fmt: skip
    whole = reply_of({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert streamed == whole
    assert [dict(c.arguments) for c in whole.calls] == [arguments for _, arguments in wanted]
    if not text.lstrip().startswith("<"):
        assert whole.text == (text if text.strip() else "")
        assert "".join(d.text for d in deltas if d.kind == "text") == text


NAMES = ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "index", "id"]
NAMES += ["finish_reason", "usage", "error", "reasoning_details", "type", "text"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(json_values, max_size=4))
def test_no_chunk_breaks_the_assembly_otherwise_than_by_a_fault(chunks: list[Any]) -> None:
    try:
        reply = reply_of(*chunks)
    except WireFault:
        return
    assert isinstance(reply.stop_reason, StopReason)
