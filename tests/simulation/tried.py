"""What one question to a model has met so far, and what must be mended before anything else happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reasons import is_refusal
from servers import Violation, shown

from hermes.kernel.effects import Fault, FaultKind, RecoveryChoice, RepairKind
from hermes.kernel.messages import ModelReply, ModelRequest

MOST_REPAIRS = 8
NAMES = {
    RepairKind.THINKING: "thinking_blocks",
    RepairKind.GRAMMAR: "schema_keywords",
}
"""What is left out for a repair; for a parameter it is the parameter."""


@dataclass(slots=True)
class Tried:
    """What one question has met so far. `attempts`, keys and `waited_s` are of the target that is asked now."""

    target: str = ""
    request: ModelRequest | None = None
    attempts: int = 0
    keys: int = 0
    keys_tried: int = 0
    waited_s: float | None = None
    fault: Fault | None = None
    choice: RecoveryChoice | None = None
    cured: bool = False
    counted: bool = False
    repairs: int = 0
    failed_at: str = ""
    asked: list[str] = field(default_factory=list)

    def moves_to(self, target: str) -> None:
        self.target, self.attempts, self.keys, self.keys_tried = target, 0, 0, 0
        self.asked.append(target)

    def failed(self, fault: Fault) -> None:
        self.failed_at = self.target
        self.fault, self.choice, self.cured, self.waited_s = fault, None, False, None
        self.keys = self.keys or fault.other_keys
        self.counted = not (fault.other_keys and self.keys_tried < self.keys)
        self.attempts += self.counted
        self.keys_tried += not self.counted

    def is_cured(self) -> None:
        """The request was changed after a fault: that was no attempt."""
        self.attempts -= self.counted and not self.cured
        self.cured = True

    def repaired(self) -> None:
        """A repair was made after the last fault."""
        self.repairs += 1
        if self.repairs > MOST_REPAIRS:
            raise Violation("more repairs than a question may have")
        if self.cured:
            raise Violation("two repairs after one fault")
        self.is_cured()

    def needs_repair(self) -> str:
        """The name of what must be changed before anything else happens; "" when nothing must."""
        fault, request = self.fault, self.request
        if fault is None or request is None or self.cured or self.repairs >= MOST_REPAIRS:
            return ""
        if self.choice is not None:
            return ""  # a plugin said what to do
        if fault.repair is RepairKind.IMAGES or fault.kind is FaultKind.BODY_TOO_LARGE:
            return "images" if shown(request) and request.purpose != "auxiliary" else ""
        if fault.repair is RepairKind.TOOL_IMAGES:
            return "images of tools" if any(of_tool for of_tool, _ in shown(request)) else ""
        name = self.needed_name()
        return "" if name in request.leave_out else name

    def needed_name(self) -> str:
        """What must be left out for a fault: the schema first, where it may be that; "" for other faults."""
        fault, request = self.fault, self.request
        if fault is None or fault.kind is not FaultKind.BAD_REQUEST or request is None:
            return ""
        has_schema = request.schema is not None and "schema" not in request.leave_out
        if has_schema and fault.repair in (None, RepairKind.GRAMMAR):
            return "schema"
        if fault.repair is RepairKind.PARAMETER:
            return fault.subject
        return NAMES.get(fault.repair, "") if fault.repair is not None else ""


def sent_as(request: ModelRequest) -> tuple[Any, ...]:
    """What a repair or a compression changes."""
    return set(request.leave_out), request.output_cap, shown(request), len(request.messages), request.messages[0]


def unusable(reply: ModelReply) -> Fault | None:
    """What an auxiliary reply without a text counts as."""
    if is_refusal(reply):
        return Fault(FaultKind.CONTENT_POLICY)
    return None if reply.text.strip() else Fault(FaultKind.INVALID_REPLY)
