"""The wire format of OpenAI's chat completions, which most servers speak: streamed and whole, on the openai SDK."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hermes import hookimpl
from hermes.kernel.messages import Message
from hermes.kernel.providers import Parameters, Stream, Target, Timeouts, ToolSchema, WireFormat

from .encoding import encode_message, encode_prefix, envelope_pieces, grammar_tool_names, is_grammar


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
        from .stream import ChatStream

        names = grammar_tool_names(body[0], target) if is_grammar(target) and parameters.may_call else ()
        return ChatStream(body, parameters, target, timeouts, names)

    def close(self) -> None:
        client = sys.modules.get(f"{__name__}.client")
        if client is not None:  # else no call was made, and the SDK is not loaded
            client.close()


@hookimpl
def register_wire_formats() -> list[WireFormat]:
    return [ChatCompletions()]
