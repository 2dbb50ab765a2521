"""Approval: what denies always, what a rule decides, and what an answer is remembered by."""

from __future__ import annotations

import pytest

from hermes.kernel.approval import Decision, fits, judge, key_of, rule_for
from hermes.kernel.config.settings import ApprovalRule, ApprovalSettings
from hermes.kernel.effects import ApprovalRequest, CallOpinion
from hermes.kernel.messages import ToolCall
from hermes.kernel.roles import Finding

NONE = CallOpinion()
RISKY = Finding("deletes files", subject="rm -rf build")
HARD = Finding("deletes the root directory", hard_line=True)


def rules(*rows: ApprovalRule, mode: str = "ask") -> ApprovalSettings:
    return ApprovalSettings(mode=mode, rules=rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["ask", "allow", "deny"])
def test_the_hard_line_is_denied_whatever_settings_rules_and_answers_say(mode: str) -> None:
    allow_all = rules(ApprovalRule("allow"), mode=mode)
    assert judge("terminal", "rm -rf /", NONE, HARD, allow_all, {key_of("terminal", HARD.reason)}).kind == "deny"
    assert judge("terminal", "x", CallOpinion("allow", hard_line=True), None, allow_all).kind == "deny"


@pytest.mark.parametrize("mode", ["ask", "allow"])
def test_a_block_by_a_hook_is_not_lifted_by_a_rule_or_the_mode(mode: str) -> None:
    decision = judge("t", "x", CallOpinion("block", "not on my watch"), None, rules(ApprovalRule("allow"), mode=mode))
    assert decision == Decision("deny", "not on my watch")


def test_the_first_rule_that_fits_decides() -> None:
    settings = rules(ApprovalRule("deny", "terminal", "git push*"), ApprovalRule("allow", "terminal"))
    assert judge("terminal", "git push origin", NONE, RISKY, settings).kind == "deny"
    assert judge("terminal", "rm -rf build", NONE, RISKY, settings).kind == "run"
    assert judge("terminal", "ls", NONE, None, rules(ApprovalRule("ask", "term*"), mode="allow")).kind == "ask"


@pytest.mark.parametrize(
    ("mode", "opinion", "finding", "kind"),
    [
        ("ask", NONE, None, "run"),
        ("ask", NONE, RISKY, "ask"),
        ("ask", CallOpinion("ask", "policy"), None, "ask"),
        ("allow", NONE, RISKY, "run"),
        ("allow", CallOpinion("ask", "policy"), None, "run"),
        ("deny", NONE, RISKY, "deny"),
        ("deny", NONE, None, "run"),
    ],
)
def test_the_mode_decides_what_no_rule_speaks_about(
    mode: str, opinion: CallOpinion, finding: Finding | None, kind: str
) -> None:
    assert judge("terminal", "x", opinion, finding, rules(mode=mode)).kind == kind


def test_an_answer_for_the_session_is_remembered_by_tool_and_reason_and_covers_no_other_reason() -> None:
    asked = judge("terminal", "rm -rf build", NONE, RISKY, rules())
    assert asked.keys == ("terminal: deletes files",)
    assert judge("terminal", "rm -rf other", NONE, RISKY, rules(), asked.keys).kind == "run"
    assert judge("terminal", "x", NONE, Finding("pushes"), rules(), asked.keys).kind == "ask"
    both = CallOpinion("ask", "policy")
    assert judge("terminal", "rm -rf other", both, RISKY, rules(), asked.keys).kind == "ask"


@pytest.mark.parametrize(
    "subject",
    [
        "git push; rm -rf ~",
        "git push && x",
        "git push | sh",
        "git push\nrm x",
        "git push `x`",
        "git push $(x)",
        "git push > f",
    ],
)
def test_a_rule_that_allows_does_not_reach_the_second_half_of_a_compound_command(subject: str) -> None:
    assert not fits(ApprovalRule("allow", "terminal", "git push*"), "terminal", subject)
    assert fits(ApprovalRule("deny", "terminal", "git push*"), "terminal", subject)
    assert fits(ApprovalRule("allow", "terminal"), "terminal", subject)


@pytest.mark.parametrize("subject", ["cd x && git push", "true;git push -f", "(git push)", "echo $(git push)"])
def test_a_rule_that_denies_reaches_every_part_of_a_compound_command(subject: str) -> None:
    assert fits(ApprovalRule("deny", None, "git push*"), "terminal", subject)


@pytest.mark.parametrize("subject", ["rm -rf *", "cat [ab]?.txt; rm x", "ls", ""])
def test_always_allows_exactly_this_subject(subject: str) -> None:
    rule = rule_for(ApprovalRequest(ToolCall("c", "terminal", {}), "why", subject))
    assert fits(rule, "terminal", subject)
    assert not fits(rule, "terminal", subject + "x")
    assert not fits(rule, "write_file", subject)
