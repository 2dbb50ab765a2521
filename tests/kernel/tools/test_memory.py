"""The tool over a real files backend: what the model sees of success and failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config.settings import MemorySettings
from hermes.kernel.errors import ToolError
from hermes.kernel.roles import ToolReturn
from hermes.kernel.tools.memory import TOOL, make
from hermes.plugins.memory.files import FilesMemory


@pytest.fixture
def remembering(call: Any, tmp_path: Path) -> Any:
    return call.give(memory=FilesMemory(tmp_path, MemorySettings(memory_max_chars=100)))


def test_success_is_short_and_does_not_echo_the_entries(remembering: Any, tmp_path: Path) -> None:
    told = remembering(TOOL, target="user", action="add", content="likes tea")
    assert told["ok"] is True
    assert (told["target"], told["usage"]) == ("user", "0% — 9/1,375 chars")
    assert "likes tea" not in json.dumps(told)
    assert (tmp_path / "USER.md").read_text(encoding="utf-8") == "likes tea\n"


def test_a_null_target_is_memory_and_an_unknown_one_is_an_error(remembering: Any, tmp_path: Path) -> None:
    assert remembering(TOOL, target=None, action="add", content="x")["target"] == "memory"
    with pytest.raises(ToolError, match="target must be memory or user"):
        remembering(TOOL, target="world", action="add", content="y")


def test_a_failure_shows_the_entries_and_after_three_tells_the_model_to_stop(
    remembering: Any, text: Callable[[ToolReturn], str]
) -> None:
    remembering(TOOL, action="add", content="a" * 90)
    for number in range(1, 5):
        result = remembering(TOOL, action="add", content="b" * 90)
        assert result.failed
        told = json.loads(text(result))
        assert told["entries"] == ["a" * 90]
        assert ("leave memory as it is" in told["error"]) == (number >= 3)
    assert remembering(TOOL, action="remove", old_text="aa")["ok"]
    assert remembering.context.state["memory_failures"] == 0


def test_B114_operations_come_as_a_list_or_its_json_text(remembering: Any, tmp_path: Path) -> None:
    remembering(TOOL, operations='[{"action":"add","content":"one"},{"action":"ADD","content":"two"}]')
    remembering(
        TOOL,
        operations=[{"action": "delete", "old_text": "one"}, {"action": "update", "old_text": "two", "content": 2}],
    )
    assert (tmp_path / "MEMORY.md").read_text(encoding="utf-8") == "2\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "action must be add, replace or remove, and it is missing"),
        ({"action": "burn"}, "not 'burn'"),
        ({"operations": [{"action": "add", "content": "x"}, "y"]}, r"operations\[1\]: must be an object"),
        ({"operations": [{"action": None}]}, r"operations\[0\]: action"),
        ({"operations": "nonsense"}, "operations must be a list"),
    ],
)
def test_arguments_that_say_nothing_are_a_clear_error(remembering: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        remembering(TOOL, **arguments)


def test_without_a_backend_the_model_is_told_to_go_on(call: Any) -> None:
    with pytest.raises(ToolError, match="switched off"):
        call(TOOL, action="add", content="x")


def test_the_setting_ask_before_write_asks_with_what_would_be_saved(call: Any) -> None:
    assert TOOL.assess is None
    assess = make(ask_before_write=True).assess
    assert assess
    finding = assess({"action": "add", "content": "likes tea"}, call.context)
    assert finding
    assert (finding.subject, finding.hard_line) == ("likes tea", False)
    assert "memory.ask_before_write" in finding.reason
