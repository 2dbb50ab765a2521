"""What a run cost, by model and by purpose."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from hermes.kernel.events import Event, ModelCallEnded
from hermes.kernel.messages import Usage


def usage_to_json(usage: Usage) -> dict[str, Any]:
    return dataclasses.asdict(usage) | {"total_tokens": usage.total_tokens}


class Tally:
    """What each model cost for each purpose, children and calls on the side included. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], int] = {}
        self._usage: dict[tuple[str, str], Usage] = {}

    def on_event(self, event: Event) -> None:
        if isinstance(event, ModelCallEnded):
            key = (event.target, event.purpose)
            with self._lock:
                self._calls[key] = self._calls.get(key, 0) + 1
                self._usage[key] = self._usage.get(key, Usage()) + event.usage

    def rows(self) -> tuple[dict[str, Any], ...]:
        """`{model, purpose, calls, …usage}` each, in the order in which they were first called."""
        with self._lock:
            return tuple(
                {"model": model, "purpose": purpose, "calls": calls} | usage_to_json(self._usage[model, purpose])
                for (model, purpose), calls in self._calls.items()
            )
