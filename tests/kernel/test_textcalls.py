"""Calls written as text are found when they are whole and name a tool; everything else stays prose."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.textcalls import calls_in

TOOLS = frozenset({"read_file", "search_files"})
CALL = '{"name": "read_file", "arguments": {"path": "a.py"}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        '{"name": "read_file", "parameters": {"path": "a.py"}}',
        '{"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\"}"}',
        '{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a.py"}}}',
        f"[{CALL}]",
    ],
)
def test_a_call_is_found_in_each_of_the_forms_that_models_write(text: str) -> None:
    rest, calls = calls_in(text, TOOLS)
    assert rest == ""
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [("read_file", {"path": "a.py"})]


def test_the_prose_around_a_call_is_kept() -> None:
    rest, calls = calls_in(f"I will look at the file.\n\n```json\n{CALL}\n```\nThen I tell you.", TOOLS)
    assert rest == "I will look at the file.\n\n\nThen I tell you."
    assert len(calls) == 1


def test_several_calls_come_in_their_order() -> None:
    other = '{"name": "search_files", "arguments": {"pattern": "x"}}'
    _, calls = calls_in(f"<tool_call>\n{other}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>", TOOLS)
    assert [name for name, _ in calls] == ["search_files", "read_file"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Anna", "arguments": {"age": 3}}',
        '{"name": "read_file", "version": 1}',
        '{"arguments": {"path": "a.py"}}',
        f"Write it like this: {CALL} and it works.",
        f"[{CALL}, 3]",
        '{"name": ["read_file"], "arguments": {}}',
        "read_file(path='a.py')",
        "",
        "{",
    ],
)
def test_json_that_is_no_call_of_an_offered_tool_stays_text(text: str) -> None:
    assert calls_in(text, TOOLS) == (text, [])


@pytest.mark.parametrize("end", range(1, len(CALL)))
def test_a_call_that_is_cut_off_is_none(end: int) -> None:
    text = f"<tool_call>\n{CALL[:end]}"
    assert calls_in(text, TOOLS) == (text, [])


def test_a_real_line_break_inside_a_string_is_understood() -> None:
    _, calls = calls_in('{"name": "read_file", "arguments": {"path": "a\nb"}}', TOOLS)
    assert json.loads(calls[0][1]) == {"path": "a\nb"}


def test_a_text_of_brackets_does_not_take_long() -> None:
    text = '{"a": [' * 30_000
    assert calls_in(text, TOOLS) == (text, [])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(arguments=st.dictionaries(st.text(max_size=10), JSON_VALUES, max_size=4), fenced=st.booleans())
def test_whatever_the_arguments_are_they_come_back_as_they_were(arguments: dict[str, object], fenced: bool) -> None:
    written = json.dumps({"name": "read_file", "arguments": arguments}, ensure_ascii=False)
    text = f"```json\n{written}\n```" if fenced else written
    rest, calls = calls_in(text, TOOLS)
    assert rest == ""
    assert [json.loads(raw) for _, raw in calls] == [arguments]


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_no_text_raises_and_text_without_calls_is_the_same(text: str) -> None:
    assert calls_in(text, TOOLS) == (text, [])
