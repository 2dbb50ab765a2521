"""Prompt sections → the frozen system prompt: in the order of the settings, bounded, the same bytes for the same input.

Called once an epoch. What varies from turn to turn does not belong here: it goes to the tail of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hermes.kernel.effects import Stopped
from hermes.kernel.errors import StopRun
from hermes.kernel.messages import clean
from hermes.kernel.roles import PromptContext, PromptSection

INSTALLED = "installed"
"""In `prompt.sections`: every section that is not named there, in the order in which they were registered."""


def build(
    sections: Sequence[PromptSection],
    order: Sequence[str],
    context: PromptContext,
    failed: Callable[[str, str], None],
) -> str:
    """Put the system prompt together; sections divided by a blank line.

    `failed(name, cause)` is told of each section that raised or gave no text; the prompt goes on without it. StopRun,
    KeyboardInterrupt and Stopped pass through. A name in `order` that no section has is skipped.
    """
    texts = []
    for section in arrange(sections, order):
        text = _text_of(section, context, failed)
        if text:
            texts.append(bound(text, context.section_max_chars, section.name))
    return "\n\n".join(texts)


def arrange(sections: Sequence[PromptSection], order: Sequence[str]) -> Iterator[PromptSection]:
    """The sections that are wanted, each once, in the order of the settings."""
    named = set(order)
    seen: set[str] = set()
    for name in order:
        if name in seen:
            continue
        seen.add(name)
        for section in sections:
            if section.name == name or (name == INSTALLED and section.name not in named):
                yield section


def bound(text: str, limit_chars: int, name: str) -> str:
    """The text when it fits, else its head (three quarters) and tail around a line that says what is missing.

    The result is never longer than `limit_chars`, unless that is less than the line itself.
    """
    if len(text) <= limit_chars:
        return text
    line = f"\n\n[… {len(text) - limit_chars:,}+ of {len(text):,} characters of {name} left out here …]\n\n"
    room = max(0, limit_chars - len(line))
    head = room * 3 // 4
    tail = room - head
    return text[:head].rstrip() + line + (text[-tail:].lstrip() if tail else "")


def _text_of(section: PromptSection, context: PromptContext, failed: Callable[[str, str], None]) -> str:
    """The section's text, clean and without blank edges; "" when it has none or failed."""
    try:
        text: object = section.build(context)
    except (StopRun, KeyboardInterrupt, Stopped):
        raise
    except BaseException as error:  # a plugin may throw anything, SystemExit too
        failed(section.name, f"{type(error).__name__}: {error}".rstrip(": "))
        return ""
    if text is None:
        return ""
    if not isinstance(text, str):
        failed(section.name, f"build() gave {type(text).__name__} instead of text or None")
        return ""
    return clean(text).replace("\r\n", "\n").replace("\x00", "").strip("\n").rstrip()
