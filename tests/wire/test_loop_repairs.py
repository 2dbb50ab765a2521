"""A request that a server refused for one part of it passes without that part: the whole way, in each format."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from readings import said

from hermes.kernel.config.settings import FallbackModel, ModelOptions, ProviderSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import ModelCallEnded, Notice
from hermes.kernel.messages import Image
from hermes.testing import Reply, Thought, blocks, call, fault, text
from hermes.testing.formats import FORMATS

CHAT, RESPONSES, MESSAGES, CONVERSE = FORMATS
SIGNING = (RESPONSES, MESSAGES, CONVERSE)


@pytest.fixture(autouse=True)
def files(house: Any) -> None:
    for name in "ab":
        (house.work / f"{name}.txt").write_text(f"this is {name}\n", encoding="utf-8")


def kinds(request: Any) -> list[str]:
    return [kind for kind, _ in said(request)]


def reads(house: Any, name: str) -> Callable[[Any], Any]:
    """Where each format has this parameter: a function of the body."""
    path: dict[str, dict[str, list[str]]] = {
        "temperature": {CONVERSE: ["inferenceConfig", "temperature"]},
        "cap": {
            CHAT: ["max_tokens"],
            RESPONSES: ["max_output_tokens"],
            MESSAGES: ["max_tokens"],
            CONVERSE: ["inferenceConfig", "maxTokens"],
        },
    }

    def read(request: Any) -> Any:
        value = request.body
        for step in path[name].get(request.api_mode, [name]):
            value = (value or {}).get(step)
        return value

    return read


@pytest.mark.parametrize("api_mode", [CHAT, MESSAGES, CONVERSE])
def test_a_refused_parameter_is_not_sent_again_in_this_session_also_by_another_process(
    house: Any, api_mode: str
) -> None:
    house.server.add(
        fault(400, "Unsupported parameter: 'temperature' is not supported with this model."), text("Hi."), text("Yes.")
    )
    options = ModelOptions(temperature=0.5)
    agent = house.agent(api_mode, model_options=options)
    assert agent.run("hello").answer == "Hi."
    session = agent.session_id
    agent.close()
    again = house.agent(api_mode, model_options=options)
    again.attach(session)
    assert again.run("still there?").answer == "Yes."
    temperature = reads(house, "temperature")
    assert [temperature(request) for request in house.server.requests] == [0.5, None, None]
    (notice,) = house.seen(Notice)
    assert "without the parameter temperature" in notice.text


@pytest.mark.parametrize("api_mode", SIGNING)
def test_B080_refused_signatures_are_left_out_and_the_turn_goes_on(house: Any, api_mode: str) -> None:
    house.server.add(
        blocks(Thought("I look."), *call("read_file", path="a.txt").calls),
        fault(400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        text("It is a."),
    )
    assert house.agent(api_mode).run("read it").answer == "It is a."
    _, refused, mended = house.server.requests
    assert "thinking" in kinds(refused)
    assert [kind for kind in kinds(refused) if kind != "thinking"] == kinds(mended)


@pytest.mark.parametrize("api_mode", FORMATS)
def test_spec_23570_a_model_that_takes_no_images_reads_a_note_in_their_place(
    house: Any, api_mode: str, red_pixel: Image
) -> None:
    house.server.add(fault(400, "This model does not support image input"), text("I cannot see it."), text("Bye."))
    agent = house.agent(api_mode)
    assert agent.run("look", images=[red_pixel]).answer == "I cannot see it."
    refused, mended = house.server.requests
    assert "image" in kinds(refused)
    assert "image" not in kinds(mended)
    assert any("an image that you cannot be shown" in what for _, what in said(mended))
    assert agent.run("bye").answer == "Bye."
    assert "image" not in kinds(house.server.requests[-1])


@pytest.mark.parametrize("api_mode", FORMATS)
def test_B069_a_model_that_writes_less_than_was_asked_for_is_asked_for_less(house: Any, api_mode: str) -> None:
    house.server.add(fault(400, "max_tokens cannot exceed the configured model output limit of 2048"), text("Hi."))
    assert house.agent(api_mode, model_options=ModelOptions(max_output_tokens=4000)).run("hello").answer == "Hi."
    assert [reads(house, "cap")(request) for request in house.server.requests] == [4000, 2048]


def test_a_schema_that_no_grammar_can_be_made_of_is_sent_without_its_keywords(house: Any) -> None:
    house.server.add(fault(400, "Failed to initialize samplers: failed to parse grammar"), text("Hi."), text("Yes."))
    agent = house.agent(CHAT)
    assert agent.run("hello").answer == "Hi."
    assert agent.run("more").answer == "Yes."
    first, second, third = (request.body["tools"] for request in house.server.requests)
    assert [t["function"]["name"] for t in first] == [t["function"]["name"] for t in second]
    assert second == third


@pytest.mark.parametrize("api_mode", FORMATS)
def test_spec_21256_22548_a_fallback_has_its_own_effort_and_cap_and_never_stands_in_for_itself(
    house: Any, api_mode: str
) -> None:
    house.server.add(fault(401, "no such key"), text("Hi."))
    name = house.model(api_mode)
    entry = FallbackModel("second:other", max_output_tokens=1024)
    providers = {
        api_mode: ProviderSettings(house.server.url_for(api_mode), api_mode=api_mode, api_key="k"),
        "second": ProviderSettings(house.server.base_url, api_mode=CHAT, api_key="k2"),
    }
    agent = house.agent(
        api_mode,
        providers=providers,
        fallback=(name, entry),
        model_options=ModelOptions(max_output_tokens=4000, reasoning_effort=None),
    )
    assert agent.run("hello").answer == "Hi."
    assert len(house.server.requests) == 2
    assert [reads(house, "cap")(request) for request in house.server.requests] == [4000, 1024]


def test_the_row_that_recognised_a_fault_is_logged_with_provider_model_status_and_seconds(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    house.server.add(fault(429, "Rate limit exceeded: 20 per minute", retry_after="3600"))
    result = house.agent(CHAT).run("hello")
    assert result.reason is EndReason.PROVIDER_FAILED
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("modelcalls")]
    assert line.startswith(f"provider {CHAT} model gpt-4o: rate_limit (row quota_resets, status 429) after ")
    assert line.endswith(" s: HTTP 429: Rate limit exceeded: 20 per minute")


def test_W2_a_request_that_is_wrong_by_our_own_fault_is_never_sent_again_unchanged(house: Any) -> None:
    house.server.add(fault(400, "tool_use ids must be unique"))
    result = house.agent(MESSAGES).run("hello")
    assert result.reason is EndReason.PROVIDER_FAILED
    assert "tool_use ids must be unique" in result.detail
    assert len(house.server.requests) == 1
    assert [event.fault for event in house.seen(ModelCallEnded)] == ["bad_request"]


def test_B078_an_image_in_the_history_that_a_server_stops_taking_does_not_end_the_session(
    house: Any, red_pixel: Image, tmp_path: Path
) -> None:
    refusal: Reply = fault(400, "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes")
    house.server.add(text("Red."), refusal, text("Fine."), text("Still fine."))
    agent = house.agent(MESSAGES)
    assert agent.run("look", images=[red_pixel]).answer == "Red."
    assert agent.run("and now?").answer == "Fine."
    assert agent.run("and now?").answer == "Still fine."
    assert ["image" in kinds(request) for request in house.server.requests] == [True, True, False, False]
