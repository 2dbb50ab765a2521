"""The wire format of Anthropic's Messages API, streamed and whole, on the anthropic SDK."""

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

from .encoding import encode_message, encode_prefix
from .envelope import betas, body_pieces


class AnthropicMessages:
    """See `WireFormat`. Holds nothing but what its pooled connections are."""

    name = "anthropic_messages"

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        return encode_prefix(system, tools, target)

    def encode(self, message: Message, target: Target) -> bytes:
        return encode_message(message, target)

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        return body_pieces(prefix, fragments, parameters, target)

    def open(self, body: Sequence[bytes], parameters: Parameters, target: Target, timeouts: Timeouts) -> Stream:
        from hermes.plugins.wire.http.stream import JsonStream

        from .decoding import Assembler

        def send(exchange: Exchange) -> httpx2.Response:
            from hermes.plugins.wire.anthropic_sdk import post

            named = betas(parameters, target)
            return post("/v1/messages", body, target, exchange, betas=named, is_stream=parameters.stream)

        return JsonStream(
            send,
            Assembler(target),
            timeouts,
            is_stream=parameters.stream,
            expected="a message",
            where=target.base_url,
        )

    def close(self) -> None:
        client = sys.modules.get("hermes.plugins.wire.anthropic_sdk")
        if client is not None:  # else no call was made, and the SDK is not loaded
            client.close()


@hookimpl
def register_wire_formats() -> list[WireFormat]:
    return [AnthropicMessages()]
