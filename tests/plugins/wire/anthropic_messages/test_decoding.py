"""What comes in: every odd form of event that servers send comes to the reply that was meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import ModelReply, Refusal, Replay, StopReason, Text, Thinking, ToolCall, Usage
from hermes.kernel.providers import Delta, Profile, Target, WireFault
from hermes.plugins.wire.anthropic_messages.decoding import Assembler
from hermes.plugins.wire.anthropic_messages.usage import merge_usage, read_usage, stop_reason

TARGET = Target("t:m", Profile("t"), "m", "http://x", "anthropic_messages")
HEAD = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "content": [], "usage": None}}
STOP = {"type": "message_stop"}


def start(index: Any, kind: str, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **content}}


def delta(index: Any, kind: str, **piece: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **piece}}


def end(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def finish(reason: Any, usage: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


def text(index: Any, *pieces: str) -> list[dict[str, Any]]:
    return [start(index, "text", text=""), *(delta(index, "text_delta", text=p) for p in pieces), end(index)]


def call(index: Any, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, "input_json_delta", partial_json=p) for p in pieces]
    return [start(index, "tool_use", id=call_id, name=name, input={}), *deltas, end(index)]


def thought(index: Any, said: str, signature: str = "") -> list[dict[str, Any]]:
    signed = [delta(index, "signature_delta", signature=signature)] if signature else []
    return [start(index, "thinking", thinking="", signature=""), delta(index, "thinking_delta", thinking=said), *signed,
            end(index)]  # fmt: skip


def feed(*events: Any) -> tuple[ModelReply, list[Delta]]:
    assembler = Assembler(TARGET)
    deltas = [d for event in events for d in assembler.feed(event)]
    return assembler.reply(), deltas


def reply_of(*events: Any) -> ModelReply:
    return feed(*events)[0]


def calls_of(*events: Any) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, dict(c.arguments)) for c in reply_of(*events).calls]


def own(text: str, kind: str = "thinking", **payload: str) -> Thinking:
    return Thinking(text, Replay(TARGET.issuer, kind, payload))


# ---- Blocks ---------------------------------------------------------------------------------------------------------


def test_blocks_come_in_the_models_order_with_their_signatures() -> None:
    redacted = [start(3, "redacted_thinking", data="opaque"), end(3)]
    reply, deltas = feed(
        HEAD, {"type": "ping"}, *thought(0, "hm", "s1"), *text(1, "Let ", "me."), *call(2, "a", "f", '{"x":', " 1}"),
        *redacted, *thought(4, "so", "s2"), *call(5, "b", "g"), finish("tool_use"), STOP,
    )  # fmt: skip
    assert reply.parts == (
        own("hm", signature="s1"), Text("Let me."), ToolCall("a", "f", {"x": 1}),
        own("", "redacted_thinking", data="opaque"), own("so", signature="s2"), ToolCall("b", "g", {}),
    )  # fmt: skip
    assert (reply.stop_reason, reply.model) == (StopReason.TOOL_CALLS, "claude-x")
    assert [(d.kind, d.text) for d in deltas] == [
        ("thinking", "hm"), ("text", "Let "), ("text", "me."), ("call", "f"), ("thinking", "so"), ("call", "g"),
    ]  # fmt: skip


def test_thinking_whose_text_is_omitted_is_kept_for_its_signature() -> None:
    reply = reply_of(HEAD, *thought(0, "", "s"), *text(1, "t"), finish("end_turn"), STOP)
    assert reply.parts == (own("", signature="s"), Text("t"))


def test_thinking_without_a_signature_is_kept_and_blank_thinking_is_not() -> None:
    reply = reply_of(HEAD, *thought(0, "why"), *thought(1, " "), *text(2, "t"), finish("end_turn"), STOP)
    assert reply.parts == (own("why"), Text("t"))


@pytest.mark.parametrize("odd", [None, {}, {"type": "text_delta"}, {"type": "text_delta", "text": None}, "x",
                                 {"type": "text_delta", "text": ""}, {"type": "citations_delta", "citation": {}},
                                 {"type": "some_new_delta", "text": "no"}])  # fmt: skip
def test_B052_empty_null_and_unknown_deltas_are_nothing(odd: Any) -> None:
    event = {"type": "content_block_delta", "index": 0, "delta": odd}
    reply = reply_of(HEAD, start(0, "text", text=""), event, end(0), *call(1, "a", "f", "{}"), finish("tool_use"), STOP)
    assert reply.parts == (ToolCall("a", "f", {}),)


def test_a_delta_whose_block_never_began_begins_one() -> None:
    late = [delta(0, "thinking_delta", thinking="hm"), delta(1, "text_delta", text="hi"), end(1)]
    reply, deltas = feed(HEAD, *late, finish("end_turn"), STOP)
    assert reply.parts == (own("hm"), Text("hi"))
    assert [d.text for d in deltas] == ["hm", "hi"]


def test_a_delta_after_the_end_of_its_block_still_belongs_to_it() -> None:
    reply = reply_of(HEAD, *text(0, "a"), *text(1, "c"), delta(0, "text_delta", text="b"), finish("end_turn"), STOP)
    assert reply.text == "abc"


def test_a_repeated_start_opens_nothing_new() -> None:
    begun = start(0, "tool_use", id="a", name="f", input={})
    reply = reply_of(HEAD, HEAD, begun, begun, delta(0, "input_json_delta", partial_json="{}"), end(0), end(0),
                     finish("tool_use"), finish("tool_use"), STOP)  # fmt: skip
    assert reply.calls == (ToolCall("a", "f", {}),)


def test_blocks_that_all_have_one_index_or_none_are_told_apart() -> None:
    for index in (0, None):
        events = [*text(index, "t"), *call(index, "a", "f", '{"x":1}'), *call(index, "b", "f", '{"x":2}')]
        reply = reply_of(HEAD, *events, finish("tool_use"), STOP)
        assert [type(p).__name__ for p in reply.parts] == ["Text", "ToolCall", "ToolCall"]
        assert [dict(c.arguments) for c in reply.calls] == [{"x": 1}, {"x": 2}]


def test_calls_that_stream_at_the_same_time_are_told_apart_by_index_and_come_in_its_order() -> None:
    events = [
        start(1, "tool_use", id="b", name="g", input={}), start(0, "tool_use", id="a", name="f", input={}),
        delta(1, "input_json_delta", partial_json='{"y"'), delta(0, "input_json_delta", partial_json='{"x"'),
        delta(1, "input_json_delta", partial_json=":2}"), delta(0, "input_json_delta", partial_json=":1}"),
    ]  # fmt: skip
    assert calls_of(HEAD, *events, finish("tool_use"), STOP) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_B046_two_calls_of_one_id_stay_two() -> None:
    events = [*call(0, "x:301", "eval", '{"x":1}'), *call(1, "x:301", "eval", '{"x":2}'), *call(2, "", "eval")]
    assert [c[2] for c in calls_of(HEAD, *events, finish("tool_use"), STOP)] == [{"x": 1}, {"x": 2}, {}]


@pytest.mark.parametrize(
    ("given_input", "pieces", "read"),
    [
        ({}, (), {}),
        (None, (), {}),
        ({"a": 1}, (), {"a": 1}),
        ('{"a": 1}', (), {"a": 1}),
        ({"a": 1}, ('{"a": 2}',), {"a": 2}),
        ({}, ('{"a": "\\ud83d', '\\ude00"}'), {"a": "😀"}),
    ],
)
def test_input_is_read_from_its_pieces_else_from_the_start_of_the_block(
    given_input: Any, pieces: tuple[str, ...], read: Any
) -> None:
    deltas = [delta(0, "input_json_delta", partial_json=p) for p in pieces]
    block = start(0, "tool_use", id="a", name="f", input=given_input)
    assert calls_of(HEAD, block, *deltas, end(0), finish("tool_use"), STOP) == [("a", "f", read)]


@pytest.mark.parametrize("pieces", [(), ('{"path": "a', ".txt")])
@pytest.mark.parametrize("last", [[finish("max_tokens"), STOP], []])
def test_B054_a_call_that_was_cut_is_never_run(pieces: tuple[str, ...], last: list[Any]) -> None:
    reply = reply_of(HEAD, *call(0, "a", "f", '{"x": 1}'), *call(1, "b", "write", *pieces)[:-1], *last)
    assert dict(reply.calls[0].arguments) == {"x": 1}
    assert reply.calls[0].problem is None
    assert (reply.calls[1].problem or "").startswith("cut:")


def test_server_tools_are_nobodys() -> None:
    server = [
        start(0, "server_tool_use", id="srv", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x"}'), end(0),
        start(1, "web_search_tool_result", tool_use_id="srv", content=[]), end(1),
    ]  # fmt: skip
    reply = reply_of(HEAD, *server, *text(2, "found"), finish("end_turn"), STOP)
    assert reply.parts == (Text("found"),)


def test_unknown_events_are_ignored_and_what_is_no_event_is_invalid() -> None:
    odd = [{"type": "ping"}, {"type": "vendor_progress", "index": 0}, {"choices": []}, {}]
    assert reply_of(*odd, HEAD, *odd, *text(0, "hi"), *odd, finish("end_turn"), STOP).text == "hi"
    for value in (None, "text", 3, []):
        with pytest.raises(WireFault, match="no object") as caught:
            feed(value)
        assert caught.value.cause == "invalid"


def test_a_lone_surrogate_is_replaced_and_a_pair_in_two_pieces_is_joined() -> None:
    reply, deltas = feed(HEAD, *text(0, "a\ud83d", "\ude00b \ud800"), finish("end_turn"), STOP)
    assert reply.text == "a😀b �"
    assert deltas[0].text + deltas[1].text == "a😀b "


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(["text", "call", "thought"]), min_size=1, max_size=5), st.data())
def test_pieces_of_any_size_in_any_order_between_the_blocks_come_to_the_same_reply(
    kinds: list[str], data: st.DataObject
) -> None:
    make = {
        "text": lambda n: text(n, "wo", "rds", f" {n}"),
        "call": lambda n: call(n, f"c{n}", "f", '{"n"', ":", f"{n}}}"),
        "thought": lambda n: thought(n, f"hm {n}", f"s{n}"),
    }
    streams = [make[kind](n) for n, kind in enumerate(kinds)]
    plain = reply_of(HEAD, *(event for stream in streams for event in stream), finish("end_turn"), STOP)
    mixed: list[Any] = []
    waiting = [list(stream) for stream in streams]
    while any(waiting):
        number = data.draw(st.sampled_from([n for n, events in enumerate(waiting) if events]))
        mixed.append(waiting[number].pop(0))
    assert reply_of(HEAD, *mixed, finish("end_turn"), STOP) == plain


# ---- The end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("end_turn", StopReason.STOP), ("stop_sequence", StopReason.STOP), ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH), ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.OTHER), ("tool_use", StopReason.OTHER), ("sensitive", StopReason.REFUSAL),
        ("something_new", StopReason.OTHER), (7, StopReason.OTHER), ("END_TURN", StopReason.STOP),
    ],
)  # fmt: skip
def test_B065_stop_reasons_are_read_by_a_table(reason: Any, meaning: StopReason) -> None:
    assert reply_of(HEAD, *text(0, "t"), finish(reason), STOP).stop_reason is meaning


def test_calls_make_the_stop_reason_whatever_the_word_but_never_over_a_cut() -> None:
    for word, meaning in (("end_turn", StopReason.TOOL_CALLS), ("pause_turn", StopReason.TOOL_CALLS),
                          ("max_tokens", StopReason.LENGTH), ("refusal", StopReason.REFUSAL)):  # fmt: skip
        assert reply_of(HEAD, *call(0, "a", "f"), *text(1, "t"), finish(word), STOP).stop_reason is meaning
    assert stop_reason(None) is None
    assert stop_reason("") is None


def test_B064_a_refusal_without_content_is_a_reply_and_says_why() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not this."}
    for more, parts in (({}, ()), ({"stop_details": None}, ()), ({"stop_details": details}, (Refusal("Not this."),))):
        reply = reply_of(HEAD, finish("refusal", **more), STOP)
        assert (reply.stop_reason, reply.parts) == (StopReason.REFUSAL, parts)


def test_an_empty_reply_with_a_reason_is_valid_and_one_without_is_not() -> None:
    assert reply_of(HEAD, finish("end_turn"), STOP).parts == ()
    for events in ([HEAD], [HEAD, STOP], [HEAD, *text(0, " ")]):
        with pytest.raises(WireFault, match="empty") as caught:
            reply_of(*events)
        assert caught.value.cause == "invalid"


def test_spec_32086_B054_a_stream_that_ends_without_a_reason_is_cut() -> None:
    assert reply_of(HEAD, *text(0, "half an ans")).stop_reason is StopReason.CUT
    assert reply_of(HEAD, *text(0, "all"), STOP).stop_reason is StopReason.OTHER


# ---- Errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "fault"),
    [
        ("overloaded_error", 529, FaultKind.OVERLOADED),
        ("rate_limit_error", 429, FaultKind.RATE_LIMIT),
        ("api_error", 500, FaultKind.SERVER_ERROR),
        ("authentication_error", 401, FaultKind.AUTH),
        ("permission_error", 403, FaultKind.PERMISSION),
        ("billing_error", 402, FaultKind.BILLING),
        ("request_too_large", 413, FaultKind.BODY_TOO_LARGE),
        ("timeout_error", 504, FaultKind.TIMEOUT),
        ("invalid_request_error", 400, FaultKind.BAD_REQUEST),
        ("not_found_error", 404, FaultKind.BAD_REQUEST),
        ("", None, FaultKind.UNKNOWN),
    ],
)
def test_B056_an_error_event_has_the_status_of_its_type(kind: str, status: int | None, fault: FaultKind) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "No."}}
    for before in ([], [HEAD, *text(0, "Hel")]):
        with pytest.raises(WireFault) as caught:
            feed(*before, event)
        assert (caught.value.status, caught.value.code, caught.value.message) == (status, kind, "No.")
        assert classify(caught.value).kind is fault


@pytest.mark.parametrize("event", [{"type": "error"}, {"type": "error", "error": "boom"}, {"error": {"message": "x"}}])
def test_an_error_of_any_shape_is_a_fault(event: Any) -> None:
    with pytest.raises(WireFault) as caught:
        feed(HEAD, event)
    assert caught.value.cause == "http"


# ---- Whole replies --------------------------------------------------------------------------------------------------


def whole(reply: Any) -> tuple[ModelReply, list[Delta]]:
    assembler = Assembler(TARGET)
    deltas = list(assembler.whole(reply))
    assembler.is_done = True
    return assembler.reply(), deltas


def test_a_whole_message_is_read_like_its_events() -> None:
    message = {
        "type": "message", "model": "claude-x", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "t"},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                    {"type": "redacted_thinking", "data": "d"}, "odd", None],
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }  # fmt: skip
    reply, deltas = whole(message)
    assert reply.parts == (own("hm", signature="s"), Text("t"), ToolCall("a", "f", {"x": 1}),
                           own("", "redacted_thinking", data="d"))  # fmt: skip
    assert (reply.stop_reason, reply.usage, reply.model) == (StopReason.TOOL_CALLS, Usage(3, 2), "claude-x")
    assert [d.kind for d in deltas] == ["thinking", "text", "call"]
    assert reply_of(message) == reply  # the same object as the only event of a stream


def test_a_whole_refusal_may_have_null_for_content() -> None:
    assert whole({"content": None, "stop_reason": "refusal"})[0].stop_reason is StopReason.REFUSAL


@pytest.mark.parametrize("reply", [None, [], "text", {}, {"choices": []}, {"content": []}, {"stop_reason": "end_turn"}])
def test_what_is_no_message_is_invalid(reply: Any) -> None:
    with pytest.raises(WireFault, match="no message") as caught:
        whole(reply)
    assert caught.value.cause == "invalid"


# ---- Usage ----------------------------------------------------------------------------------------------------------


def test_buckets_are_disjoint_and_thinking_is_taken_out_of_the_output() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 9,
             "output_tokens_details": {"thinking_tokens": 4}}  # fmt: skip
    assert read_usage(usage) == Usage(10, 5, 70, 20, 4)
    lifetimes = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}
    assert read_usage({"cache_creation": lifetimes, "output_tokens": None}) == Usage(cache_write_tokens=7)


@pytest.mark.parametrize(
    ("first", "last", "read"),
    [
        ({"input_tokens": 10, "output_tokens": 1}, {"output_tokens": 7}, Usage(10, 7)),
        ({"input_tokens": 10, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 7}, Usage(10, 7)),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 12, "output_tokens": 7}, Usage(12, 7)),
        ({"input_tokens": 100}, {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 7},
         Usage(20, 7, 80)),
        ({"input_tokens": 5, "cache_creation_input_tokens": 30}, {"cache_creation_input_tokens": None},
         Usage(5, 0, 0, 30)),
        (None, None, Usage()),
        ({"input_tokens": "many"}, "odd", Usage()),
    ],
)  # fmt: skip
def test_counts_at_the_end_replace_those_at_the_start_unless_they_say_nothing(
    first: Any, last: Any, read: Usage
) -> None:
    assert read_usage(merge_usage(merge_usage({}, first), last)) == read
    head = {"type": "message_start", "message": {"usage": first}}
    assert reply_of(head, *text(0, "t"), finish("end_turn", last), STOP).usage == read
