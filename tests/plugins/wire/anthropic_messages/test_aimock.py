"""The wire against somebody else's idea of the Messages API (npm @copilotkit/aimock)."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.kernel.messages import Message, StopReason, Text, ToolResult
from hermes.kernel.providers import Parameters, ToolSchema

TOOLS = (ToolSchema("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5"])
@pytest.mark.parametrize("stream", [True, False])
def test_text_and_a_tool_loop_go_over_an_independent_mock(
    aimock: str, target_at: Any, caller_of: Any, stream: bool, model: str
) -> None:
    caller = caller_of(target_at(aimock, model))
    parameters = Parameters(stream=stream, reasoning_effort="low")
    assert caller(Message("user", (Text("say hello"),)), parameters=parameters).text == "Hello from aimock."
    assert caller.shown == "Hello from aimock."
    user = Message("user", (Text("read the file"),))
    reply = caller(user, tools=TOOLS, parameters=parameters)
    assert reply.stop_reason is StopReason.TOOL_CALLS
    (only,) = reply.calls
    assert (only.name, dict(only.arguments), bool(only.id)) == ("read_file", {"path": "a.txt"}, True)
    results = Message("tool", (ToolResult(only.id, "ok", (Text("content"),)),))
    final = caller(user, Message("assistant", reply.parts), results, tools=TOOLS, parameters=parameters)
    assert (final.text, final.stop_reason) == ("The file is read.", StopReason.STOP)
