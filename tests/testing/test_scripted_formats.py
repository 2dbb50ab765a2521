"""The scripted server in each of its formats, read by the vendors' own SDKs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hermes.kernel.messages import Usage
from hermes.testing import Call, Reply, ScriptedServer, Thought, blocks, error_event, events, fault, text
from hermes.testing.formats import FORMATS, format_of

WRITTEN = blocks(
    Thought("let me think"), "Hello world.", Call("f", {"a": 1}), Thought(is_redacted=True), Call("g", {"b": [1, 2]})
).but(usage=Usage(10, 5, 3, 2, 7))


@pytest.fixture
def lax() -> Iterator[ScriptedServer]:
    """A server that takes anything: these requests are as short as can be."""
    with ScriptedServer(strict=False) as server:
        yield server


@pytest.fixture
def claude(lax: ScriptedServer) -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(api_key="k", base_url=lax.url_for("anthropic_messages"), max_retries=0) as client:
        yield client.messages


@pytest.fixture
def gpt(lax: ScriptedServer) -> Iterator[Any]:
    import openai

    with openai.OpenAI(api_key="k", base_url=lax.url_for("codex_responses"), max_retries=0) as client:
        yield client.responses


@pytest.fixture
def bedrock(lax: ScriptedServer) -> Iterator[Any]:
    import boto3
    from botocore.config import Config

    client = boto3.session.Session("id", "secret", region_name="us-east-1").client(
        "bedrock-runtime",
        endpoint_url=lax.url_for("bedrock_converse"),
        config=Config(retries={"total_max_attempts": 1}),
    )
    yield client
    client.close()


MESSAGE = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
CONVERSE = {"modelId": "anthropic.claude:0", "messages": [{"role": "user", "content": [{"text": "hi"}]}]}


# ---- Messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_anthropics_sdk_reads_what_was_written_block_by_block(lax: ScriptedServer, claude: Any, stream: bool) -> None:
    lax.add(WRITTEN)
    if stream:
        with claude.stream(**MESSAGE) as running:
            message = running.get_final_message()
    else:
        message = claude.create(**MESSAGE)
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "text", "tool_use", "redacted_thinking", "tool_use"]
    thought, words, first, _, second = message.content
    assert (thought.thinking, words.text, first.input, second.input) == (
        "let me think",
        "Hello world.",
        {"a": 1},
        {"b": [1, 2]},
    )
    assert thought.signature
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (10, 3, 2)
    assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (12, 7)


def test_anthropics_sdk_raises_an_error_in_the_middle_of_a_stream(lax: ScriptedServer, claude: Any) -> None:
    import anthropic

    lax.add(error_event("Overloaded", status=529, after=4))
    with claude.stream(**MESSAGE) as running, pytest.raises(anthropic.APIStatusError) as caught:
        running.get_final_message()
    assert caught.value.body["error"] == {"type": "overloaded_error", "message": "Overloaded"}


# ---- Responses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_openais_sdk_reads_a_response_item_by_item(lax: ScriptedServer, gpt: Any, stream: bool) -> None:
    lax.add(WRITTEN)
    if stream:
        with gpt.stream(model="gpt", input="hi") as running:
            response = running.get_final_response()
    else:
        response = gpt.create(model="gpt", input="hi")
    kinds = [item.type for item in response.output]
    assert kinds == ["reasoning", "message", "function_call", "reasoning", "function_call"]
    assert (response.output[0].summary[0].text, response.output_text) == ("let me think", "Hello world.")
    assert [item.arguments for item in response.output if item.type == "function_call"] == ['{"a": 1}', '{"b": [1, 2]}']
    assert all(item.encrypted_content for item in response.output if item.type == "reasoning")
    assert response.status == "completed"
    usage = response.usage
    assert (usage.input_tokens, usage.input_tokens_details.cached_tokens) == (15, 3)
    assert (usage.output_tokens, usage.output_tokens_details.reasoning_tokens) == (12, 7)


def test_a_response_without_room_is_incomplete(lax: ScriptedServer, gpt: Any) -> None:
    lax.add(text("half", finish="length"))
    response = gpt.create(model="gpt", input="hi")
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_response_fails_in_the_middle_of_its_stream(lax: ScriptedServer, gpt: Any) -> None:
    lax.add(error_event("Slow down.", status=429, after=3))
    seen = list(gpt.create(model="gpt", input="hi", stream=True))
    assert [event.type for event in seen][-1] == "response.failed"
    assert (seen[-1].response.error.code, seen[-1].response.error.message) == ("rate_limit_exceeded", "Slow down.")
    assert len(seen) == 4


# ---- Converse -------------------------------------------------------------------------------------------------------


def test_boto3_reads_a_whole_reply(lax: ScriptedServer, bedrock: Any) -> None:
    lax.add(WRITTEN)
    reply = bedrock.converse(**CONVERSE)
    content = reply["output"]["message"]["content"]
    kinds = [next(iter(block)) for block in content]
    assert kinds == ["reasoningContent", "text", "toolUse", "reasoningContent", "toolUse"]
    assert content[0]["reasoningContent"]["reasoningText"]["text"] == "let me think"
    assert content[3]["reasoningContent"]["redactedContent"].startswith(b"scripted seal")
    assert [block["toolUse"]["input"] for block in (content[2], content[4])] == [{"a": 1}, {"b": [1, 2]}]
    assert reply["stopReason"] == "tool_use"
    assert reply["usage"] == {
        "inputTokens": 10,
        "outputTokens": 12,
        "totalTokens": 27,
        "cacheReadInputTokens": 3,
        "cacheWriteInputTokens": 2,
    }
    assert (lax.requests[0].model, lax.requests[0].api_mode) == ("anthropic.claude:0", "bedrock_converse")


def test_boto3_reads_the_frames_of_a_stream(lax: ScriptedServer, bedrock: Any) -> None:
    lax.add(WRITTEN)
    with closing(bedrock.converse_stream(**CONVERSE)["stream"]) as running:
        seen = list(running)
    names = [next(iter(event)) for event in seen]
    assert (names[0], names[-2:]) == ("messageStart", ["messageStop", "metadata"])
    deltas = [event["contentBlockDelta"]["delta"] for event in seen if "contentBlockDelta" in event]
    assert "".join(delta["text"] for delta in deltas if "text" in delta) == "Hello world."
    assert "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta) == '{"a": 1}{"b": [1, 2]}'
    assert seen[-2]["messageStop"] == {"stopReason": "tool_use"}
    starts = [event["contentBlockStart"]["start"]["toolUse"]["name"] for event in seen if "contentBlockStart" in event]
    assert starts == ["f", "g"]


def test_boto3_raises_an_exception_in_the_middle_of_a_stream(lax: ScriptedServer, bedrock: Any) -> None:
    from botocore.exceptions import EventStreamError

    lax.add(error_event("Too many requests", status=429))
    running = bedrock.converse_stream(**CONVERSE)["stream"]
    with closing(running), pytest.raises(EventStreamError, match=r"throttlingException.*Too many requests"):
        list(running)


def test_boto3_names_a_refusal_by_its_header(lax: ScriptedServer, bedrock: Any) -> None:
    from botocore.exceptions import ClientError

    lax.add(fault(403, "You don't have access to the model with the specified model ID."))
    with pytest.raises(ClientError) as caught:
        bedrock.converse(**CONVERSE)
    assert caught.value.response["Error"]["Code"] == "AccessDeniedException"


# ---- What is the same for all ---------------------------------------------------------------------------------------

PATHS = {
    "chat_completions": "/v1/chat/completions",
    "codex_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages?beta=true",
    "bedrock_converse": "/model/anthropic.claude%3A0/converse",
}


def post(server: ScriptedServer, api_mode: str, body: Any) -> tuple[int, Any]:
    data = json.dumps(body).encode()
    url = f"http://127.0.0.1:{server.port}{PATHS[api_mode]}"
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("api_mode", FORMATS)
def test_a_wrong_request_is_refused_in_the_errors_of_its_format(api_mode: str) -> None:
    with ScriptedServer([text("x")]) as server:
        status, answer = post(server, api_mode, {"nonsense": 1})
        assert status == 400
        assert "nonsense" in json.dumps(answer)
        assert [problem.split(":")[0] for problem in server.problems] == ["request 1"] * len(server.problems)
        shape = {"bedrock_converse": ["message"], "anthropic_messages": ["error", "request_id", "type"]}
        assert sorted(answer) == shape.get(api_mode, ["error"])


@pytest.mark.parametrize("api_mode", FORMATS)
def test_what_the_script_sends_word_for_word_is_told_from_what_the_format_says(api_mode: str) -> None:
    with ScriptedServer([Reply(status=502, body="<html>"), fault(500, "It broke.")], strict=False) as server:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{PATHS[api_mode]}", b"{}")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        with caught.value as error:
            assert (error.code, error.read()) == (502, b"<html>")
        status, answer = post(server, api_mode, {})
        assert status == 500
        assert (answer.get("error") or answer)["message"] == "It broke."


@pytest.mark.parametrize("api_mode", FORMATS)
def test_an_error_in_the_middle_of_what_has_no_middle_is_a_refusal(api_mode: str) -> None:
    with ScriptedServer([error_event("It broke.", status=503)], strict=False) as server:
        status, answer = post(server, api_mode, {})
        assert (status, (answer.get("error") or answer)["message"]) == (503, "It broke.")


SIGNED = {
    "anthropic_messages": lambda seal, words: {
        **MESSAGE,
        "thinking": {"type": "adaptive"},
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": words, "signature": seal},
                    {"type": "text", "text": "Hello."},
                ],
            },
            {"role": "user", "content": "go on"},
        ],
    },
    "codex_responses": lambda seal, words: {
        "model": "claude",
        "store": False,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": words}], "encrypted_content": seal},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "go on"}]},
        ],
    },
    "bedrock_converse": lambda seal, words: {
        "messages": [
            {"role": "user", "content": [{"text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": words, "signature": seal}}},
                    {"text": "Hello."},
                ],
            },
            {"role": "user", "content": [{"text": "go on"}]},
        ],
    },
}
"""A body that brings a thought back, by format."""


def seal_in(value: Any) -> str:
    if isinstance(value, dict):
        own = (v for k, v in value.items() if k in ("signature", "encrypted_content") and v)
        return next(own, "") or next(filter(None, map(seal_in, value.values())), "")
    return next(filter(None, map(seal_in, value)), "") if isinstance(value, list) else ""


@pytest.mark.parametrize("api_mode", SIGNED)
def test_a_thought_comes_back_as_it_was_given_or_is_refused(api_mode: str) -> None:
    with ScriptedServer([text("Hello.", thinking="hm"), text("fine")], strict=False) as server:
        made = SIGNED[api_mode]
        seal = seal_in(post(server, api_mode, {"model": "claude"})[1])
        server.strict = True
        server.problems.clear()
        assert post(server, api_mode, made(seal, "something else"))[0] == 400
        assert "not the one that was signed" in server.problems.pop()
        assert post(server, api_mode, made(seal[:-8] + "AAAAAAA=", "hm"))[0] == 400
        assert server.problems
        server.problems.clear()
        assert post(server, api_mode, made(seal, "hm"))[0] == 200, server.problems


def test_a_seal_is_good_for_the_model_that_gave_it_alone() -> None:
    with ScriptedServer([text("Hello.", thinking="hm"), text("fine")], strict=False) as server:
        seal = seal_in(post(server, "anthropic_messages", {"model": "other"})[1])
        server.strict = True
        assert post(server, "anthropic_messages", SIGNED["anthropic_messages"](seal, "hm"))[0] == 400


def test_a_seal_in_a_chunk_of_the_script_is_the_servers_too() -> None:
    chunk = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2VhbA=="}}
    with ScriptedServer([events(chunk), text("fine")], strict=False) as server:
        url = f"http://127.0.0.1:{server.port}/v1/messages"
        body = json.dumps({"model": "claude", "stream": True}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as reply:
            assert reply.read() == b"event: content_block_delta\ndata: %s\n\n" % json.dumps(chunk).encode()
        server.strict = True
        assert post(server, "anthropic_messages", SIGNED["anthropic_messages"]("c2VhbA==", "anything"))[0] == 200


def test_bytes_of_the_script_are_sent_as_they_are() -> None:
    with ScriptedServer([events(b"\x00\x01half a frame")], strict=False) as server:
        url = f"http://127.0.0.1:{server.port}/model/x/converse-stream"
        with urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=10) as reply:
            assert reply.headers["Content-Type"] == "application/vnd.amazon.eventstream"
            assert reply.read() == b"\x00\x01half a frame"


@pytest.mark.parametrize(
    ("path", "api_mode"),
    [
        *((path, api_mode) for api_mode, path in PATHS.items()),
        ("/openai/deployments/x/chat/completions?api-version=1", "chat_completions"),
        ("/anthropic/v1/messages", "anthropic_messages"),
        ("/model/a%2Fb/converse-stream", "bedrock_converse"),
    ],
)
def test_the_path_says_the_format(path: str, api_mode: str) -> None:
    found = format_of(path)
    assert found is not None
    assert found.api_mode == api_mode


@pytest.mark.parametrize(
    "path", ["/v1/messages/count_tokens", "/v1/completions", "/model/x/invoke", "/model//converse"]
)
def test_another_path_is_no_format(path: str) -> None:
    assert format_of(path) is None


@pytest.mark.parametrize("api_mode", FORMATS)
def test_a_request_is_read_the_same_way_in_every_format(api_mode: str) -> None:
    made = FORMATS[api_mode]
    schema = {"type": "object"}
    bodies: dict[str, Any] = {
        "chat_completions": {
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
        "codex_responses": {"instructions": "Be kind.", "input": "hi", "tools": [{"type": "function", "name": "f"}]},
        "anthropic_messages": {
            "system": [{"type": "text", "text": "Be kind."}],
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "f", "input_schema": schema}],
        },
        "bedrock_converse": {
            "system": [{"text": "Be kind."}, {"cachePoint": {"type": "default"}}],
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
            "toolConfig": {"tools": [{"toolSpec": {"name": "f"}}, {"cachePoint": {"type": "default"}}]},
        },
    }
    body = bodies[api_mode]
    assert (made.system(body), made.tool_names(body)) == ("Be kind.", ["f"])
    assert "hi" in json.dumps(made.messages(body)[-1])
