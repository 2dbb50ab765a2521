"""When to use the tool `memory`; only while it is on."""

from __future__ import annotations

from hermes import hookimpl
from hermes.kernel.roles import PromptContext

TEXT = (
    "Memory: save with `memory`, without being asked, what will still matter in later sessions: the user's "
    "preferences and corrections, lasting facts about their machine and projects. Write plain facts, not orders to "
    "yourself. Do not save the progress of a task, or what a file or a search tells at once."
)


class MemoryGuidance:
    name = "memory_guidance"

    def build(self, context: PromptContext) -> str | None:
        return TEXT if "memory" in context.tool_names else None


@hookimpl
def register_prompt_sections() -> list[MemoryGuidance]:
    return [MemoryGuidance()]
