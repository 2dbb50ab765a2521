"""Which target is asked: fallbacks and their windows, cooldowns, the last resort, and targets that fell silent."""

from __future__ import annotations

from typing import Any

import pytest
from driving import Driven, call, drive, fresh, reply

from hermes.kernel.chain import CHAIN_SPENT_S, first_target, next_target
from hermes.kernel.effects import AskModel, Fault, FaultKind, Notify, Record, Stopped, Wait
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.recovery import COOLS_S, LONGEST_COOLS_S, SILENT_S, STALLS_OPEN
from hermes.kernel.state import TurnState

K = FaultKind
CHAIN = ("one", "two")


def targets(driven: Driven) -> list[str]:
    return [asked.target for asked in driven.requests]


def notices(driven: Driven) -> list[str]:
    return [e.event.text for e in driven.effects if isinstance(e, Notify) and isinstance(e.event, Notice)]


def left(kind: FaultKind, turn: int = 0) -> dict[str, Any]:
    return {"kind": kind.value, "turn": turn}


def kept(driven: Driven) -> dict[str, Any]:
    """The session's state on disk after the turn."""
    return {key: value for key, (value, _) in driven.learned.items() if value is not None}


# ---- The chain ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault(K.RATE_LIMIT), Fault(K.BILLING), Fault(K.INVALID_REPLY), Fault(K.AUTH)])
def test_B012_what_a_wait_would_not_mend_soon_moves_on_at_once(fault: Fault) -> None:
    driven = drive(fresh(targets=CHAIN), "hi", replies=[fault, reply("x")])
    assert targets(driven) == ["one", "two"]
    assert driven.waits == []


@pytest.mark.parametrize("kind", [K.OVERLOADED, K.TIMEOUT, K.STALL])
def test_B012_a_server_in_trouble_is_asked_once_more_before_the_next(kind: FaultKind) -> None:
    driven = drive(fresh(targets=CHAIN), "hi", replies=[Fault(kind), Fault(kind), reply("x")])
    assert targets(driven) == ["one", "one", "two"]


def test_B012_three_timeouts_and_then_limits_still_reach_the_fallback() -> None:
    faults = [Fault(K.TIMEOUT), Fault(K.RATE_LIMIT), reply("x")]
    assert targets(drive(fresh(targets=CHAIN), "hi", replies=faults)) == ["one", "one", "two"]


def test_spec_8_9_a_switch_begins_to_count_anew() -> None:
    faults = [Fault(K.CONNECTION)] * 3 + [Fault(K.CONNECTION, "dead")] * 3
    driven = drive(fresh(targets=CHAIN), "hi", replies=faults)
    assert targets(driven) == ["one"] * 3 + ["two"] * 3


def test_invalid_replies_of_a_single_target_are_waited_out_and_the_end_names_it_the_attempts_and_the_error() -> None:
    driven = drive(fresh(targets=("p:m",)), "hi", replies=[Fault(K.INVALID_REPLY, "no choices")] * 3)
    assert driven.result.reason is EndReason.INVALID_RESPONSES
    assert driven.result.detail == "p:m: no choices (after 3 attempts)"
    assert [5 / 2 <= driven.waits[0] <= 5, 10 / 2 <= driven.waits[1] <= 10] == [True, True]


def test_spec_35314_17446_no_chain_is_never_spoken_of() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.AUTH, "bad key")])
    assert notices(driven) == []
    assert driven.learned == {}
    assert "fallback" not in driven.result.detail


def test_spec_31273_nothing_is_paid_for_after_a_billing_refusal() -> None:
    driven = drive(fresh(targets=CHAIN), "hi", replies=[Fault(K.BILLING)] * 2)
    assert targets(driven) == ["one", "two"]
    assert driven.result.reason is EndReason.BILLING


def test_B014_a_target_that_says_when_it_may_be_asked_again_is_left_until_then() -> None:
    for stated, cools_s in ((None, COOLS_S), (5.0, COOLS_S), (23340.0, 23340.0), (1e9, LONGEST_COOLS_S)):
        fault = Fault(K.RATE_LIMIT, retry_after_s=stated)
        driven = drive(fresh(targets=CHAIN), "hi", replies=[fault, reply("x")])
        assert driven.learned == {"left:one": (left(K.RATE_LIMIT, 1), cools_s)}


