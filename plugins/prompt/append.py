"""The setting `prompt.append`, at the end of the system prompt."""

from __future__ import annotations

from hermes import hookimpl
from hermes.kernel.roles import PromptContext


class Append:
    name = "append"

    def build(self, context: PromptContext) -> str | None:
        return context.append


@hookimpl
def register_prompt_sections() -> list[Append]:
    return [Append()]
