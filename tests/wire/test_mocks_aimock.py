"""The formats against somebody else's idea of them: npm @copilotkit/aimock, a server that others wrote.

It speaks all four; its event stream of Bedrock is one that boto3 refuses, so Converse is asked for whole replies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mocks
import pytest

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import Message, Replay, StopReason, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import WireFault

BASES = {
    "chat_completions": "/v1",
    "codex_responses": "/v1",
    "anthropic_messages": "",
    "bedrock_converse": "",
}
EACH_WAY = [(api_mode, stream) for api_mode in BASES for stream in (True, False)]
EACH_WAY.remove(("bedrock_converse", True))
READ = [{"name": "read_file", "arguments": f'{{"path":"{name}.txt"}}'} for name in "ab"]
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "input_tokens": 9, "output_tokens": 4}
FAULTS = {
    401: ("Incorrect API key provided", "authentication_error", FaultKind.AUTH),
    402: ("Insufficient credits", "billing_error", FaultKind.BILLING),
    403: ("You are not allowed to do this", "permission_error", FaultKind.PERMISSION),
    404: ("model: none-such", "not_found_error", FaultKind.MODEL_NOT_FOUND),
    413: ("Request entity too large", "request_too_large", FaultKind.BODY_TOO_LARGE),
    429: ("Too many requests", "rate_limit_error", FaultKind.RATE_LIMIT),
    400: ("prompt is too long: 203470 tokens > 200000 maximum", "invalid_request_error", FaultKind.CONTEXT_OVERFLOW),
    500: ("It broke", "api_error", FaultKind.SERVER_ERROR),
    529: ("Overloaded", "overloaded_error", FaultKind.OVERLOADED),
}


def fixture(says: str, response: dict[str, Any], **match: Any) -> dict[str, Any]:
    return {"match": {"userMessage": says, **match}, "response": response}


FIXTURES = [
    fixture("say hello", {"content": "Hello from aimock.", "usage": USAGE}),
    fixture("read the file", {"content": "The file is read."}, hasToolResult=True),
    fixture("read the file", {"toolCalls": READ[:1]}),
    fixture("read both", {"content": "Both are read."}, hasToolResult=True),
    fixture("read both", {"content": "I look.", "toolCalls": READ}),
    fixture("think first", {"content": "Done.", "reasoning": "Let me think.", "reasoningSignature": "c2lnbmVk"}),
    fixture("be long", {"content": "half", "finishReason": "length"}),
    *(
        fixture(f"fail with {status}", {"error": {"message": message, "type": kind}, "status": status, "retryAfter": 7})
        for status, (message, kind, _) in FAULTS.items()
    ),
]


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The root URL of a running aimock that answers by FIXTURES."""
    file = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    file.write_text(json.dumps({"fixtures": FIXTURES}), encoding="utf-8")
    with mocks.running([*mocks.aimock_program(), "--fixtures", str(file)]) as url:
        yield url


@pytest.fixture
def ask(aimock: str, new_caller: Any) -> Any:
    """`ask(api_mode)`: a caller that speaks this format to aimock."""
    return lambda api_mode: new_caller(api_mode, aimock + BASES[api_mode])


def user(text: str) -> Message:
    return Message("user", (Text(text),))


@pytest.mark.parametrize(("api_mode", "stream"), EACH_WAY)
def test_words_come_over_an_independent_mock(ask: Any, api_mode: str, stream: bool) -> None:
    caller = ask(api_mode)
    reply = caller(user("say hello"), stream=stream)
    assert (reply.text, caller.shown, reply.stop_reason) == ("Hello from aimock.",) * 2 + (StopReason.STOP,)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 4)


