"""What must be true of a session whose process was killed, whatever it was doing: held against files and journal."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.kernel.errors import SessionNotFound
from hermes.kernel.history import repair
from hermes.kernel.messages import Message, ToolCall, ToolResult

Traces = Mapping[str, int]
"""How often each call has left its mark on the world, by the name that the model gave it."""


@dataclass(frozen=True)
class Seen:
    """One session as the journal has it, its delegated ones behind it; `records` by call id."""

    snapshot: Any
    records: Any
    children: tuple[Seen, ...] = ()

    def __iter__(self) -> Iterator[Seen]:
        yield self
        for child in self.children:
            yield from child

    @property
    def id(self) -> str:
        return str(self.snapshot.info.id)

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self.snapshot.messages)

    @property
    def is_unfinished(self) -> bool:
        return self.snapshot.open_turn is not None or any(row.kind == "input" for row in self.snapshot.inbox)

    @property
    def said(self) -> str:
        """What the user said, in the conversation or waiting for it."""
        told = [m.text for m in self.messages if m.role == "user" and not m.origin]
        return "\n".join(told + [row.text for row in self.snapshot.inbox])

    @property
    def calls(self) -> dict[str, ToolCall]:
        return {p.id: p for m in self.messages for p in m.parts if isinstance(p, ToolCall)}

    @property
    def results(self) -> dict[str, ToolResult]:
        return {result.call_id: result for m in self.messages for result in m.results}


def look_at(store: Any, name: str) -> Seen | None:
    """The session of this name; None when there is none yet."""
    try:
        return _seen(store, store.find(name))
    except SessionNotFound:
        return None


def _seen(store: Any, session: str) -> Seen:
    log = store.open(session)
    snapshot = log.load()
    ids = [p.id for m in snapshot.messages for p in m.parts if isinstance(p, ToolCall)]
    return Seen(snapshot, log.calls(ids), tuple(_seen(store, child.id) for child in store.children(session)))


def traces_of(work: Path, name: str) -> Traces:
    found: collections.Counter[str] = collections.Counter()
    for file in (work / f"marks-{name}.txt", *work.glob(f"{name}t*.txt")):
        if file.exists():
            found.update(word for word in file.read_text(encoding="utf-8").split() if word.startswith(f"{name}t"))
    return found


def name_of(call: ToolCall) -> str:
    """JOB.STEP.NUMBER, as the call leaves it in a file; "" of delegate_task, which leaves nothing."""
    given = call.arguments
    match call.name:
        case "mark" | "look":
            return str(given["x"])
        case "terminal":
            return str(given["command"]).split()[1]
        case "write_file":
            return str(given["content"]).split()[0]
        case "patch":
            return str(given["new_string"]).split()[0]
        case _:
            return ""


def wrong_after_a_run(before: Seen | None, after: Seen | None, prompts: list[str], traces: Traces) -> list[str]:
    """What may never be, however the run ended."""
    if after is None:
        return ["the session is gone"] if before or traces else []
    wrong = []
    if before is not None:
        if after.messages[: len(before.messages)] != before.messages:
            wrong.append("stored messages are gone or changed")
        wrong += [f"the user's {p!r} is lost" for p in prompts if p in before.said and p not in after.said]
    wrong += [f"the user's {p!r} stands {n} times" for p in prompts if (n := after.said.count(p)) > 1]
    known = {name_of(call) for seen in after for i, call in seen.calls.items() if i in seen.records}
    wrong += [f"{name} ran and the journal does not know it" for name in traces if name not in known]
    for seen in after:
        for call in seen.calls.values():
            wrong += _wrong_with_call(seen, call, traces.get(name_of(call), 0))
    return wrong


def _wrong_with_call(seen: Seen, call: ToolCall, ran: int) -> list[str]:
    """What a call did, held against what the model is told of it."""
    result, record = seen.results.get(call.id), seen.records.get(call.id)
    status = result.status if result else "open"
    about = f"{call.name} {name_of(call)} is {status} and ran {ran} times"
    wrong = []
    if ran > 1 and call.name != "look":
        wrong.append(about)
    if status == "ok" and not ran and call.name != "delegate_task":
        wrong.append(about)
    if result is not None and ran and "was not run" in result.text:
        wrong.append(f"{about}: {result.text}")
    if result is not None and record is None and status not in ("cancelled", "error", "blocked"):
        wrong.append(f"{about} and never started")
    if result is not None and status == "unknown":
        missing = [word for word in (call.name, record.child) if word and word not in result.text]
        wrong += [f"{about}: the model is not told of {word}" for word in missing]
    return wrong


def wrong_at_the_end(after: Seen | None, *, went_on: bool) -> list[str]:
    """What must hold when the last run has ended by itself; `went_on`: the turn was finished, not replaced."""
    if after is None:
        return ["no session at the end"]
    wrong = []
    for seen in after:
        if seen.snapshot.open_turn is not None:
            wrong.append(f"the turn of {seen.id} is open")
        if seen.messages and (seen.messages[-1].role != "assistant" or seen.messages[-1].calls):
            wrong.append(f"the conversation of {seen.id} is not at rest")
        if list(seen.messages) != list(repair(seen.messages)):
            wrong.append(f"the conversation of {seen.id} is not whole")
    if after.snapshot.inbox:
        wrong.append("something is left in the inbox")
    if went_on:
        cancelled = {i for i, result in after.results.items() if result.status == "cancelled"}
        never = [call.name for i, call in after.calls.items() if i in cancelled]
        wrong += [f"{name} never started and was not run when the turn went on" for name in never]
    return wrong
