"""How long a server may be silent: by what its models are like, unless somebody says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes.kernel.config.settings import ProviderSettings, RequestSettings
from hermes.kernel.effects import FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.events import ModelCallEnded
from hermes.kernel.providers import ModelRow, Profile, Target, Timeouts
from hermes.kernel.timeouts import timeouts_for
from hermes.testing import stall

CLOUD = Target("cloud:m", Profile("cloud"), "m", "https://api.example.com/v1", "chat_completions")
THINKING = replace(CLOUD, row=ModelRow("m", reasoning=True))
LOCAL = replace(CLOUD, profile=Profile("local", local=True))


@pytest.mark.parametrize(
    ("target", "first_s", "stall_s"),
    [(CLOUD, 120, 180), (THINKING, 300, 300), (LOCAL, 900, 900), (replace(LOCAL, row=THINKING.row), 900, 900)],
    ids=["any other", "thinks", "local", "local and thinks"],
)
def test_spec_52217_B016_a_server_that_is_slow_by_its_nature_gets_more_time(
    target: Target, first_s: float, stall_s: float
) -> None:
    assert timeouts_for(target, RequestSettings()) == Timeouts(5, first_s, stall_s)


@pytest.mark.parametrize("target", [CLOUD, THINKING, LOCAL])
def test_B016_a_limit_of_the_settings_holds_whatever_is_usual(target: Target) -> None:
    asked = RequestSettings(connect_timeout_s=1, first_token_timeout_s=30, stall_timeout_s=2000)
    assert timeouts_for(target, asked) == Timeouts(1, 30, 2000)


def test_B016_a_limit_of_one_provider_or_model_wins_over_that_of_all() -> None:
    slow = {"first_token_timeout_s": 1800, "by_model": {"big*": {"stall_timeout_s": 7, "first_token_timeout_s": 3600}}}
    asked = RequestSettings(first_token_timeout_s=30)
    target = replace(CLOUD, profile=Profile("cloud", quirks=slow))
    assert timeouts_for(target, asked) == Timeouts(5, 1800, 180)
    assert timeouts_for(replace(target, model="big-one"), asked) == Timeouts(5, 3600, 7)


@pytest.mark.parametrize("wrong", [0, -1, "soon", None])
def test_a_limit_that_is_no_number_of_seconds_is_none(wrong: Any) -> None:
    target = replace(CLOUD, profile=Profile("cloud", quirks={"stall_timeout_s": wrong}))
    assert timeouts_for(target, RequestSettings()).stall_s == 180


@pytest.mark.parametrize(
    ("after", "quirk", "kind"),
    [(0, "first_token_timeout_s", FaultKind.TIMEOUT), (3, "stall_timeout_s", FaultKind.STALL)],
)
def test_B016_a_silent_server_is_given_up_at_the_limit_of_its_provider(
    house: Any, after: int, quirk: str, kind: FaultKind
) -> None:
    house.server.add(stall(after=after))
    endpoint = ProviderSettings(base_url=house.server.base_url, api_key="k", quirks={quirk: 0.2})
    result = house.agent(providers={"scripted": endpoint}).run("go")
    assert result.reason is EndReason.PROVIDER_FAILED
    assert [event.fault for event in house.seen(ModelCallEnded)] == [kind.value]
