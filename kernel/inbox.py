"""What was said to a session and stands in no message yet: on disk first, placed exactly once, in its order."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hermes.kernel.durable import DurableLog
from hermes.kernel.effects import Steer
from hermes.kernel.history import repair
from hermes.kernel.messages import Image, Json, Text, UserInput, clean
from hermes.kernel.sessions import InboxRow, Snapshot


class Inbox:
    """What the user says while a turn runs, handed to the turn once."""

    def __init__(self, log: DurableLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._waiting: list[Steer] = []
        self._seen: set[int] = set()
        self._kept: set[int] = set()

    def steer(self, text: str, *, keep: bool) -> None:
        """Say something to the running turn; on disk before this returns.

        With `keep` it waits for a turn of its own when no message of this one takes it; else it is given back.
        """
        said = clean(text)
        row = self._log.put_inbox("steer", (Text(said),))
        if keep:
            self._kept.add(row)
        self.put(row, said)

    def put(self, inbox_id: int, text: str) -> None:
        """Let a row wait for the turn; one that was put before is passed over, else it would be placed twice."""
        with self._lock:
            if inbox_id not in self._seen:
                self._seen.add(inbox_id)
                self._waiting.append(Steer(inbox_id, text))

    def take(self) -> tuple[Steer, ...]:
        if not self._waiting:
            return ()
        with self._lock:
            taken, self._waiting = tuple(self._waiting), []
        return taken

    def hold_back(self, ids: Collection[int]) -> None:
        """Rows that are a turn's own input are not handed out beside it."""
        with self._lock:
            self._seen.update(ids)
            self._waiting = [steer for steer in self._waiting if steer.inbox_id not in ids]

    def give_back(self, left: Sequence[Steer]) -> tuple[str, ...]:
        """The texts that no message took and that the caller gets back; those to be kept go on waiting on disk."""
        given = [steer for steer in left if steer.inbox_id not in self._kept]
        if given:
            self._log.drop_inbox([steer.inbox_id for steer in given])
        return tuple(steer.text for steer in given)


# ---- What a turn begins with ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Input:
    """What a turn begins with; `given` None goes on with the turn that a crash cut off."""

    given: UserInput | None
    text: str = ""
    schema: Mapping[str, Json] | None = None


def said(
    log: DurableLog, snapshot: Snapshot, text: str, images: Sequence[Image], schema: Mapping[str, Json] | None = None
) -> Input:
    """Put a message on disk, for a turn that takes with it whatever was said before and waits: nothing is lost."""
    parts = message_parts(text, images)
    row = log.put_inbox("input", parts)
    earlier = [r for r in waiting(log, snapshot) if r.id < row]
    all_parts = (*(p for r in earlier for p in r.parts), *parts)
    return Input(UserInput(all_parts, (*(r.id for r in earlier), row)), text, schema)


def message_parts(text: str, images: Sequence[Image]) -> tuple[Text | Image, ...]:
    return (*((Text(clean(text)),) if text.strip() else ()), *images)


def next_input(log: DurableLog, snapshot: Snapshot, *, together: bool) -> Input | None:
    """The turn that a crash cut off, else what waits: the first message of it, or all `together`; None without both."""
    if snapshot.open_turn is None:
        rows = waiting(log, snapshot)
        return _of(rows if together else rows[:1]) if rows else None
    beginning = log.beginning(snapshot.open_turn.id)
    schema: Json = (beginning.state or {}).get("schema")
    if repair(beginning.messages) != list(snapshot.messages):
        return Input(None, "", schema)
    # it recorded nothing, so its input is among what waits: without it, the answer before would be given as its own
    rows = sorted((*log.waiting("input"), *log.waiting("steer")), key=lambda row: row.id)
    return _of(rows, schema) if rows else None


def waiting(log: DurableLog, snapshot: Snapshot) -> list[InboxRow]:
    """What waits for a turn of its own, in its order; steering too, once the turn that it was said to has ended."""
    rows = [*log.waiting("input"), *(log.waiting("steer") if snapshot.open_turn is None else ())]
    return sorted(rows, key=lambda row: row.id)


def _of(rows: Sequence[InboxRow], schema: Mapping[str, Json] | None = None) -> Input:
    given = UserInput(tuple(p for row in rows for p in row.parts), tuple(row.id for row in rows))
    return Input(given, rows[-1].text, schema)
