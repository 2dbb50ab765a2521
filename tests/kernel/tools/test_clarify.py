"""Asking a person: what is shown to them, and what the model gets when nobody answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes.kernel.errors import ToolError
from hermes.kernel.roles import ToolReturn
from hermes.kernel.tools.clarify import TOOL


def answering(answer: str | None) -> tuple[list[Any], Callable[[str, Any], str | None]]:
    asked: list[Any] = []

    def ask(question: str, choices: Any) -> str | None:
        asked.append((question, list(choices)))
        return answer

    return asked, ask


def test_the_answer_comes_back_with_question_and_choices(call: Any) -> None:
    asked, ask = answering(" blue ")
    told = call.give(ask=ask)(TOOL, question=" Which colour? ", choices=["red", "blue"])
    assert told == {"question": "Which colour?", "choices_offered": ["red", "blue"], "user_response": "blue"}
    assert asked == [("Which colour?", ["red", "blue"])]
    assert call(TOOL, question="And now?") == {"question": "And now?", "user_response": "blue"}


@pytest.mark.parametrize("answer", [None, "", "  "])
def test_no_answer_is_an_error_that_tells_the_model_to_go_on(
    call: Any, text: Callable[[ToolReturn], str], answer: str | None
) -> None:
    result = call.give(ask=answering(answer)[1])(TOOL, question="Which?")
    assert result.failed
    assert "best guess" in text(result)


@pytest.mark.parametrize(
    ("choices", "shown"),
    [
        (None, []),
        ([], []),
        (["", None, "  "], []),
        (["a", "b", "c", "d", "e"], ["a", "b", "c", "d"]),
        (["a", "a"], ["a"]),
        ([{"label": "L", "text": "T"}, {"description": "D", "value": "v"}, {"name": "n", "value": "v"}], ["L", "D"]),
        ([["two", "words"], 3], ["two words", "3"]),
        ('["a","b"]', ["a", "b"]),
        ("just text", []),
        (7, []),
    ],
)
def test_choices_of_any_shape_are_at_most_four_texts(call: Any, choices: Any, shown: list[str]) -> None:
    asked, ask = answering("x")
    call.give(ask=ask)(TOOL, question="Which?", choices=choices)
    assert asked[0][1] == shown


@pytest.mark.parametrize("question", [None, "", "  "])
def test_a_question_is_needed(call: Any, question: Any) -> None:
    with pytest.raises(ToolError, match="question is missing"):
        call(TOOL, question=question)


def test_it_runs_alone_and_waits_as_long_as_it_takes() -> None:
    assert TOOL.exclusive
    assert TOOL.deadline_s == 0
