"""From events, or one whole response, to the neutral reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from hermes.kernel.messages import Json, ModelReply, Part, Refusal, StopReason, Text, ToolCall, clean
from hermes.kernel.providers import Delta, Target, WireFault
from hermes.plugins.wire.jsontext import entries, inner
from hermes.plugins.wire.toolnames import own_name

from .items import is_narration, parts_of, said, thought
from .misplaced import with_answer, without_leaked_call
from .slots import Slot, Slots
from .usage import INCOMPLETE, read_usage

Event: TypeAlias = Mapping[str, Json]

_ITEM_TYPES = frozenset({"message", "reasoning", "function_call"})
_PIECES: Mapping[str, tuple[str, str, str]] = {
    "response.output_text": ("message", "text", "text"),
    "response.refusal": ("message", "refusal", "refusal"),
    "response.reasoning_summary_text": ("reasoning", "summary", "text"),
    "response.reasoning_text": ("reasoning", "reasoning", "text"),
    "response.function_call_arguments": ("function_call", "arguments", "arguments"),
}
"""What comes as `.delta` and `.done`: type of its item, channel, and the field of `.done` that has the whole."""
_ENDS: Mapping[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",  # proxies
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Events that end a response, with its status when it states none that ends it (some say `completed` of all)."""
_FAILED = frozenset({"failed", "cancelled"})


