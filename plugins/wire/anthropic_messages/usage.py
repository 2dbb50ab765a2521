"""Token counts, stop reasons and errors of the Messages API, in the forms in which servers write them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.kernel.messages import Json, StopReason, Usage, clean
from hermes.kernel.providers import WireFault
from hermes.plugins.wire.jsontext import count, inner

STOP_REASONS: Mapping[str, StopReason] = {
    **dict.fromkeys(("end_turn", "stop_sequence", "stop"), StopReason.STOP),
    **dict.fromkeys(("tool_use", "tool_calls"), StopReason.TOOL_CALLS),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded", "length"), StopReason.LENGTH),
    **dict.fromkeys(("refusal", "content_filter", "sensitive"), StopReason.REFUSAL),
    "network_error": StopReason.CUT,
}
"""Anthropic's API reference; OpenAI's words and Z.AI's (`sensitive`, `network_error`) from servers that translate;
November 2026. `pause_turn` belongs to server tools, which are never offered: like all that is not here it is OTHER."""

ERROR_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error has outside of a stream (Anthropic's page on errors, November 2026)."""

_PROMPT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def stop_reason(reason: Json) -> StopReason | None:
    """None while there is no reason (null or empty)."""
    if reason is None or reason == "":
        return None
    return STOP_REASONS.get(str(reason).lower(), StopReason.OTHER)


def merge_usage(before: Mapping[str, Json], news: Json) -> Mapping[str, Json]:
    """Counts are totals, so later ones replace earlier ones; null says nothing, and neither do prompt counts that are
    all zero (some servers know the prompt only at the start, some only at the end)."""
    if not isinstance(news, Mapping):
        return before
    stated = {name: value for name, value in news.items() if value is not None}
    if not any(count(stated, name) for name in _PROMPT_COUNTS):
        stated = {name: value for name, value in stated.items() if name not in _PROMPT_COUNTS}
    return {**before, **stated}


def read_usage(data: Mapping[str, Json]) -> Usage:
    """Disjoint buckets: the API's own are, except that output includes thinking."""
    written = count(data, "cache_creation_input_tokens")
    if not written:  # by lifetime only
        lifetimes = inner(data, "cache_creation")
        written = sum(count(lifetimes, name) for name in lifetimes)
    output = count(data, "output_tokens")
    reasoning = min(count(inner(data, "output_tokens_details"), "thinking_tokens"), output)
    return Usage(
        count(data, "input_tokens"), output - reasoning, count(data, "cache_read_input_tokens"), written, reasoning
    )


def raise_error(event: Mapping[str, Json]) -> None:
    """Raise WireFault for an error in place of an event or a reply, also with status 200 (B056)."""
    error = event.get("error")
    if not error and event.get("type") != "error":
        return
    told = error if isinstance(error, Mapping) else {"message": str(error or "")}
    kind = str(told.get("type") or "")
    raise WireFault(
        "http",
        clean(str(told.get("message") or kind or "the provider reported an error inside the reply")),
        status=ERROR_STATUSES.get(kind),
        code=kind,
        body=json.dumps({"type": "error", "error": told}),
        phase="stream",
    )
