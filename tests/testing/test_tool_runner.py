"""The tool runner of the kit: a complete context, the kernel's own way to call a tool, and outcomes that say all."""

from __future__ import annotations

import threading

import pytest

from hermes.kernel.errors import ToolError
from hermes.kernel.roles import ChildTask, Tool, ToolContext, ToolReturn
from hermes.kernel.toolspec import tool
from hermes.testing import ToolRunner
from hermes.testing.tool_runner import tool_named


@tool
def everything(path: str, context: ToolContext, count: int = 1) -> ToolReturn:
    """Use all of a context.

    Args:
        path: a file
        count: how often
    """
    context.progress("reading")
    words = (context.cwd / path).read_text(encoding="utf-8") * count
    answer = context.ask("sure?", ["yes", "no"])
    child = context.spawn([ChildTask("look")])[0].answer
    found = context.search.search("x", limit=1)
    return ToolReturn(f"{words} {answer} {child} {len(found)} {context.state.get('n')}", {"n": 1})


@tool
def failing(how: str) -> str:
    """Fail.

    Args:
        how: in which way
    """
    if how == "told":
        raise ToolError("do it otherwise")
    raise ValueError("a bug")


def test_a_tool_runs_with_a_whole_context(run_tool: ToolRunner) -> None:
    (run_tool.cwd / "a.txt").write_text("ä", encoding="utf-8")
    run_tool.answers.append("yes")
    first = run_tool(everything, path="a.txt", count="2")  # fitted to the schema as a model's would be
    assert (first.ok, first.text, first.state, first.progress) == (True, "ää yes look 0 None", {"n": 1}, ("reading",))
    assert run_tool(everything, path="a.txt").text == "ä None look 0 1"  # state goes on, nobody answers any more
    assert run_tool.questions == ["sure?", "sure?"]


def test_failures_are_told_apart(run_tool: ToolRunner) -> None:
    told, bug, wrong = run_tool(failing, how="told"), run_tool(failing, how="bug"), run_tool(failing)
    assert (told.ok, told.text, told.error) == (False, "do it otherwise", None)
    assert (bug.text, type(bug.error)) == ("ValueError: a bug", ValueError)
    assert not wrong.ok
    assert "how" in wrong.text


def test_a_cancel_reaches_a_waiting_tool_and_its_callbacks(run_tool: ToolRunner) -> None:
    called: list[str] = []

    @tool
    def wait(context: ToolContext) -> str:
        """Wait until the turn is stopped."""
        forget = context.cancelled.on_cancel(lambda: called.append("kept"))
        context.cancelled.on_cancel(lambda: called.append("forgotten"))()
        stopped = context.cancelled.wait(10)
        forget()
        context.cancelled.on_cancel(lambda: called.append("late"))
        return f"{stopped} {context.cancelled()}"

    timer = threading.Timer(0.05, run_tool.cancelled.cancel)
    timer.start()
    assert run_tool(wait).text == "True True"
    timer.join()
    assert called == ["kept", "late"]


def test_a_tool_is_found_by_name() -> None:
    tools: list[Tool] = [everything, failing]
    assert tool_named(tools, "failing") is failing
    with pytest.raises(LookupError, match="no tool 'x' among everything, failing"):
        tool_named(tools, "x")
