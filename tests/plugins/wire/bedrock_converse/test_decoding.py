"""Events and whole replies of Converse, as they come and as they should not, to the neutral reply."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import ModelReply, Replay, StopReason, Text, Thinking, ToolCall, Usage
from hermes.kernel.providers import Delta, Target, WireFault
from hermes.plugins.wire.bedrock_converse.decoding import STOP_REASONS, Assembler
from hermes.plugins.wire.bedrock_converse.frames import events_of
from hermes.testing.formats import event_stream

Json = Any


def start(index: int | None, call_id: str, name: str) -> Json:
    at = {} if index is None else {"contentBlockIndex": index}
    return {"contentBlockStart": {**at, "start": {"toolUse": {"toolUseId": call_id, "name": name}}}}


def delta(index: int | None, **inner: Json) -> Json:
    return {"contentBlockDelta": {**({} if index is None else {"contentBlockIndex": index}), "delta": inner}}


def said(index: int | None, text: str) -> Json:
    return delta(index, text=text)


def written(index: int | None, piece: str) -> Json:
    return delta(index, toolUse={"input": piece})


def thought(index: int | None, **inner: str) -> Json:
    return delta(index, reasoningContent=inner)


def stop(reason: str = "end_turn") -> Json:
    return {"messageStop": {"stopReason": reason}}


def usage(**counts: Json) -> Json:
    return {"metadata": {"usage": counts, "metrics": {"latencyMs": 1}}}


def fed(target: Target, events: Iterable[Json]) -> tuple[ModelReply, list[Delta]]:
    assembler, deltas = Assembler(target), []
    for event in events:
        for name, payload in event.items():
            deltas.extend(assembler.feed(name, payload))
    return assembler.reply(), deltas


def whole(target: Target, content: list[Json], reason: str | None = "end_turn", **more: Json) -> ModelReply:
    assembler = Assembler(target)
    list(
        assembler.whole(
            {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, **more}
        )
    )
    return assembler.reply()


# ---- In order -------------------------------------------------------------------------------------------------------


def test_blocks_come_out_in_the_models_order_with_what_must_come_back(target: Target) -> None:
    reply, deltas = fed(
        target,
        [
            {"messageStart": {"role": "assistant"}},
            thought(0, text="h"), thought(0, text="m"), thought(0, signature="si"), thought(0, signature="g"),
            said(1, "I lo"), said(1, "ok."),
            thought(2, redactedContent="AAAA"),
            start(3, "c1", "read_file"), written(3, '{"path"'), written(3, ': "ä"}'),
            {"contentBlockStop": {"contentBlockIndex": 3}},
            start(4, "c2", "noop"),
            stop("tool_use"),
            usage(inputTokens=7, outputTokens=5, totalTokens=112, cacheReadInputTokens=90, cacheWriteInputTokens=10),
        ],
    )  # fmt: skip
    assert reply.parts == (
        Thinking("hm", Replay(target.issuer, "reasoning", {"signature": "sig"})),
        Text("I look."),
        Thinking("", Replay(target.issuer, "reasoning", {"redactedContent": "AAAA"})),
        ToolCall("c1", "read_file", {"path": "ä"}),
        ToolCall("c2", "noop", {}),
    )
    assert (reply.stop_reason, reply.model) == (StopReason.TOOL_CALLS, target.model)
    assert reply.usage == Usage(7, 5, 90, 10)
    assert "".join(d.text for d in deltas if d.kind == "thinking") == "hm"
    assert [d for d in deltas if d.kind == "call"] == [Delta("call", "read_file"), Delta("call", "noop")]


def test_a_whole_reply_is_the_same_reply(target: Target) -> None:
    reply = whole(
        target,
        [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
            {"text": "I look."},
            {"reasoningContent": {"redactedContent": "AAAA"}},
            {"toolUse": {"toolUseId": "c1", "name": "read_file", "input": {"path": "ä"}}},
        ],
        "tool_use",
        usage={"inputTokens": 7, "outputTokens": 5, "cacheReadInputTokens": 90, "cacheWriteInputTokens": None},
    )
    assert reply.parts == (
        Thinking("hm", Replay(target.issuer, "reasoning", {"signature": "sig"})),
        Text("I look."),
        Thinking("", Replay(target.issuer, "reasoning", {"redactedContent": "AAAA"})),
        ToolCall("c1", "read_file", {"path": "ä"}),
    )
    assert (reply.stop_reason, reply.usage) == (StopReason.TOOL_CALLS, Usage(7, 5, 90, 0))


def test_unsigned_reasoning_is_shown_and_is_not_to_be_sent_back(target: Target) -> None:
    reply, _ = fed(target, [thought(0, text="hm"), said(1, "a"), stop()])
    assert reply.parts == (Thinking("hm"), Text("a"))


def test_a_signature_without_text_is_kept(target: Target) -> None:
    reply, _ = fed(target, [thought(0, text=""), thought(0, signature="sig"), said(1, "a"), stop()])
    assert reply.parts[0] == Thinking("", Replay(target.issuer, "reasoning", {"signature": "sig"}))


def test_redacted_content_in_pieces_is_one_blob(target: Target) -> None:
    blob = bytes(range(40))
    pieces = [base64.b64encode(blob[:7]).decode(), base64.b64encode(blob[7:]).decode()]
    reply, _ = fed(target, [*(thought(0, redactedContent=piece) for piece in pieces), said(1, "a"), stop()])
    replay = reply.parts[0].replay
    assert replay is not None
    assert base64.b64decode(replay.payload["redactedContent"]) == blob


def test_half_a_surrogate_pair_in_each_of_two_pieces_is_one_character(target: Target) -> None:
    reply, deltas = fed(target, [said(0, "a\ud83d"), said(0, "\ude00b"), stop()])
    assert reply.text == "".join(d.text for d in deltas) == "a😀b"


# ---- Out of order ---------------------------------------------------------------------------------------------------


def test_what_comes_late_goes_to_the_block_of_its_index(target: Target) -> None:
    reply, _ = fed(
        target,
        [
            start(0, "c1", "f"), start(1, "c2", "g"), written(1, '{"b":'), written(0, '{"a":1}'), written(1, "2}"),
            stop("tool_use"),
        ],
    )  # fmt: skip
    assert [dict(c.arguments) for c in reply.calls] == [{"a": 1}, {"b": 2}]


def test_events_without_an_index_go_to_the_last_block_of_their_kind(target: Target) -> None:
    events = [
        thought(None, text="h"),
        thought(None, text="m"),
        said(None, "a"),
        said(None, "b"),
        start(None, "c1", "f"),
    ]
    reply, _ = fed(target, [*events, written(None, '{"x":1}'), start(None, "c2", "g"), written(None, "{}"), stop()])
    assert reply.parts == (Thinking("hm"), Text("ab"), ToolCall("c1", "f", {"x": 1}), ToolCall("c2", "g", {}))


def test_B046_two_calls_with_one_id_or_one_index_are_two_calls(target: Target) -> None:
    same_id = [start(0, "c", "f"), written(0, '{"x":1}'), start(1, "c", "f"), written(1, '{"x":2}'), stop("tool_use")]
    assert [dict(c.arguments) for c in fed(target, same_id)[0].calls] == [{"x": 1}, {"x": 2}]
    same_index = [
        start(0, "a", "f"),
        written(0, '{"x":1}'),
        start(0, "b", "f"),
        written(0, '{"x":2}'),
        stop("tool_use"),
    ]
    assert [(c.id, dict(c.arguments)) for c in fed(target, same_index)[0].calls] == [("a", {"x": 1}), ("b", {"x": 2})]
    nameless = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": None, "name": "f"}}}}
    assert fed(target, [nameless, stop("tool_use")])[0].calls[0].id == ""


def test_a_call_that_is_announced_twice_is_one(target: Target) -> None:
    reply, deltas = fed(target, [start(0, "a", "f"), start(0, "a", "f"), written(0, "{}"), stop("tool_use")])
    assert len(reply.calls) == len(deltas) == 1


def test_text_and_reasoning_under_one_index_are_two_blocks(target: Target) -> None:
    reply, _ = fed(target, [thought(0, text="hm"), said(0, "a"), stop()])
    assert reply.parts == (Thinking("hm"), Text("a"))


def test_usage_before_the_stop_and_events_of_no_known_name_do_no_harm(target: Target) -> None:
    reply, _ = fed(target, [usage(inputTokens=1, outputTokens=2), {"news": {"a": 1}}, said(0, "a"), stop()])
    assert (reply.text, reply.usage) == ("a", Usage(1, 2))


@pytest.mark.parametrize(
    "event",
    [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": None}},
        {"contentBlockDelta": {"delta": {"text": None}}},
        {"contentBlockDelta": {"delta": {"reasoningContent": None, "toolUse": None}}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {}}},
        {"contentBlockStart": {"contentBlockIndex": "x", "start": None}},
        {"metadata": {"usage": None}},
        {"metadata": {"usage": {"inputTokens": "many", "outputTokens": -1}}},
    ],
)
def test_null_fields_say_nothing(target: Target, event: Json) -> None:
    reply, _ = fed(target, [event, said(0, "a"), stop()])
    assert (reply.parts, reply.usage) == ((Text("a"),), Usage())


# ---- How it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", StopReason.STOP), ("stop_sequence", StopReason.STOP), ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH), ("guardrail_intervened", StopReason.REFUSAL),
        ("content_filtered", StopReason.REFUSAL), ("malformed_model_output", StopReason.OTHER),
        ("malformed_tool_use", StopReason.OTHER), ("tool_use", StopReason.OTHER), ("news", StopReason.OTHER),
        ("", StopReason.OTHER),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_stream", [True, False])
def test_B064_B065_every_stop_reason_is_one_of_ours(
    target: Target, reason: str, expected: StopReason, is_stream: bool
) -> None:
    reply = fed(target, [said(0, "a"), stop(reason)])[0] if is_stream else whole(target, [{"text": "a"}], reason)
    assert (reply.text, reply.stop_reason) == ("a", expected)


def test_every_stop_reason_of_the_service_model_has_a_row() -> None:
    from botocore.session import Session

    shape = Session().get_service_model("bedrock-runtime").shape_for("StopReason")
    assert set(shape.enum) == set(STOP_REASONS)


@pytest.mark.parametrize("reason", ["end_turn", "news", "tool_use"])
def test_calls_are_calls_whatever_the_reason_says(target: Target, reason: str) -> None:
    assert fed(target, [start(0, "c", "f"), stop(reason)])[0].stop_reason is StopReason.TOOL_CALLS


@pytest.mark.parametrize("reason", ["max_tokens", "malformed_tool_use", None])
def test_B054_a_call_that_was_cut_off_has_a_problem_and_no_arguments(target: Target, reason: str | None) -> None:
    events = [start(0, "a", "f"), written(0, '{"x":1}'), start(1, "b", "g"), written(1, '{"path": "/et')]
    reply, _ = fed(target, [*events, *([stop(reason)] if reason else [])])
    assert reply.calls[0].problem is None
    assert (reply.calls[1].arguments, "end after" in str(reply.calls[1].problem)) == ({}, True)


def test_B054_a_stream_without_a_stop_is_cut_and_keeps_its_text(target: Target) -> None:
    reply, _ = fed(target, [said(0, "half an ans")])
    assert (reply.text, reply.stop_reason) == ("half an ans", StopReason.CUT)


def test_B054_reasoning_alone_with_a_stop_is_a_reply(target: Target) -> None:
    reply, _ = fed(target, [thought(0, text="hm"), stop()])
    assert (reply.parts, reply.stop_reason) == ((Thinking("hm"),), StopReason.STOP)


def test_spec_9_1_no_output_with_a_stop_reason_is_a_reply_and_neither_is_none(target: Target) -> None:
    assert fed(target, [stop()])[0].parts == whole(target, []).parts == ()
    with pytest.raises(WireFault, match="empty"):
        fed(target, [{"messageStart": {"role": "assistant"}}])


@pytest.mark.parametrize("body", [None, [], "hi", {}, {"message": "x"}, {"output": None, "stopReason": None}])
def test_what_is_no_reply_is_invalid(target: Target, body: Json) -> None:
    with pytest.raises(WireFault) as caught:
        list(Assembler(target).whole(body))
    assert caught.value.cause == "invalid"


@pytest.mark.parametrize(
    ("given", "arguments"), [('{"a": 1}', {"a": 1}), ("", {}), (None, {}), ({"a": None}, {"a": None})]
)
def test_arguments_of_a_whole_call_may_be_an_object_or_its_text(target: Target, given: Json, arguments: Json) -> None:
    reply = whole(target, [{"toolUse": {"toolUseId": "c", "name": "f", "input": given}}], "tool_use")
    assert (reply.calls[0].arguments, reply.calls[0].problem) == (arguments, None)


# ---- Frames ---------------------------------------------------------------------------------------------------------

STREAM = b"".join(
    event_stream.event(name, json.dumps({"n": n}).encode())
    for n, name in enumerate(["messageStart", "x", "messageStop"])
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_events_come_out_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(places)]
    assert list(events_of(pieces, "b")) == [("messageStart", {"n": 0}), ("x", {"n": 1}), ("messageStop", {"n": 2})]


@pytest.mark.parametrize("place", [3, 9, 40, len(STREAM) - 1])
def test_a_flipped_bit_is_found_by_the_checksums(place: int) -> None:
    broken = bytearray(STREAM)
    broken[place] ^= 1
    with pytest.raises(WireFault) as caught:
        list(events_of([bytes(broken)], "bedrock:m"))
    assert (caught.value.cause, "bedrock:m" in caught.value.message) == ("invalid", True)


def test_what_came_before_a_broken_frame_is_given_out() -> None:
    reading = events_of([event_stream.event("x", b"{}"), struct.pack("!III", 99, 1, 5) + bytes(90)], "b")
    assert next(reading) == ("x", {})
    with pytest.raises(WireFault):
        next(reading)


@pytest.mark.parametrize("payload", [b"", b"not json", b"[1]"])
def test_a_payload_that_is_no_object_says_nothing(payload: bytes) -> None:
    assert list(events_of([event_stream.event("ping", payload)], "b")) == [("ping", {})]


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("throttlingException", 429, FaultKind.RATE_LIMIT),
        ("modelStreamErrorException", 424, FaultKind.SERVER_ERROR),
        ("internalServerException", 500, FaultKind.SERVER_ERROR),
        ("serviceUnavailableException", 503, FaultKind.OVERLOADED),
        ("validationException", 400, FaultKind.BAD_REQUEST),
        ("modelTimeoutException", 408, FaultKind.TIMEOUT),
    ],
)
def test_B056_an_exception_in_the_stream_is_the_fault_that_it_names(name: str, status: int, kind: FaultKind) -> None:
    frame = event_stream.exception(name, b'{"message": "it did not go well"}')
    with pytest.raises(WireFault) as caught:
        list(events_of([event_stream.event("x", b"{}") + frame], "b"))
    fault = caught.value
    assert (fault.cause, fault.status, fault.code, fault.phase) == ("http", status, name, "stream")
    assert (classify(fault).kind, fault.message) == (kind, "it did not go well")


def test_B056_an_error_without_a_model_is_a_fault_too() -> None:
    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "ouch"}
    with pytest.raises(WireFault) as caught:
        list(events_of([event_stream.message(headers, b"")], "b"))
    assert (caught.value.code, caught.value.message, caught.value.status) == ("InternalFailure", "ouch", None)


def test_the_statuses_of_stream_exceptions_are_those_of_the_service_model() -> None:
    from botocore.session import Session

    from hermes.plugins.wire.bedrock_converse.frames import _STATUSES

    members = Session().get_service_model("bedrock-runtime").shape_for("ConverseStreamOutput").members
    stated = {name: shape.metadata["error"]["httpStatusCode"] for name, shape in members.items() if "xception" in name}
    assert stated.items() <= _STATUSES.items()
