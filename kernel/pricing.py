"""What a call cost, by the model's prices; unknown rather than guessed."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Usage
from hermes.kernel.providers import ModelRow, Target


def cost_usd(target: Target, usage: Usage) -> float | None:
    """What a call cost; None when a price is unknown of anything that was used (runtime specification 12.2.4).

    Reasoning is paid as output.
    """
    row = target.row
    if row is None or _is_past_its_prices(row, usage):
        return None
    buckets = (
        (usage.input_tokens, row.price_input),
        (usage.cache_read_tokens, _free_too(row, row.price_cache_read)),
        (usage.cache_write_tokens, _free_too(row, write_price(target, row))),
        (usage.output_tokens + usage.reasoning_tokens, row.price_output),
    )
    total = 0.0
    for tokens, price in buckets:
        if tokens and price is None:
            return None
        total += tokens * (price or 0.0)
    return None if row.price_input is None or row.price_output is None else total / 1_000_000


def write_price(target: Target, row: ModelRow) -> float | None:
    """What a million tokens cost that are written to the provider's cache; None when unknown.

    The row's own price is of the shortest life. What it does not have, and a longer life, is a multiple of the input
    price where the provider says so: the quirk `cache_write_factors`, such as {"5m": 1.25, "1h": 2}.
    """
    factors = target.quirk("cache_write_factors")
    known = factors if isinstance(factors, Mapping) else {}
    factor = known.get(target.cache_ttl or "5m")
    if row.price_cache_write is not None and (target.cache_ttl != "1h" or factor is None):
        return row.price_cache_write
    return None if factor is None or row.price_input is None else float(factor) * row.price_input


def _free_too(row: ModelRow, price: float | None) -> float | None:
    """A cache of a model that costs nothing costs nothing."""
    return 0.0 if price is None and row.price_input == 0 else price


def _is_past_its_prices(row: ModelRow, usage: Usage) -> bool:
    """Longer prompts cost more with some providers; the row has the prices of the shorter ones."""
    return row.priced_to_tokens is not None and usage.prompt_tokens > row.priced_to_tokens
