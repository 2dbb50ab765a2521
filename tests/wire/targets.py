"""The targets that generated conversations are sent to: for each wire format a few that differ in what they take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.kernel.profiles import detect_api_mode, profile_from_json
from hermes.kernel.providers import CacheLife, ModelRow, Profile, Target, WireFormat
from hermes.plugins.wire import anthropic_messages, bedrock_converse, chat_completions, codex_responses

WIRES: Mapping[str, WireFormat] = {
    wire.name: wire
    for module in (chat_completions, codex_responses, anthropic_messages, bedrock_converse)
    for wire in module.register_wire_formats()
}

TOOLS, IDS, RESULT_IMAGES, WORDS_BESIDE_CALLS = "tools", "ids", "result images", "words beside calls"
ALL = frozenset({TOOLS, IDS, RESULT_IMAGES, WORDS_BESIDE_CALLS})


@dataclass(frozen=True, slots=True)
class Route:
    """A target, and which of the things that its format can carry it carries."""

    target: Target
    carries: frozenset[str] = ALL

    @property
    def wire(self) -> WireFormat:
        return WIRES[self.target.api_mode]


def _target(
    api_mode: str, provider: str, base_url: str, model: str, ttl: CacheLife = "5m", row: Any = None, **quirks: Any
) -> Target:
    profile = Profile(provider, base_url, api_mode, quirks=quirks)
    known = ModelRow(model, **row) if row is not None else None
    return Target(f"{provider}:{model}", profile, model, base_url, api_mode, "key", row=known, cache_ttl=ttl)


_CHAT, _RESPONSES, _MESSAGES, _CONVERSE = WIRES
_BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com"

ROUTES: Mapping[str, tuple[Route, ...]] = {
    _CHAT: (
        Route(_target(_CHAT, "custom", "http://127.0.0.1:9/v1", "local"), ALL - {RESULT_IMAGES}),
        Route(
            _target(_CHAT, "openrouter", "https://openrouter.ai/api/v1", "anthropic/claude-opus-4.6", "1h",
                    images_in_tool_results=True)
        ),
        Route(
            _target(_CHAT, "deepseek", "https://api.deepseek.com", "deepseek-reasoner",
                    reasoning_field="reasoning_content", reasoning_required=True),
            ALL - {RESULT_IMAGES},
        ),
        Route(
            _target(_CHAT, "mistral", "https://api.mistral.ai/v1", "mistral-large", call_id={"length": 9}),
            ALL - {RESULT_IMAGES, IDS},
        ),
    ),
    _RESPONSES: (
        Route(_target(_RESPONSES, "openai", "https://api.openai.com/v1", "gpt-6",
                      row={"images": True, "reasoning": True})),
        Route(
            _target(_RESPONSES, "github-copilot", "https://api.githubcopilot.com", "gpt-5.3-codex", replayed_ids=[]),
            ALL - {RESULT_IMAGES},
        ),
        Route(_target(_RESPONSES, "xai", "https://api.x.ai/v1", "grok-4", images_in_tool_results="user_message",
                      schema_dialect="xai")),
    ),
    _MESSAGES: (
        Route(_target(_MESSAGES, "anthropic", "https://api.anthropic.com", "claude-opus-4-6")),
        Route(_target(_MESSAGES, "anthropic", "https://api.anthropic.com", "claude-sonnet-4-5", "1h")),
        Route(_target(_MESSAGES, "anthropic", "https://api.anthropic.com", "claude-opus-5", "")),
        Route(_target(_MESSAGES, "minimax", "https://api.minimax.io/anthropic", "MiniMax-M3")),
    ),
    _CONVERSE: (
        Route(_target(_CONVERSE, "bedrock", _BEDROCK, "us.anthropic.claude-sonnet-4-6", "1h")),
        Route(_target(_CONVERSE, "bedrock", _BEDROCK, "us.anthropic.claude-3-7-sonnet-20250219-v1:0")),
        Route(_target(_CONVERSE, "bedrock", _BEDROCK, "us.amazon.nova-pro-v1:0")),
        Route(_target(_CONVERSE, "bedrock", _BEDROCK, "us.meta.llama4-maverick-17b-instruct-v1:0"),
              frozenset({TOOLS, IDS})),
        Route(_target(_CONVERSE, "bedrock", _BEDROCK, "us.deepseek.r1-v1:0"), frozenset({WORDS_BESIDE_CALLS})),
    ),
}  # fmt: skip


def routes_of(seed: int) -> tuple[Route, ...]:
    """The routes that the conversation of a seed is sent by: one of each wire format."""
    return tuple(routes[seed % len(routes)] for routes in ROUTES.values())


# ---- The catalogue --------------------------------------------------------------------------------------------------

CATALOGUE = Path(plugins.__path__[0]) / "providers" / "catalogue.json"


def catalogue_routes() -> tuple[Route, ...]:
    """Every provider of the catalogue, with a model for each pattern of names that its row tells apart."""
    rows = json.loads(CATALOGUE.read_text(encoding="utf-8"))["providers"]
    return tuple(route for row in rows for route in _of_row(profile_from_json(row)))


def _of_row(profile: Profile) -> Iterator[Route]:
    url = "http://127.0.0.1:9/v1" if profile.name == "custom" else profile.base_url or _BEDROCK
    url = re.sub(r"\{[A-Z_]+\}", "example", url)
    patterns = [*profile.quirks.get("by_model", {}), *profile.quirks.get("api_mode_by_model", {})]
    for model in (profile.default_model or "model", *(_named(pattern) for pattern in patterns)):
        api_mode = detect_api_mode(profile, url, model)
        target = Target(f"{profile.name}:{model}", profile, model, url, api_mode, "key")
        lacks = {IDS} if target.quirk("call_id") else set()
        if api_mode in (_CHAT, _RESPONSES) and not target.quirk("images_in_tool_results"):
            lacks.add(RESULT_IMAGES)
        yield Route(target, ALL - lacks)


def _named(pattern: str) -> str:
    """A model's name that fits a pattern: `*gpt-5.[1-9]*` gives "gpt-5.1"."""
    return re.sub(r"\[(.)[^\]]*\]", r"\1", pattern).replace("*", "")
