"""End reasons: every one has its exit code, and the codes are those of issue 2."""

from __future__ import annotations

import pytest

from hermes.kernel.endings import EXIT_CODES, EndReason

CODES = {
    0: "completed",
    1: "internal crashed",
    2: "usage",
    3: "settings",
    4: "auth billing",
    5: "provider_failed invalid_responses",
    6: "budget_iterations budget_tokens budget_cost budget_time",
    7: "needs_person",
    8: "cut_text cut_tool_call thinking_exhausted empty_answer stuck_calls invalid_tools schema_unmet",
    9: "refused",
    10: "context_full",
    11: "plugin",
    12: "store_failed",
    129: "hangup",
    130: "interrupted",
    143: "terminated",
}


@pytest.mark.parametrize(("code", "words"), CODES.items())
def test_a_reason_has_its_exit_code(code: int, words: str) -> None:
    assert {reason.value for reason in EndReason if reason.exit_code == code} == set(words.split())


def test_no_reason_is_without_a_code() -> None:
    assert set(EXIT_CODES) == set(EndReason)


def test_the_kinds_of_reasons_do_not_overlap() -> None:
    for reason in EndReason:
        assert [reason.is_budget, reason.is_incomplete, reason.is_stop].count(True) <= 1
    assert {r.exit_code for r in EndReason if r.is_budget} == {6}
    assert {r.exit_code for r in EndReason if r.is_incomplete} == {8}
    assert {r.exit_code for r in EndReason if r.is_stop} == {129, 130, 143}