def test_B088_the_primary_is_tried_again_before_a_turn_fails_and_serves_first_once_its_time_is_over() -> None:
    overloaded = [Fault(K.OVERLOADED)] * 2
    first = drive(fresh(targets=CHAIN), "hi", replies=[*overloaded, reply("from two")])
    assert targets(first) == ["one", "one", "two"]
    state = fresh(*first.disk, targets=CHAIN, known=kept(first))
    state.turn = 2
    second = drive(state, "more", replies=[*overloaded, reply("from one")])
    assert targets(second) == ["two", "two", "one"]
    later = fresh(*second.disk, targets=CHAIN)  # the marks have expired
    assert targets(drive(later, "and more", replies=[reply("from one")])) == ["one"]


@pytest.mark.parametrize("kind", [K.BILLING, K.AUTH, K.MODEL_NOT_FOUND, K.CONTENT_POLICY])
def test_a_target_that_was_left_for_good_is_no_last_resort(kind: FaultKind) -> None:
    state = fresh(targets=CHAIN, known={"left:one": left(kind)})
    driven = drive(state, "hi", replies=[Fault(K.BILLING)])
    assert targets(driven) == ["two"]


def test_spec_24996_a_message_that_is_sent_again_at_once_does_not_go_through_the_whole_chain() -> None:
    broken = [Fault(K.SERVER_ERROR)] * 3
    first = drive(fresh(targets=CHAIN), "hi", replies=broken * 2)
    assert first.learned["chain_spent"] == (True, CHAIN_SPENT_S)
    state = fresh(*first.disk, targets=CHAIN, known=kept(first))
    state.turn = 2
    assert targets(drive(state, "hi", replies=broken)) == ["two"] * 3


def test_spec_20465_a_single_target_that_failed_is_asked_again_in_the_next_turn() -> None:
    first = drive(fresh(), "hi", replies=[Fault(K.SERVER_ERROR)] * 3)
    assert kept(first) == {}
    assert targets(drive(fresh(*first.disk), "hi", replies=[reply("x")])) == ["primary"]


def test_spec_22387_a_fallback_has_its_own_window() -> None:
    windows = {"one": 200_000, "two": 8192}
    state = fresh(targets=CHAIN, windows=windows, window_tokens=200_000)
    drive(state, "hi", replies=[Fault(K.AUTH), reply("x")])
    assert state.window_tokens == 8192
    adopted = fresh(targets=CHAIN, windows=windows, known={"window:two": 4096, "left:one": left(K.AUTH)})
    drive(adopted, "hi", replies=[reply("x")])
    assert adopted.window_tokens == 4096


def test_B132_a_conversation_that_is_too_long_goes_to_a_target_that_is_known_to_hold_more() -> None:
    overflow = Fault(K.CONTEXT_OVERFLOW, "too long")
    wide = fresh(targets=CHAIN, windows={"one": 8192, "two": 1_000_000}, window_tokens=8192)
    driven = drive(wide, "hi", replies=[overflow, reply("x")])
    assert targets(driven) == ["one", "two"]
    narrow = fresh(targets=CHAIN, windows={"one": 8192, "two": 8192}, window_tokens=8192)
    assert drive(narrow, "hi", replies=[overflow]).result.reason is EndReason.CONTEXT_FULL


@pytest.mark.parametrize(("stated", "window"), [(100_000, 100_000), (300_000, 200_000), (None, 200_000)])
def test_B069_B070_a_window_is_adopted_only_when_it_is_stated_and_smaller(stated: int | None, window: int) -> None:
    state = fresh(window_tokens=200_000)
    drive(state, "hi", replies=[Fault(K.CONTEXT_OVERFLOW, limit_tokens=stated)])
    assert state.window_tokens == window


def test_B130_what_no_wait_mends_is_asked_once_and_an_answer_that_sounds_like_an_error_is_an_answer() -> None:
    gate = Fault(K.CONTEXT_OVERFLOW, "Extra usage is required for long context requests")
    assert drive(fresh(), "hi", replies=[gate]).result.reason is EndReason.CONTEXT_FULL
    assert drive(fresh(), "hi", replies=[reply("Prompt is too long")]).result.answer == "Prompt is too long"


def test_the_next_key_is_told_in_one_line() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.AUTH, "bad key", other_keys=1), reply("x")])
    assert notices(driven) == ["primary: bad key; trying another key"]


