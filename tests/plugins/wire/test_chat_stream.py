"""Whole calls against a real loopback server: replies, faults, limits, aborts, connections."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import Message, StopReason, Text, ToolResult, Usage
from hermes.kernel.providers import Delta, Timeouts, ToolSchema, WireFault
from hermes.testing import Call, Reply, ScriptedServer, call, calls, cut, events, fault, stall, text

SOON_S = 5.0
"""No abort may take so long; the goal is some milliseconds."""


def fault_of(run: Callable[[], Any]) -> WireFault:
    with pytest.raises(WireFault) as caught:
        run()
    return caught.value


# ---- Replies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_loop_goes_over_the_wire_and_back(scripted: ScriptedServer, caller: Any, stream: bool) -> None:
    scripted.add(
        calls(Call("read_file", {"path": "ä.txt"}), Call("noop"), text="Let me look.").but(thinking="hm"),
        text("All is said."),
    )
    user = Message("user", (Text("hello"),))
    tools = (ToolSchema("read_file", "Read.", {"type": "object", "properties": {}}),)
    reply = caller(user, tools=tools, stream=stream)
    assert [(c.name, dict(c.arguments)) for c in reply.calls] == [("read_file", {"path": "ä.txt"}), ("noop", {})]
    assert (reply.text, reply.stop_reason, reply.usage) == ("Let me look.", StopReason.TOOL_CALLS, Usage(10, 5))
    assert [d for d in caller.deltas if d.kind == "call"] == [Delta("call", "read_file"), Delta("call", "noop")]
    results = tuple(ToolResult(c.id, "ok", (Text("out"),)) for c in reply.calls)
    final = caller(user, Message("assistant", reply.parts), Message("tool", results), tools=tools, stream=stream)
    assert (final.text, caller.shown) == ("All is said.", "All is said.")
    assert scripted.requests[1].last == {"role": "tool", "tool_call_id": "call_2", "content": "out"}
    assert scripted.requests[0].headers["authorization"] == "Bearer key-1"
    assert scripted.requests[0].headers["content-length"] == str(len(scripted.requests[0].raw))


def test_spec_11732_55933_a_stream_that_is_answered_by_one_object_is_read(
    scripted: ScriptedServer, caller: Any
) -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": None}]}
    scripted.add(Reply(body=body))
    reply = caller(stream=True)
    assert (reply.text, caller.shown, reply.stop_reason) == ("hi", "hi", StopReason.OTHER)


def test_an_object_that_is_answered_by_a_stream_is_read(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}, "[DONE]"))
    assert caller(stream=False).text == "hi"


def test_spec_17924_thinking_in_tags_is_told_apart_while_it_streams(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("<think>hm, 1 < 2</think>\n\nYes <think> no").but(pieces=40))
    reply = caller()
    assert (reply.text, caller.shown) == ("Yes <think> no", "Yes <think> no")
    assert "".join(d.text for d in caller.deltas if d.kind == "thinking") == "hm, 1 < 2"


def test_a_call_written_as_text_is_a_call_where_tools_are_offered_by_grammar(
    scripted: ScriptedServer, new_target: Any, new_caller: Any
) -> None:
    grammar = new_caller(new_target(scripted.base_url, offering="grammar"))
    tools = (ToolSchema("read_file", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
    scripted.add(text('{"name": "read_file", "arguments": {"path": "a.txt"}}'), text("Just words."))
    reply = grammar(tools=tools)
    assert [(c.name, dict(c.arguments)) for c in reply.calls] == [("read_file", {"path": "a.txt"})]
    assert (reply.text, grammar.shown, reply.stop_reason) == ("", "", StopReason.TOOL_CALLS)
    assert grammar(tools=tools).text == grammar.shown == "Just words."
    scripted.add(text('{"no": "call"}'))
    assert grammar(tools=tools).text == grammar.shown == '{"no": "call"}'


def test_an_answer_written_as_a_call_is_plain_text_where_tools_are_offered_by_grammar(
    scripted: ScriptedServer, new_target: Any, new_caller: Any
) -> None:
    grammar = new_caller(new_target(scripted.base_url, offering="grammar"))
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    answered = text('```json\n{"name": "answer", "arguments": {"text": "Paris"}}\n```')
    scripted.add(answered, answered)
    reply = grammar(tools=(ToolSchema("read_file", "Read.", {"type": "object"}),))
    assert (reply.text, grammar.shown, reply.calls, reply.stop_reason) == ("Paris", "Paris", (), StopReason.STOP)
    own = grammar(tools=(ToolSchema("answer", "A tool of that name.", schema),))
    assert [c.name for c in own.calls] == ["answer"]


def test_B054_a_stream_that_ends_without_a_word_is_cut(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events({"choices": [{"delta": {"content": "half an ans"}}]}))
    reply = caller()
    assert (reply.text, reply.stop_reason) == ("half an ans", StopReason.CUT)


def test_a_connection_that_breaks_after_the_finish_reason_is_forgiven(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events({"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]}).but(cut_after=1))
    assert caller().text == "all"


def test_the_last_half_line_of_a_cut_stream_is_not_a_fault(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events({"choices": [{"delta": {"content": "ok"}}]}, '{"choices": [{"del'))
    assert caller().stop_reason is StopReason.CUT


def test_a_reply_must_be_read_before_it_is_taken(scripted: ScriptedServer, caller: Any) -> None:
    with pytest.raises(RuntimeError, match="not read to its end"):
        caller.open().reply()
    assert scripted.requests == []


# ---- Faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_spec_26293_a_refusal_carries_status_body_and_headers_and_is_asked_once(
    scripted: ScriptedServer, caller: Any, stream: bool
) -> None:
    scripted.add(fault(429, "slow down", code="rate_limit_exceeded", retry_after="7"))
    problem = classify(fault_of(lambda: caller(stream=stream)))
    assert (problem.kind, problem.retry_after_s, problem.detail) == (FaultKind.RATE_LIMIT, 7, "HTTP 429: slow down")
    assert len(scripted.requests) == 1  # the SDK does not retry


@pytest.mark.parametrize(
    ("body", "said"),
    [("<html>Welcome</html>", "<html>Welcome"), ({"choices": []}, "no choices"), ({"object": "list"}, "no choices"),
     ([], "no choices"), ({"choices": None}, "no choices")],
)  # fmt: skip
@pytest.mark.parametrize("stream", [True, False])
def test_spec_11732_what_is_no_completion_is_invalid_and_shown(
    scripted: ScriptedServer, caller: Any, body: Any, said: str, stream: bool
) -> None:
    scripted.add(Reply(body=body))
    problem = fault_of(lambda: caller(stream=stream))
    assert problem.cause == "invalid"
    assert said in problem.message


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (413, "<html>413 Request Entity Too Large</html>", FaultKind.BODY_TOO_LARGE),
        (400, {"error": {"message": "media exceeds size limit: max 10485760 bytes (2013)"}}, FaultKind.IMAGE_REFUSED),
        (400, {"error": {"message": "image exceeds 5 MB maximum: 6000000 bytes"}}, FaultKind.IMAGE_REFUSED),
        (400, [{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}],
         FaultKind.RATE_LIMIT),
    ],
)  # fmt: skip
def test_B077_B078_a_body_or_an_image_that_is_too_large_is_told_apart(
    scripted: ScriptedServer, caller: Any, status: int, body: Any, kind: FaultKind
) -> None:
    scripted.add(fault(status, body=body))
    assert classify(fault_of(caller)).kind is kind


def test_spec_10933_a_call_after_the_client_was_closed_opens_a_new_one(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("one"), text("two"))
    assert caller().text == "one"
    caller.wire.close()
    assert caller().text == "two"


def test_B056_an_error_event_in_the_middle_is_a_fault_after_what_was_shown(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(
        events(
            {"choices": [{"delta": {"content": "Hel"}}]},
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        )
    )
    problem = fault_of(caller)
    assert (classify(problem).kind, caller.shown) == (FaultKind.OVERLOADED, "Hel")


def test_B054_a_broken_connection_in_the_middle_is_a_fault(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(cut(after=2, text="a long answer"))
    problem = fault_of(caller)
    assert (problem.cause, problem.phase, bool(caller.shown)) == ("connection", "stream", True)


def test_broken_json_in_the_middle_is_a_fault_and_a_word_is_not(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(events("ping", {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}, "[DONE]"))
    assert caller().text == "ok"
    scripted.add(events('{"choices": [{', {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}))
    assert fault_of(caller).cause == "invalid"


def test_no_answer_at_all_and_no_server_are_connection_faults(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(cut(after=0))
    assert (fault_of(caller).cause, len(scripted.requests)) == ("connection", 1)
    scripted.close()
    problem = fault_of(caller)
    assert (problem.cause, problem.phase) == ("connection", "connect")
    assert f"127.0.0.1:{scripted.port}" in problem.message


def test_a_host_that_is_not_there_and_a_server_of_another_kind_are_named(new_target: Any, new_caller: Any) -> None:
    problem = fault_of(new_caller(new_target("http://no-such-host.invalid/v1")))
    assert (problem.cause, "no-such-host.invalid" in problem.message) == ("connection", True)
    with _server(lambda sock: (sock.recv(65536), sock.sendall(b"220 mail ready\r\n"))) as port:
        problem = fault_of(new_caller(new_target(f"http://127.0.0.1:{port}/v1")))
    assert (problem.cause, "does not answer in HTTP" in problem.message) == ("invalid", True)


def test_B094_a_wrong_path_names_the_url(scripted: ScriptedServer, new_target: Any, new_caller: Any) -> None:
    url = f"http://127.0.0.1:{scripted.port}/v1/chat"
    scripted.add(fault(404, body={"detail": "Not Found"}))
    detail = classify(fault_of(new_caller(new_target(url)))).detail
    assert f"{url}/chat/completions" in detail


def test_a_refused_body_is_answered_before_it_is_read_whole(new_target: Any, new_caller: Any) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"

    def serve(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(answer)
        sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while sock.recv(1 << 20):
                pass

    with _server(serve) as port:
        caller = new_caller(new_target(f"http://127.0.0.1:{port}/v1"))
        assert fault_of(lambda: caller(Message("user", (Text("x" * 3_000_000),)))).status == 413


# ---- Limits of time -------------------------------------------------------------------------------------------------


def test_B016_the_first_token_and_the_stall_have_limits_of_their_own(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(stall(after=0), stall(after=3))
    late = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=0.1, stall_s=5)))
    assert (late.cause, late.phase) == ("timeout", "first_token")
    stalled = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=5, stall_s=0.1)))
    assert (stalled.cause, stalled.phase, bool(caller.shown)) == ("stall", "stream", True)


def test_B016_headers_and_comments_are_no_first_token(new_target: Any, new_caller: Any) -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                sock.sendall(b": still there\n\n")
                time.sleep(0.01)

    with _server(serve) as port:
        caller = new_caller(new_target(f"http://127.0.0.1:{port}/v1"))
        problem = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=0.2, stall_s=5)))
    assert (problem.cause, problem.phase) == ("timeout", "first_token")


def test_a_whole_reply_has_the_longer_of_both_limits(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("slow").but(hold_after=0))
    threading.Timer(0.3, scripted.release).start()
    assert caller(stream=False, timeouts=Timeouts(5, first_token_s=0.1, stall_s=5)).text == "slow"


def test_a_connection_that_does_not_come_has_a_limit(new_target: Any, new_caller: Any) -> None:
    with _full_backlog() as port:
        caller = new_caller(new_target(f"http://127.0.0.1:{port}/v1"))
        problem = fault_of(lambda: caller(timeouts=Timeouts(connect_s=0.2)))
    assert (problem.cause, problem.phase) == ("timeout", "connect")


# ---- Aborts ---------------------------------------------------------------------------------------------------------


def _aborted(stream: Any, when: Callable[[], Any]) -> float:
    """Read in a thread, abort from this one when `when` returns; the seconds from abort to the reader's fault."""
    found: list[BaseException] = []

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
    taken = time.monotonic() - begin
    assert not reader.is_alive()
    assert [error.cause for error in found if isinstance(error, WireFault)] == ["aborted"]
    stream.abort()  # more than once does no harm
    return taken


