"""Whole calls by the real SDK against a real loopback server: replies, faults, aborts, connections."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hermes.kernel.effects import FaultKind
from hermes.kernel.errors import ProviderError
from hermes.kernel.faults import classify
from hermes.kernel.messages import Message, StopReason, Text, Thinking, ToolResult, Usage
from hermes.kernel.profiles import detect_api_mode
from hermes.kernel.providers import Delta, Parameters, Timeouts, ToolSchema, WireFault
from hermes.testing import (
    Call,
    Reply,
    ScriptedServer,
    Thought,
    blocks,
    call,
    calls,
    cut,
    error_event,
    events,
    fault,
    stall,
    text,
)
from hermes.testing.formats import event_stream

SOON_S = 5.0
"""No abort may take so long; the goal is some milliseconds."""
READ = ToolSchema("read_file", "Read.", {"type": "object", "properties": {}})
HELLO = Message("user", (Text("hello"),))


def fault_of(run: Callable[[], Any]) -> WireFault:
    with pytest.raises(WireFault) as caught:
        run()
    return caught.value


# ---- Replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_loop_goes_over_the_wire_and_back(scripted: ScriptedServer, caller: Any, stream: bool) -> None:
    scripted.add(
        calls(Call("read_file", {"path": "ä.txt"}), Call("noop"), text="Let me look.").but(thinking="hm"),
        text("All is said.").but(usage=Usage(3, 4, 100, 20)),
    )
    reply = caller(HELLO, tools=[READ], stream=stream)
    assert [(c.name, dict(c.arguments)) for c in reply.calls] == [("read_file", {"path": "ä.txt"}), ("noop", {})]
    assert (reply.text, reply.stop_reason, reply.usage) == ("Let me look.", StopReason.TOOL_CALLS, Usage(10, 5))
    assert [d for d in caller.deltas if d.kind == "call"] == [Delta("call", "read_file"), Delta("call", "noop")]
    assert caller.shown("thinking") == "hm"
    results = tuple(ToolResult(c.id, "ok", (Text("out"),)) for c in reply.calls)
    final = caller(HELLO, Message("assistant", reply.parts), Message("tool", results), tools=[READ], stream=stream)
    assert (final.text, caller.shown(), final.usage) == ("All is said.", "All is said.", Usage(3, 4, 100, 20))
    first = scripted.requests[0]
    assert first.path.endswith("/converse-stream" if stream else "/converse")
    assert first.headers["authorization"] == "Bearer bedrock-key"
    assert first.headers["content-length"] == str(len(first.raw))


def test_B080_signed_and_redacted_reasoning_comes_back_in_its_order(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(
        blocks(Thought("first"), "words", Call("read_file"), Thought("", is_redacted=True), Call("read_file")),
        text("ok"),
    )
    reply = caller(HELLO, tools=[READ])
    assert [type(p).__name__ for p in reply.parts] == ["Thinking", "Text", "ToolCall", "Thinking", "ToolCall"]
    results = Message("tool", tuple(ToolResult(c.id, "ok", (Text("out"),)) for c in reply.calls))
    assert caller(HELLO, Message("assistant", reply.parts), results, tools=[READ]).text == "ok"
    sent = scripted.requests[1].messages[1]["content"]
    assert [next(iter(b)) for b in sent] == ["reasoningContent", "text", "toolUse", "reasoningContent", "toolUse"]


@pytest.mark.parametrize(
    ("model", "quoted"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x.y",
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.x.y",
        ),
    ],
)
def test_spec_12295_the_models_id_stays_as_it_is_in_the_path(
    scripted: ScriptedServer, new_target: Any, new_caller: Any, model: str, quoted: str
) -> None:
    scripted.add(text("hi"))
    new_caller(new_target(scripted.url_for("bedrock_converse"), model))()
    assert scripted.requests[0].path == f"/model/{quoted}/converse-stream"
    assert scripted.requests[0].model == model


def test_spec_28156_claude_on_bedrock_never_speaks_the_wire_whose_event_order_broke(new_target: Any) -> None:
    target = new_target("https://bedrock-runtime.us-east-1.amazonaws.com")
    assert detect_api_mode(target.profile, target.base_url, target.model) == "bedrock_converse"


def test_a_base_url_may_have_a_path_and_headers_of_the_user_go_out_once(
    scripted: ScriptedServer, new_target: Any, new_caller: Any
) -> None:
    scripted.add(text("hi"))
    target = new_target(scripted.url_for("bedrock_converse"), headers={"user-agent": "mine", "X-Team": "a"})
    new_caller(target)()
    sent = scripted.requests[0].headers
    assert (sent["user-agent"], sent["x-team"]) == ("mine", "a")


@pytest.mark.parametrize(("tools", "path"), [((), "/converse-stream"), ((READ,), "/converse")])
def test_a_model_that_refuses_tools_in_a_stream_is_asked_for_the_whole_reply(
    scripted: ScriptedServer, new_target: Any, new_caller: Any, tools: Any, path: str
) -> None:
    scripted.add(text("hi"))
    llama = new_caller(new_target(scripted.url_for("bedrock_converse"), "us.meta.llama4-scout-17b-instruct-v1:0"))
    assert llama(HELLO, tools=tools).text == llama.shown() == "hi"
    assert scripted.requests[0].path.endswith(path)


def test_a_stream_that_is_answered_by_one_object_is_read_and_the_reverse(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(Reply(body={"output": {"message": {"content": [{"text": "hi"}]}}, "stopReason": "end_turn"}))
    assert caller(stream=True).text == "hi"
    frames = event_stream.event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"ho"}}')
    scripted.add(events(frames + event_stream.event("messageStop", b'{"stopReason":"end_turn"}')))
    assert caller(stream=False).text == "ho"


def test_B054_a_stream_that_ends_without_a_stop_is_cut(scripted: ScriptedServer, caller: Any) -> None:
    frame = event_stream.event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"half an ans"}}')
    scripted.add(events(frame, frame[:20]))
    reply = caller()
    assert (reply.text, reply.stop_reason) == ("half an ans", StopReason.CUT)


def test_a_connection_that_breaks_is_a_fault_but_after_the_stop_it_is_forgiven(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(cut(after=2), text("all").but(pieces=1, cut_after=4))
    problem = fault_of(caller)
    assert (problem.cause, problem.phase) == ("connection", "stream")
    reply = caller()
    assert (reply.text, reply.stop_reason, reply.usage) == ("all", StopReason.STOP, Usage())


def test_a_reply_must_be_read_before_it_is_taken(scripted: ScriptedServer, caller: Any) -> None:
    with pytest.raises(RuntimeError, match="not read to its end"):
        caller.open().reply()
    assert scripted.requests == []


# ---- Faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "code", "said", "kind"),
    [
        (400, "ValidationException", "Input is too long for requested model.", FaultKind.CONTEXT_OVERFLOW),
        (400, "ValidationException", "The provided model identifier is invalid.", FaultKind.MODEL_NOT_FOUND),
        (403, "AccessDeniedException", "You don't have access to the model.", FaultKind.PERMISSION),
        (403, "UnrecognizedClientException", "The security token is invalid.", FaultKind.AUTH),
        (403, "ExpiredTokenException", "The security token is expired", FaultKind.AUTH),
        (404, "ResourceNotFoundException", "Could not resolve the foundation model", FaultKind.MODEL_NOT_FOUND),
        (408, "ModelTimeoutException", "too long", FaultKind.TIMEOUT),
        (424, "ModelErrorException", "The system encountered an unexpected error", FaultKind.SERVER_ERROR),
        (429, "ThrottlingException", "Too many tokens, please wait", FaultKind.RATE_LIMIT),
        (429, "ModelNotReadyException", "Model is not ready for inference", FaultKind.OVERLOADED),
        (500, "InternalServerException", "x", FaultKind.SERVER_ERROR),
        (503, "ServiceUnavailableException", "x", FaultKind.OVERLOADED),
    ],
)
def test_a_refusal_is_the_fault_that_the_service_names(
    scripted: ScriptedServer, caller: Any, stream: bool, status: int, code: str, said: str, kind: FaultKind
) -> None:
    scripted.add(fault(status, said, code=code))
    problem = fault_of(lambda: caller(stream=stream))
    assert (problem.cause, problem.status, problem.code) == ("http", status, code)
    assert (classify(problem).kind, classify(problem).detail) == (kind, f"HTTP {status}: {said}")
    assert len(scripted.requests) == 1  # the SDK does not retry


@pytest.mark.parametrize(
    ("headers", "body", "code", "message"),
    [
        ({"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"}, {"message": "slow"},
         "ThrottlingException", "slow"),
        ({}, {"__type": "com.amazon.coral.service#ThrottlingException", "Message": "slow"},
         "ThrottlingException", "slow"),
        ({"x-amzn-ErrorType": "ThrottlingException"}, {}, "ThrottlingException", "ThrottlingException"),
        ({}, "<html>no</html>", "", "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0 answered with status 429"),
    ],
)  # fmt: skip
def test_the_name_of_the_exception_is_read_wherever_it_stands(
    scripted: ScriptedServer, caller: Any, headers: Any, body: Any, code: str, message: str
) -> None:
    scripted.add(Reply(status=429, body=body, headers={**headers, "Retry-After": "7"}))
    problem = fault_of(caller)
    assert (problem.code, problem.message) == (code, message)
    assert (classify(problem).kind, classify(problem).retry_after_s) == (FaultKind.RATE_LIMIT, 7)


def test_a_right_to_stream_that_is_missing_is_told_with_what_to_do(scripted: ScriptedServer, caller: Any) -> None:
    said = "User: arn:aws:iam::1:user/a is not authorized to perform: bedrock:InvokeModelWithResponseStream on resource"
    scripted.add(fault(403, said, code="AccessDeniedException"))
    problem = classify(fault_of(caller))
    assert problem.kind is FaultKind.PERMISSION
    assert "InvokeModelWithResponseStream on resource" in problem.detail
    assert "display.stream: false" in problem.detail


def test_B056_an_exception_in_the_middle_of_a_stream_is_a_fault(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(error_event("slow down", status=429, after=3), error_event("bad", status=503, after=0))
    problem = fault_of(caller)
    assert (problem.code, problem.phase, caller.shown() != "") == ("throttlingException", "stream", True)
    assert classify(fault_of(caller)).kind is FaultKind.OVERLOADED


@pytest.mark.parametrize("body", ["<html>Welcome</html>", {"choices": []}, []])
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_no_reply_is_invalid_and_shown(scripted: ScriptedServer, caller: Any, body: Any, stream: bool) -> None:
    scripted.add(Reply(body=body))
    problem = fault_of(lambda: caller(stream=stream))
    assert problem.cause == "invalid"
    assert (body if isinstance(body, str) else str(body)) in problem.message


def test_a_broken_frame_is_invalid(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events(b"data: {}\n\n this is no event stream"))
    assert classify(fault_of(caller)).kind is FaultKind.INVALID_REPLY


@pytest.mark.parametrize(("after", "cause"), [(0, "timeout"), (2, "stall")])
def test_a_silent_server_is_given_up(scripted: ScriptedServer, caller: Any, after: int, cause: str) -> None:
    scripted.add(stall(after=after))
    assert fault_of(lambda: caller(timeouts=Timeouts(5, 0.2, 0.2))).cause == cause


def test_nobody_at_the_address_is_a_connection_fault(new_target: Any, new_caller: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    problem = fault_of(new_caller(new_target(f"http://127.0.0.1:{port}")))
    assert (problem.cause, problem.phase) == ("connection", "connect")


@pytest.mark.parametrize(("base_url", "model"), [("no address", "m"), ("http://127.0.0.1:9", "")])
def test_what_the_sdk_refuses_names_the_target(new_target: Any, new_caller: Any, base_url: str, model: str) -> None:
    with pytest.raises(ProviderError, match=f"bedrock:{model}") as caught:
        new_caller(new_target(base_url, model))()
    assert caught.value.kind == "bad_request"


# ---- Aborts ---------------------------------------------------------------------------------------------------------


def _abort(stream: Any, when: Callable[[], Any]) -> None:
    """Read in a thread, abort from this one when `when` returns; the reader gets "aborted", and soon."""
    found: list[WireFault] = []

    def read() -> None:
        try:
            list(stream)
        except WireFault as error:
            found.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    when()
    begin = time.monotonic()
    stream.abort()
    reader.join(SOON_S)
    assert not reader.is_alive()
    assert time.monotonic() - begin < SOON_S
    assert [error.cause for error in found] == ["aborted"]
    stream.abort()  # more than once does no harm


@pytest.mark.parametrize(("after", "stream"), [(0, True), (0, False), (1, True), (3, True)])
def test_an_abort_wakes_the_reader_before_the_first_byte_and_in_the_middle(
    scripted: ScriptedServer, caller: Any, after: int, stream: bool
) -> None:
    scripted.add(stall(after=after))
    _abort(caller.open(stream=stream), lambda: scripted.wait_for_requests(1))
    assert scripted.requests[0].gone.wait(SOON_S)


def test_spec_59999_an_abort_before_the_call_sends_nothing(scripted: ScriptedServer, caller: Any) -> None:
    stream = caller.open()
    stream.abort()
    assert fault_of(lambda: list(stream)).cause == "aborted"
    assert scripted.connections == 0


def test_spec_59999_an_abort_between_two_events_is_honoured(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("one two three").but(hold_after=3))
    stream = caller.open()
    reading = iter(stream)
    next(reading)
    stream.abort()
    scripted.release()
    assert fault_of(lambda: list(reading)).cause == "aborted"


def test_an_abort_after_the_end_leaves_the_next_call_alone(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("one"), text("two"))
    stream = caller.open()
    list(stream)
    stream.abort()
    assert stream.reply().text == "one"
    assert caller().text == "two"
    assert scripted.connections == 1


# ---- Connections ----------------------------------------------------------------------------------------------------


def test_one_connection_serves_call_after_call_faults_included(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("a"), text("b"), fault(429, "x"), call("f"), error_event(after=1), text("c"))
    caller()
    caller(stream=False)
    fault_of(caller)
    caller()
    fault_of(caller)
    caller()
    assert scripted.connections <= 2  # what follows an exception in a stream may not be waited for


def test_calls_of_several_threads_do_not_meet(scripted: ScriptedServer, new_caller: Any, new_target: Any) -> None:
    server = ScriptedServer(lambda request: text(f"to {request.messages[0]['content'][0]['text']}"))
    wrong: list[Any] = []

    def ask(number: int) -> None:
        own = new_caller(new_target(server.url_for("bedrock_converse")))
        for turn in range(5):
            said = f"{number}.{turn}"
            if own(Message("user", (Text(said),))).text != f"to {said}":
                wrong.append(said)

    with server:
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON_S * 6)
    assert (wrong, len(server.requests), server.problems) == ([], 40, [])


def test_a_large_body_goes_out_whole_and_signed_in_pieces(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("ok"))
    messages = [Message(role, (Text("x" * 2000),)) for _ in range(150) for role in ("user", "assistant")][:-1]
    body = caller.body(*messages)
    assert len(body) > 3
    stream = caller.wire.open(body, Parameters(), caller.target, Timeouts(5, 5, 5))
    assert "".join(d.text for d in stream) == "ok"
    assert scripted.requests[0].raw == b"".join(body)
    assert len(json.loads(scripted.requests[0].raw)["messages"]) == 299
    assert isinstance(stream.reply().parts[0], (Text, Thinking))
