"""Several keys in a whole run: a refused one is left at once for the next, and none is ever seen."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hermes.kernel.config.settings import PoolSettings, ProviderSettings, RequestSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.testing import ScriptedServer, fault, text

KEYS = ("first-key-0123", "second-key-4567", "third-key-8901")


def keys_sent(server: ScriptedServer) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


def with_keys(house: Any, *keys: str, **sections: Any) -> Any:
    endpoint = ProviderSettings(base_url=house.server.base_url, api_key=keys)
    return house.agent(providers={"scripted": endpoint}, **sections)


@pytest.mark.parametrize(
    "refusal",
    [
        fault(401, "Incorrect API key provided: first-key-0123"),
        fault(402, "credits are used up"),
        fault(429, "too many requests", retry_after="3600"),
        fault(429, "You exceeded your current quota", code="insufficient_quota"),
    ],
)
def test_a_refused_key_is_left_for_the_next_within_the_same_attempt(house: Any, refusal: Any) -> None:
    house.server.add(refusal, text("done"), text("again"), text("and again"))
    agent = with_keys(house, *KEYS, request=RequestSettings(attempts=1))
    assert agent.run("go").answer == "done"
    assert agent.run("more").answer == "again"
    other = with_keys(house, *KEYS)  # another agent of the same process
    assert other.run("hello").answer == "and again"
    assert keys_sent(house.server) == [KEYS[0], KEYS[1], KEYS[1], KEYS[1]]


def test_spec_14038_15297_an_overloaded_server_is_asked_again_with_the_same_key(house: Any) -> None:
    house.server.add(fault(429, "The service is temporarily overloaded", retry_after="0"), text("done"))
    assert with_keys(house, *KEYS, request=RequestSettings(attempts=2)).run("go").answer == "done"
    assert keys_sent(house.server) == [KEYS[0]] * 2


def test_when_every_key_is_refused_the_run_ends_and_says_so(house: Any) -> None:
    house.server.add(*[fault(401, "no such key")] * 3)
    result = with_keys(house, *KEYS).run("go")
    assert result.reason is EndReason.AUTH
    assert keys_sent(house.server) == list(KEYS)


def test_spec_11314_13636_a_single_key_falls_back_at_once(house: Any) -> None:
    house.server.add(fault(402, "credits are used up"), text("from the fallback"))
    endpoint = ProviderSettings(base_url=house.server.base_url, api_key=(KEYS[0],))
    second = ProviderSettings(base_url=house.server.base_url, api_key=KEYS[2])
    agent = house.agent(providers={"scripted": endpoint, "second": second}, fallback=("second:other",))
    assert agent.run("go").answer == "from the fallback"
    assert keys_sent(house.server) == [KEYS[0], KEYS[2]]


def test_B013_after_a_fallback_each_request_has_one_providers_address_key_and_model(house: Any) -> None:
    with ScriptedServer(model="other") as second:
        house.server.add(fault(401, "no"), fault(401, "no"))
        second.add(fault(429, "slow", retry_after="3600"), text("done"))
        providers = {
            "scripted": ProviderSettings(base_url=house.server.base_url, api_key=KEYS[:2]),
            "second": ProviderSettings(base_url=second.base_url, api_key=("other-key-1", "other-key-2")),
        }
        agent = house.agent(providers=providers, fallback=("second:other",))
        assert agent.run("go").answer == "done"
        assert keys_sent(house.server) == list(KEYS[:2])
        assert keys_sent(second) == ["other-key-1", "other-key-2"]
        assert {request.model for request in house.server.requests} == {"any"}
        assert {request.model for request in second.requests} == {"other"}


def test_spec_6843_a_key_that_was_pasted_with_an_odd_letter_works(house: Any) -> None:
    house.server.add(text("done"))
    assert with_keys(house, " first-\u028bkey\u200b-0123\n").run("go").answer == "done"
    assert keys_sent(house.server) == ["first-key-0123"]


def test_B129_a_limit_that_lasts_for_days_is_tried_again_when_a_person_asks_again(house: Any) -> None:
    house.server.add(fault(429, "limit reached", retry_after=str(35 * 3600)), text("paid up"))
    agent = with_keys(house, KEYS[0])
    assert agent.run("go").reason is EndReason.PROVIDER_FAILED
    assert agent.run("go").answer == "paid up"


def test_round_robin_spreads_the_calls(house: Any) -> None:
    house.server.add(*[text("ok")] * 4)
    agent = with_keys(house, *KEYS, pool=PoolSettings("round_robin"))
    for number in range(4):
        agent.run(f"task {number}")
    assert keys_sent(house.server) == [*KEYS, KEYS[0]]


def test_no_key_is_in_an_event_a_result_the_log_or_the_store(
    house: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    house.server.add(*[fault(401, f"Incorrect API key provided: {key}") for key in KEYS])
    agent = with_keys(house, *KEYS)
    result = agent.run("go")
    seen = [repr(result), repr(house.events), repr(agent.settings), repr(agent.services.targets), caplog.text]
    seen += capfd.readouterr()
    seen += [
        path.read_bytes().decode("utf-8", "replace")
        for folder in (house.home, house.work)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert house.seen(Notice) or result.detail
    assert any("hidden" in each for each in seen)  # the server did repeat them
    for key in KEYS:
        assert not [each for each in seen if key in each]