@pytest.mark.parametrize("after", [0, 1, 3])
def test_spec_6600_29507_67142_an_abort_wakes_the_reader_before_the_first_byte_and_in_the_middle(
    scripted: ScriptedServer, caller: Any, after: int
) -> None:
    scripted.add(stall(after=after))
    assert _aborted(caller.open(), lambda: scripted.wait_for_requests(1)) < SOON_S
    assert scripted.requests[0].gone.wait(SOON_S)  # the server sees it at once, and can stop


def test_an_abort_ends_a_connect(new_target: Any, new_caller: Any) -> None:
    with _full_backlog() as port:
        caller = new_caller(new_target(f"http://127.0.0.1:{port}/v1"))
        stream = caller.open(timeouts=Timeouts(connect_s=60))
        assert _aborted(stream, lambda: _wait_for(lambda: stream._exchange.sock is not None)) < SOON_S


def test_an_abort_ends_a_tls_handshake(new_target: Any, new_caller: Any) -> None:
    reached = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.recv(65536)
        reached.set()
        with contextlib.suppress(OSError):
            sock.recv(65536)

    with _server(serve) as port:
        caller = new_caller(new_target(f"https://127.0.0.1:{port}/v1"))
        stream = caller.open(timeouts=Timeouts(connect_s=60))
        assert _aborted(stream, lambda: reached.wait(SOON_S)) < SOON_S


