"""Content blocks as they arrive: which event belongs to which block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.kernel.messages import Json
from hermes.plugins.wire.shown import Shown

from .thoughts import REDACTED, THINKING

TEXT, TOOL_USE = "text", "tool_use"
_KNOWN = frozenset((TEXT, TOOL_USE, THINKING, REDACTED))


@dataclass(slots=True)
class Block:
    """One block in the making; those of other kinds (server tools) are kept so that their deltas are nobody's.

    `given` is what a call's `input` was when it began: some servers send all of it there and no deltas.
    """

    kind: str
    id: str = ""
    name: str = ""
    given: Json = None
    signature: str = ""
    data: Json = None
    shown: Shown = field(default_factory=Shown)
    is_whole: bool = False

    @property
    def raw_input(self) -> str:
        """The arguments as the model wrote them; "" when it wrote none."""
        if self.shown.pieces:
            return "".join(self.shown.pieces)
        if isinstance(self.given, str):
            return self.given
        return json.dumps(self.given) if self.given else ""


class Blocks:
    """The blocks of one reply, from events that may be late, repeated, without an index or with a used one."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int | None, Block]] = []
        self._by_index: dict[int, Block] = {}

    def start(self, index: Json, content: Mapping[str, Json]) -> Block | None:
        """Open a block; None when the event only repeats the start of an open one."""
        kind, call_id = str(content.get("type")), str(content.get("id") or "")
        held = self._by_index.get(index) if isinstance(index, int) else None
        if held is not None and not held.is_whole and (held.kind, held.id) == (kind, call_id):
            return None
        block = Block(kind, call_id, str(content.get("name") or ""), content.get("input"))
        block.signature = str(content.get("signature") or "")
        block.data = content.get("data")
        return self._open(index, block)

    def find(self, index: Json, kind: str) -> Block:
        """The block that a delta of this kind belongs to; a delta whose block never began begins one."""
        held = self._by_index.get(index) if isinstance(index, int) else self._last
        if held is not None and (held.kind == kind or held.kind not in _KNOWN):
            return held
        last = self._last
        if held is not None and last is not None and last.kind == kind and not last.is_whole:
            return last
        return self._open(index, Block(kind))

    def stop(self, index: Json) -> None:
        if (held := self._by_index.get(index) if isinstance(index, int) else self._last) is not None:
            held.is_whole = True

    def in_order(self) -> list[Block]:
        """By index where each block has its own, else as they began."""
        indices = [index for index, _ in self._blocks if index is not None]
        if len(set(indices)) < len(self._blocks):
            return [block for _, block in self._blocks]
        return [block for _, block in sorted(self._blocks, key=lambda pair: pair[0] or 0)]

    @property
    def _last(self) -> Block | None:
        return self._blocks[-1][1] if self._blocks else None

    def _open(self, index: Json, block: Block) -> Block:
        number = index if isinstance(index, int) else None
        self._blocks.append((number, block))
        if number is not None:
            self._by_index[number] = block
        return block
