"""Whole calls by the real SDK against a real loopback server: replies, round trips, faults, aborts, connections."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import Image, Message, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from hermes.kernel.providers import Delta, Parameters, Timeouts, ToolSchema, WireFault
from hermes.testing import Call, Reply, ScriptedServer, call, calls, cut, events, fault, stall, text
from hermes.testing.script import Thought, blocks, error_event

SOON_S = 5.0
"""No abort may take so long; the goal is some milliseconds."""
USER = Message("user", (Text("hello"),))
READ = ToolSchema("read_file", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})


def fault_of(run: Callable[[], Any]) -> WireFault:
    with pytest.raises(WireFault) as caught:
        run()
    return caught.value


def answered(reply: Any) -> tuple[Message, Message]:
    """The reply as it is stored, and a result for each of its calls."""
    results = tuple(ToolResult(c.id, "ok", (Text("out"),)) for c in reply.calls)
    return Message("assistant", reply.parts, replay=reply.replay), Message("tool", results)


# ---- Replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_loop_goes_over_the_wire_and_back(scripted: ScriptedServer, caller: Any, stream: bool) -> None:
    scripted.add(
        calls(Call("read_file", {"path": "ä.txt"}), Call("noop"), text="Let me look.").but(thinking="hm"),
        text("All is said."),
    )
    reply = caller(USER, tools=(READ,), stream=stream)
    assert [(c.name, dict(c.arguments)) for c in reply.calls] == [("read_file", {"path": "ä.txt"}), ("noop", {})]
    assert (reply.text, reply.stop_reason, reply.usage) == ("Let me look.", StopReason.TOOL_CALLS, Usage(10, 5))
    assert [d for d in caller.deltas if d.kind == "call"] == [Delta("call", "read_file"), Delta("call", "noop")]
    assert "".join(d.text for d in caller.deltas if d.kind == "thinking") == "hm"
    final = caller(USER, *answered(reply), tools=(READ,), stream=stream)
    assert (final.text, caller.shown) == ("All is said.", "All is said.")
    assert scripted.requests[1].last == {"type": "function_call_output", "call_id": "call_2", "output": "out"}
    assert scripted.requests[0].path == "/v1/responses"
    assert scripted.requests[0].headers["authorization"] == "Bearer key-1"
    assert scripted.requests[0].headers["content-length"] == str(len(scripted.requests[0].raw))


@pytest.mark.parametrize("stream", [True, False])
def test_B081_interleaved_reasoning_goes_back_sealed_and_in_its_order(
    scripted: ScriptedServer, caller: Any, stream: bool
) -> None:
    """The server refuses a seal that it did not give, other words under it, and reasoning that nothing follows."""
    scripted.add(blocks(Thought("a"), "First.", Call("read_file"), Thought(is_redacted=True), Call("noop")), text("b"))
    reply = caller(USER, tools=(READ,), stream=stream)
    caller(USER, *answered(reply), tools=(READ,), stream=stream)
    sent = [item["type"] for item in scripted.requests[1].messages]
    assert sent == ["message", "reasoning", "message", "function_call", "reasoning", "function_call",
                    "function_call_output", "function_call_output"]  # fmt: skip


def test_B080_reasoning_is_not_sent_to_another_model_of_the_same_host(
    scripted: ScriptedServer, caller: Any, new_caller: Any, new_target: Any
) -> None:
    scripted.add(call("read_file").but(thinking="secret"), text("b"))
    reply = caller(USER, tools=(READ,))
    other = new_caller(new_target(scripted.base_url, model="another-model"))
    other(USER, *answered(reply), tools=(READ,))
    assert b"secret" not in scripted.requests[1].raw
    assert [item["type"] for item in scripted.requests[1].messages] == [
        "message",
        "function_call",
        "function_call_output",
    ]


def test_the_bytes_of_head_and_history_are_the_same_from_call_to_call(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(
        call("read_file", path="a").but(thinking="one"), call("read_file", path="b").but(thinking="two"), text("c")
    )
    said = [USER]
    for _ in range(2):
        said += answered(caller(*said, tools=(READ,)))
    caller(*said, tools=(READ,), parameters=Parameters(may_call=False, output_cap=100))
    bodies = [request.raw for request in scripted.requests]
    for before, after in pairwise(bodies):
        shared = before[: before.rindex(b'],"store"')]
        assert len(shared) > 200
        assert after.startswith(shared)


def test_images_reach_the_model_in_user_messages_and_in_results(
    scripted: ScriptedServer, new_caller: Any, new_target: Any
) -> None:
    scripted.add(text("a cat"))
    picture = Image("image/png", "iVBORw0KGgo=")
    target = new_target(scripted.base_url, images_in_tool_results=True)
    said = (
        Message("user", (Text("what is it?"), picture)),
        Message("assistant", (ToolCall("call_1", "photo", {}),)),
        Message("tool", (ToolResult("call_1", "ok", (picture,)),)),
    )
    assert new_caller(target)(*said).text == "a cat"
    assert scripted.requests[0].raw.count(b'"input_image"') == 2


def test_a_stream_that_is_answered_by_one_object_is_read(scripted: ScriptedServer, caller: Any) -> None:
    content = [{"type": "output_text", "text": "hi"}]
    scripted.add(Reply(body={"object": "response", "output": [{"type": "message", "content": content}]}))
    assert (caller(stream=True).text, caller.shown) == ("hi", "hi")


def test_an_object_that_is_answered_by_a_stream_is_read(scripted: ScriptedServer, caller: Any) -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    scripted.add(events(done, {"type": "response.completed", "response": {"output": None}}, "[DONE]"))
    reply = caller(stream=False)
    assert (reply.text, reply.stop_reason) == ("hi", StopReason.STOP)


def test_B066_a_last_event_with_null_output_loses_nothing(scripted: ScriptedServer, caller: Any) -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "kept"}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    scripted.add(events(done, {"type": "response.completed", "response": {"output": None, "error": None}}))
    assert caller().text == "kept"


def test_a_backend_that_only_streams_is_asked_and_read_as_one(
    scripted: ScriptedServer, new_caller: Any, new_target: Any
) -> None:
    scripted.add(text("hi"))
    assert new_caller(new_target(scripted.base_url, stream_only=True))(stream=False).text == "hi"
    assert (scripted.requests[0].body["stream"], scripted.requests[0].headers["accept"]) == (True, "text/event-stream")


@pytest.mark.parametrize(("finish", "stop"), [("length", StopReason.LENGTH), ("content_filter", StopReason.REFUSAL)])
@pytest.mark.parametrize("stream", [True, False])
def test_an_incomplete_response_says_why(
    scripted: ScriptedServer, caller: Any, finish: str, stop: StopReason, stream: bool
) -> None:
    scripted.add(text("so far", finish=finish))
    assert caller(stream=stream).stop_reason is stop


def test_B054_a_stream_that_ends_without_its_last_event_is_cut(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("half an ans", finish=""))
    reply = caller()
    assert (reply.text, reply.stop_reason) == ("half an ans", StopReason.CUT)


def test_a_connection_that_breaks_after_the_last_event_is_forgiven(scripted: ScriptedServer, caller: Any) -> None:
    done = {"type": "response.output_text.delta", "delta": "all", "output_index": 0}
    scripted.add(events(done, {"type": "response.completed", "response": {}}).but(cut_after=2))
    assert caller().text == "all"


def test_a_connection_that_breaks_before_it_is_a_fault(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(cut(after=5))
    problem = fault_of(caller)
    assert (problem.cause, problem.phase, bool(caller.shown)) == ("connection", "stream", True)


# ---- Faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "Unknown parameter: 'foo'.", FaultKind.BAD_REQUEST),
        (400, "Your input exceeds the context window of this model.", FaultKind.CONTEXT_OVERFLOW),
        (400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Your request was "
              "flagged", FaultKind.CONTENT_POLICY),
        (401, "Incorrect API key provided", FaultKind.AUTH),
        (402, "You exceeded your current quota", FaultKind.BILLING),
        (403, "Country not supported", FaultKind.PERMISSION),
        (404, "The model `x` does not exist", FaultKind.MODEL_NOT_FOUND),
        (413, "Request too large", FaultKind.BODY_TOO_LARGE),
        (500, "The server had an error", FaultKind.SERVER_ERROR),
        (503, "The server is overloaded", FaultKind.OVERLOADED),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [True, False])
def test_each_refusal_has_its_kind(
    scripted: ScriptedServer, caller: Any, status: int, message: str, kind: FaultKind, stream: bool
) -> None:
    scripted.add(fault(status, message))
    problem = fault_of(lambda: caller(stream=stream))
    assert (problem.cause, problem.status, classify(problem).kind) == ("http", status, kind)
    assert len(scripted.requests) == 1  # the SDK does not retry


def test_a_rate_limit_says_when_to_come_back(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(fault(429, "slow down", code="rate_limit_exceeded", retry_after="7"))
    problem = classify(fault_of(caller))
    assert (problem.kind, problem.retry_after_s, problem.detail) == (FaultKind.RATE_LIMIT, 7, "HTTP 429: slow down")


def test_B056_an_error_in_the_middle_is_a_fault_after_what_was_shown(scripted: ScriptedServer, caller: Any) -> None:
    flat = {"type": "error", "code": "server_is_overloaded", "message": "Overloaded", "param": None}
    scripted.add(
        error_event("slow down", status=429, after=6),
        events({"type": "response.output_text.delta", "delta": "Hel", "output_index": 0}, flat),
        events(flat),
    )
    failed, spoken, first = (classify(fault_of(caller)) for _ in range(3))
    assert (failed.kind, failed.detail) == (FaultKind.RATE_LIMIT, "slow down")
    assert spoken.kind is first.kind is FaultKind.OVERLOADED


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("body", ["<html>Welcome</html>", {"choices": []}, []])
def test_what_is_no_response_is_invalid_and_shown(
    scripted: ScriptedServer, caller: Any, body: Any, stream: bool
) -> None:
    scripted.add(Reply(body=body))
    problem = fault_of(lambda: caller(stream=stream))
    assert problem.cause == "invalid"
    assert (body if isinstance(body, str) else json.dumps(body))[:10] in problem.message


def test_a_stream_of_another_format_is_named(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events({"choices": [{"delta": {"content": "hi"}}]}))
    problem = fault_of(caller)
    assert (problem.cause, "in place of a response" in problem.message) == ("invalid", True)


def test_a_server_that_closes_in_the_middle_of_an_item_keeps_its_words(
    raw_server: Any, new_caller: Any, new_target: Any
) -> None:
    event = b'data: {"type":"response.output_text.delta","delta":"half","output_index":0}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    reply = new_caller(new_target(raw_server(head + event)))()
    assert (reply.text, reply.stop_reason) == ("half", StopReason.CUT)


def test_spec_64507_B016_the_first_token_and_the_stall_have_limits_of_their_own(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(stall(after=0), stall(after=6))
    late = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=0.1, stall_s=5)))
    assert (late.cause, late.phase) == ("timeout", "first_token")
    stalled = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=5, stall_s=0.1)))
    assert (stalled.cause, stalled.phase, bool(caller.shown)) == ("stall", "stream", True)


# ---- Aborts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 6])
@pytest.mark.parametrize("stream", [True, False])
def test_an_abort_wakes_the_reader_before_the_first_byte_and_in_the_middle(
    scripted: ScriptedServer, caller: Any, after: int, stream: bool
) -> None:
    scripted.add(stall(after=after if stream else 0))
    running = caller.open(stream=stream)
    found: list[str] = []

    def read() -> None:
        try:
            list(running)
        except WireFault as error:
            found.append(error.cause)

    reader = threading.Thread(target=read)
    reader.start()
    scripted.wait_for_requests(1)
    begin = time.monotonic()
    running.abort()
    reader.join(SOON_S)
    assert (found, time.monotonic() - begin < SOON_S) == (["aborted"], True)
    assert scripted.requests[0].gone.wait(SOON_S)  # the server sees it at once, and can stop
    running.abort()  # more than once does no harm


def test_an_abort_before_the_call_sends_nothing(scripted: ScriptedServer, caller: Any) -> None:
    stream = caller.open()
    stream.abort()
    assert fault_of(lambda: list(stream)).cause == "aborted"
    assert scripted.connections == 0


# ---- Connections and imports ----------------------------------------------------------------------------------------


def test_one_connection_serves_call_after_call_faults_included(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("a"), text("b"), fault(429, "x"), call("f"), text("c"))
    caller()
    caller(stream=False)
    fault_of(caller)
    caller()
    caller()
    assert scripted.connections == 1


def test_no_sdk_is_loaded_before_the_call() -> None:
    program = """
import sys
from hermes.kernel.messages import Message, Text
from hermes.kernel.providers import Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.codex_responses import CodexResponses

wire, target = CodexResponses(), Target("t:m", Profile("t"), "m", "http://127.0.0.1:9/v1", "codex_responses")
prefix = wire.prefix("Be good.", [ToolSchema("f", "", {"type": "object"})], target)
wire.envelope(prefix, [wire.encode(Message("user", (Text("hi"),)), target)], Parameters(), target)
print(*sorted({"openai", "httpx2", "httpx", "http.client", "ssl"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_thinking_of_another_format_is_never_shown_to_this_one(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("ok"))
    foreign = Message("assistant", (Thinking("mine alone"), Text("I said so.")))
    caller(USER, foreign, USER)
    assert b"mine alone" not in scripted.requests[0].raw
    assert scripted.requests[0].messages[1] == {"type": "message", "role": "assistant", "content": "I said so."}