def test_an_abort_before_the_call_sends_nothing(scripted: ScriptedServer, caller: Any) -> None:
    stream = caller.open()
    stream.abort()
    assert fault_of(lambda: list(stream)).cause == "aborted"
    assert scripted.connections == 0


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
    scripted.add(text("a"), text("b"), fault(429, "x"), call("f"), text("c"))
    caller()
    caller(stream=False)
    fault_of(caller)
    caller()
    caller()
    assert scripted.connections == 1


def test_spec_10324_B149_a_connection_that_the_server_closed_while_idle_is_not_used_again(
    scripted: ScriptedServer, caller: Any
) -> None:
    scripted.add(text("a"), text("b"))
    caller()
    for sock in list(scripted._sockets):
        sock.shutdown(socket.SHUT_RDWR)
    _wait_for(lambda: not scripted._sockets)
    assert caller().text == "b"
    assert scripted.connections == 2


def test_threads_and_endpoints_share_the_client_and_do_not_mix_replies(scripted: ScriptedServer, caller: Any) -> None:
    with ScriptedServer(lambda request: text(request.last["content"])) as echo:
        caller = type(caller)(type(caller.target)(caller.target.name, caller.target.profile, "m", echo.base_url,
                                                  "chat_completions", "k"))  # fmt: skip
        said: dict[int, list[str]] = {}

        def talk(number: int) -> None:
            mine = type(caller)(caller.target)
            said[number] = [mine(Message("user", (Text(f"{number}-{i}"),))).text for i in range(5)]

        threads = [threading.Thread(target=talk, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert said == {n: [f"{n}-{i}" for i in range(5)] for n in range(6)}
        assert echo.connections <= 6
        caller.wire.close()


def test_spec_54049_12952_no_proxy_stands_before_loopback_and_one_is_used_for_others(
    scripted: ScriptedServer, caller: Any, monkeypatch: pytest.MonkeyPatch, new_target: Any, new_caller: Any
) -> None:
    seen: list[bytes] = []

    def proxy(sock: socket.socket) -> None:
        seen.append(sock.recv(65536))
        body = b'{"choices":[{"message":{"content":"by proxy"},"finish_reason":"stop"}]}'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        sock.sendall(head + body)

    with _server(proxy) as port:
        monkeypatch.setenv("http_proxy", f"http://bob:pw@127.0.0.1:{port}")
        scripted.add(text("direct"))
        assert caller().text == "direct"
        assert new_caller(new_target("http://llm.example.invalid/v1"))(stream=False).text == "by proxy"
    assert seen[0].startswith(b"POST http://llm.example.invalid/v1/chat/completions HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic Ym9iOnB3" in seen[0]


def test_spec_6843_a_key_with_a_line_break_or_an_odd_character_never_makes_a_header(
    scripted: ScriptedServer, caller: Any
) -> None:
    target = type(caller.target)(
        "t:m", caller.target.profile, "m", scripted.base_url, "chat_completions", "ke\ny\u200b1 "
    )
    scripted.add(text("ok"))
    assert type(caller)(target)().text == "ok"
    assert scripted.requests[0].headers["authorization"] == "Bearer key1"


def test_spec_40033_the_users_headers_win_and_only_what_the_provider_needs_is_told_to_it(
    scripted: ScriptedServer, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "leaky")
    scripted.add(text("a"), text("b"))
    for headers in ({}, {"authorization": "Basic eA==", "User-Agent": "mine"}):
        target = type(caller.target)("t:m", caller.target.profile, "m", scripted.base_url, "c", "", headers)
        type(caller)(target)()
    plain, named = (request.headers for request in scripted.requests)
    assert "leaky" not in str((plain, named))
    assert "authorization" not in plain
    assert not [name for name in plain if name.startswith(("openai-", "x-stainless-os", "x-stainless-arch"))]
    assert (named["authorization"], named["user-agent"]) == ("Basic eA==", "mine")


# ---- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the certificate of this test")
    folder = tmp_path_factory.mktemp("tls")
    (folder / "openssl.cnf").write_text("[req]\ndistinguished_name = dn\n[dn]\n", encoding="utf-8")
    command = ["openssl", "req", "-config", "openssl.cnf", "-x509", "-newkey", "rsa:2048",
               "-nodes", "-days", "2",
               "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
               "-keyout", "key.pem", "-out", "cert.pem"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def _secure(folder: Path, serve: Callable[[Any], Any]) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")

    def run(sock: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secure:
            serve(secure)

    return run


@pytest.fixture(autouse=True)
def no_certificates_of_yours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from hermes.plugins.wire.http.dialling import tls_context

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


@pytest.fixture
def trusting(certificate: Path, no_certificates_of_yours: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    return certificate


def test_a_certificate_file_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, new_target: Any, new_caller: Any
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/ca.pem")
    with _server(lambda sock: sock.recv(65536)) as port:
        problem = fault_of(new_caller(new_target(f"https://127.0.0.1:{port}/v1")))
    assert (problem.cause, "/no/such/ca.pem" in problem.message) == ("tls", True)


def test_an_untrusted_certificate_is_a_tls_fault_that_says_what_to_do(
    certificate: Path, new_target: Any, new_caller: Any
) -> None:
    with _server(_secure(certificate, lambda sock: sock.recv(1))) as port:
        problem = fault_of(new_caller(new_target(f"https://127.0.0.1:{port}/v1")))
    assert (problem.cause, problem.phase, "SSL_CERT_FILE" in problem.message) == ("tls", "connect", True)
    assert classify(problem).kind is FaultKind.TLS


def test_calls_go_over_tls_and_an_abort_ends_them_there_too(trusting: Path, new_target: Any, new_caller: Any) -> None:
    begun = threading.Event()

    def serve(sock: ssl.SSLSocket) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                     b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n')  # fmt: skip
        begun.set()
        with contextlib.suppress(OSError):
            sock.recv(65536)

    with _server(_secure(trusting, serve)) as port:
        stream = new_caller(new_target(f"https://localhost:{port}/v1")).open()
        assert _aborted(stream, lambda: begun.wait(SOON_S)) < SOON_S


# ---- Servers of one purpose -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _server(serve: Callable[[socket.socket], Any]) -> Iterator[int]:
    """A loopback server that handles connections one after another until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_sockets: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            open_sockets.append(sock)
            with contextlib.suppress(OSError):
                serve(sock)
            sock.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for sock in open_sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(SOON_S)


@contextlib.contextmanager
def _full_backlog() -> Iterator[int]:
    """A port that is listened to and never answers: the queue of connections is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
