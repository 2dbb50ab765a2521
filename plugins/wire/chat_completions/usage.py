"""Token counts and finish reasons of chat completions, in the many forms in which servers write them."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Json, StopReason, Usage
from hermes.plugins.wire.jsontext import count, inner

FINISH_REASONS: Mapping[str, StopReason] = {
    **dict.fromkeys(
        ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed"), StopReason.STOP
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "function_call", "tool_use"), StopReason.TOOL_CALLS),
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
        StopReason.LENGTH,
    ),
    **dict.fromkeys(
        ("content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist", "sensitive"),
        StopReason.REFUSAL,
    ),
    **dict.fromkeys(("insufficient_system_resource", "network_error", "abort", "cancelled"), StopReason.CUT),
}
"""OpenAI, Azure, Anthropic by proxies, Google, Mistral (`model_length`), DeepSeek and Z.AI (ends by the server's own
trouble), vLLM (`abort`): their API references, November 2026. In lower case; what is not here is OTHER."""


def stop_reason(finish: Json) -> StopReason | None:
    """None when there was no finish reason (null or empty); some servers send numbers."""
    if finish is None or finish == "":
        return None
    return FINISH_REASONS.get(str(finish).lower(), StopReason.OTHER)


def read_usage(data: Json) -> Usage:
    """Disjoint buckets. `prompt_tokens` includes cached tokens, `completion_tokens` includes reasoning, except where
    the total shows that reasoning came on top (xAI; Gemini, which counts it nowhere else). What is no count is 0."""
    if not isinstance(data, Mapping):
        return Usage()
    prompt, completion = count(data, "prompt_tokens"), count(data, "completion_tokens")
    details, out_details = inner(data, "prompt_tokens_details"), inner(data, "completion_tokens_details")
    read = (
        count(details, "cached_tokens")
        or count(data, "prompt_cache_hit_tokens")  # DeepSeek
        or count(data, "cached_tokens")  # Moonshot
        or count(data, "cache_read_input_tokens")  # LiteLLM
    )
    written = count(details, "cache_write_tokens") or count(data, "cache_creation_input_tokens")
    beyond = max(count(data, "total_tokens") - prompt - completion, 0) if prompt else 0
    reasoning = count(out_details, "reasoning_tokens") or beyond
    if "prompt_tokens" not in data and "input_tokens" in data:
        return _anthropic_style(data)
    read = min(read, prompt)
    fresh = prompt - read - min(written, prompt - read)
    output = completion if reasoning == beyond else max(completion - reasoning, 0)
    return Usage(fresh, output, read, prompt - read - fresh, reasoning, _cost(data))


def _anthropic_style(data: Mapping[str, Json]) -> Usage:
    """A proxy that passes Anthropic's counts through: there the buckets are disjoint already."""
    return Usage(
        count(data, "input_tokens"),
        count(data, "output_tokens"),
        count(data, "cache_read_input_tokens"),
        count(data, "cache_creation_input_tokens"),
        cost_usd=_cost(data),
    )


def _cost(data: Mapping[str, Json]) -> float | None:
    """OpenRouter states what a call cost, in USD."""
    value = data.get("cost")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