def test_every_wait_says_of_whom_and_why() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.RATE_LIMIT, "slow down", retry_after_s=400.0), reply("x")])
    assert [(e.seconds, e.why) for e in driven.effects if isinstance(e, Wait)] == [
        (400.0, "primary: slow down; trying again")
    ]


# ---- Targets that fell silent ---------------------------------------------------------------------------------------


def after_stalls(count: int, *, targets: tuple[str, ...] = ("one",), opened: bool = False) -> TurnState:
    known = {"stalls:one": count, **({"open:one": True} if opened else {})}
    return fresh(targets=targets, known=known)


@pytest.mark.parametrize("kind", [K.STALL, K.TIMEOUT])
def test_calls_that_end_in_silence_are_counted_over_turns_and_any_reply_ends_the_count(kind: FaultKind) -> None:
    silent = drive(fresh(), "hi", replies=[Fault(kind)] * 3)
    assert kept(silent) == {"stalls:primary": 3}
    spoke = drive(fresh(known=kept(silent)), "hi", replies=[Fault(kind), reply("x")])
    assert spoke.learned == {"stalls:primary": (None, None)}
    assert spoke.state.known == {}


def test_a_gateway_that_says_that_it_timed_out_is_not_silent() -> None:
    assert kept(drive(fresh(), "hi", replies=[Fault(K.TIMEOUT, status=504)] * 3)) == {}


def test_spec_58962_after_five_silent_calls_nobody_waits_for_a_sixth() -> None:
    driven = drive(after_stalls(STALLS_OPEN - 1), "hi", replies=[Fault(K.STALL, "no bytes for 180 s")])
    assert driven.result.reason is EndReason.PROVIDER_FAILED
    assert driven.waits == []
    assert driven.learned == {"stalls:one": (STALLS_OPEN, None), "open:one": (True, COOLS_S)}


def test_B148_while_the_breaker_is_open_a_turn_ends_at_once_and_without_a_request() -> None:
    driven = drive(after_stalls(STALLS_OPEN, opened=True), "hi")
    assert driven.requests == []
    assert driven.result.detail == "one sent nothing 5 times in a row; it is asked again in a minute"


def test_B148_an_open_breaker_leads_to_the_next_target() -> None:
    driven = drive(after_stalls(STALLS_OPEN, targets=CHAIN, opened=True), "hi", replies=[reply("x")])
    assert targets(driven) == ["two"]


def test_B148_after_its_time_a_silent_target_is_tried_once_and_a_reply_closes_the_breaker() -> None:
    again = drive(after_stalls(STALLS_OPEN), "hi", replies=[Fault(K.STALL)])
    assert len(again.requests) == 1
    assert again.learned["open:one"] == (True, COOLS_S)
    healthy = drive(after_stalls(STALLS_OPEN), "hi", replies=[reply("x")])
    assert healthy.result.answer == "x"
    assert healthy.state.known == {}


def test_B148_a_breaker_that_opens_in_a_turn_leads_to_the_next_target_with_all_its_attempts() -> None:
    faults = [Fault(K.STALL), Fault(K.CONNECTION), Fault(K.CONNECTION), reply("x")]
    driven = drive(after_stalls(STALLS_OPEN - 1, targets=CHAIN), "hi", replies=faults)
    assert targets(driven) == ["one", "two", "two", "two"]


@pytest.mark.parametrize(("silent_s", "count"), [(SILENT_S, 1), (SILENT_S - 1, 0)])
def test_B148_a_call_that_is_stopped_while_it_is_silent_counts(silent_s: float, count: int) -> None:
    stop = Stopped(EndReason.INTERRUPTED)
    stop.silent_s = silent_s
    driven = drive(fresh(), "hi", replies=[stop])
    assert driven.result.reason is EndReason.INTERRUPTED
    assert kept(driven) == ({"stalls:primary": 1} if count else {})


def test_a_target_that_fell_silent_is_not_the_first_when_all_cool_down() -> None:
    known = {"open:one": True, "left:one": left(K.STALL), "left:two": left(K.OVERLOADED)}
    state = fresh(targets=CHAIN, known=known)
    assert first_target(state) == 1
    state.target = 1
    assert next_target(state) is None


def test_what_was_learned_is_recorded_before_the_next_request() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.STALL), reply(call()), reply("x")])
    order = [type(e).__name__ for e in driven.effects if isinstance(e, (AskModel, Record))]
    assert order[1:4] == ["AskModel", "Record", "AskModel"]