@pytest.mark.parametrize(("api_mode", "stream"), EACH_WAY)
@pytest.mark.parametrize(("says", "count", "words"), [("read the file", 1, ""), ("read both", 2, "I look.")])
def test_a_tool_loop_goes_over_an_independent_mock(
    ask: Any, api_mode: str, stream: bool, says: str, count: int, words: str
) -> None:
    caller = ask(api_mode)
    reply = caller(user(says), stream=stream)
    assert (reply.text, reply.stop_reason) == (words, StopReason.TOOL_CALLS)
    assert [call.name for call in reply.calls] == ["read_file"] * count
    assert [dict(call.arguments) for call in reply.calls] == [{"path": "a.txt"}, {"path": "b.txt"}][:count]
    assert len({call.id for call in reply.calls} - {""}) == count
    results = tuple(ToolResult(call.id, "ok", (Text("content"),)) for call in reply.calls)
    final = caller(user(says), Message("assistant", reply.parts), Message("tool", results), stream=stream)
    assert final.text == ("The file is read." if count == 1 else "Both are read.")
    assert final.stop_reason is StopReason.STOP


@pytest.mark.parametrize(("api_mode", "stream"), EACH_WAY)
def test_thinking_comes_apart_from_the_answer(ask: Any, api_mode: str, stream: bool) -> None:
    caller = ask(api_mode)
    reply = caller(user("think first"), stream=stream)
    assert (reply.text, caller.shown) == ("Done.", "Done.")
    thoughts = [part for part in reply.parts if isinstance(part, Thinking)]
    assert "".join(thought.text for thought in thoughts) == "Let me think."
    if api_mode == "anthropic_messages":
        assert isinstance(thoughts[0].replay, Replay)
        assert "c2lnbmVk" in json.dumps(thoughts[0].replay.payload)
    again = caller(user("think first"), Message("assistant", reply.parts), user("say hello"), stream=stream)
    assert again.text == "Hello from aimock."


@pytest.mark.parametrize(("api_mode", "stream"), EACH_WAY)
def test_a_reply_that_had_no_room_says_so(ask: Any, api_mode: str, stream: bool) -> None:
    # A response of aimock is incomplete without a reason.
    expected = StopReason.CUT if api_mode == "codex_responses" else StopReason.LENGTH
    assert ask(api_mode)(user("be long"), stream=stream).stop_reason is expected


@pytest.mark.parametrize("status", FAULTS)
@pytest.mark.parametrize("api_mode", BASES)
def test_an_error_of_each_class_is_named(ask: Any, api_mode: str, status: int) -> None:
    message, _, kind = FAULTS[status]
    with pytest.raises(WireFault) as caught:
        ask(api_mode)(user(f"fail with {status}"), stream=False)
    found = classify(caught.value)
    assert (found.kind, message in found.detail) == (kind, True), found
    if status == 429:
        assert found.retry_after_s == 7


@pytest.mark.parametrize(("api_mode", "stream"), EACH_WAY)
def test_a_conversation_of_one_format_goes_on_in_the_others(ask: Any, api_mode: str, stream: bool) -> None:
    """Parts that a reply of one format left behind are taken by the mock of each other one."""
    first = ask(api_mode)
    reply = first(user("read both"), stream=stream)
    assert all(isinstance(part, (Text, Thinking, ToolCall)) for part in reply.parts)
    results = tuple(ToolResult(call.id, "ok", (Text("content"),)) for call in reply.calls)
    history = (user("read both"), Message("assistant", reply.parts), Message("tool", results))
    for other in BASES:
        assert ask(other)(*history, stream=False).text == "Both are read."


@pytest.mark.parametrize(
    ("api_mode", "stream"),
    [("chat_completions", True), ("codex_responses", False), ("anthropic_messages", True), ("bedrock_converse", False)],
)
def test_hermes_run_completes_a_tool_loop(
    aimock: str, hermes_home: Path, tmp_path: Path, api_mode: str, stream: bool
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("content\n", encoding="utf-8")
    provider = {"base_url": aimock + BASES[api_mode], "api_key": "k", "api_mode": api_mode}
    settings = {"model": "mock:some-model", "providers": {"mock": provider}, "display": {"stream": stream}}
    (hermes_home / "hermes.yaml").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hermes", "run", "-o", "stream-json", "read the file"],
        cwd=work,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (tool,) = (event for event in events if event["type"] == "tool_ended")
    assert (tool["name"], tool["status"]) == ("read_file", "ok")
    assert "content" in tool["text"]
    last = events[-1]
    assert (last["reason"], last["answer"], last["iterations"]) == ("completed", "The file is read.", 2)
    assert "".join(event["text"] for event in events if event["type"] == "text_delta") == "The file is read."
