"""Which targets' prompts are cached by marks: the table of the runtime specification, 10.1, row by row."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

import pytest

from hermes.kernel.providers import Profile, Target
from hermes.plugins.wire.caching import POLICIES, Policy, cache_control, layout

ANTHROPIC, CHAT, BEDROCK = "anthropic_messages", "chat_completions", "bedrock_converse"


def make(provider: str, api_mode: str, url: str, model: str, ttl: Any = "5m", **quirks: Any) -> Target:
    return Target("t", Profile(provider, quirks=quirks), model, url, api_mode, cache_ttl=ttl)


MARKED = [
    ("native", "anthropic", ANTHROPIC, "https://proxy.example.com", "claude-opus-5"),
    ("native", "mine", ANTHROPIC, "https://API.anthropic.com", "claude-opus-5"),
    ("native", "mine", ANTHROPIC, "https://proxy.example.com/anthropic", "Claude-Sonnet"),
    ("native", "minimax", ANTHROPIC, "https://proxy.example.com", "MiniMax-M3"),
    ("native", "minimax-cn", ANTHROPIC, "https://proxy.example.com", "MiniMax-M3"),
    ("native", "mine", ANTHROPIC, "https://api.minimax.io/anthropic", "MiniMax-M3"),
    ("native", "mine", ANTHROPIC, "https://api.minimaxi.com/anthropic", "MiniMax-M3"),
    ("envelope", "mine", CHAT, "https://openrouter.ai/api/v1", "anthropic/claude-opus-5"),
    ("envelope", "openrouter", CHAT, "https://openrouter.ai/api/v1", "moonshotai/Kimi-K3"),
    ("envelope", "openrouter", CHAT, "https://openrouter.ai/api/v1", "moonshotai/anything"),
    ("envelope", "nous", CHAT, "https://inference-api.nousresearch.com/v1", "claude-opus-5"),
    ("envelope", "nous", CHAT, "https://inference-api.nousresearch.com/v1", "kimi-k3"),
    ("envelope", "nous", CHAT, "https://inference-api.nousresearch.com/v1", "moonshotai/x"),
    ("envelope", "nous", CHAT, "https://inference-api.nousresearch.com/v1", "qwen/qwen4-max"),
    ("envelope", "opencode-zen", CHAT, "https://opencode.ai/zen/v1", "qwen4-coder"),
    ("envelope", "alibaba", CHAT, "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen4-max"),
    ("envelope", "dashscope", CHAT, "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen4-max"),
    ("envelope", "qwen", CHAT, "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen4-max"),
    (
        "points",
        "bedrock",
        BEDROCK,
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        "us.anthropic.claude-opus-5-v1:0",
    ),
    ("points", "bedrock", BEDROCK, "https://bedrock-runtime.us-east-1.amazonaws.com", "amazon.nova-pro-v1:0"),
]


@pytest.mark.parametrize(("expected", "provider", "api_mode", "url", "model"), MARKED)
def test_spec_10_1_a_target_of_the_table_is_marked(
    expected: str, provider: str, api_mode: str, url: str, model: str
) -> None:
    assert layout(make(provider, api_mode, url, model)) == expected


def test_spec_10_1_every_row_is_needed_by_a_target() -> None:
    def first(provider: str, api_mode: str, url: str, model: str) -> Policy:
        facts = (provider, api_mode, (urlsplit(url).hostname or "").lower(), model.lower())
        return next(p for p in POLICIES if all(map(fnmatchcase, facts, (p.provider, p.api_mode, p.host, p.model))))

    assert {first(*target) for _, *target in MARKED} == set(POLICIES)


@pytest.mark.parametrize(
    ("provider", "api_mode", "url", "model"),
    [
        ("openai", CHAT, "https://api.openai.com/v1", "gpt-5"),
        ("openrouter", CHAT, "https://openrouter.ai/api/v1", "qwen/qwen4-max"),
        ("openrouter", CHAT, "https://openrouter.ai/api/v1", "openai/gpt-5"),
        ("mine", CHAT, "https://openrouter.ai.evil.example/v1", "claude"),
        ("mine", CHAT, "https://proxy.example.com/v1", "claude-opus-5"),
        ("moonshot", CHAT, "https://api.moonshot.ai/v1", "kimi-k3"),
        ("mine", ANTHROPIC, "https://api.deepseek.com/anthropic", "deepseek-chat"),
        ("bedrock", BEDROCK, "https://bedrock-runtime.us-east-1.amazonaws.com", "meta.llama4-v1:0"),
        ("openai", "codex_responses", "https://api.openai.com/v1", "gpt-5"),
    ],
)
def test_spec_10_1_all_else_is_not_marked(provider: str, api_mode: str, url: str, model: str) -> None:
    assert layout(make(provider, api_mode, url, model)) == ""


def test_a_quirk_names_the_layout_of_an_endpoint_that_the_table_does_not_know() -> None:
    url = "https://proxy.example.com/v1"
    assert layout(make("mine", CHAT, url, "claude", cache_layout="envelope")) == "envelope"
    assert layout(make("openrouter", CHAT, "https://openrouter.ai/api/v1", "claude", cache_layout="")) == ""
    assert layout(make("mine", CHAT, url, "claude", cache_layout="nonsense")) == ""


def test_marks_that_are_switched_off_are_switched_off_everywhere() -> None:
    assert layout(make("anthropic", ANTHROPIC, "https://api.anthropic.com", "claude", ttl="")) == ""
    assert layout(make("mine", CHAT, "https://x", "claude", ttl="", cache_layout="envelope")) == ""


def test_spec_10_2_a_mark_names_its_life_only_where_it_is_an_hour() -> None:
    at = ("anthropic", ANTHROPIC, "https://api.anthropic.com", "claude")
    assert cache_control(make(*at)) == b',"cache_control":{"type":"ephemeral"}'
    assert cache_control(make(*at, ttl="1h")) == b',"cache_control":{"type":"ephemeral","ttl":"1h"}'
