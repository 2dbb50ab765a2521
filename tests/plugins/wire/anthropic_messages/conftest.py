"""Whole calls of the Messages API: a target at the scripted server, and a caller that closes its connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes.kernel.providers import Profile, Target
from hermes.plugins.wire.anthropic_messages import AnthropicMessages
from hermes.testing import ScriptedServer


@pytest.fixture
def target_at() -> Callable[..., Target]:
    """`target_at(url, model=…, key=…, headers=…, quirk=…)`."""

    def make(
        url: str, model: str = "claude-opus-4-6", key: str = "key-1", headers: Any = None, **quirks: Any
    ) -> Target:
        return Target(f"t:{model}", Profile("t", quirks=quirks), model, url, "anthropic_messages", key, headers or {})

    return make


@pytest.fixture
def caller_of(new_caller: Any) -> Iterator[Callable[[Target], Any]]:
    wire = AnthropicMessages()
    yield lambda target: new_caller(target, wire)
    wire.close()


@pytest.fixture
def caller(scripted: ScriptedServer, caller_of: Any, target_at: Any) -> Any:
    """Calls the `scripted` server."""
    return caller_of(target_at(scripted.url_for("anthropic_messages")))
