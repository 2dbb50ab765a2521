"""The tool `delegate_task`: hand work to child agents, each with a fresh conversation, and get back what they found."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.kernel.config.settings import DelegateSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Json
from hermes.kernel.roles import ChildResult, ChildTask, Tool, ToolContext, ToolReturn
from hermes.kernel.tools.reading import as_list, as_text, compact

SUMMARIES_MAX_CHARS = 24_000
"""For all summaries of one call together: spec tools 2.5; well under `tools.result_max_chars`."""

SUMMARY_MIN_CHARS = 2_000
TASK_MAX_CHARS = 100_000

STATUSES: dict[EndReason, str] = {
    EndReason.COMPLETED: "completed",
    EndReason.BUDGET_TIME: "timeout",
    EndReason.BUDGET_ITERATIONS: "out_of_budget",
    EndReason.BUDGET_TOKENS: "out_of_budget",
    EndReason.BUDGET_COST: "out_of_budget",
    EndReason.INTERRUPTED: "interrupted",
    EndReason.TERMINATED: "interrupted",
    EndReason.HANGUP: "interrupted",
}
"""How a child's ending is told to the parent; every other ending is "failed"."""

ADVICE = "Answers are the children's own words: check what matters before you rely on it."


def make(limits: DelegateSettings) -> Tool:
    """The tool with the user's real limits in its description."""

    def run(tool_context: ToolContext, **arguments: Json) -> ToolReturn:
        # By keyword: the model's argument is named `context` too.
        if tool_context.depth >= limits.max_depth:
            raise ToolError(
                f"delegation depth limit reached (delegate.max_depth: {limits.max_depth}): do this work yourself"
            )
        tasks = tasks_of(arguments, limits.max_children)
        return _answer(tasks, tool_context.spawn(tasks))

    return Tool(
        name="delegate_task",
        description=(
            "Hand work that can be described on its own to child agents with your tools (not this one, clarify or "
            f"memory) and up to {limits.iterations} steps each. They know nothing of this conversation: put everything "
            f"they need into goal and context. Give one goal, or up to {limits.max_children} tasks that run side by "
            "side. Waits for all, and returns their final answers."
        ),
        parameters=_parameters(limits.max_children),
        run=run,
        toolset="kernel",
        exclusive=True,
        deadline_s=0,
    )


def _parameters(max_children: int) -> dict[str, Json]:
    task: dict[str, Json] = {
        "goal": {"type": "string", "description": "what to do, and what to answer"},
        "context": {"type": "string", "description": "paths, facts, limits, what was tried"},
    }
    items = {"type": "object", "properties": {name: {"type": "string"} for name in task}, "required": ["goal"]}
    tasks = {"type": "array", "items": items, "description": f"at most {max_children}; instead of goal"}
    return {"type": "object", "properties": {**task, "tasks": tasks}}


def tasks_of(arguments: dict[str, Json], max_children: int) -> list[ChildTask]:
    """The children that the arguments ask for; raises ToolError with what to mend.

    With both a goal and tasks, goal and context are what all tasks share.
    """
    goal, context = as_text(arguments.get("goal")), as_text(arguments.get("context"))
    given = as_list(arguments.get("tasks"), "tasks")
    if not given:
        if not goal:
            raise ToolError("goal is missing: say what the child is to do (or give tasks)")
        return [_sized(ChildTask(goal, context), "goal and context")]
    if len(given) > max_children:
        raise ToolError(
            f"{len(given)} tasks, and at most {max_children} children run in one call (delegate.max_children): nothing "
            f"was started. Join tasks, or make calls of {max_children} one after the other."
        )
    shared = "\n\n".join(text for text in (f"Part of: {goal}" if goal else "", context) if text)
    return [_task(value, shared, f"tasks[{place}]") for place, value in enumerate(given)]


def _task(value: Json, shared: str, where: str) -> ChildTask:
    if isinstance(value, str):
        value = {"goal": value}
    if not isinstance(value, dict):
        raise ToolError(
            f"{where} must be an object with goal and context, not {compact(value)[:80]}; nothing was started"
        )
    goal = as_text(value.get("goal"))
    if not goal:
        raise ToolError(f"{where} has no goal; nothing was started")
    context = "\n\n".join(text for text in (shared, as_text(value.get("context"))) if text)
    return _sized(ChildTask(goal, context), where)


def _sized(task: ChildTask, where: str) -> ChildTask:
    chars = len(task.goal) + len(task.context)
    if chars > TASK_MAX_CHARS:
        raise ToolError(
            f"{where}: {chars:,} characters is too much for a child ({TASK_MAX_CHARS:,}); write it to a file and give "
            "the path. Nothing was started."
        )
    return task


def _answer(tasks: Sequence[ChildTask], results: Sequence[ChildResult]) -> ToolReturn:
    limit = max(SUMMARY_MIN_CHARS, SUMMARIES_MAX_CHARS // max(1, len(results)))
    shown = [_shown(place, result, limit) for place, result in enumerate(results)]
    out: dict[str, Json] = {"results": shown}
    if len(results) < len(tasks):
        out["error"] = f"{len(tasks) - len(results)} of {len(tasks)} children gave no result"
    elif any(result.answer for result in results):
        out["note"] = ADVICE
    failed = all(row["status"] != "completed" and not row.get("summary") for row in shown)
    return ToolReturn(compact(out), failed=failed)


def _shown(place: int, result: ChildResult, limit_chars: int) -> dict[str, Json]:
    row: dict[str, Json] = {
        "task": place,
        "status": STATUSES.get(result.reason, "failed"),
        "summary": shortened(result.answer or "", limit_chars, result.session_id),
        "iterations": result.iterations,
        "seconds": round(result.seconds, 1),
        "tokens": {"input": result.usage.prompt_tokens, "output": result.usage.output_tokens},
        "session": result.session_id,
    }
    if result.reason is not EndReason.COMPLETED:
        row["reason"] = result.reason.value
    return row


def shortened(answer: str, limit_chars: int, session_id: str) -> str:
    """The answer when it fits, else head and tail (3 to 1, at line ends) around a line that says where all of it is."""
    if len(answer) <= limit_chars:
        return answer
    line = f"\n[… {{missing:,}} characters left out; the whole answer: session_search(session_id={session_id!r}) …]\n"
    room = limit_chars - len(line) - 8
    head, tail = answer[: room * 3 // 4], answer[len(answer) - room // 4 :]
    if (end := head.rfind("\n")) > len(head) * 3 // 4:
        head = head[:end]
    if 0 <= (start := tail.find("\n")) < len(tail) // 4:
        tail = tail[start + 1 :]
    return head + line.format(missing=len(answer) - len(head) - len(tail)) + tail
