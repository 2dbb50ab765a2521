"""Sessions as a store keeps them: rows, and the Protocols of a store and of one open session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from hermes.kernel.effects import CallRecord, Change
from hermes.kernel.messages import Image, Json, Message, Text, ToolCall, ToolResult
from hermes.kernel.providers import ToolSchema

if TYPE_CHECKING:
    from pathlib import Path

    from hermes.kernel.config.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Times are seconds since the epoch (UTC). `end_reason` is the last turn's, "" while it has none or runs."""

    id: str
    title: str
    created: float
    updated: float
    directory: str
    model: str
    source: str
    parent: str | None
    parent_call: str | None
    end_reason: str
    turns: int
    messages: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """One frozen prefix. `memory` and other sections are inside `system`; `tools` as they were serialised from."""

    number: int
    system: str
    tools: tuple[ToolSchema, ...]
    why: str


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that has no end in the journal: another process is in it, or died."""

    id: int
    started: float
    iterations: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a turn began with: the TurnState as `begin_turn` was given it, and what the journal held then.

    `messages` are those that were live, before any Record of the turn; `call_ids` those of all messages of earlier
    turns, superseded ones included.
    """

    state: Json
    messages: tuple[Message, ...]
    call_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class InboxRow:
    id: int
    kind: Literal["input", "steer"]
    parts: tuple[Text | Image, ...]

    @property
    def text(self) -> str:
        return "\n".join(p.text for p in self.parts if isinstance(p, Text) and p.origin != "context")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session as the journal has it. `call_ids` are all that were ever used, superseded rows included."""

    info: SessionInfo
    messages: tuple[Message, ...]
    call_ids: frozenset[str]
    state: Mapping[str, Json]
    epoch: Epoch | None
    open_turn: OpenTurn | None
    inbox: tuple[InboxRow, ...]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """`id` is stable; `superseded` rows were rewritten and stay searchable."""

    id: int
    turn: int
    time: float
    message: Message
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class SearchHit:
    session: SessionInfo
    message_id: int
    role: str
    snippet: str
    time: float


class SessionSearch(Protocol):
    """What a tool may read of past sessions."""

    def search(self, query: str, *, limit: int, exclude: str | None = None) -> Sequence[SearchHit]: ...

    def messages(self, session_id: str) -> Sequence[StoredMessage]: ...

    def recent(self, *, limit: int, exclude: str | None = None) -> Sequence[SessionInfo]: ...


class SessionLog(Protocol):
    """One session, open for writing by this process. Every method may be called from any thread.

    Raises StoreError when it cannot write. What returned is durable.
    """

    id: str

    def claim(self) -> None:
        """Take the session for this process's turn; SessionBusy when a living process has it."""
        ...

    def release(self) -> None: ...

    def load(self) -> Snapshot: ...

    def begin_turn(self, state: Json) -> int:
        """A new turn row with the TurnState at its start; returns the turn's number in the session (from 1)."""
        ...

    def record(
        self,
        turn: int,
        changes: Sequence[Change],
        *,
        iterations: int,
        attempts: int,
        epoch: Epoch | None = None,
        outcomes: Sequence[Json] = (),
        starting: Sequence[ToolCall] = (),
    ) -> None:
        """All of the changes in one transaction, with the turn's counters and the new epoch when there is one.

        `starting` are calls that are started in the same transaction, as by `start_calls`.

        An `Append.taken` or `Rewrite.taken` row that is already taken is an error: nothing is placed twice.
        """
        ...

    def beginning(self, turn: int) -> Beginning:
        """Raises StoreError when the session has no such turn."""
        ...

    def outcomes(self, turn: int) -> Sequence[Json]:
        """What was recorded of a turn as `outcomes`, in the order in which it was; none when nothing was."""
        ...

    def put_inbox(self, kind: Literal["input", "steer"], parts: Sequence[Text | Image]) -> int: ...

    def waiting(self, kind: Literal["input", "steer"]) -> Sequence[InboxRow]: ...

    def drop_inbox(self, ids: Sequence[int]) -> None:
        """Mark rows as given back to the caller: they are not handed out again."""
        ...

    def start_calls(self, turn: int, calls: Sequence[ToolCall]) -> None: ...

    def link_child(self, call_id: str, child: str) -> None: ...

    def finish_call(self, result: ToolResult) -> bool:
        """Write result and state in one transaction; False, and nothing written, when it already had a result."""
        ...

    def calls(self, call_ids: Sequence[str]) -> Mapping[str, CallRecord]: ...

    def set_title(self, title: str) -> None: ...


class SessionStore(SessionSearch, Protocol):
    name: str

    def create(
        self,
        *,
        directory: str,
        model: str,
        source: str = "cli",
        title: str = "",
        parent: str | None = None,
        parent_call: str | None = None,
    ) -> str: ...

    def open(self, session_id: str) -> SessionLog: ...

    def find(self, id_or_title: str) -> str:
        """The id for a whole id, a unique prefix of one, or an exact title; SessionNotFound names the candidates."""
        ...

    def children(self, session_id: str) -> Sequence[SessionInfo]: ...

    def info(self, session_id: str) -> SessionInfo: ...

    def list(
        self, *, directory: str | None = None, limit: int | None = None, children: bool = False
    ) -> Sequence[SessionInfo]:
        """Newest activity first; children (delegated sessions) only when asked for."""
        ...

    def fork(self, session_id: str) -> str:
        """A new session with the same live messages, at rest (an open end is closed)."""
        ...

    def delete(self, session_id: str) -> None:
        """With its children; SessionBusy while a living process has it."""
        ...

    def path(self) -> str: ...

    def close(self) -> None: ...


class StoreFactory(Protocol):
    """What a store plugin registers: nothing is opened before `open_store`."""

    name: str

    def open_store(self, settings: SessionSettings, home: Path) -> SessionStore:
        """Raises StoreError when the store cannot be opened."""
        ...
