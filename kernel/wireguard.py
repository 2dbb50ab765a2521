"""A wire format under guard: what it raises beside WireFault is a fault of that plugin, with its name.

A reply that a wire format cannot read (null where a list should be, B066) is neither the user's error nor a permanent
one of the provider, and must not pass for a fault of the runtime's own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hermes.kernel.errors import HermesError, PluginError
from hermes.kernel.messages import Message, ModelReply
from hermes.kernel.providers import Delta, Parameters, Stream, Target, Timeouts, ToolSchema, WireFault, WireFormat

_LOG = logging.getLogger("hermes.plugins")


class GuardedWire:
    """`wire` as it is, but for what it raises; `plugin` brought it."""

    def __init__(self, wire: WireFormat, plugin: str) -> None:
        self.name, self.wire, self.plugin = wire.name, wire, plugin

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        with self.guard("prefix"):
            return self.wire.prefix(system, tools, target)

    def encode(self, message: Message, target: Target) -> bytes:
        with self.guard("encode"):
            return self.wire.encode(message, target)

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        with self.guard("envelope"):
            return self.wire.envelope(prefix, fragments, parameters, target)

    def open(self, body: Sequence[bytes], parameters: Parameters, target: Target, timeouts: Timeouts) -> Stream:
        with self.guard("open"):
            return _GuardedStream(self.wire.open(body, parameters, target, timeouts), self)

    def close(self) -> None:
        self.wire.close()

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        try:
            yield
        except (WireFault, HermesError):
            raise
        except Exception as error:
            _LOG.warning("wire format %s: %s failed", self.name, what, exc_info=True)
            what = f"wire format {self.name} (plugin {self.plugin}) failed in {what}"
            text = f"{what}: {type(error).__name__}: {error}"
            raise PluginError(text, plugin=self.plugin) from error


@dataclass(frozen=True, slots=True)
class _GuardedStream:
    stream: Stream
    wire: GuardedWire

    def __iter__(self) -> Iterator[Delta]:
        deltas = iter(self.stream)
        while True:
            with self.wire.guard("the stream"):
                try:
                    delta = next(deltas)
                except StopIteration:
                    return
            yield delta

    def reply(self) -> ModelReply:
        with self.wire.guard("the reply"):
            return self.stream.reply()

    def abort(self) -> None:
        self.stream.abort()
