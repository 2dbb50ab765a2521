"""The tools of the kernel: they use nothing but their `ToolContext`. `kernel_tools` gives those that a run can use."""

from __future__ import annotations

from hermes.kernel.config.settings import DelegateSettings
from hermes.kernel.roles import Tool


def kernel_tools(
    *,
    memory: bool,
    search: bool,
    can_ask: bool,
    depth_left: int,
    limits: DelegateSettings,
    ask_before_memory: bool = False,
) -> tuple[Tool, ...]:
    """The kernel tools that make sense in this run, in a fixed order.

    `memory`: there is a backend. `search`: the store can be searched. `can_ask`: there is a person. `depth_left`: how
    many levels of children may still be spawned; at 0 there is no delegate_task. `ask_before_memory` is the setting
    `memory.ask_before_write`.
    """
    from hermes.kernel.tools import clarify, delegate_task, session_search, todo
    from hermes.kernel.tools import memory as memory_tool

    tools = [todo.TOOL]
    if memory:
        tools.append(memory_tool.make(ask_before_write=ask_before_memory))
    if search:
        tools.append(session_search.TOOL)
    if can_ask:
        tools.append(clarify.TOOL)
    if depth_left > 0:
        tools.append(delegate_task.make(limits))
    return tuple(tools)
