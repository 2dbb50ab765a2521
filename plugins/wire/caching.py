"""Which target's prompt is cached by marks, and how the marks are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal
from urllib.parse import urlsplit

from hermes.kernel.providers import Target

Layout = Literal["", "native", "envelope", "points"]
"""`native`: `cache_control` on blocks of the Messages API. `envelope`: the same on text parts of chat completions.
`points`: `cachePoint` blocks of Converse. "": no marks (many providers cache by themselves)."""

_LAYOUTS: tuple[Layout, ...] = ("native", "envelope", "points")

MOST_MARKS = 4
"""What Anthropic and Bedrock take in one request: the system prompt and the last three messages that can carry one."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to recognise a target; everything that a row names must hold. All are patterns in lower case."""

    layout: Layout
    provider: str = "*"
    api_mode: str = "*"
    host: str = "*"
    model: str = "*"


POLICIES: tuple[Policy, ...] = (
    Policy("native", api_mode="anthropic_messages", provider="anthropic"),
    Policy("native", api_mode="anthropic_messages", host="api.anthropic.com"),
    Policy("native", api_mode="anthropic_messages", model="*claude*"),
    Policy("native", api_mode="anthropic_messages", provider="minimax*"),
    Policy("native", api_mode="anthropic_messages", host="api.minimax.io"),
    Policy("native", api_mode="anthropic_messages", host="api.minimaxi.com"),
    Policy("envelope", api_mode="chat_completions", host="openrouter.ai", model="*claude*"),
    Policy("envelope", api_mode="chat_completions", host="openrouter.ai", model="*kimi*"),
    Policy("envelope", api_mode="chat_completions", host="openrouter.ai", model="*moonshot*"),
    Policy("envelope", api_mode="chat_completions", host="*.nousresearch.com", model="*claude*"),
    Policy("envelope", api_mode="chat_completions", host="*.nousresearch.com", model="*kimi*"),
    Policy("envelope", api_mode="chat_completions", host="*.nousresearch.com", model="*moonshot*"),
    Policy("envelope", api_mode="chat_completions", host="*.nousresearch.com", model="*qwen*"),
    Policy("envelope", api_mode="chat_completions", provider="opencode*", model="*qwen*"),
    Policy("envelope", api_mode="chat_completions", provider="alibaba", model="*qwen*"),
    Policy("envelope", api_mode="chat_completions", provider="dashscope", model="*qwen*"),
    Policy("envelope", api_mode="chat_completions", provider="qwen", model="*qwen*"),
    Policy("points", api_mode="bedrock_converse", model="*anthropic.claude*"),
    Policy("points", api_mode="bedrock_converse", model="*amazon.nova*"),
)
"""Read from the top, first fit wins (runtime behaviour specification 10.1; Bedrock's list of models that take cache
points, November 2026)."""


def layout(target: Target) -> Layout:
    """How a target's prompt is marked: the quirk `cache_layout`, else the table; "" when marks are switched off."""
    if not target.cache_ttl:
        return ""
    stated = target.quirk("cache_layout")
    if stated is not None:
        stated_layout: list[Layout] = [known for known in _LAYOUTS if known == stated]
        return stated_layout[0] if stated_layout else ""
    return _by_table(target.profile.name.lower(), target.api_mode, target.base_url, target.model.lower())


@cache
def _by_table(provider: str, api_mode: str, base_url: str, model: str) -> Layout:
    """Kept for each target: it is asked for every message."""
    facts = (provider, api_mode, (urlsplit(base_url).hostname or "").lower(), model)
    for row in POLICIES:
        if all(map(fnmatchcase, facts, (row.provider, row.api_mode, row.host, row.model))):
            return row.layout
    return ""


def cache_control(target: Target) -> bytes:
    """The mark that follows the last field of a block: for 5 minutes, which is the default, or for an hour."""
    life = b',"ttl":"1h"' if target.cache_ttl == "1h" else b""
    return b',"cache_control":{"type":"ephemeral"' + life + b"}"
