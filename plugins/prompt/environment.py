"""Where and when the agent runs. Last of the sections, with what differs most between sessions at its end."""

from __future__ import annotations

import platform
from datetime import date

from hermes import hookimpl
from hermes.kernel.roles import PromptContext

PLATFORM_HINTS: dict[str, str] = {
    "cli": "a terminal; light Markdown is fine, images cannot be shown",
    "api": "a program; it reads your answer as text",
    "batch": "a batch run; nobody can answer questions",
    "cron": "a scheduled job; nobody can answer questions, put everything into the answer",
    "email": "an e-mail; plain text, no Markdown",
    "sms": "a text message; plain text, very short",
    "telegram": "a chat; short messages, simple Markdown, no tables",
    "whatsapp": "a chat; short messages, no Markdown tables or headings",
    "discord": "a chat; Markdown without tables",
    "slack": "a chat; short messages, no Markdown tables or headings",
    "signal": "a chat; plain text, no Markdown",
}


class Environment:
    name = "environment"

    def build(self, context: PromptContext) -> str:
        """A date and no clock time: a minute stamp changed the prefix at each build (case B034)."""
        hint = PLATFORM_HINTS.get(context.platform)
        rows = (
            ("Your answer goes to", hint or context.platform),
            ("Operating system", platform.system()),
            ("Working directory", str(context.cwd)),
            ("Model", f"{context.model} ({context.provider})" if context.provider else context.model),
            ("Date at the start", _spoken(context.date)),
            ("Session", context.session_id),
        )
        return "\n".join(["# Environment", *(f"{what}: {value}" for what, value in rows if value)])


def _spoken(day: str) -> str:
    """`2026-11-30` as `Monday, 2026-11-30`; anything else as it is. The day's name saves the model a calculation."""
    try:
        index = date.fromisoformat(day).weekday()
    except ValueError:
        return day
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return f"{names[index]}, {day}"


@hookimpl
def register_prompt_sections() -> list[Environment]:
    return [Environment()]
