"""The wire against somebody else's idea of the OpenAI API (npm @copilotkit/aimock)."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.kernel.messages import Message, StopReason, Text, ToolResult
from hermes.kernel.providers import ToolSchema

TOOLS = (ToolSchema("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)


@pytest.mark.parametrize("stream", [True, False])
def test_text_and_a_tool_loop_go_over_an_independent_mock(
    aimock: str, new_target: Any, new_caller: Any, stream: bool
) -> None:
    caller = new_caller(new_target(aimock, model="gpt-4o"))
    assert caller(Message("user", (Text("say hello"),)), stream=stream).text == "Hello from aimock."
    assert caller.shown == "Hello from aimock."
    user = Message("user", (Text("read the file"),))
    reply = caller(user, tools=TOOLS, stream=stream)
    assert reply.stop_reason is StopReason.TOOL_CALLS
    (only,) = reply.calls
    assert (only.name, dict(only.arguments), bool(only.id)) == ("read_file", {"path": "a.txt"}, True)
    results = Message("tool", (ToolResult(only.id, "ok", (Text("content"),)),))
    final = caller(user, Message("assistant", reply.parts), results, tools=TOOLS, stream=stream)
    assert (final.text, final.stop_reason) == ("The file is read.", StopReason.STOP)
    caller.wire.close()
