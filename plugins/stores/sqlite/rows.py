"""How the kernel's values stand in columns, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hermes.kernel.effects import CallRecord
from hermes.kernel.errors import StoreError
from hermes.kernel.messages import (
    Image,
    Json,
    Message,
    Text,
    ToolResult,
    clean,
    message_from_json,
    message_to_json,
    part_from_json,
    part_to_json,
)
from hermes.kernel.providers import ToolSchema
from hermes.kernel.sessions import Epoch, InboxRow, SessionInfo

INFO = "id, title, created, updated, directory, model, source, parent, parent_call, end_reason, turns, messages"
"""The columns of `sessions` that `info_from_row` takes."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise StoreError for stored text that is not what was written: a disk may change bytes and SQLite not notice."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{what} cannot be read ({type(error).__name__}: {error}); its session is damaged: "
            "`hermes sessions delete` removes it"
        ) from error


def _plain(value: object) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, (set, frozenset)) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode


def encode(value: Json) -> str:
    """JSON text that SQLite takes: a lone surrogate, which no UTF-8 can hold, becomes U+FFFD."""
    return clean(_encode(value))


def info_from_row(row: Sequence[Any]) -> SessionInfo:
    return SessionInfo(*row)


def encode_message(message: Message) -> str:
    return encode(message_to_json(message))


def encode_result(result: ToolResult) -> str:
    return encode(part_to_json(result))


def encode_call_ids(message: Message) -> str | None:
    calls = message.calls
    return encode([call.id for call in calls]) if calls else None


def messages_from(bodies: Iterable[str]) -> list[Message]:
    """Decode many bodies in one go, which is a third cheaper than one by one.

    Raises StoreError for what is not a message.
    """
    with reading("a stored message"):
        return [message_from_json(body) for body in json.loads(f"[{','.join(bodies)}]")]


def encode_parts(parts: Iterable[Text | Image]) -> str:
    return encode([part_to_json(part) for part in parts])


def inbox_from_row(row: tuple[int, Any, str]) -> InboxRow:
    parts = (part_from_json(part) for part in json.loads(row[2]))
    return InboxRow(row[0], row[1], tuple(p for p in parts if isinstance(p, (Text, Image))))


def call_from_row(row: Sequence[Any]) -> CallRecord:
    """From id, status, arguments, result, child."""
    result = part_from_json(json.loads(row[3])) if row[3] else None
    return CallRecord(row[0], row[1], json.loads(row[2]), result if isinstance(result, ToolResult) else None, row[4])


def encode_tools(tools: Iterable[ToolSchema]) -> str:
    return encode([[tool.name, tool.description, dict(tool.parameters)] for tool in tools])


def epoch_of(connection: sqlite3.Connection, session: int) -> Epoch | None:
    row = connection.execute(
        "SELECT number, system, tools, why FROM epochs WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    return Epoch(row[0], row[1], tuple(ToolSchema(*tool) for tool in json.loads(row[2])), row[3]) if row else None


def state_of(connection: sqlite3.Connection, session: int, now: float) -> dict[str, Json]:
    rows = connection.execute(
        "SELECT key, value FROM state WHERE session = ? AND (expires IS NULL OR expires > ?)", (session, now)
    )
    return {key: json.loads(value) for key, value in rows}
