"""May this call run, must a person be asked, or is it denied? Pure: who asks and who remembers is elsewhere."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from hermes.kernel.config.settings import ApprovalRule, ApprovalSettings
from hermes.kernel.effects import ApprovalRequest, CallOpinion
from hermes.kernel.roles import Finding


@dataclass(frozen=True, slots=True)
class Decision:
    """`keys` are what an answer "for this session" is to be remembered by; only for kind ask."""

    kind: Literal["run", "ask", "deny"]
    reason: str = ""
    keys: tuple[str, ...] = ()


def judge(
    request_tool: str,
    subject: str,
    opinion: CallOpinion,
    finding: Finding | None,
    settings: ApprovalSettings,
    session_rules: Collection[str] = (),
) -> Decision:
    """Decide about one call; `subject` is what rules match, `session_rules` the keys that were allowed before.

    The hard line and a hook's block deny always; then the first rule that fits decides; then the mode does.
    """
    if finding is not None and finding.hard_line:
        return Decision("deny", f"{finding.reason}; this is never allowed")
    if opinion.hard_line or opinion.verdict == "block":
        return Decision("deny", opinion.reason or "a plugin blocked it")
    reasons = list(_reasons(opinion, finding))
    rule = next((r for r in settings.rules if fits(r, request_tool, subject)), None)
    if rule is not None:
        if rule.decide == "allow":
            return Decision("run")
        told = f"{'; '.join(reasons)} (rule {_named(rule)})" if reasons else f"rule {_named(rule)}"
        if rule.decide == "deny":
            return Decision("deny", f"denied by {told}" if not reasons else told)
        reasons.append(f"rule {_named(rule)}")
    if not reasons or (settings.mode == "allow" and rule is None):
        return Decision("run")
    if settings.mode == "deny":
        return Decision("deny", f"{'; '.join(reasons)}; approval.mode is deny")
    keys = tuple(key_of(request_tool, reason) for reason in reasons)
    if all(key in session_rules for key in keys):
        return Decision("run")
    return Decision("ask", "; ".join(reasons), keys)


def _reasons(opinion: CallOpinion, finding: Finding | None) -> Iterator[str]:
    if finding is not None:
        yield finding.reason
    if opinion.verdict == "ask":
        yield opinion.reason or "a plugin asks"


def key_of(tool: str, reason: str) -> str:
    """Name what was allowed for a session: the tool and why it was asked about, never the text of one command."""
    return f"{tool}: {reason}"


def rule_for(request: ApprovalRequest) -> ApprovalRule:
    """The rule that an answer "always" stands for: exactly this subject of this tool, wildcards taken literally."""
    return ApprovalRule("allow", glob.escape(request.call.name), glob.escape(request.subject))


# ---- Rules ----------------------------------------------------------------------------------------------------------

_JOINTS = re.compile(r"\|\||&&|[;&|\n(){}`]|\$\(")
_COMPOUND = re.compile(r"[;&|\n<>`]|\$\(")
_ESCAPED = re.compile(r"\[([*?[])\]")


def fits(rule: ApprovalRule, tool: str, subject: str) -> bool:
    """Say whether a rule speaks about this call.

    A rule that allows must fit the whole of a simple subject: "git push*" does not allow `git push; rm -rf ~`, which
    only the exact text, or a rule without a match, does. A rule that asks or denies fits each part of a compound one.
    """
    if rule.tool is not None and not fnmatchcase(tool, rule.tool):
        return False
    if rule.match in (None, "*", "**"):
        return True
    pattern = os.path.expanduser(rule.match or "")
    if rule.decide == "allow":
        if _ESCAPED.sub(r"\1", pattern) == subject:
            return True
        return not _COMPOUND.search(subject) and fnmatchcase(subject, pattern)
    return any(fnmatchcase(part, pattern) for part in (subject, *map(str.strip, _JOINTS.split(subject))))


def _named(rule: ApprovalRule) -> str:
    return " ".join(f"{k}={v}" for k, v in (("tool", rule.tool), ("match", rule.match)) if v is not None) or "for all"
