"""The Converse API of Amazon Bedrock, streamed and whole, on botocore (the core of boto3)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes import hookimpl
from hermes.kernel.messages import Message
from hermes.kernel.providers import Parameters, Stream, Target, Timeouts, ToolSchema, WireFormat

if TYPE_CHECKING:
    from hermes.plugins.wire.http.connection import Reply
    from hermes.plugins.wire.http.dialling import Exchange

from .encoding import encode_message, encode_prefix
from .families import family_of
from .options import envelope_pieces, has_tools


class BedrockConverse:
    """See `WireFormat`. Holds nothing but what its pooled connections are.

    Converse cannot forbid calls (there is no `none` among its tool choices), so `may_call=False` changes nothing in
    the body; the turn drops calls that come back.
    """

    name = "bedrock_converse"

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        return encode_prefix(system, tools, target)

    def encode(self, message: Message, target: Target) -> bytes:
        return encode_message(message, target)

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        return envelope_pieces(prefix, fragments, parameters, target)

    def open(self, body: Sequence[bytes], parameters: Parameters, target: Target, timeouts: Timeouts) -> Stream:
        from .decoding import Assembler
        from .stream import ConverseStream

        is_stream = parameters.stream and (family_of(target).streams_tools or not has_tools(body))

        def send(exchange: Exchange) -> Reply:
            from .sdk import post

            return post(body, target, exchange, is_stream=is_stream)

        return ConverseStream(send, Assembler(target), timeouts, is_stream=is_stream, where=target.name)

    def close(self) -> None:
        client = sys.modules.get("hermes.plugins.wire.bedrock_converse.sdk")
        if client is not None:  # else no call was made, and the SDK is not loaded
            client.close()


@hookimpl
def register_wire_formats() -> list[WireFormat]:
    return [BedrockConverse()]
