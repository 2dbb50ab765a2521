"""Who the agent is: the setting `prompt.identity`, else SOUL.md in hermes' home, else a short default."""

from __future__ import annotations

from hermes import hookimpl
from hermes.kernel.roles import PromptContext
from hermes.kernel.untrusted import mark, read_text

DEFAULT = (
    "You are Hermes, an agent that gets things done with tools. Be helpful, accurate and brief. "
    "Say plainly what you did, what you did not do, and what you do not know."
)


class Identity:
    name = "identity"

    def build(self, context: PromptContext) -> str:
        if context.identity and context.identity.strip():
            return context.identity
        soul = read_text(context.home / "SOUL.md")
        if not soul or not soul.strip():
            return DEFAULT
        marked = mark(soul)
        if marked.findings:
            context.notice(f"{context.home / 'SOUL.md'}: looks like prompt injection ({', '.join(marked.findings)})")
        return marked.text


@hookimpl
def register_prompt_sections() -> list[Identity]:
    return [Identity()]
