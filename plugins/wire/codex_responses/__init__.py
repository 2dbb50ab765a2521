"""The wire format of OpenAI's Responses API, streamed and whole, on the openai SDK."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes import hookimpl
from hermes.kernel.messages import Message
from hermes.kernel.providers import Parameters, Stream, Target, Timeouts, ToolSchema, WireFormat

if TYPE_CHECKING:
    import httpx2

    from hermes.plugins.wire.http.dialling import Exchange

from .body import encode_prefix, envelope_pieces, is_streamed
from .encoding import encode_message


class CodexResponses:
    """See `WireFormat`. The whole conversation is sent each time, and the server is asked to store nothing."""

    name = "codex_responses"

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        return encode_prefix(system, tools, target)

    def encode(self, message: Message, target: Target) -> bytes:
        return encode_message(message, target)

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        return envelope_pieces(prefix, fragments, parameters, target)

    def open(self, body: Sequence[bytes], parameters: Parameters, target: Target, timeouts: Timeouts) -> Stream:
        from hermes.plugins.wire.http.stream import JsonStream

        from .decoding import Assembler

        is_stream = is_streamed(parameters, target)

        def send(exchange: Exchange) -> httpx2.Response:
            from hermes.plugins.wire.openai_sdk import post

            return post("/responses", body, target, exchange, is_stream=is_stream)

        return JsonStream(
            send, Assembler(target), timeouts, is_stream=is_stream, expected="a response", where=target.base_url
        )

    def close(self) -> None:
        client = sys.modules.get("hermes.plugins.wire.openai_sdk")
        if client is not None:  # else no call was made, and the SDK is not loaded
            client.close()


@hookimpl
def register_wire_formats() -> list[WireFormat]:
    return [CodexResponses()]
