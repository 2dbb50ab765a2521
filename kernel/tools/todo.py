"""The tool `todo`: the model's own plan of a longer task, kept as session state so that a crash does not lose it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Json
from hermes.kernel.roles import Tool, ToolContext, ToolReturn
from hermes.kernel.tools.reading import as_flag, as_list, as_text, compact, cut

STATE_KEY = "todo"
STATUSES = ("pending", "in_progress", "completed", "cancelled")
REMOVED = "removed"
CONTENT_MAX_CHARS = 4000
ITEMS_MAX = 256
ID_MAX_CHARS = 64
NO_CONTENT = "(no description)"
REMINDER = "Your plan (todo) before the conversation was shortened; what is finished is left out:"


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    content: str
    status: str

    @property
    def is_active(self) -> bool:
        return self.status in ("pending", "in_progress")


@dataclass(frozen=True, slots=True)
class Change:
    """One item as the model sent it: "" where it said nothing, or nothing that is valid."""

    id: str
    content: str
    status: str


def run(context: ToolContext, todos: Json = None, merge: Json = None) -> ToolReturn:
    """Read, replace or merge the list; the result is always the whole list."""
    items = items_of(context.state)
    given = as_list(todos, "todos")
    if given is None:
        return ToolReturn(_shown(items))
    changes = [_read(value, number) for number, value in enumerate(given, 1)]
    items = (_merged(items, changes) if as_flag(merge) else _replaced(changes))[:ITEMS_MAX]
    return ToolReturn(_shown(items), state={STATE_KEY: [_as_json(item) for item in items]})


def items_of(state: Mapping[str, Json]) -> list[Item]:
    """The list in the session's state; what is not an item there is left out."""
    stored = state.get(STATE_KEY)
    return [
        Item(as_text(v.get("id")), as_text(v.get("content")), as_text(v.get("status")))
        for v in (stored if isinstance(stored, list) else ())
        if isinstance(v, dict)
    ]


def reminder(state: Mapping[str, Json]) -> str:
    """What the model must see of its plan after a compression, or "": active items (it does finished ones again)."""
    marks = {"pending": "[ ]", "in_progress": "[>]"}
    lines = [f"- {marks[item.status]} {item.id}. {item.content}" for item in items_of(state) if item.is_active]
    return "\n".join([REMINDER, *lines]) if lines else ""


def _read(value: Json, number: int) -> Change:
    """One entry of `todos`; a bare text is an item. Raises ToolError naming the entry for anything else."""
    if isinstance(value, str):
        value = {"content": value}
    if not isinstance(value, dict):
        raise ToolError(
            f"todos[{number - 1}] must be an object with id, content, status, not "
            f"{compact(value)[:80]}; nothing changed"
        )
    status = as_text(value.get("status")).lower().replace("-", "_").replace(" ", "_")
    return Change(
        as_text(value.get("id"))[:ID_MAX_CHARS],
        cut(as_text(value.get("content")), CONTENT_MAX_CHARS),
        status if status in (*STATUSES, REMOVED) else "",
    )


def _replaced(changes: Sequence[Change]) -> list[Item]:
    """The new list. Of entries with the same id the last counts, at its own place."""
    last = {change.id: place for place, change in enumerate(changes)}
    kept = [c for place, c in enumerate(changes) if (not c.id or last[c.id] == place) and c.status != REMOVED]
    return _with_ids([_new(change) for change in kept])


def _merged(items: Sequence[Item], changes: Sequence[Change]) -> list[Item]:
    """Update known ids in place, append the others, take out those with status "removed"."""
    by_id = {item.id: item for item in items}
    added: list[Item] = []
    for change in changes:
        known = by_id.get(change.id)
        if known is not None:
            by_id[change.id] = replace(
                known, content=change.content or known.content, status=change.status or known.status
            )
        elif change.status != REMOVED:
            new = _new(change)
            if change.id:
                by_id[change.id] = new
            else:
                added.append(new)
    return _with_ids([item for item in (*by_id.values(), *added) if item.status != REMOVED])


def _new(change: Change) -> Item:
    return Item(change.id, change.content or NO_CONTENT, change.status or "pending")


def _with_ids(items: Sequence[Item]) -> list[Item]:
    """Give each item without an id the next free number: two of them never become one."""
    taken = {item.id for item in items}
    numbers = (str(n) for n in range(1, len(items) + len(taken) + 2))
    free = (n for n in numbers if n not in taken)
    return [item if item.id else replace(item, id=next(free)) for item in items]


def _as_json(item: Item) -> dict[str, str]:
    return {"id": item.id, "content": item.content, "status": item.status}


def _shown(items: Sequence[Item]) -> str:
    counts = Counter(item.status for item in items)
    summary = {"total": len(items), **{status: counts[status] for status in STATUSES}}
    return compact({"todos": [_as_json(item) for item in items], "summary": summary})


TOOL = Tool(
    name="todo",
    description=(
        "Your plan for a task of three or more steps. Without todos: read it. With todos: replace the list, or with "
        "merge=true update items by id and append new ones. The order is the priority; keep exactly one item "
        "in_progress, and set it completed as soon as it is done. Returns the whole list."
    ),
    parameters={
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "content": {"type": "string"},
                        "status": {
                            "type": "string",
                            "description": "pending, in_progress, completed, cancelled; with merge also removed",
                        },
                    },
                },
            },
            "merge": {"type": "boolean", "description": "default false: replace the list"},
        },
    },
    run=run,
    toolset="kernel",
    writes=("todo",),
    idempotent=True,
)
