"""An error of each class in each format, in the words of its vendor, and the kind that comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest

from hermes.kernel.config.settings import RequestSettings
from hermes.kernel.effects import FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Waiting
from hermes.kernel.faults import classify
from hermes.kernel.messages import StopReason
from hermes.kernel.providers import Timeouts, WireFault
from hermes.testing import Reply, ScriptedServer, call, cut, error_event, events, fault, stall, text
from hermes.testing.formats import FORMATS, Asked

CHAT, RESPONSES, MESSAGES, CONVERSE = "chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse"


@dataclass(frozen=True)
class Case:
    """One error: how each vendor says it, by format, and what it is."""

    kind: FaultKind
    said: Mapping[str, Reply]


def openai(reply: Reply) -> dict[str, Reply]:
    """OpenAI says the same in both of its formats."""
    return {CHAT: reply, RESPONSES: reply}


CASES: Mapping[str, Case] = {
    "401, a wrong key": Case(
        FaultKind.AUTH,
        {
            **openai(fault(401, "Incorrect API key provided: sk-none.", code="invalid_api_key")),
            MESSAGES: fault(401, "invalid x-api-key"),
            CONVERSE: fault(403, "The security token included in the request is invalid.",
                            code="UnrecognizedClientException"),
        },
    ),
    "402, no money": Case(
        FaultKind.BILLING,
        {
            **openai(fault(402, "Insufficient credits. Add more using your account page.")),
            MESSAGES: fault(402, "There is an issue with your billing or payment information."),
            CONVERSE: fault(402, "Your account has a payment issue."),
        },
    ),
    "403, not allowed": Case(
        FaultKind.PERMISSION,
        {
            **openai(fault(403, "Country, region, or territory not supported",
                           code="unsupported_country_region_territory")),
            MESSAGES: fault(403, "Your API key does not have permission to use the specified resource."),
            CONVERSE: fault(403, "You don't have access to the model with the specified model ID."),
        },
    ),
    "404, no such model": Case(
        FaultKind.MODEL_NOT_FOUND,
        {
            **openai(fault(404, "The model `gpt-9` does not exist or you do not have access to it.",
                           code="model_not_found")),
            MESSAGES: fault(404, "model: claude-9"),
            CONVERSE: fault(404, "Could not resolve the foundation model from the provided model identifier."),
        },
    ),
    "413, too large a body": Case(
        FaultKind.BODY_TOO_LARGE,
        {
            **openai(Reply(status=413, body="<html><title>413 Request Entity Too Large</title></html>")),
            MESSAGES: fault(413, "Request exceeds the maximum allowed number of bytes."),
            CONVERSE: fault(413, "Request entity too large"),
        },
    ),
    "429, too many requests": Case(
        FaultKind.RATE_LIMIT,
        {
            **openai(fault(429, "Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): "
                           "Limit 3, Used 3, Requested 1. Please try again in 20s.", code="rate_limit_exceeded")),
            MESSAGES: fault(429, "This request would exceed your organization's rate limit of 50 requests per minute."),
            CONVERSE: fault(429, "Too many requests, please wait before trying again."),
        },
    ),
    "429, a quota that is used up": Case(
        FaultKind.BILLING,
        {
            **openai(fault(429, "You exceeded your current quota, please check your plan and billing details.",
                           code="insufficient_quota")),
            MESSAGES: fault(400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
                            "Billing to upgrade or purchase credits."),
        },
    ),
    "500, a broken server": Case(
        FaultKind.SERVER_ERROR,
        {
            **openai(fault(500, "The server had an error while processing your request. Sorry about that!")),
            MESSAGES: fault(500, "Internal server error"),
            CONVERSE: fault(500, "The system encountered an unexpected error during processing."),
        },
    ),
    "529 or 503, overloaded": Case(
        FaultKind.OVERLOADED,
        {
            **openai(fault(503, "The engine is currently overloaded, please try again later")),
            MESSAGES: fault(529, "Overloaded"),
            CONVERSE: fault(503, "Bedrock is unable to process your request."),
        },
    ),
    "400, too long for the model": Case(
        FaultKind.CONTEXT_OVERFLOW,
        {
            CHAT: fault(400, "This model's maximum context length is 128000 tokens. However, your messages resulted in "
                        "140000 tokens. Please reduce the length of the messages.", code="context_length_exceeded"),
            RESPONSES: fault(400, "Your input exceeds the context window of this model. Please adjust your input and "
                             "try again.", code="context_length_exceeded"),
            MESSAGES: fault(400, "prompt is too long: 203470 tokens > 200000 maximum"),
            CONVERSE: fault(400, "Input is too long for requested model."),
        },
    ),
    "400, not to be talked about": Case(
        FaultKind.CONTENT_POLICY,
        {
            CHAT: fault(400, "The response was filtered due to the prompt triggering Azure OpenAI's content management "
                        "policy.", code="content_filter"),
            RESPONSES: fault(400, "Your request was rejected as a result of our safety system.",
                             code="content_policy_violation"),
        },
    ),
    "400, a mistake of ours": Case(
        FaultKind.BAD_REQUEST,
        {
            **openai(fault(400, "Invalid type for 'temperature': expected a decimal, but got a string.",
                           code="invalid_type")),
            MESSAGES: fault(400, "max_tokens: Field required"),
            CONVERSE: fault(400, "The value at toolConfig.tools.0 is malformed."),
        },
    ),
    "504, no answer in time": Case(
        FaultKind.TIMEOUT,
        {
            **openai(fault(504, "Gateway timeout")),
            MESSAGES: fault(504, "Request timed out"),
            CONVERSE: fault(408, "Processing time exceeded the model timeout length."),
        },
    ),
    "in the stream, overloaded": Case(
        FaultKind.OVERLOADED,
        {
            CHAT: error_event("Provider overloaded", status=503),
            RESPONSES: error_event("The model is overloaded.", code="server_is_overloaded"),
            MESSAGES: error_event("Overloaded", status=529),
            CONVERSE: error_event("Bedrock is unable to process your request.", status=503),
        },
    ),
    "in the stream, too many requests": Case(
        FaultKind.RATE_LIMIT,
        {
            CHAT: error_event("Rate limit exceeded", status=429),
            RESPONSES: error_event("Rate limit reached for gpt-5. Please try again in 1s.", status=429),
            MESSAGES: error_event("This request would exceed your rate limit.", status=429),
            CONVERSE: error_event("Too many requests, please wait before trying again.", status=429),
        },
    ),
    "in the stream, a broken server": Case(
        FaultKind.SERVER_ERROR,
        {
            CHAT: error_event("The server had an error", code="server_error"),
            RESPONSES: error_event("An error occurred while processing your request."),
            MESSAGES: error_event("Internal server error"),
            CONVERSE: error_event("The system encountered an unexpected error during processing."),
        },
    ),
}  # fmt: skip

EACH = [(name, api_mode) for name, case in CASES.items() for api_mode in case.said]


def fault_of(run: Callable[[], Any]) -> WireFault:
    with pytest.raises(WireFault) as caught:
        run()
    return caught.value


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("name", "api_mode"), EACH)
def test_an_error_is_named_in_each_format(
    scripted: ScriptedServer, new_caller: Any, name: str, api_mode: str, stream: bool
) -> None:
    case = CASES[name]
    reply = case.said[api_mode]
    scripted.add(reply)
    found = classify(fault_of(lambda: new_caller(api_mode, scripted.url_for(api_mode))(stream=stream)))
    assert found.kind is case.kind, found.detail
    assert len(scripted.requests) == 1  # no SDK tries again by itself
    if reply.fault is not None and reply.body is None:
        assert reply.fault.message[:40].rstrip() in found.detail  # in the provider's own words


def test_a_rate_limit_says_when_to_come_back(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(fault(429, "Too many requests.", retry_after="7"))
    found = classify(fault_of(caller))
    assert (found.kind, found.retry_after_s) == (FaultKind.RATE_LIMIT, 7)


def test_an_overflow_says_the_window_where_the_provider_does(scripted: ScriptedServer, new_caller: Any) -> None:
    for api_mode, limit in ((CHAT, 128000), (MESSAGES, 200000)):
        scripted.add(CASES["400, too long for the model"].said[api_mode])
        found = classify(fault_of(new_caller(api_mode, scripted.url_for(api_mode))))
        assert found.limit_tokens == limit


def test_what_was_shown_before_an_error_in_the_stream_stays_shown(
    scripted: ScriptedServer, caller: Any, middle: int
) -> None:
    scripted.add(error_event("It broke.", after=middle))
    assert fault_of(caller).phase == "stream"
    assert caller.shown == "this "


# ---- What is no error of the server ---------------------------------------------------------------------------------


def test_a_connection_that_breaks_in_the_middle_is_a_fault(scripted: ScriptedServer, caller: Any, middle: int) -> None:
    scripted.add(cut(after=middle, text="a long answer"))
    problem = fault_of(caller)
    assert (problem.cause, problem.phase, caller.shown) == ("connection", "stream", "a lon")


def test_no_answer_at_all_is_a_connection_fault(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(cut(after=0))
    assert (fault_of(caller).cause, len(scripted.requests)) == ("connection", 1)


def test_B054_a_stream_that_ends_in_the_middle_without_a_word_is_cut(
    scripted: ScriptedServer, caller: Any, api_mode: str, middle: int
) -> None:
    """The connection closes as it should, and the reply has no end: half an answer never counts as a whole one."""
    asked = Asked("", {}, "m", 1)
    scripted.add(events(*islice(FORMATS[api_mode].events(text("a long answer"), asked), middle)))
    reply = caller()
    assert (reply.text, reply.stop_reason) == ("a lon", StopReason.CUT)


def test_a_first_token_that_does_not_come_and_a_stall_are_told_apart(
    scripted: ScriptedServer, caller: Any, middle: int
) -> None:
    scripted.add(stall(after=0), stall(after=middle))
    late = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=0.2, stall_s=20)))
    assert (late.cause, late.phase) == ("timeout", "first_token")
    stalled = fault_of(lambda: caller(timeouts=Timeouts(5, first_token_s=20, stall_s=0.2)))
    assert (stalled.cause, stalled.phase, bool(caller.shown)) == ("stall", "stream", True)


@pytest.mark.parametrize("stream", [True, False])
def test_spec_14782_a_page_of_a_gateway_is_no_reply(scripted: ScriptedServer, caller: Any, stream: bool) -> None:
    scripted.add(Reply(body="<html>Welcome to nginx</html>"))
    problem = fault_of(lambda: caller(stream=stream))
    assert classify(problem).kind is FaultKind.INVALID_REPLY
    assert "nginx" in problem.message


@pytest.mark.parametrize("stream", [True, False])
def test_an_empty_reply_is_a_reply_without_words(scripted: ScriptedServer, caller: Any, stream: bool) -> None:
    scripted.add(Reply())
    reply = caller(stream=stream)
    assert (reply.text, reply.calls, reply.stop_reason) == ("", (), StopReason.STOP)


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_had_no_room_and_one_that_was_refused_say_so(
    scripted: ScriptedServer, caller: Any, stream: bool
) -> None:
    scripted.add(text("half", finish="length"), text("I will not.", finish="content_filter"))
    assert caller(stream=stream).stop_reason is StopReason.LENGTH
    assert caller(stream=stream).stop_reason is StopReason.REFUSAL


# ---- A whole agent --------------------------------------------------------------------------------------------------

ENDINGS = {
    "401, a wrong key": EndReason.AUTH,
    "402, no money": EndReason.BILLING,
    "500, a broken server": EndReason.PROVIDER_FAILED,
    "400, too long for the model": EndReason.CONTEXT_FULL,
}


@pytest.mark.parametrize("name", ENDINGS)
def test_an_agent_ends_for_the_same_reason_in_each_format(house: Any, api_mode: str, name: str) -> None:
    house.server.add(CASES[name].said[api_mode])
    result = house.agent(api_mode).run("go")
    assert result.reason is ENDINGS[name], result.detail


def test_an_agent_waits_as_told_and_goes_on_in_each_format(house: Any, api_mode: str, middle: int) -> None:
    (house.work / "a.txt").write_text("content", encoding="utf-8")
    house.server.add(
        fault(429, "Too many requests.", retry_after="0.01"),
        call("read_file", path="a.txt"),
        cut(after=middle, text="The file says"),
        text("It says content."),
    )
    result = house.agent(api_mode, request=RequestSettings(attempts=3)).run("what does it say?")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "It says content.")
    assert len(house.seen(Waiting)) == 2
    assert len(house.server.requests) == 4


def test_an_agent_asks_again_after_an_empty_reply_in_each_format(house: Any, api_mode: str) -> None:
    house.server.add(Reply(), text("Here I am."))
    result = house.agent(api_mode).run("are you there?")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "Here I am.")
