"""The formats against llmock (PyPI), a server that others wrote to break clients: chat, Responses and Messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mocks
import pytest

from hermes.kernel.config.settings import ProviderSettings, RequestSettings
from hermes.kernel.effects import FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.events import ToolEnded, Waiting
from hermes.kernel.faults import classify
from hermes.kernel.messages import Message, StopReason, Text, ToolResult
from hermes.kernel.providers import Timeouts, WireFault

BASES = {"chat_completions": "/v1", "codex_responses": "/v1", "anthropic_messages": "/anthropic"}
HELLO = Message("user", (Text("read the file"),))
READ = [{"name": "read_file", "arguments": {"path": f"{name}.txt"}} for name in "ab"]

Scenario = Callable[..., None]


@pytest.fixture(scope="module")
def llmock() -> Iterator[str]:
    """The root URL of a running llmock."""
    with mocks.running([*mocks.llmock_program(), "serve"]) as url:
        yield url


@pytest.fixture
def scenario(llmock: str) -> Scenario:
    """`scenario({"type": …}, …)`: what happens to the next requests, in order."""
    mocks.post(f"{llmock}/_llmock/reset", {})
    return lambda *behaviours: mocks.post(f"{llmock}/_llmock/scenario", {"behaviors": list(behaviours)})


@pytest.fixture(params=BASES)
def api_mode(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def caller(llmock: str, api_mode: str, new_caller: Any) -> Any:
    return new_caller(api_mode, llmock + BASES[api_mode])


def fault_of(run: Callable[[], Any]) -> WireFault:
    with pytest.raises(WireFault) as caught:
        run()
    return caught.value


@pytest.mark.parametrize("stream", [True, False])
def test_parallel_calls_and_an_answer_go_over_an_independent_mock(
    scenario: Scenario, caller: Any, stream: bool
) -> None:
    scenario({"type": "reply", "text": "I look.", "tool_calls": READ}, {"type": "reply", "text": "Both are read."})
    reply = caller(HELLO, stream=stream)
    assert (reply.text, reply.stop_reason) == ("I look.", StopReason.TOOL_CALLS)
    assert [(call.name, dict(call.arguments)) for call in reply.calls] == [
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "b.txt"}),
    ]
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    results = tuple(ToolResult(call.id, "ok", (Text("content"),)) for call in reply.calls)
    final = caller(HELLO, Message("assistant", reply.parts), Message("tool", results), stream=stream)
    assert (final.text, final.stop_reason) == ("Both are read.", StopReason.STOP)
    assert caller.shown == "Both are read."


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_had_no_room_says_so(scenario: Scenario, caller: Any, stream: bool) -> None:
    scenario({"type": "reply", "text": "half", "finish_reason": "length"})
    assert caller(HELLO, stream=stream).stop_reason is StopReason.LENGTH


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FaultKind.BAD_REQUEST),
        (401, FaultKind.AUTH),
        (402, FaultKind.BILLING),
        (403, FaultKind.PERMISSION),
        (413, FaultKind.BODY_TOO_LARGE),
        (429, FaultKind.RATE_LIMIT),
        (500, FaultKind.SERVER_ERROR),
        (503, FaultKind.OVERLOADED),
        (529, FaultKind.OVERLOADED),
    ],
)
def test_an_error_of_each_class_is_named(
    scenario: Scenario, caller: Any, status: int, kind: FaultKind, stream: bool
) -> None:
    scenario({"type": "fail", "status": status})
    assert classify(fault_of(lambda: caller(HELLO, stream=stream))).kind is kind


def test_a_rate_limit_says_when_to_come_back(scenario: Scenario, caller: Any) -> None:
    scenario({"type": "fail", "status": 429, "retry_after": 9})
    assert classify(fault_of(lambda: caller(HELLO))).retry_after_s == 9


# ---- Broken streams -------------------------------------------------------------------------------------------------

LONG = {"type": "reply", "text": "one two three four five six seven eight nine ten eleven twelve"}
CHUNKS = 8
"""After so many the text has begun and is not at its end, in each format."""


def broken(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": CHUNKS, **more}


def test_a_connection_that_is_dropped_in_the_middle_is_a_fault(scenario: Scenario, caller: Any) -> None:
    scenario(LONG, broken("disconnect"))
    problem = fault_of(lambda: caller(HELLO))
    assert (problem.cause, problem.phase, bool(caller.shown)) == ("connection", "stream", True)


def test_B054_a_stream_that_ends_too_early_never_counts_as_an_answer(scenario: Scenario, caller: Any) -> None:
    """The nasty one: the connection ends as it should, and only the end of the reply is missing."""
    scenario(LONG, broken("truncate"))
    reply = caller(HELLO)
    assert reply.stop_reason is StopReason.CUT
    assert LONG["text"].startswith(reply.text)
    assert reply.text


def test_a_chunk_that_is_no_json_is_a_fault(scenario: Scenario, caller: Any) -> None:
    scenario(LONG, broken("malformed"))
    assert classify(fault_of(lambda: caller(HELLO))).kind is FaultKind.INVALID_REPLY


def test_B016_a_stream_that_hangs_is_given_up(scenario: Scenario, caller: Any) -> None:
    scenario(LONG, broken("stall", stall_seconds=60))
    problem = fault_of(lambda: caller(HELLO, timeouts=Timeouts(5, first_token_s=20, stall_s=0.3)))
    assert (problem.cause, problem.phase) == ("stall", "stream")


@pytest.mark.parametrize("stream", [True, False])
def test_arguments_that_are_no_json_are_never_run(scenario: Scenario, caller: Any, api_mode: str, stream: bool) -> None:
    scenario({"type": "tool_fault", "kind": "malformed_arguments"})
    (call,) = caller(HELLO, stream=stream).calls
    assert (call.name, dict(call.arguments)) == ("read_file", {})
    if stream or api_mode != "anthropic_messages":  # a whole message holds an object, which this mock leaves empty
        assert call.problem is not None
        assert '{"path": "' in call.problem


# ---- A whole agent --------------------------------------------------------------------------------------------------


def test_an_agent_comes_through_fault_after_fault_to_its_answer(
    scenario: Scenario, house: Any, llmock: str, api_mode: str
) -> None:
    (house.work / "a.txt").write_text("content", encoding="utf-8")
    scenario(
        {"type": "fail", "status": 429, "retry_after": 0.01},
        {"type": "fail", "status": 503, "retry_after": 0.01},
        LONG,  # broken in the middle
        broken("disconnect"),
        {"type": "reply", "tool_calls": READ[:1]},
        {"type": "reply", "text": "The file is read."},
    )
    provider = ProviderSettings(base_url=llmock + BASES[api_mode], api_mode=api_mode, api_key="k")
    result = house.agent(
        api_mode, model="mock:some-model", providers={"mock": provider}, request=RequestSettings(attempts=5)
    ).run("read the file")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "The file is read."), result.detail
    assert len(house.seen(Waiting)) == 3
    (tool,) = house.seen(ToolEnded)
    assert (tool.name, tool.status) == ("read_file", "ok")
