"""Which kernel tools a run gets, and that each of them keeps the contract of a tool."""

from __future__ import annotations

import contextlib
import inspect
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.kernel.config.settings import DelegateSettings
from hermes.kernel.errors import ToolError
from hermes.kernel.roles import Tool
from hermes.kernel.tools import kernel_tools

ALL = kernel_tools(memory=True, search=True, can_ask=True, depth_left=1, limits=DelegateSettings())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda c: (
        st.lists(c, max_size=3) | st.dictionaries(st.sampled_from(["id", "goal", "content", "action"]), c, max_size=3)
    ),
    max_leaves=6,
)


def test_the_order_is_fixed_and_each_tool_is_there_only_when_it_can_work() -> None:
    assert [t.name for t in ALL] == ["todo", "memory", "session_search", "clarify", "delegate_task"]
    fewest = kernel_tools(memory=False, search=False, can_ask=False, depth_left=0, limits=DelegateSettings())
    assert [t.name for t in fewest] == ["todo"]


@pytest.mark.parametrize("tool", ALL, ids=lambda t: t.name)
def test_each_schema_is_valid_and_declares_what_it_touches(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(dict(tool.parameters))
    assert tool.exclusive or tool.reads or tool.writes
    assert tool.toolset == "kernel"
    names = set(inspect.signature(tool.run).parameters) - {"context", "tool_context", "arguments"}
    assert names <= set(tool.parameters["properties"])


def test_the_five_schemas_are_under_1000_tokens() -> None:
    shown = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in ALL]
    assert len(json.dumps(shown, separators=(",", ":"))) / 4 < 1000


@pytest.mark.parametrize("tool", ALL, ids=lambda t: t.name)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_B114_arguments_of_any_type_give_a_result_or_a_clear_error(tool: Tool, call: Any, data: st.DataObject) -> None:
    call.give(spawn=lambda tasks: [], state={})
    arguments = data.draw(st.fixed_dictionaries({}, optional={name: JSON for name in tool.parameters["properties"]}))
    with contextlib.suppress(ToolError):
        call(tool, **arguments)
