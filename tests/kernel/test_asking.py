"""Asking the model until there is a reply or a reason to stop: retries, waits, the chain of targets, overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from driving import Driven, asks, call, cut, done, drive, fresh, reply, said, told, user

from hermes.kernel.chain import CHAIN_SPENT_S, first_target
from hermes.kernel.context import MOST_COMPRESSIONS, pressure
from hermes.kernel.effects import Answered, Consult, Fault, FaultKind, Notify, RecoveryChoice, Rewrite, Spent, Steer
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.messages import Message, ModelReply, Text, Usage
from hermes.kernel.recovery import COOLS_S, LONGEST_WAIT_S
from hermes.kernel.replies import CONTINUE
from hermes.kernel.state import TurnState

K = FaultKind
CHAIN = ("one", "two", "three")
EARLIER = {"kind": "rate_limit", "turn": 0}
OVERFLOW = Fault(K.CONTEXT_OVERFLOW, "too long")


def targets(driven: Driven) -> list[str]:
    return [asked.target for asked in driven.requests]


def notices(driven: Driven) -> list[Notice]:
    return [e.event for e in driven.effects if isinstance(e, Notify) and isinstance(e.event, Notice)]


# ---- Retries --------------------------------------------------------------------------------------------------------


def test_a_passing_fault_is_waited_out_and_asked_again_the_same() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.OVERLOADED), Fault(K.TIMEOUT), reply("there")])
    assert driven.result.answer == "there"
    assert [asked.attempt for asked in driven.requests] == [1, 2, 3]
    assert [asked.request for asked in driven.requests] == [driven.requests[0].request] * 3
    assert len(driven.waits) == 2
    assert driven.result.iterations == 1


def test_retry_after_is_what_is_waited() -> None:
    assert drive(fresh(), "hi", replies=[Fault(K.RATE_LIMIT, retry_after_s=17.0), reply("x")]).waits == [17.0]


def test_attempts_on_one_target_are_bounded_and_the_end_says_how_many_there_were() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.STALL, "no bytes")] * 3)
    assert driven.result.reason is EndReason.PROVIDER_FAILED
    assert driven.result.detail == "primary: no bytes (after 3 attempts)"
    assert driven.texts[-1] == "assistant: This turn ended here (provider_failed): primary: no bytes (after 3 attempts)"


def test_every_step_has_its_attempts_anew() -> None:
    faults = [Fault(K.STALL)] * 2
    driven = drive(fresh(), "hi", replies=[*faults, reply(call()), *faults, reply("done")])
    assert driven.result.answer == "done"
    assert [asked.attempt for asked in driven.requests] == [1, 2, 3, 4, 5, 6]


def test_a_wait_that_is_too_long_ends_the_turn_and_says_when() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.RATE_LIMIT, "slow down", retry_after_s=LONGEST_WAIT_S + 480)])
    assert driven.waits == []
    assert driven.result.reason is EndReason.PROVIDER_FAILED
    assert driven.result.detail == "primary: slow down; it asks to wait 1080 s"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (K.AUTH, EndReason.AUTH),
        (K.BILLING, EndReason.BILLING),
        (K.BAD_REQUEST, EndReason.PROVIDER_FAILED),
        (K.CONTENT_POLICY, EndReason.REFUSED),
        (K.BODY_TOO_LARGE, EndReason.CONTEXT_FULL),
    ],
)
def test_what_another_try_cannot_mend_is_asked_once(kind: FaultKind, reason: EndReason) -> None:
    driven = drive(fresh(), "hi", replies=[Fault(kind, "why")])
    assert (driven.result.reason, driven.result.answer) == (reason, None)
    assert driven.waits == []


def test_invalid_replies_end_with_a_reason_of_their_own() -> None:
    assert drive(fresh(), "hi", replies=[Fault(K.INVALID_REPLY)] * 3).result.reason is EndReason.INVALID_RESPONSES


def test_a_broken_plugin_around_the_call_is_met_twice() -> None:
    assert drive(fresh(), "hi", replies=[Fault(K.PLUGIN)] * 2).result.reason is EndReason.PLUGIN


def test_usage_of_faults_counts_too() -> None:
    spent = Spent(Usage(5, 1))
    driven = drive(fresh(), "hi", replies=[Fault(K.STALL, spent=spent), Answered(reply("x"), Spent(Usage(7, 2)))])
    assert driven.result.usage == Usage(12, 3)


def test_steering_that_came_with_a_fault_is_not_lost() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.STALL, steering=(Steer(7, "also z"),)), reply(call()), reply("ok")])
    assert driven.taken == [7]
    assert driven.disk[2].parts[-1] == Text("also z", "steer")


def test_a_parameter_that_a_target_refused_is_left_out_for_that_target() -> None:
    state = fresh(targets=CHAIN, known={"leave_out:two": ["temperature"]})
    driven = drive(state, "hi", replies=[Fault(K.AUTH), reply("x")])
    assert [asked.request.leave_out for asked in driven.requests] == [(), ("temperature",)]


# ---- The chain ------------------------------------------------------------------------------------------------------


def test_B012_the_chain_is_followed_to_its_end_and_no_target_that_was_left_is_asked_again() -> None:
    driven = drive(fresh(targets=CHAIN), "hi", replies=[Fault(K.AUTH), Fault(K.BILLING), Fault(K.MODEL_NOT_FOUND, "?")])
    assert targets(driven) == ["one", "two", "three"]
    assert driven.result.reason is EndReason.PROVIDER_FAILED
    assert driven.learned == {
        "left:one": ({"kind": "auth", "turn": 1}, COOLS_S),
        "left:two": ({"kind": "billing", "turn": 1}, COOLS_S),
        "chain_spent": (True, CHAIN_SPENT_S),
    }


def test_a_fallback_is_told_to_the_user_and_serves_the_rest_of_the_turn() -> None:
    driven = drive(fresh(targets=CHAIN), "hi", replies=[Fault(K.AUTH, "bad key"), reply(call()), reply("x")])
    assert targets(driven) == ["one", "two", "two"]
    assert [n.text for n in notices(driven)] == ["one failed (bad key); going on with two"]


def test_a_new_target_has_all_its_attempts() -> None:
    driven = drive(fresh(targets=("one", "two")), "hi", replies=[Fault(K.CONNECTION)] * 5 + [reply("x")])
    assert targets(driven) == ["one"] * 3 + ["two"] * 3
    assert driven.result.answer == "x"


def test_a_wall_of_retry_after_moves_on_at_once() -> None:
    driven = drive(fresh(targets=CHAIN), "hi", replies=[Fault(K.RATE_LIMIT, retry_after_s=3600.0), reply("x")])
    assert targets(driven) == ["one", "two"]
    assert driven.waits == []


@pytest.mark.parametrize(("cooling", "first"), [((), 0), (("one",), 1), (("one", "two"), 2), (("two",), 0), (CHAIN, 0)])
def test_a_turn_begins_with_the_first_target_that_does_not_cool_down(cooling: tuple[str, ...], first: int) -> None:
    state = fresh(targets=CHAIN, known={f"left:{name}": EARLIER for name in cooling})
    assert first_target(state) == first


def test_a_target_that_cools_down_is_passed_over_on_the_way() -> None:
    driven = drive(fresh(targets=CHAIN, known={"left:two": EARLIER}), "hi", replies=[Fault(K.AUTH), reply("x")])
    assert targets(driven) == ["one", "three"]


# ---- A plugin's choice ----------------------------------------------------------------------------------------------


def test_a_plugin_is_asked_about_every_fault_with_its_facts() -> None:
    seen: list[Mapping[str, Any]] = []

    def look(facts: Mapping[str, Any]) -> None:
        seen.append(facts)

    drive(fresh(), "hi", replies=[Fault(K.STALL, "a"), Fault(K.TIMEOUT), reply("x")], consult={"recovery": [look] * 2})
    assert [(f["fault"].kind, f["attempts"], f["target"]) for f in seen] == [
        (K.STALL, 1, "primary"),
        (K.TIMEOUT, 2, "primary"),
    ]


def test_a_plugin_that_always_retries_is_bounded_like_the_table() -> None:
    choices = [RecoveryChoice("retry", 1.0)] * 9
    driven = drive(fresh(), "hi", replies=[Fault(K.AUTH)] * 3, consult={"recovery": choices})
    assert driven.waits == [1.0, 1.0]
    assert driven.result.reason is EndReason.AUTH


def test_a_plugin_may_move_to_the_next_target_or_give_up() -> None:
    moves = drive(
        fresh(targets=CHAIN),
        "hi",
        replies=[Fault(K.STALL), reply("x")],
        consult={"recovery": [RecoveryChoice("fallback")]},
    )
    assert targets(moves) == ["one", "two"]
    gives_up = drive(fresh(), "hi", replies=[Fault(K.STALL)], consult={"recovery": [RecoveryChoice("give_up")]})
    assert gives_up.result.reason is EndReason.PROVIDER_FAILED


def test_an_answer_that_is_no_choice_leaves_it_to_the_table() -> None:
    driven = drive(fresh(), "hi", replies=[Fault(K.STALL), reply("x")], consult={"recovery": ["retry please"]})
    assert driven.result.answer == "x"


# ---- Overflow -------------------------------------------------------------------------------------------------------

LONG = "a long text " * 50


def shortened(facts: Mapping[str, Any]) -> list[Message]:
    return [user("summary", "summary"), *facts["messages"][-2:]]


def overflowing(*more: Message) -> TurnState:
    return fresh(user(LONG), said(LONG), *more)


def compressions(driven: Driven) -> list[Consult]:
    return [e for e in driven.effects if isinstance(e, Consult) and e.question == "compression"]


def rewrites(driven: Driven) -> list[Rewrite]:
    changes = [c for e in driven.effects for c in getattr(e, "changes", ())]
    return [c for c in changes if isinstance(c, Rewrite)]


def test_an_overflow_without_an_engine_ends_context_full_and_keeps_everything() -> None:
    driven = drive(overflowing(), "hi", replies=[OVERFLOW])
    assert driven.result.reason is EndReason.CONTEXT_FULL
    assert driven.waits == []
    assert [m.text for m in driven.disk[:3]] == [LONG, LONG, "hi"]


def test_an_engine_shortens_the_conversation_and_the_request_is_made_again() -> None:
    c1 = call()
    driven = drive(
        overflowing(user("go"), asks(c1), told(done(c1))),
        replies=[OVERFLOW, reply("x")],
        consult={"compression": [shortened]},
    )
    assert driven.result.answer == "x"
    assert [len(a.request.messages) for a in driven.requests] == [5, 3]
    assert [r.new_epoch for r in rewrites(driven)] == [True]
    assert [n.kind for n in notices(driven)] == ["context"]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [said("it begins with the assistant")],
        [user("short"), said("it ends with the assistant")],
        [user(LONG), said(LONG), user("hi")],
        [user("short"), user("twice")],
    ],
    ids=["empty", "invalid", "not sendable", "not shorter", "not alternating"],
)
def test_an_engine_that_gives_something_useless_is_not_followed(answer: list[Message]) -> None:
    driven = drive(overflowing(), "hi", replies=[OVERFLOW], consult={"compression": [answer]})
    assert driven.result.reason is EndReason.CONTEXT_FULL
    assert rewrites(driven) == []


def test_an_engine_that_barely_shrinks_cannot_keep_a_turn_alive() -> None:
    texts = [user(LONG[: -40 * i]) for i in range(1, MOST_COMPRESSIONS + 2)]
    driven = drive(
        fresh(user(LONG)), replies=[OVERFLOW] * (MOST_COMPRESSIONS + 1), consult={"compression": [[t] for t in texts]}
    )
    assert driven.result.reason is EndReason.CONTEXT_FULL
    assert len(compressions(driven)) == MOST_COMPRESSIONS


def test_a_stated_window_is_adopted_once_and_kept_for_its_target() -> None:
    stated = Fault(K.CONTEXT_OVERFLOW, limit_tokens=4096)
    driven = drive(
        overflowing(),
        "hi",
        replies=[stated, stated, reply("x")],
        consult={"compression": [[user("sum " * 20)], [user("sum")]]},
    )
    assert driven.learned == {"window:primary": (4096, None)}
    assert driven.state.window_tokens == 4096
    assert [c.facts["window_tokens"] for c in compressions(driven)] == [4096, 4096]


def test_ids_that_an_engine_brings_in_are_not_given_to_another_call() -> None:
    old = call(id="call_0")
    brought = [user("summary", "summary"), asks(old), told(done(old)), said("done"), user("hi")]
    driven = drive(
        overflowing(),
        "hi",
        replies=[OVERFLOW, reply(call(id="call_0", path="y")), reply("x")],
        consult={"compression": [brought]},
    )
    assert [c.id for m in driven.disk for c in m.calls] == ["call_0", "call_0_2"]


def test_a_text_that_was_cut_stays_whole_through_a_compression() -> None:
    engine = [[user("summary"), said("The beg", "partial")]]
    driven = drive(
        overflowing(), "hi", replies=[cut("The beg"), OVERFLOW, reply("inning.")], consult={"compression": engine}
    )
    assert driven.result.answer == "The beginning."
    assert driven.notes[1:] == [CONTINUE, CONTINUE]


def test_an_engine_that_drops_the_text_that_was_cut_is_not_followed() -> None:
    driven = drive(
        overflowing(), "hi", replies=[cut("The beg"), OVERFLOW], consult={"compression": [[user("summary")]]}
    )
    assert driven.result.reason is EndReason.CONTEXT_FULL
    assert driven.result.partial == "The beg"


def test_pressure_is_the_share_of_the_window_that_the_provider_counted() -> None:
    state = fresh(window_tokens=1000)
    assert pressure(state) is None
    drive(state, "hi", replies=[ModelReply((Text("x"),), usage=Usage(300, 10, 100, 50))])
    assert pressure(state) == 0.45


# ---- Budget ---------------------------------------------------------------------------------------------------------


def test_a_call_that_is_not_paid_for_is_not_asked_again_but_summed_up() -> None:
    refused = Fault(K.BUDGET, budget=EndReason.BUDGET_COST)
    driven = drive(fresh(), "hi", replies=[refused, reply("so far")])
    assert [a.request.purpose for a in driven.requests] == ["turn", "summary"]
    assert (driven.result.reason, driven.result.answer) == (EndReason.BUDGET_COST, "so far")


def test_a_fault_that_used_up_the_budget_is_not_retried() -> None:
    fault = Fault(K.STALL, spent=Spent(exhausted=EndReason.BUDGET_TIME))
    driven = drive(fresh(), "hi", replies=[fault, reply("so far")])
    assert driven.waits == []
    assert driven.result.reason is EndReason.BUDGET_TIME
