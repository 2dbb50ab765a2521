"""Token counts and ends of responses, as the servers that speak this API write them."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Json, StopReason, Usage
from hermes.plugins.wire.jsontext import count, inner

INCOMPLETE: Mapping[str, StopReason] = {
    "max_output_tokens": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
}
"""Reasons of an incomplete response (OpenAI API reference, November 2026; `max_tokens`: proxies, B065). What is not
here was cut."""


TICKS_A_USD = 10_000_000_000
"""xAI states costs in these (its guide on cost tracking, November 2026)."""


def read_usage(data: Json) -> Usage:
    """Disjoint buckets. `input_tokens` includes what was read from and written to the cache, `output_tokens` includes
    reasoning, except where the total shows that it came on top. Anything that is no count is 0.

    Proxies before chat completions keep the names of those.
    """
    if not isinstance(data, Mapping):
        return Usage()
    prompt = count(data, "input_tokens") or count(data, "prompt_tokens")
    output = count(data, "output_tokens") or count(data, "completion_tokens")
    details = inner(data, "input_tokens_details") or inner(data, "prompt_tokens_details")
    out_details = inner(data, "output_tokens_details") or inner(data, "completion_tokens_details")
    read = min(count(details, "cached_tokens"), prompt)
    written = min(count(details, "cache_write_tokens"), prompt - read)
    reasoning = count(out_details, "reasoning_tokens")
    is_on_top = reasoning and count(data, "total_tokens") == prompt + output + reasoning
    said = output if is_on_top else max(output - reasoning, 0)
    return Usage(prompt - read - written, said, read, written, reasoning, _cost(data))


def _cost(data: Mapping[str, Json]) -> float | None:
    """What the call cost, where the provider says so: OpenRouter in USD, xAI in ticks."""
    if (stated := _amount(data.get("cost"))) is not None:
        return stated
    ticks = _amount(data.get("cost_in_usd_ticks"))
    return None if ticks is None else ticks / TICKS_A_USD


def _amount(value: Json) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
