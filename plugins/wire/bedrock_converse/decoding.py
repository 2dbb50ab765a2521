"""From the events of ConverseStream, or one whole reply of Converse, to the neutral reply."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hermes.kernel.messages import (
    Json,
    ModelReply,
    Part,
    Replay,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
    clean,
    clean_json,
)
from hermes.kernel.providers import Delta, Target, WireFault
from hermes.plugins.wire.jsontext import count, entries, inner, read_arguments
from hermes.plugins.wire.shown import Shown
from hermes.plugins.wire.toolnames import own_name

from .encoding import REASONING

STOP_REASONS: Mapping[str, StopReason] = {
    **dict.fromkeys(("end_turn", "stop_sequence"), StopReason.STOP),
    "tool_use": StopReason.TOOL_CALLS,
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), StopReason.LENGTH),
    **dict.fromkeys(("guardrail_intervened", "content_filtered"), StopReason.REFUSAL),
    **dict.fromkeys(("malformed_model_output", "malformed_tool_use"), StopReason.OTHER),
}
"""All of the service model (botocore 1.44); what is not here is OTHER."""

_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "malformed_tool_use"})
"""Reasons after which the last call may be half."""

Kind = Literal["text", "thinking", "call"]


@dataclass(slots=True)
class _Block:
    """One block as it grows. `arguments` are those of a call that came whole."""

    kind: Kind
    shown: Shown = field(default_factory=Shown)
    id: str = ""
    name: str = ""
    arguments: Json = None
    signature: str = ""
    redacted: list[str] = field(default_factory=list)


class Assembler:
    """Collects one reply, from events in their order or from the whole."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._blocks: list[_Block] = []
        self._at: dict[int, _Block] = {}
        self._stop: str | None = None
        self._usage: Mapping[str, Json] = {}
        self._is_whole = False
        self.was_fed = False

    @property
    def is_finished(self) -> bool:
        """True when all has been said; only the usage may follow."""
        return self._stop is not None

    def feed(self, name: str, event: Mapping[str, Json]) -> Iterator[Delta]:
        """Take one event of the stream; one with an unknown name says nothing."""
        self.was_fed = True
        match name:
            case "contentBlockStart":
                yield from self._start(event.get("contentBlockIndex"), inner(inner(event, "start"), "toolUse"))
            case "contentBlockDelta":
                yield from self._delta(event.get("contentBlockIndex"), inner(event, "delta"))
            case "messageStop":
                self._stop = str(event.get("stopReason") or "")
            case "metadata":
                self._usage = inner(event, "usage")

    def whole(self, reply: Json) -> Iterator[Delta]:
        """Take a reply that came as one object; raises WireFault when it is none."""
        if not isinstance(reply, Mapping) or not (reply.get("output") or reply.get("stopReason")):
            text = f"the reply has no output: {str(reply)[:200]}"
            raise WireFault("invalid", text, body=str(reply)[:4000], phase="stream")
        self.was_fed = self._is_whole = True
        for block in entries(inner(inner(reply, "output"), "message").get("content")):
            yield from self._whole_block(block)
        self._stop = str(reply.get("stopReason") or "")
        self._usage = inner(reply, "usage")

    # ---- Blocks -----------------------------------------------------------------------------------------------------

    def _start(self, index: Json, use: Mapping[str, Json]) -> Iterator[Delta]:
        """Only calls are announced; one that is announced again, under its own id, is the same."""
        if not use:
            return
        call_id, held = str(use.get("toolUseId") or ""), self._at.get(index) if isinstance(index, int) else None
        if held is not None and held.kind == "call" and held.id == call_id:
            return
        block = self._open("call", index)
        block.id, block.name = call_id, str(use.get("name") or "")
        yield Delta("call", own_name(clean(block.name)))

    def _delta(self, index: Json, delta: Mapping[str, Json]) -> Iterator[Delta]:
        if isinstance(text := delta.get("text"), str):
            yield from self._show("text", index, text)
        if reasoning := inner(delta, "reasoningContent"):
            yield from self._reason(index, reasoning)
        if isinstance(piece := inner(delta, "toolUse").get("input"), str):
            self._block("call", index).shown.add(piece)

    def _reason(self, index: Json, reasoning: Mapping[str, Json]) -> Iterator[Delta]:
        """A union: a piece of the text, of the signature, or of what may not be read."""
        if isinstance(text := reasoning.get("text"), str):
            yield from self._show("thinking", index, text)
        if isinstance(signature := reasoning.get("signature"), str):
            self._block("thinking", index).signature += signature
        if isinstance(redacted := reasoning.get("redactedContent"), str):
            self._block("thinking", index).redacted.append(redacted)

    def _show(self, kind: Literal["text", "thinking"], index: Json, text: str) -> Iterator[Delta]:
        if piece := self._block(kind, index).shown.add(text):
            yield Delta(kind, piece)

    def _block(self, kind: Kind, index: Json) -> _Block:
        """The block of an index; without one the last. Another kind under a used index is another block."""
        held = self._at.get(index) if isinstance(index, int) else self._blocks[-1] if self._blocks else None
        return held if held is not None and held.kind == kind else self._open(kind, index)

    def _open(self, kind: Kind, index: Json) -> _Block:
        block = _Block(kind)
        self._blocks.append(block)
        if isinstance(index, int):
            self._at[index] = block
        return block

    def _whole_block(self, block: Json) -> Iterator[Delta]:
        index = len(self._blocks)
        if use := inner(block, "toolUse"):
            yield from self._start(index, use)
            self._blocks[-1].arguments = use.get("input")
        if reasoning := inner(block, "reasoningContent"):
            yield from self._reason(index, {**reasoning, **inner(reasoning, "reasoningText")})
        if isinstance(text := block.get("text"), str):
            yield from self._show("text", index, text)

    # ---- The whole --------------------------------------------------------------------------------------------------

    def reply(self) -> ModelReply:
        """What came, in the model's order. Raises WireFault("invalid") when nothing came that could be a reply."""
        if self._stop is None and not self._blocks:
            raise WireFault("invalid", "the reply was empty: no content and no stop reason", phase="stream")
        parts = tuple(part for block in self._blocks for part in self._part(block))
        return ModelReply(parts, self._stop_reason(parts), read_usage(self._usage), self._target.model)

    def _part(self, block: _Block) -> Iterator[Part]:
        match block.kind:
            case "text":
                if (text := block.shown.whole()).strip():
                    yield Text(text)
            case "thinking":
                replay = self._replay(block)
                if (text := block.shown.whole()).strip() or replay:
                    yield Thinking(text, replay)
            case "call":
                yield self._call(block)

    def _replay(self, block: _Block) -> Replay | None:
        """What must come back with the reasoning; an unsigned one is nobody's to be sent."""
        if block.redacted:
            return Replay(self._target.issuer, REASONING, {"redactedContent": _base64_joined(block.redacted)})
        if block.signature:
            return Replay(self._target.issuer, REASONING, {"signature": block.signature})
        return None

    def _call(self, block: _Block) -> ToolCall:
        name = own_name(clean(block.name))
        if isinstance(block.arguments, Mapping):
            return ToolCall(clean(block.id), name, clean_json(block.arguments))
        raw = block.arguments if isinstance(block.arguments, str) else block.shown.whole()
        is_cut = block is self._blocks[-1] and (self._stop is None or self._stop in _CUT_SHORT)
        arguments, problem = read_arguments(name, raw, is_cut)
        return ToolCall(clean(block.id), name, arguments, problem)

    def _stop_reason(self, parts: tuple[Part, ...]) -> StopReason:
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        if self._stop is None:
            return StopReason.CUT
        reason = STOP_REASONS.get(self._stop, StopReason.OTHER)
        if has_calls and reason in (StopReason.STOP, StopReason.OTHER):
            return StopReason.TOOL_CALLS
        if reason is StopReason.TOOL_CALLS and not has_calls:  # announced, but none came
            return StopReason.OTHER
        return reason


def _base64_joined(pieces: list[str]) -> str:
    """Each piece of a blob is base64 of its own."""
    if len(pieces) == 1:
        return pieces[0]
    return base64.b64encode(b"".join(map(base64.b64decode, pieces))).decode("ascii")


def read_usage(data: Mapping[str, Json]) -> Usage:
    """Converse's buckets are disjoint as they come: `inputTokens` holds nothing that was read from or put into a cache.

    Reasoning is counted within the output, and by no number of its own.
    """
    return Usage(
        count(data, "inputTokens"),
        count(data, "outputTokens"),
        count(data, "cacheReadInputTokens"),
        count(data, "cacheWriteInputTokens"),
    )