class Assembler:
    """Collects one reply from items that are done, and from their pieces where the stream broke before that.

    What the last event repeats of them is read only when nothing else came: it may be null or incomplete (B066).
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._slots = Slots()
        self._status = ""
        self._reason: Json = None
        self._usage: Json = None
        self._model = ""
        self._last: Event = {}
        self.was_fed = False
        self.is_done = False
        """True after `[DONE]`, or for a reply that came whole."""

    @property
    def is_finished(self) -> bool:
        return bool(self._status)

    def feed(self, event: Json) -> Iterator[Delta]:
        """Take one event; raises WireFault for an error in place of one, and for what is no event.

        Types that are not known are left alone: servers send pings, limits, and events of tools of their own.
        """
        if not isinstance(event, Mapping):
            raise WireFault("invalid", f"an event that is no object: {str(event)[:120]}", phase="stream")
        kind = str(event.get("type") or "")
        if kind in ("error", "response.error") or (not kind and event.get("error")):
            raise _fault(event, "the provider reported an error inside the reply")
        if not kind.startswith("response.") or self._is_repeated(event):
            return
        self.was_fed = True
        self._note(inner(event, "response"))
        name, _, step = kind.rpartition(".")
        if kind in _ENDS:
            yield from self._end(inner(event, "response"), _ENDS[kind])
        elif name == "response.output_item":
            yield from self._item(event, step)
        elif name in _PIECES:
            yield from self._piece(event, name, step)

    def whole(self, reply: Json) -> Iterator[Delta]:
        """Take a response that came as one object; raises WireFault when it is none."""
        if not isinstance(reply, Mapping) or not (reply.get("error") or "output" in reply or "output_text" in reply):
            text = json.dumps(reply)
            raise WireFault("invalid", f"the reply is no response: {text[:200]}", body=text[:4000], phase="stream")
        self.was_fed = True
        self._note(reply)
        yield from self._end(reply, str(reply.get("status") or "completed"))

    def rest(self) -> Iterator[Delta]:
        """Nothing is held back."""
        return iter(())

    # ---- Events -----------------------------------------------------------------------------------------------------

    def _is_repeated(self, event: Event) -> bool:
        """True for an event that came twice in a row, as its number shows."""
        number = event.get("sequence_number")
        is_repeated = bool(number) and number == self._last.get("sequence_number") and event == self._last
        self._last = event
        return is_repeated

    def _note(self, response: Event) -> None:
        self._usage = response.get("usage") or self._usage
        self._model = str(response.get("model") or self._model)

    def _item(self, event: Event, step: str) -> Iterator[Delta]:
        item = inner(event, "item")
        item_type = str(item.get("type"))
        if item_type not in _ITEM_TYPES:
            return
        slot = self._slots.at(item_type, event)
        if slot.item is not None:  # said again, or announced too late
            return
        if step == "done":
            yield from _not_yet_shown(slot, item)
            slot.item = item
        else:
            slot.begin(item)
        if item_type == "function_call" and not slot.is_announced and isinstance(name := item.get("name"), str):
            slot.is_announced = True
            yield Delta("call", own_name(clean(name)))

    def _piece(self, event: Event, name: str, step: str) -> Iterator[Delta]:
        item_type, channel, field = _PIECES[name]
        slot = self._slots.at(item_type, event)
        piece = event.get("delta" if step == "delta" else field)
        if slot.item is not None or not isinstance(piece, str) or not piece:
            return
        shown, between = slot.part(channel, event)
        if step == "delta":
            piece = shown.add(piece)
        else:
            before, shown.pieces = shown.whole(), [piece]
            piece = _after(before, clean(piece))
        if piece and channel != "arguments":
            yield Delta(_kind(channel, slot.begun), between + piece)

    def _end(self, response: Event, status: str) -> Iterator[Delta]:
        if response.get("status") in _ENDS.values():
            status = str(response["status"])
        if status in _FAILED or response.get("error"):
            raise _fault(response, f"the response {status}, and the provider gave no reason")
        self._status = status
        self._reason = inner(response, "incomplete_details").get("reason")
        if self._slots.has_output:
            return
        text = response.get("output_text")
        output = entries(response.get("output")) or ([{"type": "message", "content": text}] if text else [])
        for index, item in enumerate(output):
            yield from self._item({"output_index": index, "item": item}, "done")

    # ---- The whole ------------------------------------------------------------------------------------------------

    def reply(self) -> ModelReply:
        """What the events come to. Raises WireFault("invalid") when nothing came that could be a reply."""
        finish = self._finish()
        is_cut = finish in (StopReason.LENGTH, StopReason.CUT)
        parts = parts_of([slot.whole() for slot in self._slots.in_order()], self._target, is_cut=is_cut)
        if not parts and not self._status:
            raise WireFault("invalid", "the reply was empty: no text, no call and no end", phase="stream")
        if self._target.quirk("answer_in_reasoning"):
            parts = with_answer(parts)
        if (before := without_leaked_call(parts)) is not None:
            parts, finish = before, StopReason.CUT
        return ModelReply(tuple(parts), self._stop(finish, parts), read_usage(self._usage), self._model)

    def _finish(self) -> StopReason:
        if not self._status:
            return StopReason.OTHER if self.is_done else StopReason.CUT
        if self._status == "completed":
            return StopReason.STOP
        return INCOMPLETE.get(str(self._reason), StopReason.CUT)

    def _stop(self, finish: StopReason, parts: Sequence[Part]) -> StopReason:
        if finish not in (StopReason.STOP, StopReason.OTHER):
            return finish
        kinds = {type(part) for part in parts}
        if ToolCall in kinds:
            return StopReason.TOOL_CALLS
        if Text in kinds or finish is StopReason.OTHER:
            return finish
        if Refusal in kinds:
            return StopReason.REFUSAL
        return StopReason.OTHER if self._target.quirk("reasoning_alone_is_incomplete") else finish


def _kind(channel: str, item: Event) -> Literal["text", "thinking"]:
    """How a channel is shown: narration is no answer."""
    is_thinking = channel in ("summary", "reasoning") or (channel == "text" and is_narration(item))
    return "thinking" if is_thinking else "text"


def _not_yet_shown(slot: Slot, item: Event) -> Iterator[Delta]:
    """What a finished item says beyond what has streamed of it: some servers stream nothing."""
    if slot.type == "reasoning":
        if rest := _after(slot.thinking, clean(thought(item))):
            yield Delta("thinking", rest)
        return
    streamed = {kind: slot.joined(kind) for kind in ("text", "refusal")}
    for kind, text in said(item):
        text, before = clean(text), streamed[kind]
        streamed[kind] = before[len(text) :] if before.startswith(text) else ""
        if rest := _after(before, text):
            yield Delta(_kind(kind, item), rest)


def _after(before: str, whole: str) -> str:
    """The end of a text of which the beginning is known; nothing when it begins otherwise."""
    return whole[len(before) :] if whole.startswith(before) else ""


def _fault(data: Event, otherwise: str) -> WireFault:
    """An error inside a reply, also with status 200 (B056): an object of its own, or spread over the event."""
    error = data.get("error")
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, Mapping):
        error = {name: data[name] for name in ("code", "message", "param") if data.get(name)}
    code = error.get("code") or error.get("type") or ""
    stated = (data.get("status_code"), data.get("status"), error.get("status"), code)
    status = next((value for value in stated if isinstance(value, int) and 400 <= value < 600), None)
    return WireFault(
        "http",
        clean(str(error.get("message") or otherwise)),
        status=status,
        code=code if isinstance(code, str) else "",
        body=json.dumps({"error": error}),
        phase="stream",
    )
