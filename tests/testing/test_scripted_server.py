"""The scripted server: it says what its script says, refuses what is wrong, and leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from hermes.testing import Call, Reply, ScriptedServer, calls, cut, fault, scripted_settings, stall, text

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def post(server: ScriptedServer, body: Any = BODY, **more: Any) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps({**body, **more}).encode()
    request = urllib.request.Request(f"{server.base_url}/chat/completions", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_says_what_the_script_says_in_order_and_records_the_requests() -> None:
    with ScriptedServer([text("one"), calls(Call("f", {"a": 1}), Call("g", "{bad", id="mine"))]) as server:
        assert json.loads(post(server)[1])["choices"][0]["message"]["content"] == "one"
        server.add(text("three"))
        message = json.loads(post(server)[1])["choices"][0]["message"]
        assert [(c["id"], c["function"]["arguments"]) for c in message["tool_calls"]] == [
            ("call_1", '{"a": 1}'),
            ("mine", "{bad"),
        ]
        assert "three" in post(server)[1]
        assert [r.last["content"] for r in server.requests] == ["hi"] * 3
        assert server.requests[0].system == ""
        assert json.loads(server.requests[0].raw) == BODY


def test_a_stream_is_events_that_end_with_done_and_usage_when_asked() -> None:
    with ScriptedServer([text("hello"), text("hello")]) as server:
        status, events = post(server, stream=True, stream_options={"include_usage": True})
        assert (status, events.rstrip().endswith("data: [DONE]"), '"usage"' in events) == (200, True, True)
        assert '"usage"' not in post(server, stream=True)[1]


def test_a_script_may_be_a_function_of_the_request() -> None:
    with ScriptedServer(lambda request: text(request.last["content"].upper())) as server:
        assert "HI" in post(server)[1]


def test_a_wrong_request_is_refused_and_kept_unless_the_server_is_not_strict() -> None:
    wrong = {"model": "m", "messages": [{"role": "user", "content": ""}]}
    with ScriptedServer([text("x")]) as server:
        assert post(server, wrong)[0] == 400
        assert post(server, b"{")[0] == 400
        assert [p.split(": ")[0] for p in server.problems] == ["request 1", "request 2"]
    with ScriptedServer([text("x")], strict=False) as server:
        assert post(server, wrong)[0] == 200
        assert server.requests[0].problems == ("messages[0]: blank content",)


def test_the_end_of_the_script_is_a_problem() -> None:
    with ScriptedServer() as server:
        assert post(server)[0] == 400
        assert server.problems == ["request 1: the script was over"]


def test_faults_carry_status_headers_and_any_body() -> None:
    with ScriptedServer([fault(429, "slow", code="c", retry_after="3"), Reply(status=502, body="<html>")]) as server:
        assert post(server) == (429, '{"error": {"message": "slow", "type": "c", "code": "c"}}')
        assert post(server) == (502, "<html>")


def test_a_cut_stall_or_hold_ends_with_the_server() -> None:
    server = ScriptedServer([stall(1), cut(1), text("x").but(hold_after=1)])
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            post(server, stream=True)
        except (OSError, http.client.HTTPException) as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    server.wait_for_requests(3)
    server.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert not [t for t in threading.enumerate() if t.name.startswith("scripted")]


def test_a_held_reply_goes_on_when_it_is_released() -> None:
    with ScriptedServer([text("x").but(hold_after=0)]) as server:
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(post(server)))
        thread.start()
        server.wait_for_requests(1)
        assert not done
        server.release()
        thread.join(10)
        assert done[0][0] == 200


def test_models_are_listed_and_other_paths_are_not_found() -> None:
    with ScriptedServer(model="some-model") as server:
        with urllib.request.urlopen(f"{server.base_url}/models", timeout=10) as reply:
            assert json.load(reply)["data"][0]["id"] == "some-model"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.base_url}/nope", timeout=10)
        caught.value.close()
        assert caught.value.code == 404


def test_waiting_for_requests_that_do_not_come_ends() -> None:
    with ScriptedServer() as server, pytest.raises(TimeoutError, match="0 of 1 requests"):
        server.wait_for_requests(1, timeout_s=0.01)


def test_settings_for_a_run_name_the_server(scripted: ScriptedServer) -> None:
    made = scripted_settings(scripted, limits={"iterations": 3})
    assert made["model"] == "scripted:any"
    assert made["providers"]["scripted"]["base_url"] == scripted.base_url
    assert made["limits"] == {"iterations": 3}
