"""The tool `memory`: what the agent keeps for later sessions, behind the MemoryBackend role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Json
from hermes.kernel.roles import Finding, MemoryOperation, MemoryOutcome, MemoryTarget, Tool, ToolContext, ToolReturn
from hermes.kernel.tools.reading import as_list, as_text, as_whole_number, compact

FAILURES_KEY = "memory_failures"
FAILURES_MAX = 3
NOTE = "Saved; it shows in the system prompt of the next session. Do not repeat the call."

Action = Literal["add", "replace", "remove"]
ACTIONS: dict[str, Action] = {
    "add": "add", "save": "add", "replace": "replace", "update": "replace", "remove": "remove", "delete": "remove",
}  # fmt: skip
TARGETS: dict[str, MemoryTarget] = {"": "memory", "memory": "memory", "user": "user"}


def run(
    context: ToolContext,
    target: Json = None,
    action: Json = None,
    content: Json = None,
    old_text: Json = None,
    operations: Json = None,
) -> ToolReturn:
    """Apply one operation, or a list of them: all or none."""
    if context.memory is None:
        raise ToolError("memory is switched off (memory.backend: none); go on without it")
    chosen = TARGETS.get(as_text(target).lower())
    if chosen is None:
        raise ToolError(f"target must be memory or user, not {as_text(target)[:40]!r}; nothing was saved")
    wanted = _operations(action, content, old_text, operations)
    return _answer(context.memory.apply(chosen, wanted), chosen, context.state)


def _operations(action: Json, content: Json, old_text: Json, operations: Json) -> list[MemoryOperation]:
    batch = as_list(operations, "operations")
    if not batch:
        return [_operation({"action": action, "content": content, "old_text": old_text}, "")]
    return [_operation(value, f"operations[{number}]: ") for number, value in enumerate(batch)]


def _operation(value: Json, where: str) -> MemoryOperation:
    if not isinstance(value, dict):
        raise ToolError(f"{where}must be an object with action, content, old_text; nothing was saved")
    name = as_text(value.get("action")).lower()
    action = ACTIONS.get(name)
    if action is None:
        said = f"not {name[:40]!r}" if name else "and it is missing"
        raise ToolError(f"{where}action must be add, replace or remove, {said}; nothing was saved")
    return MemoryOperation(action, as_text(value.get("content")), as_text(value.get("old_text")))


def _answer(outcome: MemoryOutcome, target: MemoryTarget, state: Mapping[str, Json]) -> ToolReturn:
    """The result: without the entries when it went well (a model that sees them saves again), with them when not."""
    failures = as_whole_number(state.get(FAILURES_KEY)) or 0
    if outcome.ok:
        shown = {"ok": True, "target": target, "usage": outcome.usage, "message": f"{outcome.message} {NOTE}"}
        return ToolReturn(compact(shown), state={FAILURES_KEY: 0} if failures else None)
    failures += 1
    message = outcome.message
    if failures >= FAILURES_MAX:
        message += f" This is failure {failures} in a row: leave memory as it is and go on with the task."
    refused: dict[str, Json] = {"ok": False, "target": target, "error": message, "usage": outcome.usage}
    if outcome.entries:
        refused["entries"] = list(outcome.entries)
    return ToolReturn(compact(refused), state={FAILURES_KEY: failures}, failed=True)


def _assess(arguments: Mapping[str, Json], context: ToolContext) -> Finding:
    subject = (
        as_text(arguments.get("content")) or as_text(arguments.get("operations")) or as_text(arguments.get("old_text"))
    )
    return Finding("memory.ask_before_write is on", subject=subject)


def make(*, ask_before_write: bool = False) -> Tool:
    assess: Callable[[Mapping[str, Json], ToolContext], Finding | None] | None = _assess if ask_before_write else None
    return Tool(
        name="memory",
        description=(
            "Keep a fact for later sessions. target=user: who the user is and what they prefer; target=memory: your "
            "notes on their machine, projects and conventions. replace and remove find the one entry that holds "
            "old_text. operations: several changes, all or none, judged by the final size."
        ),
        parameters={
            "type": "object",
            "properties": {
                "target": {"type": "string", "description": "memory or user"},
                "action": {"type": "string", "description": "add, replace or remove"},
                "content": {"type": "string", "description": "the entry, for add and replace"},
                "old_text": {"type": "string", "description": "a unique part of the entry, for replace and remove"},
                "operations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "action": {"type": "string"},
                            "content": {"type": "string"},
                            "old_text": {"type": "string"},
                        },
                    },
                },
            },
        },
        run=run,
        toolset="kernel",
        writes=("memory",),
        assess=assess,
    )


TOOL = make()
