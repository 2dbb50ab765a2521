"""The output items of one response as they arrive in pieces: which event belongs to which item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.kernel.messages import Json
from hermes.plugins.wire.jsontext import inner
from hermes.plugins.wire.shown import Shown

from .items import said, thought

_BETWEEN = {"summary": "\n\n", "reasoning": "\n\n"}
"""What stands between the parts of a channel; nothing in the others."""


@dataclass(slots=True)
class Slot:
    """One item in the making: as it was announced (`begun`), as it streams, and as it was in the end (`item`).

    What streams is kept by channel ("text", "refusal", "summary", "reasoning", "arguments") and number of the part.
    """

    type: str
    index: int | None
    id: str
    begun: Mapping[str, Json] = field(default_factory=dict)
    item: Mapping[str, Json] | None = None
    streamed: dict[tuple[str, int], Shown] = field(default_factory=dict)
    is_announced: bool = False

    def begin(self, item: Mapping[str, Json]) -> None:
        """Take an announced item, without what is sealed: that is whole only in the end."""
        self.begun = {name: value for name, value in item.items() if name != "encrypted_content"}

    def is_another(self, item: Mapping[str, Json]) -> bool:
        """True when this place belongs to another item already: some proxies give each the same index."""
        known = self.item or self.begun
        name = "call_id" if self.type == "function_call" else "id"
        if name == "id" and self.item is None:  # Copilot gives one item a new id in each event
            return False
        return bool(known.get(name) and item.get(name) and known[name] != item[name])

    def part(self, channel: str, event: Mapping[str, Json]) -> tuple[Shown, str]:
        """The part that an event speaks of, and what must be shown before it when it begins here."""
        number = event.get("summary_index" if channel == "summary" else "content_index")
        key = (channel, number if isinstance(number, int) else 0)
        if key in self.streamed:
            return self.streamed[key], ""
        between = _BETWEEN.get(channel, "") if self.joined(channel) else ""
        return self.streamed.setdefault(key, Shown()), between

    def joined(self, channel: str) -> str:
        """What has streamed of a channel."""
        parts = [shown.whole() for (name, _), shown in sorted(self.streamed.items()) if name == channel]
        return _BETWEEN.get(channel, "").join(parts)

    @property
    def thinking(self) -> str:
        return self.joined("summary") or self.joined("reasoning")

    def whole(self) -> Mapping[str, Json]:
        """The item, filled up with what was streamed where it says nothing: null lists mean empty (B066)."""
        ended = {name: value for name, value in (self.item or {}).items() if value is not None}
        item: dict[str, Json] = {**self.begun, **ended, "type": self.type}
        if self.type == "message" and not any(text for _, text in said(item)):
            text = {"type": "output_text", "text": self.joined("text")}
            item["content"] = [text, {"type": "refusal", "refusal": self.joined("refusal")}]
        elif self.type == "reasoning" and not thought(item):
            item["content"] = [{"type": "reasoning_text", "text": self.thinking}]  # the summary goes back as it came
        elif self.type == "function_call" and not item.get("arguments"):
            item["arguments"] = self.joined("arguments")
        return item


class Slots:
    """The items of one response, from events with indices, without, repeated, or under another id each time."""

    def __init__(self) -> None:
        self._slots: list[Slot] = []

    @property
    def has_output(self) -> bool:
        return any(slot.item is not None or slot.streamed for slot in self._slots)

    def at(self, item_type: str, event: Mapping[str, Json]) -> Slot:
        """The item that an event speaks of; a new one when it was not heard of before."""
        item = inner(event, "item")
        index = event.get("output_index")
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        item_id = str(event.get("item_id") or item.get("id") or "")
        slot = self._known(item_type, index, item_id)
        if slot is None or slot.is_another(item):
            slot = Slot(item_type, index, item_id)
            self._slots.append(slot)
        return slot

    def in_order(self) -> list[Slot]:
        """By index where every item has one, else as they began."""
        if any(slot.index is None for slot in self._slots):
            return self._slots
        return sorted(self._slots, key=lambda slot: slot.index or 0)

    def _known(self, item_type: str, index: int | None, item_id: str) -> Slot | None:
        """By id first, then by index, else the one that is still open."""
        mine = [slot for slot in reversed(self._slots) if slot.type == item_type]
        for slot in mine:
            if item_id and slot.id == item_id and (index is None or slot.index in (None, index)):
                return slot
        if index is not None:
            return next((slot for slot in mine if slot.index == index), None)
        return next((slot for slot in mine if slot.item is None and not (item_id and slot.id)), None)
