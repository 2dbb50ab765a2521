"""A call of the model as the runtime makes it: hooks around it, budget for each real call, bytes kept by identity."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.kernel.config.settings import LimitSettings, RequestSettings, SessionSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError, StopRun
from hermes.kernel.events import ModelCallEnded
from hermes.kernel.history import with_note
from hermes.kernel.messages import Message, ModelReply, StopReason, Text, ToolResult
from hermes.kernel.modelcalls import Serialised
from hermes.testing import call, fault, stall, text


def answer(words: str) -> ModelReply:
    return ModelReply((Text(words),), StopReason.STOP)


# ---- Around ---------------------------------------------------------------------------------------------------------


def test_a_wrapper_may_answer_without_asking_the_model(house) -> None:
    house.plugin("cache", around_model_call=lambda request, proceed: answer("From memory."))
    result = house.agent().run("go")
    assert (result.answer, result.usage.total_tokens) == ("From memory.", 0)
    assert house.server.requests == []


def test_a_wrapper_that_asks_twice_pays_twice(house) -> None:
    def twice(request: Any, proceed: Any) -> Any:
        proceed(request)
        return proceed(request)

    house.plugin("vote", around_model_call=twice)
    house.server.add(text("One."), text("Two."))
    agent = house.agent()
    result = agent.run("go")
    assert (result.answer, result.usage.total_tokens, result.iterations) == ("Two.", 30, 1)
    assert agent.services.ledger.used.total_tokens == 30
    assert agent.services.ledger.reserved_tokens == 0


def test_the_second_call_of_a_wrapper_is_refused_when_the_budget_is_used_up(house) -> None:
    def twice(request: Any, proceed: Any) -> Any:
        proceed(request)
        return proceed(request)

    house.plugin("vote", around_model_call=twice)
    house.server.add(text("One."), text("Last."))
    result = house.agent(limits=LimitSettings(max_tokens=15)).run("go")
    assert result.reason is EndReason.BUDGET_TOKENS
    assert len(house.server.requests) == 2  # one, refused; the closing request may overdraw once, then is refused too


def test_a_changed_request_lasts_for_that_attempt_and_is_not_stored(house) -> None:
    def shout(request: Any, proceed: Any) -> Any:
        last = request.messages[-1]
        return proceed(replace(request, messages=(*request.messages[:-1], replace(last, parts=(Text("CHANGED"),)))))

    house.plugin("shout", around_model_call=shout)
    house.server.add(text("One."))
    result = house.agent().run("go")
    assert house.server.requests[0].last["content"] == "CHANGED"
    assert result.messages[0].text == "go"


def test_a_changed_reply_is_what_is_stored(house) -> None:
    house.plugin("polite", around_model_call=lambda request, proceed: answer(proceed(request).text + " Please."))
    house.server.add(text("One."))
    assert house.agent().run("go").answer == "One. Please."


def test_a_wrapper_that_raises_ends_the_turn_by_its_name(house) -> None:
    def broken(request: Any, proceed: Any) -> Any:
        raise ValueError("out of order")

    house.plugin("broken", around_model_call=broken)
    agent = house.agent()
    result = agent.run("go")
    assert result.reason is EndReason.PLUGIN
    assert "broken" in result.detail
    assert "out of order" in result.detail
    assert house.server.requests == []
    assert agent.store.info(result.session_id).end_reason == "plugin"


def test_a_wrapper_that_gives_no_reply_is_told_from_one_that_does(house) -> None:
    house.plugin("odd", around_model_call=lambda request, proceed: "a text")
    result = house.agent().run("go")
    assert result.reason is EndReason.PLUGIN
    assert "str" in result.detail


def test_what_the_model_raises_passes_through_a_wrapper_as_it_is(house) -> None:
    seen = []

    def watch(request: Any, proceed: Any) -> Any:
        try:
            return proceed(request)
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    house.plugin("watch", around_model_call=watch)
    house.server.add(fault(401, "no such key"))
    assert house.agent().run("go").reason is EndReason.AUTH
    assert seen == ["WireFault"]


def test_a_wrapper_that_stops_the_run_keeps_what_was_paid(house) -> None:
    def stop(request: Any, proceed: Any) -> Any:
        proceed(request)
        raise StopRun("enough of this")

    house.plugin("stop", around_model_call=stop)
    house.server.add(text("Never stored as an answer."))
    result = house.agent().run("go")
    assert (result.reason, result.detail, result.answer) == (EndReason.INTERRUPTED, "enough of this", None)
    assert result.usage.total_tokens == 15
    assert result.partial == "Never stored as an answer."


def test_an_interrupt_inside_a_wrapper_is_not_swallowed_by_it(house, going) -> None:
    from hermes.testing import stall

    def stubborn(request: Any, proceed: Any) -> Any:
        try:
            return proceed(request)
        except BaseException:
            return answer("I go on.")

    house.plugin("stubborn", around_model_call=stubborn)
    house.server.add(stall(0))
    agent = house.agent()
    turn = going(lambda: agent.run("go"))
    house.server.wait_for_requests(1)
    agent.interrupt()
    assert turn.result().reason is EndReason.INTERRUPTED


# ---- Observers ------------------------------------------------------------------------------------------------------


def test_observers_see_every_attempt_with_usage_and_fault(house) -> None:
    before: list[Any] = []
    after: list[Any] = []
    house.plugin("watch", before_model_call=lambda call: before.append(call))
    house.plugin("watch2", after_model_call=lambda call: after.append(call))
    house.server.add(fault(500, "broken", retry_after="0"), call("todo", todos=[]), text("Done."))
    agent = house.agent(request=RequestSettings(attempts=2))
    result = agent.run("go")
    agent.close()
    assert [c.attempt for c in before] == [c.attempt for c in after] == [1, 2, 3]
    assert [c.fault for c in after] == ["server_error", "", ""]
    assert [c.usage.total_tokens for c in after] == [0, 15, 15]
    assert {c.target for c in after} == {"scripted:any"}
    assert {c.session for c in after} == {result.session_id}
    assert [e.fault for e in house.seen(ModelCallEnded)] == ["server_error", "", ""]


def test_an_observer_that_raises_harms_nothing(house) -> None:
    def broken(call: Any) -> None:
        raise ValueError("observer")

    house.plugin("broken", before_model_call=broken)
    house.server.add(call("todo", todos=[]), text("Done."))
    assert house.agent().run("go").answer == "Done."


# ---- Providers with code of their own -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "reason"), [("auth", "auth"), ("no_such_kind", "provider_failed")])
def test_a_provider_that_cannot_be_reached_ends_the_turn_by_its_kind(house, kind: str, reason: str) -> None:
    from hermes.kernel.providers import Profile

    def connect(model: str, report: Any, cancelled: Any) -> Any:
        report("starting the engine", 0.5)
        raise ProviderError("the engine does not start: feed the cat", kind=kind)

    provider = SimpleNamespace(
        profile=Profile("engine"), available=lambda: None, connect=connect, models=list, close=lambda: None
    )
    house.plugin("engine", group="hermes.providers", register_providers=lambda: [provider])
    agent = house.agent(model="engine:x")
    result = agent.run("go")
    assert (result.reason.value, agent.store.info(result.session_id).end_reason) == (reason, reason)
    assert "feed the cat" in result.detail


# ---- Bytes by identity ----------------------------------------------------------------------------------------------


class Wire:
    """Counts what it encodes."""

    def __init__(self) -> None:
        self.encoded: list[Message] = []

    def encode(self, message: Message, target: Any) -> bytes:
        self.encoded.append(message)
        return message.text.encode() + b"|" + b",".join(r.text.encode() for r in message.results)


def said(words: str) -> Message:
    return Message("user", (Text(words),))


def test_a_message_is_serialised_once_and_again_only_from_where_the_conversation_changed() -> None:
    wire: Any = Wire()
    kept = Serialised(wire, SimpleNamespace(row=None), b"", 1)  # type: ignore[arg-type]
    messages = [said(str(n)) for n in range(5)]
    first = list(kept.pieces(messages[:3], ""))
    assert list(kept.pieces(messages, "")) == [*first, b"3|", b"4|"]
    assert wire.encoded == messages
    other = said("2")  # equal, and another object: its bytes are not taken from the old one
    assert list(kept.pieces([*messages[:2], other, messages[4]], "")) == [b"0|", b"1|", b"2|", b"4|"]
    assert wire.encoded[5:] == [other, messages[4]]
    assert list(kept.pieces(messages[:1], "")) == [b"0|"]


def test_a_note_is_sent_and_not_kept() -> None:
    wire: Any = Wire()
    kept = Serialised(wire, SimpleNamespace(row=None), b"", 1)  # type: ignore[arg-type]
    result = Message("tool", (ToolResult("a", "ok", (Text("result"),)),))
    for messages in ([said("one")], [said("one"), Message("assistant", (Text("two"),)), result]):
        plain = list(kept.pieces(messages, ""))
        noted = list(kept.pieces(messages, "NOTE"))
        assert noted[:-1] == plain[:-1]
        assert noted[-1] == wire.encode(with_note(messages, "NOTE")[-1], None)
        assert b"NOTE" in noted[-1]
        assert list(kept.pieces(messages, "")) == plain


# ---- Silence --------------------------------------------------------------------------------------------------------


def test_B148_a_stop_says_how_long_the_call_had_been_silent(house, going) -> None:
    house.server.add(stall(after=0), text("Here."))
    agent = house.agent(sessions=SessionSettings(store="memory", outcomes=True))
    run = going(lambda: agent.run("go"))
    house.server.wait_for_requests(1)
    agent.interrupt()
    session = run.result().session_id
    entries = agent.store.open(session).outcomes(1)
    (stop,) = [e["outcome"] for e in entries if (e.get("outcome") or {}).get("type") == "stopped"]
    assert stop["silent_s"] > 0
    (ended,) = house.seen(ModelCallEnded)
    assert stop["silent_s"] <= ended.seconds
