"""Whole calls by the real SDK against a real loopback server: replies, faults, aborts, connections, headers."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import Message, StopReason, Text, Thinking, ToolResult, Usage
from hermes.kernel.providers import Delta, Parameters, Timeouts, ToolSchema, WireFault
from hermes.testing import Call, Reply, ScriptedServer, calls, cut, events, fault, stall, text
from hermes.testing.script import Thought, blocks, error_event

SOON_S = 3.0
"""No abort may take so long; the goal is some milliseconds."""
TOOLS = (ToolSchema("read_file", "Read.", {"type": "object", "properties": {}}),
         ToolSchema("noop", "Do nothing.", {"type": "object", "properties": {}}))  # fmt: skip
USER = Message("user", (Text("hello"),))


def fault_of(run: Callable[[], Any]) -> WireFault:
    with pytest.raises(WireFault) as caught:
        run()
    return caught.value


def results_of(reply: Any) -> Message:
    return Message("tool", tuple(ToolResult(c.id, "ok", (Text(f"out of {c.name}"),)) for c in reply.calls))


# ---- Replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-5"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_loop_with_thinking_between_parallel_calls_goes_over_the_wire_and_back(
    scripted: ScriptedServer, caller_of: Any, target_at: Any, stream: bool, model: str
) -> None:
    caller = caller_of(target_at(scripted.url_for("anthropic_messages"), model))
    scripted.add(
        blocks(Thought("hm"), "Let me look.", Call("read_file", {"path": "ä.txt"}), Thought("and", True),
               Thought("then"), Call("noop")).but(usage=Usage(10, 5, 7, 3, 2)),
        text("All is said."),
    )  # fmt: skip
    parameters = Parameters(stream=stream, reasoning_effort="high")
    reply = caller(USER, tools=TOOLS, parameters=parameters)
    assert [(c.name, dict(c.arguments)) for c in reply.calls] == [("read_file", {"path": "ä.txt"}), ("noop", {})]
    assert (reply.text, reply.stop_reason) == ("Let me look.", StopReason.TOOL_CALLS)
    assert reply.usage == Usage(10, 5, 7, 3, 2)
    assert [d for d in caller.deltas if d.kind == "call"] == [Delta("call", "read_file"), Delta("call", "noop")]
    assert "".join(d.text for d in caller.deltas if d.kind == "thinking") == "hmthen"
    final = caller(USER, Message("assistant", reply.parts), results_of(reply), tools=TOOLS, parameters=parameters)
    assert (final.text, caller.shown) == ("All is said.", "All is said.")
    kinds = [block["type"] for block in scripted.requests[1].messages[1]["content"]]
    assert kinds == ["thinking", "text", "tool_use", "redacted_thinking", "thinking", "tool_use"]
    assert scripted.requests[0].headers["content-length"] == str(len(scripted.requests[0].raw))


def test_thinking_of_another_model_is_dropped_and_the_conversation_goes_on(
    scripted: ScriptedServer, caller_of: Any, target_at: Any
) -> None:
    url = scripted.url_for("anthropic_messages")
    first, second = (caller_of(target_at(url, model)) for model in ("claude-opus-4-6", "claude-sonnet-4-5"))
    scripted.add(blocks(Thought("hm"), Call("noop")), text("done"), text("and again"))
    high = Parameters(reasoning_effort="high")
    reply = first(USER, tools=TOOLS, parameters=high)
    history = (USER, Message("assistant", reply.parts), results_of(reply))
    assert second(*history, tools=TOOLS, parameters=high).text == "done"
    assert "thinking" not in scripted.requests[1].raw.decode()
    assert first(*history, tools=TOOLS, parameters=high).text == "and again"
    assert "thinking" in str(scripted.requests[2].messages[1]["content"][0])


def test_history_is_sent_in_the_same_bytes_from_call_to_call_but_for_the_marks(
    scripted: ScriptedServer, caller: Any
) -> None:
    steps = 6
    scripted.add(*(blocks(Thought(f"hm {n}"), Call("noop", {"n": n})) for n in range(steps)), text("done"))
    history = [USER]
    for _ in range(steps):
        reply = caller(*history, tools=TOOLS)
        history += [Message("assistant", reply.parts), results_of(reply)]
    caller(*history, tools=TOOLS)
    mark = b',"cache_control":{"type":"ephemeral"}'
    bare = [request.raw.replace(mark, b"").partition(b'],"max_tokens"')[0] for request in scripted.requests]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(bare))
    assert [request.raw.count(mark) for request in scripted.requests] == [2, *[4] * steps]


@pytest.mark.parametrize("native", [True, False])
def test_thinking_that_is_bound_to_what_stood_before_it_may_be_dropped_by_anthropic(
    scripted: ScriptedServer, caller_of: Any, target_at: Any, native: bool
) -> None:
    caller = caller_of(target_at(scripted.url_for("anthropic_messages"), "claude-opus-5-5", anthropic_native=native))
    scripted.add(text("hi"))
    caller()
    request = scripted.requests[0]
    assert ("block_binding" in request.body["thinking"]) is native
    assert request.headers.get("anthropic-beta") == ("thinking-binding-controls-2026-08-01" if native else None)


def test_a_stream_that_is_answered_by_one_object_is_read_and_the_reverse(scripted: ScriptedServer, caller: Any) -> None:
    body = {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}
    scripted.add(Reply(body=body))
    assert (caller(stream=True).text, caller.shown) == ("hi", "hi")
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ho"}}
    scripted.add(events(start, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}))
    assert caller(stream=False).text == "ho"


def test_a_server_that_keeps_the_connection_open_after_the_last_event_is_not_waited_for(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(text("all of it", finish="end_turn").but(pieces=1, stall_after=7))
    begin = time.monotonic()
    assert caller(timeouts=Timeouts(5, 30, 30)).text == "all of it"
    assert time.monotonic() - begin < 10


def test_B054_a_stream_that_ends_without_a_word_is_cut(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("half an answer", finish=""))
    reply = caller()
    assert reply.text == "half an answer"
    assert reply.stop_reason is StopReason.OTHER  # message_stop came, but no reason
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "half"}}
    scripted.add(events(start))
    assert caller().stop_reason is StopReason.CUT


# ---- Faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FaultKind.BAD_REQUEST), (401, FaultKind.AUTH), (402, FaultKind.BILLING), (403, FaultKind.PERMISSION),
        (404, FaultKind.BAD_REQUEST), (413, FaultKind.BODY_TOO_LARGE), (429, FaultKind.RATE_LIMIT),
        (500, FaultKind.SERVER_ERROR), (504, FaultKind.TIMEOUT), (529, FaultKind.OVERLOADED),
    ],
)  # fmt: skip
def test_each_refusal_carries_status_body_and_headers_and_is_not_repeated(
    scripted: ScriptedServer, caller: Any, status: int, kind: FaultKind, stream: bool
) -> None:
    scripted.add(fault(status, "No more.", retry_after="171"))
    problem = classify(fault_of(lambda: caller(stream=stream)))
    assert (problem.kind, problem.retry_after_s) == (kind, 171)
    assert "No more." in problem.detail
    assert len(scripted.requests) == 1  # spec 26293: the SDK does not retry, whatever the header says


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("prompt is too long: 203470 tokens > 200000 maximum", FaultKind.CONTEXT_OVERFLOW),
        ("input length and `max_tokens` exceed context limit: 196758 + 8192 > 200000, decrease input length or "
         "`max_tokens` and try again", FaultKind.OUTPUT_CAP),
        ("messages.4.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
         FaultKind.IMAGE_REFUSED),
        ("Your credit balance is too low to access the Anthropic API.", FaultKind.BILLING),
    ],
)  # fmt: skip
def test_B078_what_a_400_is_about_is_read_from_its_words(
    scripted: ScriptedServer, caller: Any, message: str, kind: FaultKind
) -> None:
    scripted.add(fault(400, message))
    assert classify(fault_of(caller)).kind is kind


def test_B077_a_413_of_the_front_is_about_bytes(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(Reply(status=413, body="<html>413 Request Entity Too Large</html>"))
    assert classify(fault_of(caller)).kind is FaultKind.BODY_TOO_LARGE


@pytest.mark.parametrize("after", [0, 4])
def test_B056_an_overloaded_event_at_the_start_and_in_the_middle_is_a_fault_after_what_was_shown(
    scripted: ScriptedServer, caller: Any, after: int
) -> None:
    scripted.add(error_event("Overloaded", status=529, after=after))
    problem = fault_of(caller)
    assert (classify(problem).kind, problem.status, bool(caller.shown)) == (FaultKind.OVERLOADED, 529, after > 0)


def test_a_broken_connection_no_answer_and_no_server_are_connection_faults(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(cut(after=4, text="a long answer"))
    problem = fault_of(caller)
    assert (problem.cause, problem.phase, bool(caller.shown)) == ("connection", "stream", True)
    scripted.add(cut(after=0))
    assert (fault_of(caller).cause, len(scripted.requests)) == ("connection", 2)
    scripted.close()
    problem = fault_of(caller)
    assert (problem.cause, problem.phase) == ("connection", "connect")


def test_a_connection_that_breaks_after_the_stop_reason_is_forgiven(scripted: ScriptedServer, caller: Any) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "all"}}
    scripted.add(events(start, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}).but(cut_after=2))
    assert caller().text == "all"


@pytest.mark.parametrize(("body", "said"), [("<html>Welcome</html>", "<html>Welcome"), ({"choices": []}, "no message")])
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_no_message_is_invalid_and_shown(
    scripted: ScriptedServer, caller: Any, body: Any, said: str, stream: bool
) -> None:
    scripted.add(Reply(body=body))
    problem = fault_of(lambda: caller(stream=stream))
    assert (problem.cause, said in problem.message) == ("invalid", True)


def test_a_stream_of_another_format_is_named(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events({"choices": [{"delta": {"content": "hi"}}]}))
    problem = fault_of(caller)
    assert (problem.cause, "in place of a message" in problem.message) == ("invalid", True)


@pytest.mark.parametrize("after", [0, 3])
def test_a_server_that_falls_silent_is_left_in_time(scripted: ScriptedServer, caller: Any, after: int) -> None:
    scripted.add(stall(after=after))
    problem = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=0.2, stall_s=0.2)))
    assert (problem.cause, problem.phase) == (("timeout", "first_token") if after == 0 else ("stall", "stream"))


# ---- Aborts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 5])
def test_an_abort_from_another_thread_wakes_the_reader_before_the_first_byte_and_in_the_middle(
    scripted: ScriptedServer, caller: Any, after: int
) -> None:
    scripted.add(stall(after=after))
    stream = caller.open()
    found: list[WireFault] = []
    reader = threading.Thread(target=lambda: found.append(fault_of(lambda: list(stream))))
    reader.start()
    scripted.wait_for_requests(1)
    begin = time.monotonic()
    stream.abort()
    reader.join(SOON_S)
    assert time.monotonic() - begin < SOON_S
    assert [problem.cause for problem in found] == ["aborted"]
    assert scripted.requests[0].gone.wait(SOON_S)  # the server sees it at once, and can stop
    stream.abort()  # more than once does no harm


def test_an_abort_before_the_call_sends_nothing(scripted: ScriptedServer, caller: Any) -> None:
    stream = caller.open()
    stream.abort()
    assert fault_of(lambda: list(stream)).cause == "aborted"
    assert scripted.connections == 0


# ---- Connections and headers ----------------------------------------------------------------------------------------


def test_one_connection_serves_call_after_call_faults_included(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("a"), text("b"), fault(429, "x"), calls(Call("noop")), text("c"))
    caller()
    caller(stream=False)
    fault_of(caller)
    caller(tools=TOOLS)
    caller()
    assert scripted.connections == 1


def test_B149_a_connection_that_the_server_closed_while_idle_is_not_used_again(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(text("a"), text("b"))
    caller()
    for sock in list(scripted._sockets):
        sock.shutdown(socket.SHUT_RDWR)
    deadline = time.monotonic() + SOON_S
    while scripted._sockets and time.monotonic() < deadline:
        pass
    assert caller().text == "b"
    assert scripted.connections == 2


def test_spec_10933_a_call_after_the_wire_was_closed_opens_a_new_connection(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(text("a"), text("b"))
    caller()
    caller.wire.close()
    assert caller().text == "b"
    assert scripted.connections == 2


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_the_base_url_may_end_with_the_version_or_not(
    scripted: ScriptedServer, caller_of: Any, target_at: Any, path: str
) -> None:
    scripted.add(text("ok"))
    assert caller_of(target_at(f"http://127.0.0.1:{scripted.port}/anthropic{path}"))().text == "ok"
    assert scripted.requests[0].path == "/anthropic/v1/messages"


def test_the_key_goes_as_x_api_key_or_as_a_bearer_token_where_a_quirk_says_so(
    scripted: ScriptedServer, caller_of: Any, target_at: Any
) -> None:
    url = scripted.url_for("anthropic_messages")
    scripted.add(*[text("ok")] * 5)
    caller_of(target_at(url, key="ke\ny\u200b1 "))()
    caller_of(target_at(url, key="token", auth="bearer"))()
    caller_of(target_at(url, key=""))()
    caller_of(target_at(url, key="", auth="bearer"))()
    caller_of(target_at(url, headers={"authorization": "Basic eA==", "User-Agent": "mine"}))()
    seen = [(r.headers.get("x-api-key"), r.headers.get("authorization")) for r in scripted.requests]
    assert seen[:4] == [("key1", None), (None, "Bearer token"), (None, None), (None, None)]
    assert seen[4][1] == "Basic eA=="
    assert scripted.requests[4].headers["user-agent"] == "mine"  # spec 40033


def test_spec_1739_nothing_of_anthropics_variables_and_nothing_of_the_machine_goes_to_another_host(
    scripted: ScriptedServer, caller_of: Any, target_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_TOKEN", "ANTHROPIC_WEBHOOK_SIGNING_KEY"):
        monkeypatch.setenv(name, "leaky")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://leaky.invalid")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: leaky\nx-api-key: leaky\nAuthorization: leaky\nodd")
    url = scripted.url_for("anthropic_messages")
    scripted.add(*[text("ok")] * 4)
    for key, headers in (("", {}), ("k", {}), ("", {"X-Team": "mine"}), ("k", {"anthropic-version": "2026-10-21"})):
        caller_of(target_at(url, key=key, headers=headers))()
    assert "leaky" not in str([dict(request.headers) for request in scripted.requests])
    first = scripted.requests[0].headers
    assert not [name for name in first if name.startswith("x-stainless")]
    assert "odd" not in first
    assert first["anthropic-version"] == "2023-06-01"
    assert scripted.requests[2].headers["x-team"] == "mine"
    assert scripted.requests[3].headers["anthropic-version"] == "2026-10-21"


def test_the_users_beta_header_is_kept_beside_ours(scripted: ScriptedServer, caller_of: Any, target_at: Any) -> None:
    url = scripted.url_for("anthropic_messages")
    scripted.add(text("ok"), text("ok"))
    caller_of(target_at(url, headers={"Anthropic-Beta": "mine"}, betas=["more", "most"]))()
    caller_of(target_at(url, headers={"Anthropic-Beta": "mine"}))()
    assert [r.headers["anthropic-beta"] for r in scripted.requests] == ["mine,more,most", "mine"]


def test_no_sdk_is_imported_before_a_call_begins() -> None:
    code = (
        "import sys\n"
        "from hermes.kernel.messages import Message, Text\n"
        "from hermes.kernel.providers import Parameters, Profile, Target, Timeouts, ToolSchema\n"
        "from hermes.plugins.wire.anthropic_messages import register_wire_formats\n"
        "wire = register_wire_formats()[0]\n"
        "target = Target('t:m', Profile('t'), 'm', 'http://127.0.0.1:9', 'anthropic_messages', 'k')\n"
        "prefix = wire.prefix('sys', [ToolSchema('f', 'F.', {'type': 'object'})], target)\n"
        "fragment = wire.encode(Message('user', (Text('hi'),)), target)\n"
        "body = wire.envelope(prefix, [fragment], Parameters(), target)\n"
        "wire.open(body, Parameters(), target, Timeouts())\n"
        "wire.close()\n"
        "print(sorted({'anthropic', 'openai', 'httpx2', 'httpcore2', 'pydantic', 'boto3'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_unsigned_thinking_of_a_cut_stream_is_not_sent_back(scripted: ScriptedServer, caller: Any) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "half"}}
    words = {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "words"}}
    scripted.add(events(start, words), text("more"))
    reply = caller()
    assert isinstance(reply.parts[0], Thinking)
    assert caller(USER, Message("assistant", reply.parts), USER).text == "more"
    assert [b["type"] for b in scripted.requests[1].messages[1]["content"]] == ["text"]
