"""The wire format of OpenAI's chat completions, which most servers speak: streamed and whole, on the openai SDK."""

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

from .encoding import encode_message, encode_prefix, grammar_tool_names, is_grammar
from .options import envelope_pieces


class ChatCompletions:
    """See `WireFormat`. Holds nothing but what its pooled connections are."""

    name = "chat_completions"

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

        def send(exchange: Exchange) -> httpx2.Response:
            from hermes.plugins.wire.openai_sdk import post

            return post("/chat/completions", body, target, exchange, is_stream=parameters.stream)

        names = grammar_tool_names(body[0], target) if is_grammar(target) and parameters.may_call else ()
        return JsonStream(
            send,
            Assembler(target, names),
            timeouts,
            is_stream=parameters.stream,
            expected="a chat completion",
            where=target.base_url,
        )

    def close(self) -> None:
        client = sys.modules.get("hermes.plugins.wire.openai_sdk")
        if client is not None:  # else no call was made, and the SDK is not loaded
            client.close()


@hookimpl
def register_wire_formats() -> list[WireFormat]:
    return [ChatCompletions()]
