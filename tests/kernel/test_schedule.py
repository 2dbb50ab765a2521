"""The schedule: calls that touch different things run together, and the outcome is that of one after the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.roles import Resources, Tool
from hermes.kernel.schedule import conflict, plan, resources_of


def res(reads: str = "", writes: str = "", exclusive: bool = False) -> Resources:
    return Resources(frozenset(reads.split()), frozenset(writes.split()), exclusive)


def test_reads_share_a_step_and_a_write_waits_for_readers_before_it() -> None:
    calls = [("r1", res("path:/a")), ("r2", res("path:/a")), ("w", res("", "path:/a")), ("r3", res("path:/a"))]
    assert plan(calls) == [["r1", "r2"], ["w"], ["r3"]]


def test_B032_a_write_excludes_the_same_and_nested_paths_but_not_neighbours_with_a_common_prefix() -> None:
    assert conflict(res("", "path:/x/a"), res("", "path:/x/a"))
    assert conflict(res("", "path:/x"), res("path:/x/a/b"))
    assert conflict(res("path:/"), res("", "path:/x"))
    assert not conflict(res("", "path:/x/a"), res("", "path:/x/ab"))
    assert not conflict(res("host:a"), res("", "host:ab"))


def test_an_exclusive_call_runs_alone_and_nothing_crosses_it() -> None:
    calls = [("a", res("path:/a")), ("x", res(exclusive=True)), ("b", res("path:/b")), ("c", res("path:/c"))]
    assert plan(calls) == [["a"], ["x"], ["b", "c"]]


def test_no_step_has_more_calls_than_workers() -> None:
    steps = plan([(str(n), res(f"path:/{n}")) for n in range(20)], workers=8)
    assert [len(s) for s in steps] == [8, 8, 4]
    assert plan([("a", res()), ("b", res())], workers=0) == [["a"], ["b"]]


TOUCHED = st.builds(
    lambda r, w, e: Resources(frozenset(r), frozenset(w), e),
    st.sets(st.sampled_from(["path:/a", "path:/a/b", "path:/c", "memory"]), max_size=2),
    st.sets(st.sampled_from(["path:/a", "path:/a/b", "path:/a/b/d", "path:/c", "memory"]), max_size=2),
    st.sampled_from([False, False, False, True]),
)


@settings(max_examples=300)
@given(st.lists(TOUCHED, max_size=12), st.integers(1, 4))
def test_a_plan_is_equivalent_to_one_after_the_other(touched: list[Resources], workers: int) -> None:
    calls = [(str(n), t) for n, t in enumerate(touched)]
    steps = plan(calls, workers)
    at = {call_id: n for n, step in enumerate(steps) for call_id in step}
    assert sorted(at, key=int) == [c for c, _ in calls]
    assert all(1 <= len(step) <= workers for step in steps)
    for n, (later, what) in enumerate(calls):
        for earlier, other in calls[:n]:
            if conflict(what, other):
                assert at[earlier] < at[later]


def make(**declared: object) -> Tool:
    schema = {"type": "object", "properties": {"path": {"type": "string", "default": "."}, "to": {"type": "string"}}}
    return Tool("t", "d", schema, run=lambda **_: None, **declared)  # type: ignore[arg-type]


def test_B032_templates_name_the_real_path_whatever_its_spelling(tmp_path: Path) -> None:
    tool = make(writes=("path:{path}",))
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to("state.txt")
    expected = frozenset({f"path:{os.path.realpath(tmp_path)}/state.txt"})
    for spelling in ("state.txt", "./x/../state.txt", "link", str(tmp_path / "state.txt")):
        assert resources_of(tool, {"path": spelling}, tmp_path).writes == expected


def test_a_missing_argument_takes_the_default_of_the_schema_else_the_call_runs_alone(tmp_path: Path) -> None:
    here = f"path:{os.path.realpath(tmp_path)}"
    assert resources_of(make(reads=("path:{path}",)), {}, tmp_path) == Resources(frozenset({here}))
    assert resources_of(make(reads=("path:{to}",)), {}, tmp_path).exclusive
    assert resources_of(make(reads=("path:{to}",)), {"to": "a\0b"}, tmp_path).exclusive
    assert resources_of(make(reads=("path:{to}",)), {"to": {"a": 1}}, tmp_path).exclusive


def test_a_list_names_several_resources(tmp_path: Path) -> None:
    reads = resources_of(make(reads=("path:{to}", "memory")), {"to": ["a", "b"]}, tmp_path).reads
    assert {Path(r).name for r in reads if r != "memory"} == {"a", "b"}
    assert "memory" in reads


def test_what_declares_nothing_runs_alone_and_what_declares_it_touches_nothing_does_not(tmp_path: Path) -> None:
    assert resources_of(make(), {}, tmp_path).exclusive
    assert resources_of(make(exclusive=True, reads=("memory",)), {}, tmp_path).exclusive
    assert resources_of(make(resources=lambda _: Resources()), {}, tmp_path) == Resources()


@pytest.mark.parametrize("failure", [KeyError("x"), TypeError("x"), ValueError("x")])
def test_a_tool_that_cannot_say_what_it_touches_runs_alone(failure: Exception, tmp_path: Path) -> None:
    def touched(_arguments: object) -> Resources:
        raise failure

    assert resources_of(make(resources=touched), {}, tmp_path).exclusive
