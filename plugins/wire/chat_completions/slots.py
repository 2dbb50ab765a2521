"""Tool calls as they arrive in pieces: which piece belongs to which call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.kernel.messages import Json

_KNOWN = frozenset({"index", "id", "type", "function", "name", "arguments"})


@dataclass(slots=True)
class Slot:
    """One call in the making. `fields` holds what the issuer added and wants back, such as Gemini's signature."""

    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    fields: dict[str, Json] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def add(self, piece: Json) -> None:
        """Take a piece of the arguments; a whole object that is sent again, or grown, is taken once (B048)."""
        if isinstance(piece, (dict, list)):
            self.pieces = [json.dumps(piece, ensure_ascii=False)]
            return
        if not isinstance(piece, str) or not piece:
            return
        if self.pieces and piece[:1] == "{" and is_object(self.arguments):
            if piece.startswith(self.arguments):
                self.pieces = [piece]
                return
            if not self.arguments.strip("{} \n"):  # an empty object as placeholder before the real one
                self.pieces = [piece]
                return
        self.pieces.append(piece)


def is_object(text: str) -> bool:
    """True for a whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


class Slots:
    """The calls of one reply, from deltas with indices, without, reused, out of order, or whole."""

    def __init__(self) -> None:
        self._slots: list[Slot] = []
        self._by_index: dict[int, Slot] = {}

    def add(self, entry: Json) -> str | None:
        """Take one entry of `tool_calls`; gives the name of a call that has just become known, else None."""
        if not isinstance(entry, Mapping):
            return None
        function = entry.get("function")
        if not isinstance(function, Mapping):
            function = entry  # name and arguments at the top
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call_id = entry.get("id")
        call_id = "" if call_id is None else str(call_id)
        slot = self._find(entry.get("index"), call_id, name, function.get("arguments"))
        slot.id = slot.id or call_id
        is_new_name = bool(name) and not slot.name
        slot.name = name or slot.name
        slot.add(function.get("arguments"))
        for key, value in entry.items():
            if key not in _KNOWN and value is not None:
                slot.fields[key] = value
        return name if is_new_name else None

    def in_order(self) -> list[Slot]:
        """By index where every call has one, else as they began."""
        if any(slot.index is None for slot in self._slots):
            return self._slots
        return sorted(self._slots, key=lambda slot: slot.index or 0)

    def _find(self, index: Json, call_id: str, name: str, arguments: Json) -> Slot:
        if isinstance(index, int) and not isinstance(index, bool):
            held = self._by_index.get(index)
            if held is None or self._is_another(held, call_id, name, arguments):
                held = self._by_index[index] = self._open(index)
            return held
        if call_id and (same := next((s for s in self._slots if s.id == call_id), None)):
            # Two whole calls under one id are two calls (B046), a continuation has no name.
            return self._open(None) if name and is_object(same.arguments) else same
        last = self._slots[-1] if self._slots else None
        if last is None or (call_id and last.id) or (name and last.name and is_object(last.arguments or "{}")):
            return self._open(None)
        return last

    @staticmethod
    def _is_another(held: Slot, call_id: str, name: str, arguments: Json) -> bool:
        """True when a delta with a used index begins a new call: a new id with a name, or a second whole object.

        Some servers make up a new id for every delta, but send the name once.
        """
        if not name or not held.name:
            return False
        if call_id and held.id and call_id != held.id:
            return True
        whole = arguments if isinstance(arguments, str) else ""
        return name != held.name and not call_id and is_object(held.arguments) and is_object(whole)

    def _open(self, index: int | None) -> Slot:
        slot = Slot(index)
        self._slots.append(slot)
        return slot
