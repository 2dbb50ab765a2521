"""What a call cost: every bucket by its own price, and unknown where a price is (runtime specification 12.2.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes.kernel.messages import Usage
from hermes.kernel.pricing import cost_usd
from hermes.kernel.providers import CacheLife, ModelRow, Profile, Target

MILLION = 1_000_000
ROW = ModelRow("m", price_input=1.0, price_output=10.0, price_cache_read=0.1, price_cache_write=1.25)
CLAUDE = {"cache_write_factors": {"5m": 1.25, "1h": 2}}


def cost(row: ModelRow | None, usage: Usage, *, quirks: Any = None, cache_ttl: CacheLife = "5m") -> float | None:
    profile = Profile("p", quirks=quirks or {})
    return cost_usd(Target("p:m", profile, "m", "", "chat_completions", row=row, cache_ttl=cache_ttl), usage)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(MILLION), 1.0),
        (Usage(0, MILLION), 10.0),
        (Usage(0, 0, MILLION), 0.1),
        (Usage(0, 0, 0, MILLION), 1.25),
        (Usage(0, 0, 0, 0, MILLION), 10.0),
        (Usage(MILLION, MILLION, MILLION, MILLION, MILLION), 22.35),
        (Usage(), 0.0),
    ],
)
def test_every_bucket_has_its_price(usage: Usage, expected: float) -> None:
    assert cost(ROW, usage) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("missing", "usage"),
    [
        ("price_input", Usage(1)),
        ("price_output", Usage(0, 1)),
        ("price_output", Usage(0, 0, 0, 0, 1)),
        ("price_cache_read", Usage(1, 1, 1)),
        ("price_cache_write", Usage(1, 1, 0, 1)),
    ],
)
def test_spec_12_2_4_a_used_bucket_without_a_price_makes_the_cost_unknown(missing: str, usage: Usage) -> None:
    row = replace(ROW, **{missing: None})
    assert cost(row, usage) is None
    assert cost(ROW, usage) is not None


def test_B030_nothing_known_is_never_zero() -> None:
    assert cost(None, Usage(1, 1)) is None
    assert cost(ModelRow("m"), Usage()) is None


def test_a_cache_that_was_not_used_needs_no_price() -> None:
    assert cost(ModelRow("m", price_input=1.0, price_output=1.0), Usage(MILLION, MILLION)) == pytest.approx(2.0)


def test_the_cache_of_a_model_that_costs_nothing_costs_nothing() -> None:
    free = ModelRow("m", price_input=0.0, price_output=0.0)
    assert cost(free, Usage(MILLION, MILLION, MILLION, MILLION)) == 0.0


def test_spec_14971_writing_costs_a_quarter_more_for_five_minutes_and_double_for_an_hour() -> None:
    written = Usage(0, 0, 0, MILLION)
    bare = replace(ROW, price_cache_write=None)
    assert cost(bare, written, quirks=CLAUDE) == pytest.approx(1.25)
    assert cost(bare, written, quirks=CLAUDE, cache_ttl="1h") == pytest.approx(2.0)
    assert cost(replace(ROW, price_cache_write=3.0), written, quirks=CLAUDE) == pytest.approx(3.0)
    assert cost(ROW, written, quirks=CLAUDE, cache_ttl="1h") == pytest.approx(2.0)
    assert cost(ROW, written, cache_ttl="1h") == pytest.approx(1.25)  # a provider without lives of its own choosing


def test_a_prompt_longer_than_the_prices_hold_for_has_no_known_cost() -> None:
    row = replace(ROW, priced_to_tokens=200)
    assert cost(row, Usage(100, 50, 100)) is not None
    assert cost(row, Usage(101, 50, 100)) is None
