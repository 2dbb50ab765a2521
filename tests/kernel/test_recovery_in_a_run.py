"""Faults of providers through whole runs: who is asked next, how often, and what is asked again in the next turn."""

from __future__ import annotations

from typing import Any

import pytest
from driving import drive, fresh, reply

from hermes.kernel.config.settings import ProviderSettings, RequestSettings
from hermes.kernel.effects import FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Waiting
from hermes.kernel.faults import classify
from hermes.kernel.providers import WireFault
from hermes.testing import ScriptedServer, fault, text

THREE = RequestSettings(attempts=3)


def test_B089_two_addresses_of_one_model_back_each_other(house: Any) -> None:
    with ScriptedServer() as other:
        house.server.add(fault(429, "slow down", retry_after="3600"))
        other.add(text("From the other."))
        homes = {"here": house.server, "there": other}
        providers = {name: ProviderSettings(base_url=s.base_url, api_key=f"k-{name}") for name, s in homes.items()}
        agent = house.agent(providers=providers, model="here:m", fallback=("there:m",), request=THREE)
        result = agent.run("go")
        assert (result.answer, result.model) == ("From the other.", "there:m")
        assert [r.headers["authorization"] for r in (*house.server.requests, *other.requests)] == [
            "Bearer k-here",
            "Bearer k-there",
        ]


def test_a_model_whose_upstream_is_full_leaves_other_models_and_the_key_of_its_provider_alone(house: Any) -> None:
    full = fault(429, "model temporarily unavailable due to upstream capacity limits", retry_after="0.01")
    house.server.play(lambda request: full if request.model == "any" else text("From the smaller one."))
    result = house.agent(fallback=("scripted:small",), request=THREE).run("go")
    assert (result.answer, result.model) == ("From the smaller one.", "scripted:small")
    assert {request.headers["authorization"] for request in house.server.requests} == {"Bearer scripted-key"}


RESETS = {"error": {"code": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in": 126000}}


def test_B129_a_limit_of_35_hours_is_tried_again_when_the_user_asks_again(house: Any) -> None:
    house.server.add(fault(429, body=RESETS, retry_after="126000"), text("Done."), text("And again."))
    first = house.agent(request=THREE)
    result = first.run("go")
    assert result.reason in (EndReason.PROVIDER_FAILED, EndReason.BILLING)
    assert house.seen(Waiting) == []
    assert len(house.server.requests) == 1
    assert first.run("I have topped up").answer == "Done."
    first.close()
    other = house.agent(request=THREE)
    other.attach(str(result.session_id))
    assert other.run("again").answer == "And again."


def test_B130_a_gate_for_long_contexts_is_no_rate_limit_and_ends_the_turn(house: Any) -> None:
    house.server.play(lambda request: fault(429, "Extra usage is required for long context requests"))
    result = house.agent(request=THREE).run("go")
    assert (result.reason, len(house.server.requests)) == (EndReason.CONTEXT_FULL, 1)
    assert "Extra usage is required" in result.detail


def test_B130_an_overflow_that_is_told_as_an_answer_is_not_asked_for_again(house: Any) -> None:
    house.server.play(lambda request: text("Prompt is too long"))
    result = house.agent(request=THREE).run("go")
    assert len(house.server.requests) == 1
    assert (result.answer or result.detail) == "Prompt is too long"


LLAMA = (
    "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 217: "
    "syntax error while parsing value - invalid string: missing closing quote"
)


@pytest.mark.parametrize("failures", [1, 3])
def test_B058_arguments_that_the_server_cannot_read_are_a_bad_reply_and_soon_given_up(failures: int) -> None:
    seen = classify(WireFault("http", LLAMA, status=500))
    assert seen.kind is FaultKind.INVALID_REPLY
    said = [reply("Done.")] if failures < 3 else []
    driven = drive(fresh(limits={"attempts": 3}), "go", replies=[*[seen] * failures, *said])
    assert driven.result.reason is (EndReason.COMPLETED if said else EndReason.INVALID_RESPONSES)
    assert len(driven.requests) == min(failures + 1, 3)
    assert "missing closing quote" in driven.result.detail or said
