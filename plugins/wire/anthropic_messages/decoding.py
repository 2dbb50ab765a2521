"""From events, or one whole message, to the neutral reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from hermes.kernel.messages import (
    Json,
    ModelReply,
    Part,
    Refusal,
    Replay,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    clean,
)
from hermes.kernel.providers import Delta, Target, WireFault
from hermes.plugins.wire.jsontext import entries, inner, read_arguments
from hermes.plugins.wire.toolnames import own_name

from .blocks import TEXT, TOOL_USE, Block, Blocks
from .thoughts import REDACTED, THINKING
from .usage import merge_usage, raise_error, read_usage, stop_reason

_DELTAS: Mapping[str, tuple[str, str]] = {
    "text_delta": (TEXT, "text"),
    "thinking_delta": (THINKING, "thinking"),
    "signature_delta": (THINKING, "signature"),
    "input_json_delta": (TOOL_USE, "partial_json"),
}
"""What a delta adds to: kind of block, and the field that holds the piece. Others (citations) are nobody's."""
_EVENTS = frozenset(
    ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
     "message_stop", "message")
)  # fmt: skip


class Assembler:
    """Collects one reply. `feed` takes the events in order, `reply` what they come to."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._blocks = Blocks()
        self._usage: Mapping[str, Json] = {}
        self._stop: StopReason | None = None
        self._explanation = ""
        self._model = ""
        self.was_fed = False
        self.is_done = False
        """True after `message_stop`, or for a reply that came whole."""

    @property
    def is_finished(self) -> bool:
        return self._stop is not None

    def feed(self, event: Json) -> Iterator[Delta]:
        """Take one event; raises WireFault for an error and for what is no event. Unknown ones are ignored."""
        if not isinstance(event, Mapping):
            raise WireFault("invalid", f"an event that is no object: {str(event)[:120]}", phase="stream")
        raise_error(event)
        kind, index = event.get("type"), event.get("index")
        self.was_fed = self.was_fed or kind in _EVENTS
        match kind:
            case "message_start":
                self._head(inner(event, "message"))
            case "content_block_start":
                yield from self._start(index, inner(event, "content_block"))
            case "content_block_delta":
                yield from self._delta(index, inner(event, "delta"))
            case "content_block_stop":
                self._blocks.stop(index)
            case "message_delta":
                self._end(inner(event, "delta"))
                self._usage = merge_usage(self._usage, event.get("usage"))
            case "message_stop":
                self.is_done = True
            case "message":
                yield from self.whole(event)

    def whole(self, reply: Json) -> Iterator[Delta]:
        """Take a message that came as one object; raises WireFault when it is none."""
        if isinstance(reply, Mapping):
            raise_error(reply)
        if not isinstance(reply, Mapping) or not ("content" in reply and "stop_reason" in reply):
            text = json.dumps(reply)
            raise WireFault("invalid", f"the reply is no message: {text[:200]}", body=text[:4000], phase="stream")
        self.was_fed = True
        self._head(reply)
        for index, block in enumerate(entries(reply["content"])):
            if isinstance(block, Mapping):
                yield from self._start(index, block)
                self._blocks.stop(index)
        self._end(reply)

    def rest(self) -> Iterator[Delta]:
        """Nothing is held back."""
        return iter(())

    # ---- Events -----------------------------------------------------------------------------------------------------

    def _head(self, message: Mapping[str, Json]) -> None:
        self._model = str(message.get("model") or self._model)
        self._usage = merge_usage(self._usage, message.get("usage"))

    def _end(self, delta: Mapping[str, Json]) -> None:
        if (stop := stop_reason(delta.get("stop_reason"))) is not None:
            self._stop = stop
        if explanation := inner(delta, "stop_details").get("explanation"):
            self._explanation = clean(str(explanation)).strip()

    def _start(self, index: Json, content: Mapping[str, Json]) -> Iterator[Delta]:
        block = self._blocks.start(index, content)
        if block is None:
            return
        if block.kind == TOOL_USE:
            yield Delta("call", own_name(clean(block.name)))
        elif block.kind in (TEXT, THINKING):
            yield from self._show(block, content.get(block.kind))

    def _delta(self, index: Json, delta: Mapping[str, Json]) -> Iterator[Delta]:
        kind, name = _DELTAS.get(str(delta.get("type")), ("", ""))
        piece = delta.get(name)
        if not isinstance(piece, str) or not piece:
            return
        block = self._blocks.find(index, kind)
        if name == "signature":
            block.signature = piece
        elif kind == TOOL_USE:
            block.shown.pieces.append(piece)
        else:
            yield from self._show(block, piece)

    def _show(self, block: Block, piece: Json) -> Iterator[Delta]:
        if not isinstance(piece, str) or not piece or not (shown := block.shown.add(piece)):
            return
        if block.kind == TEXT:
            yield Delta("text", shown)
        elif block.kind == THINKING:
            yield Delta("thinking", shown)

    # ---- The whole --------------------------------------------------------------------------------------------------

    def reply(self) -> ModelReply:
        """What the events come to. Raises WireFault("invalid") when nothing came that could be a reply."""
        blocks = self._blocks.in_order()
        is_cut = self._stop in (StopReason.LENGTH, StopReason.CUT) or (self._stop is None and not self.is_done)
        parts = [part for b in blocks if (part := self._part(b, is_cut and b is blocks[-1])) is not None]
        if not parts and self._stop is None:
            raise WireFault("invalid", "the reply was empty: no text, no call and no stop reason", phase="stream")
        if self._stop is StopReason.REFUSAL and self._explanation:
            parts.append(Refusal(self._explanation))
        return ModelReply(tuple(parts), self._reason(parts), read_usage(self._usage), self._model)

    def _reason(self, parts: Sequence[Part]) -> StopReason:
        stop = self._stop
        if stop is None:
            stop = StopReason.OTHER if self.is_done else StopReason.CUT
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        if has_calls and stop in (StopReason.STOP, StopReason.OTHER):
            return StopReason.TOOL_CALLS
        return StopReason.OTHER if stop is StopReason.TOOL_CALLS and not has_calls else stop

    def _part(self, block: Block, is_cut: bool) -> Part | None:
        issuer = self._target.issuer
        match block.kind:
            case "text":
                text = block.shown.whole()
                return Text(text) if text.strip() else None
            case "thinking":
                signature = {"signature": block.signature} if block.signature else {}
                text = block.shown.whole()
                return Thinking(text, Replay(issuer, THINKING, signature)) if text.strip() or signature else None
            case "redacted_thinking":
                return Thinking("", Replay(issuer, REDACTED, {"data": block.data})) if block.data else None
            case "tool_use":
                name = own_name(clean(block.name))
                arguments, problem = read_arguments(name, block.raw_input, is_cut)
                return ToolCall(clean(block.id), name, arguments, problem)
            case _:
                return None
