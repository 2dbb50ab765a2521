"""What every wire format does in the same way with the parts of a message and the pieces of a body."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from operator import is_

from hermes.kernel.messages import Json, Replay, Text
from hermes.kernel.providers import Target

NO_OUTPUT = "(no output)"
"""In place of a result or a message that has nothing to show: most servers refuse blank texts (B005)."""
_STEER = "<user_message_while_working>\n{}\n</user_message_while_working>"
"""Around what the user said in the middle of a tool message, where the role does not tell."""


def words(part: Text) -> str:
    """A text as it is sent; steering inside a message of another is marked, for nothing else says who speaks."""
    return _STEER.format(part.text) if part.origin == "steer" else part.text


def is_own(replay: Replay | None, target: Target) -> bool:
    """Whether this target issued it: what others issued is never sent."""
    return replay is not None and replay.issuer == target.issuer


def begins_tool_loop(fragments: Sequence[bytes], said: bytes, results: bytes) -> bytes:
    """The first fragment of the assistant in the tool loop at the end of a conversation; b"" when it ends in none.

    `said` and `results` are how fragments of the assistant and those with results begin.
    """
    first = b""
    for fragment in reversed(fragments):
        if fragment.startswith(said):
            first = fragment
        elif not fragment.startswith(results):
            break
    return first


# ---- Bodies ---------------------------------------------------------------------------------------------------------

_GROUP_BYTES = 1 << 18
"""What small fragments are put together to: enough to be sent at once."""


def joined(prefix: bytes, fragments: Sequence[bytes], tail: bytes) -> list[bytes]:
    """The body as pieces: prefix, fragments with commas between, tail. An empty fragment is left out.

    A prefix that does not end with `[` has an item already. Small fragments are put together (a thousand pieces would
    each be walked again by every layer below); large ones are never copied.
    """
    pieces = [prefix]
    comma = b"" if prefix.endswith(b"[") else b","
    sent = fragments if all(fragments) else [fragment for fragment in fragments if fragment]
    ends = list(accumulate(map(len, sent)))
    start = done = 0
    while start < len(sent):
        stop = bisect_left(ends, done + _GROUP_BYTES, start) + 1
        pieces += _grouped(comma, sent[start:stop])
        start, done, comma = stop, ends[min(stop, len(sent)) - 1], b","
    pieces.append(tail)
    return pieces


def without(options: Mapping[str, Json], names: Collection[str]) -> dict[str, Json]:
    """Leave out parameters by name, `reasoning.summary` only a field of one; an object that this empties goes too."""
    kept: dict[str, Json] = {}
    for name, value in options.items():
        if name in names:
            continue
        if isinstance(value, dict):
            fields = {field: inner for field, inner in value.items() if f"{name}.{field}" not in names}
            if value and not fields:
                continue
            value = fields
        kept[name] = value
    return kept


_joined: dict[int, tuple[Sequence[bytes], bytes]] = {}
"""Groups that were put together, by the identity of their first fragment: a conversation's old ones stay the same."""
_JOINED_MOST = 64


def _grouped(comma: bytes, group: Sequence[bytes]) -> tuple[bytes, ...]:
    """The fragments of a group, the last of them as it is when it is large by itself."""
    if len(group[-1]) < _GROUP_BYTES:
        return (comma, _join(group))
    return (comma, group[-1]) if len(group) == 1 else (comma, b",".join(group[:-1]), b",", group[-1])


def _join(group: Sequence[bytes]) -> bytes:
    kept = _joined.get(id(group[0]))
    if kept is not None and len(kept[0]) == len(group) and all(map(is_, kept[0], group)):
        return kept[1]
    whole = b",".join(group)
    if len(whole) >= _GROUP_BYTES:  # the last group grows with every call
        if len(_joined) >= _JOINED_MOST:
            _joined.clear()
        _joined[id(group[0])] = (group, whole)
    return whole


class Fragment(bytes):
    """One message as it is sent, with the place where a cache mark may be put.

    `mark_at` counts bytes from the end to the place where a wire format's mark is put; 0: it cannot carry one.
    """

    mark_at: int = 0

    @classmethod
    def of(cls, data: bytes, mark_at: int) -> Fragment:
        fragment = cls(data)
        fragment.mark_at = mark_at
        return fragment


def with_marks(fragments: Sequence[bytes], mark: bytes, most: int) -> list[bytes]:
    """Put the mark into the last `most` fragments that can carry one; the others are the same objects."""
    marked = list(fragments)
    for place in range(len(marked) - 1, -1, -1):
        if most <= 0:
            break
        fragment = marked[place]
        if at := getattr(fragment, "mark_at", 0):
            marked[place] = fragment[:-at] + mark + fragment[-at:]
            most -= 1
    return marked
