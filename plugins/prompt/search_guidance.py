"""When to use the tool `session_search`; only while it is on."""

from __future__ import annotations

from hermes import hookimpl
from hermes.kernel.roles import PromptContext

TEXT = (
    "Past sessions: when the user speaks of earlier work, or you may have solved this before, look with "
    "`session_search` before you ask them to repeat it."
)


class SearchGuidance:
    name = "search_guidance"

    def build(self, context: PromptContext) -> str | None:
        return TEXT if "session_search" in context.tool_names else None


@hookimpl
def register_prompt_sections() -> list[SearchGuidance]:
    return [SearchGuidance()]
