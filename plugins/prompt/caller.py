"""The system prompt that the caller gave (`--system-prompt`, `Agent.from_options(system_prompt=…)`)."""

from __future__ import annotations

from hermes import hookimpl
from hermes.kernel.roles import PromptContext


class Caller:
    name = "caller"

    def build(self, context: PromptContext) -> str | None:
        return context.caller


@hookimpl
def register_prompt_sections() -> list[Caller]:
    return [Caller()]
