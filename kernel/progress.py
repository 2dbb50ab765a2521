"""What one run of the loop counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hermes.kernel.endings import EndReason
from hermes.kernel.messages import ToolResult
from hermes.kernel.replies import Repeats

FAILURES_IN_A_ROW = 20
"""Calls of any tools that all failed, with nothing that worked between them (B096)."""


@dataclass(slots=True)
class Progress:
    """What one run of the loop counts; a crash forgets it, but iterations bound the turn all the same."""

    cap: int | None = None
    note: str = ""
    continuations: int = 0
    recut: bool = False
    cut_steps: int = 0
    empties: int = 0
    invalid_steps: int = 0
    objections: int = 0
    repaired: bool = False
    text_only: bool = False
    warned: set[float] = field(default_factory=set)
    repeats: Repeats = field(default_factory=Repeats)
    failures: int = 0
    must_answer: EndReason | None = None

    def is_in_circle(self, result: ToolResult) -> bool:
        """Whether calls take turns without end, or none has worked for long, as of this result."""
        self.failures = 0 if result.status == "ok" else self.failures + 1
        return self.failures >= FAILURES_IN_A_ROW or self.repeats.is_circle()
