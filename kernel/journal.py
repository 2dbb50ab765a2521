"""What every session store must do, as one that keeps it in memory.

`MemoryStore` is the reference: the SQLite store is held against it. An ephemeral run and the simulator use it, and one
of its logs is what a run goes on with when the disk fails (`MemoryLog.adopt`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hermes.kernel.errors import SessionBusy, SessionNotFound
from hermes.kernel.memorylog import Clock, MemoryLog, Row, Session, Shared
from hermes.kernel.sessions import SearchHit, SessionInfo, StoredMessage
from hermes.kernel.storing import (
    AmbiguousSession,
    StoreUnavailable,
    at_rest,
    fork_title,
    new_session_id,
    not_found,
    search_text,
    title_of,
)

__all__ = ["AmbiguousSession", "Clock", "MemoryLog", "MemoryStore", "StandInStore"]


class MemoryStore:
    """All sessions of a process that keeps none. Safe for threads: one lock, held for a few microseconds."""

    name = "memory"

    def __init__(self, *, clock: Clock = time.time) -> None:
        self._shared = Shared(clock)
        self._clock, self._lock = clock, self._shared.lock
        self._sessions: dict[str, Session] = {}

    def create(
        self,
        *,
        directory: str,
        model: str,
        source: str = "cli",
        title: str = "",
        parent: str | None = None,
        parent_call: str | None = None,
    ) -> str:
        with self._lock:
            now = self._clock()
            session_id = new_session_id(now)
            while session_id in self._sessions:
                session_id = new_session_id(now)
            title = title_of(title)
            info = SessionInfo(session_id, title, now, now, directory, model, source, parent, parent_call, "", 0, 0)
            self._sessions[session_id] = Session(info, title, now)
            return session_id

    def open(self, session_id: str) -> MemoryLog:
        return MemoryLog(self._shared, self._session(session_id))

    def find(self, id_or_title: str) -> str:
        with self._lock:
            if id_or_title in self._sessions:
                return id_or_title
            fitting = [
                s.described()
                for s in self._sessions.values()
                if id_or_title and (s.info.id.startswith(id_or_title) or s.title == id_or_title)
            ]
        if not fitting:
            raise not_found(id_or_title)
        if len(fitting) > 1:
            raise AmbiguousSession(id_or_title, [i.id for i in sorted(fitting, key=lambda i: -i.updated)])
        return fitting[0].id

    def children(self, session_id: str) -> Sequence[SessionInfo]:
        with self._lock:
            return [s.described() for s in self._sessions.values() if s.info.parent == session_id]

    def info(self, session_id: str) -> SessionInfo:
        with self._lock:
            return self._session(session_id).described()

    def list(
        self, *, directory: str | None = None, limit: int | None = None, children: bool = False
    ) -> Sequence[SessionInfo]:
        with self._lock:
            found = [
                s.described()
                for s in self._sessions.values()
                if (children or s.info.parent is None) and directory in (None, s.info.directory)
            ]
        return sorted(found, key=lambda info: (-info.updated, info.id))[:limit]

    def fork(self, session_id: str) -> str:
        with self._lock:
            source = self._session(session_id)
            now, info = self._clock(), source.info
            copy_id = self.create(
                directory=info.directory, model=info.model, source=info.source, title=fork_title(source.title)
            )
            copy = self._sessions[copy_id]
            messages = at_rest([row.message for row in source.live], source.calls)
            copy.rows = [Row(self._shared.next_id(), 0, now, message) for message in messages]
            copy.live = list(copy.rows)
            copy.call_ids = {call.id for message in messages for call in message.calls}
            copy.state, copy.epoch = dict(source.state), source.epoch
            return copy_id

    def delete(self, session_id: str) -> None:
        with self._lock:
            family = self._family(session_id)
            for member in family:
                holder = self._session(member).holder
                if holder and holder():
                    raise SessionBusy(member, "this process")
            for member in family:
                del self._sessions[member]

    def path(self) -> str:
        return ":memory:"

    def close(self) -> None:
        """Nothing to close: what was stored stays readable."""

    def search(self, query: str, *, limit: int, exclude: str | None = None) -> Sequence[SearchHit]:
        """Messages with every word of the query, newest first; delegated sessions are not searched."""
        words = [word for word in query.replace('"', " ").replace("*", " ").casefold().split() if word]
        hits: list[SearchHit] = []
        for info in self.recent(limit=len(self._sessions), exclude=exclude) if words else ():
            for row in reversed(self.messages(info.id)):
                text = search_text(row.message)
                if all(word in text.casefold() for word in words):
                    snippet = " ".join(text.split())[:200]
                    hits.append(SearchHit(info, row.id, row.message.role, snippet, row.time))
        return hits[:limit]

    def messages(self, session_id: str) -> Sequence[StoredMessage]:
        with self._lock:
            rows = self._session(session_id).rows
            return [StoredMessage(r.id, r.turn, r.time, r.message, r.superseded_in is not None) for r in rows]

    def recent(self, *, limit: int, exclude: str | None = None) -> Sequence[SessionInfo]:
        while exclude in self._sessions and (parent := self._sessions[exclude].info.parent):
            exclude = parent
        return [info for info in self.list() if info.id != exclude][:limit]

    def _session(self, session_id: str) -> Session:
        if session := self._sessions.get(session_id):
            return session
        raise not_found(session_id)

    def _family(self, session_id: str) -> Sequence[str]:
        members = [self._session(session_id).info.id]
        for member in members:  # grows while it is walked
            members.extend(s.info.id for s in self._sessions.values() if s.info.parent == member)
        return members


class StandInStore(MemoryStore):
    """What a run goes on with when its store could not be opened, and why it could not: a session that is not found
    here may well be there."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self._problem = problem

    def find(self, id_or_title: str) -> str:
        try:
            return super().find(id_or_title)
        except AmbiguousSession:
            raise
        except SessionNotFound:
            raise StoreUnavailable(self._problem) from None
