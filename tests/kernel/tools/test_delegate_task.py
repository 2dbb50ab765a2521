"""Handing work to children: what is refused before anything starts, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hermes.kernel.arguments import coerce
from hermes.kernel.config.settings import DelegateSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Usage
from hermes.kernel.roles import ChildResult, ChildTask, ToolReturn
from hermes.kernel.tools.delegate_task import make, shortened

TOOL = make(DelegateSettings())


class Children:
    """Spawns children that end as they are told to."""

    def __init__(self, *ends: tuple[EndReason, str | None]) -> None:
        self.ends, self.started = ends, []  # type: ignore[var-annotated]

    def __call__(self, tasks: Sequence[ChildTask]) -> list[ChildResult]:
        self.started.append(list(tasks))
        ends = self.ends or ((EndReason.COMPLETED, "done"),) * len(tasks)
        return [
            ChildResult(f"child-{n}", reason, answer, 4, 2.345, Usage(100, 20, 5))
            for n, (reason, answer) in enumerate(ends)
        ]


def test_one_goal_is_one_child_with_its_context(call: Any) -> None:
    children = Children()
    told = call.give(spawn=children)(TOOL, goal="Count", context="in /tmp")
    assert children.started == [[ChildTask("Count", "in /tmp")]]
    assert told["results"] == [
        {
            "task": 0,
            "status": "completed",
            "summary": "done",
            "iterations": 4,
            "seconds": 2.3,
            "tokens": {"input": 105, "output": 20},
            "session": "child-0",
        }
    ]


def test_a_batch_keeps_its_order_and_shares_goal_and_context(call: Any) -> None:
    children = Children()
    call.give(spawn=children)(TOOL, goal="All", context="C", tasks=[{"goal": "a", "context": "x"}, "b"])
    assert children.started == [[ChildTask("a", "Part of: All\n\nC\n\nx"), ChildTask("b", "Part of: All\n\nC")]]


def test_B114_tasks_as_a_json_text_are_recovered(call: Any) -> None:
    children = Children()
    call.give(spawn=children)(TOOL, tasks='[{"goal":"a"},{"goal":"b"}]', goal=None)
    assert children.started == [[ChildTask("a"), ChildTask("b")]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "goal is missing"),
        ({"goal": "  ", "tasks": []}, "goal is missing"),
        ({"tasks": [{"goal": str(n)} for n in range(4)]}, r"at most 3 children.*nothing was started"),
        ({"tasks": [{"goal": "a"}, {"context": "b"}]}, r"tasks\[1\] has no goal; nothing was started"),
        ({"tasks": [{"goal": "a"}, 5]}, r"tasks\[1\] must be an object"),
        ({"tasks": "a and b"}, "tasks must be a list"),
        ({"goal": "x" * 100_001}, "write it to a file"),
    ],
)
def test_what_cannot_run_starts_no_child(call: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        call(TOOL, **arguments)


def test_B018_the_depth_limit_says_what_to_do(call: Any) -> None:
    with pytest.raises(ToolError, match=r"depth limit reached \(delegate\.max_depth: 1\): do this work yourself"):
        call.give(depth=1)(TOOL, goal="deeper")


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (EndReason.BUDGET_TIME, "timeout"),
        (EndReason.BUDGET_ITERATIONS, "out_of_budget"),
        (EndReason.INTERRUPTED, "interrupted"),
        (EndReason.PROVIDER_FAILED, "failed"),
        (EndReason.CRASHED, "failed"),
    ],
)
def test_B017_a_child_that_ends_badly_is_named_and_the_others_are_kept(
    call: Any, reason: EndReason, status: str
) -> None:
    children = Children((EndReason.COMPLETED, "fine"), (reason, None))
    told = call.give(spawn=children)(TOOL, tasks=[{"goal": "a"}, {"goal": "b"}])
    good, bad = told["results"]
    assert (good["status"], good["summary"]) == ("completed", "fine")
    assert (bad["status"], bad["summary"], bad["reason"]) == (status, "", reason.value)


def test_the_call_failed_only_when_no_child_gave_anything(call: Any, text: Callable[[ToolReturn], str]) -> None:
    result = call.give(spawn=Children((EndReason.AUTH, None)))(TOOL, goal="a")
    assert result.failed
    assert json.loads(text(result))["results"][0]["reason"] == "auth"
    assert (
        call.give(spawn=Children((EndReason.BUDGET_ITERATIONS, "half")))(TOOL, goal="a")["results"][0]["summary"]
        == "half"
    )


def test_long_answers_are_bounded_together_and_say_where_the_whole_is(call: Any) -> None:
    long = "\n".join(f"line {n}" for n in range(9000))
    children = Children(*((EndReason.COMPLETED, long),) * 3)
    told = call.give(spawn=children)(TOOL, tasks=[{"goal": "a"}, {"goal": "b"}, {"goal": "c"}])
    assert len(json.dumps(told)) < 30_000
    summary = told["results"][1]["summary"]
    assert summary.startswith("line 0\n")
    assert summary.endswith("\nline 8999")
    assert "session_search(session_id='child-1')" in summary


@pytest.mark.parametrize("length", [2001, 2500, 100_000])
@pytest.mark.parametrize("line", [7, 10_000])
def test_a_shortened_answer_keeps_its_bound(length: int, line: int) -> None:
    answer = "\n".join("y" * line for _ in range(length // line + 1))[:length]
    assert len(shortened(answer, 2000, "child")) <= 2000


def test_the_description_tells_the_real_limits() -> None:
    tool = make(DelegateSettings(iterations=7, max_children=5))
    assert "up to 7 steps" in tool.description
    assert "up to 5 tasks" in tool.description
    assert tool.exclusive
    assert tool.deadline_s == 0


def test_the_arguments_pass_the_kernels_own_check() -> None:
    _, problem = coerce({"goal": None, "context": None, "tasks": '[{"goal":"a","role":"leaf"}]'}, TOOL.parameters)
    assert problem is None
