"""What a person always allows is there in the next run, and means the same."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.kernel.config.rules import add_rule
from hermes.kernel.config.settings import ApprovalRule


@pytest.mark.parametrize(
    "command", ["git push", "echo ${HOME} $${x} '\"", "a\nb # c", "on", "[*]模\x85", "${env:X}", "${"]
)
def test_a_rule_comes_back_as_it_was(desk: Any, command: str) -> None:
    rule = ApprovalRule("allow", "terminal", command)
    add_rule(rule)
    add_rule(rule)
    assert desk.load().settings.approval.rules == (rule,)


def test_a_rule_stands_behind_those_that_are_there(desk: Any) -> None:
    (desk.home / "hermes.yaml").write_text("approval:\n  rules:\n    - decide: deny  # never\n")
    add_rule(ApprovalRule("allow", "terminal"))
    assert [rule.decide for rule in desk.load().settings.approval.rules] == ["deny", "allow"]
    assert "# never" in (desk.home / "hermes.yaml").read_text()
