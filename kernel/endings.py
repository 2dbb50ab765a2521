"""Why a turn or a run ended: one word, the same in the exit code, the JSON, the database and the line on screen."""

from __future__ import annotations

from enum import StrEnum


class EndReason(StrEnum):
    """Every ending there is. `exit_code` is the process's; `group` the word before the slash on screen."""

    COMPLETED = "completed"
    INTERNAL = "internal"
    USAGE = "usage"
    SETTINGS = "settings"
    AUTH = "auth"
    BILLING = "billing"
    PROVIDER_FAILED = "provider_failed"
    INVALID_RESPONSES = "invalid_responses"
    BUDGET_ITERATIONS = "budget_iterations"
    BUDGET_TOKENS = "budget_tokens"
    BUDGET_COST = "budget_cost"
    BUDGET_TIME = "budget_time"
    NEEDS_PERSON = "needs_person"
    CUT_TEXT = "cut_text"
    CUT_TOOL_CALL = "cut_tool_call"
    THINKING_EXHAUSTED = "thinking_exhausted"
    EMPTY_ANSWER = "empty_answer"
    STUCK_CALLS = "stuck_calls"
    INVALID_TOOLS = "invalid_tools"
    SCHEMA_UNMET = "schema_unmet"
    REFUSED = "refused"
    CONTEXT_FULL = "context_full"
    PLUGIN = "plugin"
    STORE_FAILED = "store_failed"
    HANGUP = "hangup"
    INTERRUPTED = "interrupted"
    TERMINATED = "terminated"
    CRASHED = "crashed"
    """Written by a later process for a turn whose own process died; no process ends with it."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self]

    @property
    def is_budget(self) -> bool:
        return self.value.startswith("budget_")

    @property
    def is_incomplete(self) -> bool:
        return EXIT_CODES[self] == 8

    @property
    def is_stop(self) -> bool:
        """Somebody stopped it from outside: a person or a signal."""
        return self in (EndReason.HANGUP, EndReason.INTERRUPTED, EndReason.TERMINATED)


EXIT_CODES: dict[EndReason, int] = {
    EndReason.COMPLETED: 0,
    EndReason.INTERNAL: 1,
    EndReason.USAGE: 2,
    EndReason.SETTINGS: 3,
    EndReason.AUTH: 4,
    EndReason.BILLING: 4,
    EndReason.PROVIDER_FAILED: 5,
    EndReason.INVALID_RESPONSES: 5,
    EndReason.BUDGET_ITERATIONS: 6,
    EndReason.BUDGET_TOKENS: 6,
    EndReason.BUDGET_COST: 6,
    EndReason.BUDGET_TIME: 6,
    EndReason.NEEDS_PERSON: 7,
    EndReason.CUT_TEXT: 8,
    EndReason.CUT_TOOL_CALL: 8,
    EndReason.THINKING_EXHAUSTED: 8,
    EndReason.EMPTY_ANSWER: 8,
    EndReason.STUCK_CALLS: 8,
    EndReason.INVALID_TOOLS: 8,
    EndReason.SCHEMA_UNMET: 8,
    EndReason.REFUSED: 9,
    EndReason.CONTEXT_FULL: 10,
    EndReason.PLUGIN: 11,
    EndReason.STORE_FAILED: 12,
    EndReason.HANGUP: 129,
    EndReason.INTERRUPTED: 130,
    EndReason.TERMINATED: 143,
    EndReason.CRASHED: 1,
}
