"""The kit for authors of plugins, and for hermes' own tests: a scripted model, a tool runner, conformance suites.

The pytest plugin is found by itself once hermes is installed. A whole test of a tool, and one of a run:

    from hermes.testing import call, scripted_settings, text

    def test_my_tool_counts_lines(run_tool, tmp_path):
        (tmp_path / "a.txt").write_text("one\\ntwo\\n")
        assert run_tool(count_lines, path="a.txt").text == "2"

    def test_a_run_calls_my_tool(scripted, hermes_home):
        scripted.add(call("count_lines", path="a.txt"), text("There are two lines."))
        (hermes_home / "hermes.yaml").write_text(json.dumps(scripted_settings(scripted)))
        subprocess.run(["hermes", "run", "how many lines?"], check=True)
        assert scripted.requests[1].last["content"] == "2"

The scripted model speaks each wire format at its own path: `scripted_settings(scripted, "anthropic_messages")`.

Fixtures: `scripted` (a ScriptedServer that fails the test when a request breaks a rule of its format),
`hermes_home` (an empty HERMES_HOME, with no key of yours in the environment), `run_tool` (a ToolRunner in `tmp_path`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.testing.script import Call as Call
    from hermes.testing.script import Reply as Reply
    from hermes.testing.script import Thought as Thought
    from hermes.testing.script import blocks as blocks
    from hermes.testing.script import call as call
    from hermes.testing.script import calls as calls
    from hermes.testing.script import cut as cut
    from hermes.testing.script import error_event as error_event
    from hermes.testing.script import events as events
    from hermes.testing.script import fault as fault
    from hermes.testing.script import stall as stall
    from hermes.testing.script import text as text
    from hermes.testing.scripted_server import Request as Request
    from hermes.testing.scripted_server import ScriptedServer as ScriptedServer
    from hermes.testing.scripted_server import scripted_settings as scripted_settings
    from hermes.testing.tool_runner import ToolOutcome as ToolOutcome
    from hermes.testing.tool_runner import ToolRunner as ToolRunner

_HOMES = {
    "script": (
        "Call",
        "Reply",
        "Thought",
        "blocks",
        "call",
        "calls",
        "cut",
        "error_event",
        "events",
        "fault",
        "stall",
        "text",
    ),
    "scripted_server": ("Request", "ScriptedServer", "scripted_settings"),
    "tool_runner": ("ToolOutcome", "ToolRunner"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}
__all__ = (
    "Call",
    "Reply",
    "Request",
    "ScriptedServer",
    "Thought",
    "ToolOutcome",
    "ToolRunner",
    "blocks",
    "call",
    "calls",
    "cut",
    "error_event",
    "events",
    "fault",
    "scripted_settings",
    "stall",
    "text",
)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the pytest plugin is loaded in every run of pytest on the machine."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hermes.testing.{_MODULES[name]}"), name)
