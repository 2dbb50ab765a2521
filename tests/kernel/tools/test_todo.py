"""The plan of the model: replace, merge, read, and everything that a model may send instead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.errors import ToolError
from hermes.kernel.tools.todo import TOOL, items_of, reminder

EMPTY = {"total": 0, "pending": 0, "in_progress": 0, "completed": 0, "cancelled": 0}


def test_the_list_is_replaced_read_and_cleared(call: Any) -> None:
    given = [{"id": "a", "content": "one", "status": "in_progress"}, {"id": "b", "content": "two"}]
    told = call(TOOL, todos=given)
    assert told["todos"] == [given[0], {"id": "b", "content": "two", "status": "pending"}]
    assert told["summary"] == {**EMPTY, "total": 2, "pending": 1, "in_progress": 1}
    assert call(TOOL) == told
    assert call(TOOL, todos=None, merge=None) == told
    assert call(TOOL, todos=[]) == {"todos": [], "summary": EMPTY}
    assert call(TOOL)["todos"] == []


def test_reading_changes_no_state(call: Any) -> None:
    assert TOOL.run(call.context).state is None


def test_items_without_an_id_stay_several_items(call: Any) -> None:
    told = call(
        TOOL, todos=[{"content": "a"}, {"id": "1", "content": "b"}, {"content": "c"}, {"id": "", "content": "d"}]
    )
    assert [(i["id"], i["content"]) for i in told["todos"]] == [("2", "a"), ("1", "b"), ("3", "c"), ("4", "d")]
    told = call(TOOL, todos=[{"content": "e"}, {"content": "f"}], merge=True)
    assert [i["id"] for i in told["todos"]] == ["2", "1", "3", "4", "5", "6"]


def test_merge_updates_in_place_appends_and_ignores_what_is_empty_or_unknown(call: Any) -> None:
    call(TOOL, todos=[{"id": "1", "content": "a"}, {"id": "2", "content": "b"}])
    told = call(
        TOOL,
        merge=True,
        todos=[
            {"id": "2", "status": "Completed"},
            {"id": "1", "content": " ", "status": "nonsense"},
            {"id": "3", "content": "c", "status": "nonsense"},
        ],
    )
    assert told["todos"] == [
        {"id": "1", "content": "a", "status": "pending"},
        {"id": "2", "content": "b", "status": "completed"},
        {"id": "3", "content": "c", "status": "pending"},
    ]


def test_merge_can_remove(call: Any) -> None:
    call(TOOL, todos=[{"id": "1", "content": "a"}, {"id": "2", "content": "b"}])
    told = call(TOOL, merge=True, todos=[{"id": "1", "status": "removed"}, {"id": "9", "status": "removed"}])
    assert [i["id"] for i in told["todos"]] == ["2"]


def test_of_entries_with_one_id_the_last_counts_at_its_place(call: Any) -> None:
    told = call(TOOL, todos=[{"id": "x", "content": "old"}, {"id": "y", "content": "y"}, {"id": "x", "content": "new"}])
    assert [i["content"] for i in told["todos"]] == ["y", "new"]


@pytest.mark.parametrize("status", ["In Progress", " IN_PROGRESS ", "in-progress"])
def test_a_status_is_read_in_any_spelling(call: Any, status: str) -> None:
    assert call(TOOL, todos=[{"id": "1", "content": "a", "status": status}])["todos"][0]["status"] == "in_progress"


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("wrong", [7, None, [1], True])
def test_an_entry_that_is_no_object_is_a_clear_error_and_changes_nothing(call: Any, wrong: object, merge: bool) -> None:
    call(TOOL, todos=[{"id": "1", "content": "a"}])
    with pytest.raises(ToolError, match=r"todos\[1\] must be an object"):
        call(TOOL, todos=[{"id": "2"}, wrong], merge=merge)
    assert call(TOOL)["summary"]["total"] == 1


def test_B114_a_json_text_a_bare_text_and_one_object_are_taken(call: Any) -> None:
    assert call(TOOL, todos='[{"id":"1","content":"a"}]', merge="false")["todos"][0]["content"] == "a"
    assert call(TOOL, todos={"id": "1", "status": "completed"}, merge="true")["todos"][0]["status"] == "completed"
    assert call(TOOL, todos=["just do it"])["todos"] == [{"id": "1", "content": "just do it", "status": "pending"}]
    with pytest.raises(ToolError, match="todos must be a list"):
        call(TOOL, todos="do it")
    with pytest.raises(ToolError, match="todos must be a list, not int: 5"):
        call(TOOL, todos=5)


def test_content_and_count_are_bounded_visibly(call: Any) -> None:
    told = call(TOOL, todos=[{"content": "x" * 5000}, *({"content": str(n)} for n in range(300))])
    assert len(told["todos"]) == 256
    assert len(told["todos"][0]["content"]) <= 4000
    assert told["todos"][0]["content"].endswith("more chars]")


def test_after_a_compression_only_active_items_are_shown_again(call: Any) -> None:
    assert reminder({}) == ""
    call(
        TOOL,
        todos=[{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c"}],
    )
    assert reminder(call.context.state).splitlines()[1:] == ["- [>] 2. b", "- [ ] 3. c"]
    call(TOOL, todos=[{"content": "a", "status": "cancelled"}])
    assert reminder(call.context.state) == ""


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda c: (
        st.lists(c, max_size=3) | st.dictionaries(st.sampled_from(["id", "content", "status", "x"]), c, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(ODD)
def test_whatever_stands_in_the_state_is_read_without_failing(value: Any) -> None:
    items_of({"todo": value})
    reminder({"todo": value})
