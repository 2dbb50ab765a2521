"""What plugins add to a user's message (`provide_turn_context`)."""

from __future__ import annotations

import time
from pathlib import Path

from hermes.kernel.endings import EndReason
from hermes.kernel.errors import StopRun
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Text, clean
from hermes.kernel.plugins import Plugins
from hermes.kernel.roles import TurnInfo
from hermes.kernel.toolrunner import spill

CONTEXT_MAX_CHARS = 20_000
"""What plugins may add to one user message; more goes to a file (hooks.md, provide_turn_context)."""


def turn_context(plugins: Plugins, info: TurnInfo, token: Token, folder: Path) -> tuple[Text, ...]:
    """The texts, each cut where it is too long, with all of it in a file of `folder`; a StopRun sets the token."""
    if not plugins.wants("provide_turn_context"):
        return ()
    try:
        given = plugins.gather("provide_turn_context", turn=info)
    except StopRun as stop:
        token.set(EndReason.INTERRUPTED, stop.why or "a plugin stopped the run")
        return ()
    texts = [clean(str(answer)) for _, answer in given if str(answer).strip()]
    return tuple(Text(_bounded(text, folder), "context") for text in texts)


def _bounded(text: str, folder: Path) -> str:
    if len(text) <= CONTEXT_MAX_CHARS:
        return text
    path = spill(folder, f"context-{int(time.time() * 1000)}", text)
    if path is None:
        return f"{text[:CONTEXT_MAX_CHARS]}\n[… cut]"
    return f"{text[:CONTEXT_MAX_CHARS]}\n[… cut: all {len(text)} characters are in {path}]"
