"""Through the real wire format and the real server: tools offered by grammar come back as calls, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.kernel.messages import Message, ModelReply, Text, ToolCall, ToolResult
from hermes.kernel.providers import Parameters, Target, Timeouts, ToolSchema
from hermes.plugins.providers.local import LocalProvider
from hermes.plugins.wire.chat_completions import ChatCompletions

SMALL = "smollm2-135m-instruct"
READ = ToolSchema(
    "read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)


@pytest.fixture
def target(home_with_model: Path) -> Iterator[Target]:
    provider = LocalProvider()
    endpoint = provider.connect(SMALL, lambda what, share: None, lambda: False)
    yield Target(
        f"local:{SMALL}",
        provider.profile,
        SMALL,
        endpoint.base_url,
        "chat_completions",
        endpoint.api_key,
        output_cap=60,
    )
    provider.close()


def ask(target: Target, messages: list[Message], parameters: Parameters) -> ModelReply:
    wire = ChatCompletions()
    try:
        prefix = wire.prefix("You are an assistant.", [READ], target)
        body = wire.envelope(prefix, [wire.encode(message, target) for message in messages], parameters, target)
        stream = wire.open(body, parameters, target, Timeouts())
        for _ in stream:
            pass
        return stream.reply()
    finally:
        wire.close()


def test_a_call_comes_whole_or_not_at_all_and_none_where_calls_are_forbidden(target: Target) -> None:
    question = Message("user", (Text("Read the file a.py"),))
    parameters = Parameters(temperature=0.0, output_cap=60)
    reply = ask(target, [question], parameters)
    assert all(call.name == "read_file" and isinstance(call.arguments["path"], str) for call in reply.calls)
    assert reply.calls or reply.text.strip()

    call = ToolCall("c1", "read_file", {"path": "a.py"})
    history = [
        question,
        Message("assistant", (call,)),
        Message("tool", (ToolResult("c1", "ok", (Text("1|print('hello')"),)),)),
    ]
    for stream in (True, False):
        answer = ask(target, history, replace(parameters, may_call=False, stream=stream))
        assert answer.calls == ()
        assert answer.text.strip()
        assert answer.text.lstrip()[0] not in "{<["
        assert answer.usage.prompt_tokens > 100
