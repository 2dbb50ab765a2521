"""The system prompt: order, bounds, failures, and the same bytes for the same input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.effects import Stopped
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import StopRun
from hermes.kernel.prompt import bound, build
from hermes.kernel.roles import PromptContext

CONTEXT = PromptContext(
    session_id="s1",
    cwd=Path("/work"),
    home=Path("/home/x/.hermes"),
    model="m",
    provider="p",
    platform="cli",
    date="2026-11-30",
    tool_names=frozenset(),
    identity=None,
    append=None,
    caller=None,
    context_files=(),
    section_max_chars=1000,
)


@dataclass
class Fixed:
    name: str
    text: object

    def build(self, context: PromptContext) -> str | None:
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text  # type: ignore[return-value]


def never(name: str, cause: str) -> None:
    raise AssertionError(f"{name}: {cause}")


def test_sections_stand_in_the_order_of_the_settings_and_installed_is_every_other() -> None:
    sections = [Fixed("a", "A"), Fixed("b", "B"), Fixed("c", "C"), Fixed("d", "D")]
    assert build(sections, ("c", "installed", "a"), CONTEXT, never) == "C\n\nB\n\nD\n\nA"


def test_without_installed_only_named_sections_are_built() -> None:
    assert build([Fixed("a", "A"), Fixed("b", RuntimeError())], ("a", "unknown"), CONTEXT, never) == "A"


def test_a_name_that_is_given_twice_stands_once() -> None:
    assert build([Fixed("a", "A")], ("a", "installed", "a"), CONTEXT, never) == "A"


@pytest.mark.parametrize("thrown", [ValueError("no"), SystemExit(3), RecursionError()])
def test_a_section_that_raises_is_left_out_and_reported(thrown: BaseException) -> None:
    told: list[tuple[str, str]] = []
    text = build(
        [Fixed("a", "A"), Fixed("bad", thrown), Fixed("c", "C")],
        ("installed",),
        CONTEXT,
        lambda n, c: told.append((n, c)),
    )
    assert text == "A\n\nC"
    assert told[0][0] == "bad"
    assert type(thrown).__name__ in told[0][1]


@pytest.mark.parametrize("thrown", [StopRun("stop"), KeyboardInterrupt(), Stopped(EndReason.INTERRUPTED)])
def test_what_stops_the_run_passes_through_a_section(thrown: BaseException) -> None:
    with pytest.raises(type(thrown)):
        build([Fixed("a", thrown)], ("a",), CONTEXT, never)


def test_a_section_that_gives_no_text_is_reported_and_none_or_blank_is_left_out() -> None:
    told: list[str] = []
    sections = [Fixed("a", 7), Fixed("b", None), Fixed("c", " \n "), Fixed("d", "D")]
    assert build(sections, ("installed",), CONTEXT, lambda n, c: told.append(f"{n}: {c}")) == "D"
    assert told == ["a: build() gave int instead of text or None"]


def test_a_section_that_is_too_long_is_cut_visibly_and_keeps_head_and_tail() -> None:
    text = build([Fixed("long", "start " + "x" * 5000 + " end")], ("long",), CONTEXT, never)
    assert len(text) <= 1000
    assert text.startswith("start ")
    assert text.endswith(" end")
    assert "of 5,010 characters of long left out here" in text


def test_B062_lone_surrogates_in_a_section_do_not_reach_the_prompt() -> None:
    text = build([Fixed("a", "x\ud800 \ud83c\udf78")], ("a",), CONTEXT, never)
    assert text == "x\ufffd 🍸"
    text.encode("utf-8")


@given(st.lists(st.text(max_size=60), max_size=6), st.integers(0, 80))
def test_spec_20451_B034_the_same_input_gives_the_same_bytes(texts: list[str], limit: int) -> None:
    sections = [Fixed(f"s{n}", text) for n, text in enumerate(texts)]
    context = replace(CONTEXT, section_max_chars=limit)
    first = build(sections, ("s1", "installed"), context, never)
    assert first == build(sections, ("s1", "installed"), context, never)
    first.encode("utf-8")


@given(st.text(max_size=400), st.integers(90, 300))
def test_a_bound_text_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    out = bound(text, limit, "x")
    assert len(out) <= limit
    assert out == text or "left out here" in out
