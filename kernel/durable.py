"""One session's log that never fails: when the store cannot write, say so once and go on in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from hermes.kernel.effects import Append, CallRecord, Change, Rewrite
from hermes.kernel.errors import StoreError
from hermes.kernel.journal import MemoryLog
from hermes.kernel.messages import Image, Json, Text, ToolCall, ToolResult
from hermes.kernel.sessions import Beginning, InboxRow, SessionLog, Snapshot

_LOG = logging.getLogger("hermes.store")
T = TypeVar("T")


class DurableLog:
    """A SessionLog in front of another; `stored` turns False, for good, when a write of that one fails.

    `snapshot` gives the session as the runtime knows it, from which memory goes on; `failed(text)` is told once.
    """

    def __init__(self, log: SessionLog, snapshot: Callable[[], Snapshot], failed: Callable[[str], None]) -> None:
        self.id = log.id
        self.stored = True
        self._log = log
        self._snapshot, self._failed = snapshot, failed
        self._known: dict[str, CallRecord] = {}
        self._said: dict[int, InboxRow] = {}
        self._lock = threading.Lock()
        self._later: Callable[..., None] | None = None
        self._later_ids: frozenset[str] = frozenset()

    def _try(self, write: Callable[[SessionLog], T], snapshot: Callable[[], Snapshot] | None = None) -> T:
        log = self._log
        try:
            return write(log)
        except StoreError as error:
            self._give_up(log, error, snapshot or self._snapshot)
            return write(self._log)

    def _give_up(self, log: SessionLog, error: StoreError, snapshot: Callable[[], Snapshot]) -> None:
        """Go on in memory, once: two threads may come here with the same broken log."""
        with self._lock:
            if log is not self._log:
                return
            if not self.stored:
                raise error
            _LOG.error("the store failed, going on in memory: %s", error)
            known = snapshot()
            known = replace(known, inbox=(*known.inbox, *self._said.values()))
            self._log = MemoryLog.adopt(known, calls=self._known)
            self.stored = False
        self._failed(str(error))

    def claim(self) -> None:
        self.flush()
        self._try(lambda log: log.claim(), self._log.load)

    def release(self) -> None:
        self.flush()
        self._try(lambda log: log.release())

    def load(self) -> Snapshot:
        self.flush()
        snapshot = self._log.load()
        self._said = {row.id: row for row in snapshot.inbox}
        return snapshot

    def begin_turn(self, state: Json) -> int:
        self.flush()
        return self._try(lambda log: log.begin_turn(state))

    def record(self, turn: int, changes: Sequence[Change], **counters: Any) -> None:
        """`counters`: iterations, attempts, and maybe epoch, outcomes and starting, as in SessionLog."""
        self.flush()
        self._try(lambda log: log.record(turn, changes, **counters))
        if any(isinstance(c, (Append, Rewrite)) and any(m.results for m in c.messages) for c in changes):
            self._known.clear()  # their results stand in the conversation now
        for change in changes:
            if isinstance(change, (Append, Rewrite)):
                self._forget_said(change.taken)

    def beginning(self, turn: int) -> Beginning:
        self.flush()
        return self._log.beginning(turn)

    def outcomes(self, turn: int) -> Sequence[Json]:
        self.flush()
        return self._log.outcomes(turn)

    def record_later(self, turn: int, changes: Sequence[Change], calls: Sequence[ToolCall], **counters: Any) -> None:
        """Like `record`, but durable only with the start of these new calls, in one transaction, or with `flush`.

        Whoever does something that the world can see calls `flush` first; every other write does it by itself.
        """
        self.flush()
        with self._lock:
            self._later_ids = frozenset(c.id for c in calls)
            self._later = partial(self.record, turn, changes, **counters)

    def flush(self) -> None:
        """Make durable what `record_later` kept."""
        if (later := self._take_later()) is not None:
            later()

    def _take_later(self) -> Callable[..., None] | None:
        if self._later is None:
            return None
        with self._lock:
            later, self._later, self._later_ids = self._later, None, frozenset()
        return later

    def put_inbox(self, kind: Literal["input", "steer"], parts: Sequence[Text | Image]) -> int:
        row = self._try(lambda log: log.put_inbox(kind, parts))
        self._said[row] = InboxRow(row, kind, tuple(parts))
        return row

    def waiting(self, kind: Literal["input", "steer"]) -> Sequence[InboxRow]:
        self.flush()
        return self._try(lambda log: log.waiting(kind))

    def drop_inbox(self, ids: Sequence[int]) -> None:
        self.flush()
        self._try(lambda log: log.drop_inbox(ids))
        self._forget_said(ids)

    def _forget_said(self, ids: Sequence[int]) -> None:
        for row_id in ids:
            self._said.pop(row_id, None)

    def start_calls(self, turn: int, calls: Sequence[ToolCall]) -> None:
        if (later := self._take_later()) is not None:
            later(starting=calls)
        else:
            self._try(lambda log: log.start_calls(turn, calls))
        self._known.update({c.id: CallRecord(c.id, "started", c.arguments) for c in calls})

    def link_child(self, call_id: str, child: str) -> None:
        self.flush()
        self._try(lambda log: log.link_child(call_id, child))

    def finish_call(self, result: ToolResult) -> bool:
        self.flush()
        done = self._try(lambda log: log.finish_call(result))
        if (before := self._known.get(result.call_id)) is not None:
            self._known[result.call_id] = replace(before, status=result.status, result=result)
        return done

    def calls(self, call_ids: Sequence[str]) -> Mapping[str, CallRecord]:
        if self._later_ids.issuperset(call_ids):
            return {}  # they are new: the message that holds them is not even written
        self.flush()
        return self._try(lambda log: log.calls(call_ids))

    def set_title(self, title: str) -> None:
        self.flush()
        self._try(lambda log: log.set_title(title))
