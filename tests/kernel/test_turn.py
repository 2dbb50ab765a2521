"""The loop, driven by hand: every ending, every stop point, continuation, steering, and resume from every tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from driving import (
    Driven,
    Scripted,
    Stop,
    asks,
    blocked,
    call,
    cut,
    done,
    drive,
    failed,
    fresh,
    reply,
    said,
    told,
    user,
)

from hermes.kernel.effects import (
    Answered,
    AskModel,
    Consult,
    Fault,
    FaultKind,
    Notify,
    Objection,
    Ran,
    Record,
    RunTools,
    Spent,
    Steer,
    Stopped,
    TurnEnded,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.events import AssistantMessage
from hermes.kernel.messages import (
    Image,
    Message,
    ModelReply,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserInput,
)
from hermes.kernel.replies import CONTINUE, CUT, EMPTY, FINAL_NOTES, MOST_CONTINUATIONS, THOUGHT_ONLY
from hermes.kernel.turn import MOST_OBJECTIONS, turn

R = EndReason
THOUGHT = Thinking("hm")
READ = call("read", "c1", path="a")
WRITE = call("write", "c2", path="b")


def cut_call(id: str = "c1") -> ToolCall:
    return call("write", id, problem=f"{CUT}the arguments end early")


def steered(reply: ModelReply, *said: str, first: int = 1) -> Answered:
    return Answered(reply, steering=tuple(Steer(first + i, text) for i, text in enumerate(said)))


def kinds(driven: Driven) -> list[str]:
    return [type(e).__name__ for e in driven.effects if not isinstance(e, Notify)]


# ---- The plain way --------------------------------------------------------------------------------------------------


def test_a_question_and_its_answer_are_two_messages() -> None:
    driven = drive(fresh(), "hi", replies=[reply("there")])
    assert kinds(driven) == ["Record", "AskModel", "Record", "Consult", "Record"]
    assert driven.texts == ["user: hi", "assistant: there"]
    assert (driven.result.reason, driven.result.answer, driven.result.iterations) == (R.COMPLETED, "there", 1)


def test_calls_are_recorded_before_they_run_and_their_results_in_one_message() -> None:
    driven = drive(fresh(), "hi", replies=[reply("let me see", READ, WRITE), reply("done")])
    assert kinds(driven)[2:6] == ["Record", "RunTools", "Record", "AskModel"]
    assert driven.texts == [
        "user: hi",
        "assistant: let me see",
        "tool: read gave c1 | write gave c2",
        "assistant: done",
    ]
    assert [c.id for c in driven.ran] == ["c1", "c2"]


def test_nothing_is_yielded_between_the_results_and_their_record() -> None:
    driven = drive(fresh(), "hi", replies=[reply(READ), reply(WRITE), reply("done")])
    for effect, following in zip(driven.effects, driven.effects[1:], strict=False):
        assert not isinstance(effect, RunTools) or isinstance(following, Record)


def test_the_request_holds_the_same_message_objects_each_time() -> None:
    driven = drive(fresh(), "hi", replies=[reply(READ), reply("done")])
    first, second = (asked.request.messages for asked in driven.requests)
    assert all(a is b for a, b in zip(first, second, strict=False))


def test_what_outcomes_cost_is_added_up() -> None:
    replies = [ModelReply((READ,), usage=Usage(10, 2)), ModelReply((Text("x"),), usage=Usage(20, 3, cost_usd=0.5))]
    assert drive(fresh(), "hi", replies=replies).result.usage == Usage(30, 5, cost_usd=0.5)


def test_session_state_that_a_tool_sets_is_known_at_once_and_not_stored_with_the_message() -> None:
    def tool(asked: ToolCall) -> ToolResult:
        return ToolResult(asked.id, "ok", (Text("x"),), {"todo": ["a"], "old": None})

    driven = drive(fresh(known={"old": 1}), "hi", replies=[reply(READ), reply("done")], tools=tool)
    assert driven.state.known == {"todo": ["a"]}
    assert driven.disk[2].results[0].state is None


def test_the_input_takes_its_inbox_rows_and_keeps_pictures_and_context() -> None:
    picture, context = Image("image/png", "AA"), Text("a file", "context")
    driven = drive(fresh(), UserInput((Text("look\ud800"), picture, context), taken=(4, 5)), replies=[reply("x")])
    assert driven.disk[0].parts == (Text("look\ufffd"), picture, context)
    assert driven.taken == [4, 5]


def test_a_blank_input_is_still_a_message() -> None:
    assert drive(fresh(), " ", replies=[reply("x")]).texts[0] == "user: (empty message)"


def test_an_effect_that_is_answered_by_something_else_is_an_error_of_the_driver() -> None:
    generator = turn(fresh(user("hi")), None)
    assert isinstance(next(generator), AskModel)
    with pytest.raises(TypeError, match="Answered or Fault"):
        generator.send(None)
    generator = turn(fresh(user("hi"), asks(READ)), None)
    assert isinstance(next(generator), RunTools)
    with pytest.raises(TypeError, match="Ran"):
        generator.send(None)


# ---- Endings --------------------------------------------------------------------------------------------------------

STEPS = [reply(call("read", "c", path=str(n))) for n in range(20)]
SAME_FAILING = [reply(call("shell", "c", command="x"))] * 5

ENDINGS: dict[EndReason, tuple[list[Scripted], Callable[[ToolCall], ToolResult], dict[str, Any]]] = {
    R.COMPLETED: ([reply("x")], done, {}),
    R.AUTH: ([Fault(FaultKind.AUTH)], done, {}),
    R.BILLING: ([Fault(FaultKind.BILLING)], done, {}),
    R.PROVIDER_FAILED: ([Fault(FaultKind.BAD_REQUEST)], done, {}),
    R.INVALID_RESPONSES: ([Fault(FaultKind.INVALID_REPLY)] * 3, done, {}),
    R.BUDGET_ITERATIONS: ([*STEPS[:2], reply("so far")], done, {"iterations": 2}),
    R.BUDGET_TOKENS: ([Fault(FaultKind.BUDGET, budget=R.BUDGET_TOKENS), reply("so far")], done, {}),
    R.BUDGET_COST: ([Answered(STEPS[0], Spent(exhausted=R.BUDGET_COST)), reply("so far")], done, {}),
    R.BUDGET_TIME: ([Answered(STEPS[0], Spent(exhausted=R.BUDGET_TIME)), reply("so far")], done, {}),
    R.NEEDS_PERSON: ([*SAME_FAILING, reply("not allowed")], blocked, {}),
    R.CUT_TEXT: ([cut("x")] * 4, done, {}),
    R.CUT_TOOL_CALL: ([cut(cut_call())] * 6, done, {}),
    R.THINKING_EXHAUSTED: ([cut(THOUGHT)], done, {}),
    R.EMPTY_ANSWER: ([reply()] * 3, done, {}),
    R.STUCK_CALLS: ([*SAME_FAILING, reply("it fails")], failed, {}),
    R.INVALID_TOOLS: ([reply(call("fly"))] * 3, done, {}),
    R.REFUSED: ([reply(Refusal("no"))], done, {}),
    R.CONTEXT_FULL: ([Fault(FaultKind.CONTEXT_OVERFLOW)], done, {}),
    R.PLUGIN: ([Fault(FaultKind.PLUGIN)] * 2, done, {}),
    R.HANGUP: ([Stopped(R.HANGUP)], done, {}),
    R.INTERRUPTED: ([Stopped(R.INTERRUPTED)], done, {}),
    R.TERMINATED: ([Stopped(R.TERMINATED)], done, {}),
}
ELSEWHERE = {R.INTERNAL, R.USAGE, R.SETTINGS, R.STORE_FAILED, R.CRASHED}
"""Reasons that the loop itself never finds; a Stopped may carry them."""
WITH_A_SCHEMA = {R.SCHEMA_UNMET}
"""See test_turn_schema.py."""


def test_every_reason_is_reached_or_belongs_elsewhere() -> None:
    assert set(ENDINGS) | ELSEWHERE | WITH_A_SCHEMA == set(EndReason)


@pytest.mark.parametrize("reason", ENDINGS)
def test_a_turn_ends_for_a_reason_and_at_rest(reason: EndReason) -> None:
    replies, tools, limits = ENDINGS[reason]
    driven = drive(fresh(limits=limits), "hi", replies=replies, tools=tools)
    assert driven.result.reason is reason
    assert driven.ended == TurnEnded(reason, driven.result.answer)
    if driven.result.answer is None and not reason.is_stop:
        assert driven.result.detail, "an ending without an answer says what happened"


@pytest.mark.parametrize("reason", ENDINGS)
def test_a_turn_that_ends_without_an_answer_does_so_in_one_record(reason: EndReason) -> None:
    replies, tools, limits = ENDINGS[reason]
    driven = drive(fresh(limits=limits), "hi", replies=replies, tools=tools)
    records = [e for e in driven.effects if isinstance(e, Record)]
    assert [type(c) for r in records for c in r.changes].count(TurnEnded) == 1
    if driven.result.answer is None and driven.disk[-1].origin == "closing":
        assert driven.disk[-1] in records[-1].changes[-2].messages  # type: ignore[union-attr]


def test_a_stop_for_another_reason_keeps_its_words() -> None:
    driven = drive(fresh(), "hi", replies=[Stopped(R.STORE_FAILED, detail="the disk is full")])
    assert (driven.result.reason, driven.result.detail) == (R.STORE_FAILED, "the disk is full")
    assert driven.texts[-1] == "assistant: This turn ended here (store_failed): the disk is full"


def test_a_refusal_tells_its_words() -> None:
    assert "the model refused: no" in drive(fresh(), "hi", replies=[reply(Refusal("no"))]).result.detail


# ---- Cut texts ------------------------------------------------------------------------------------------------------


def test_a_text_that_took_several_replies_is_one_message_and_one_answer() -> None:
    driven = drive(fresh(), "hi", replies=[cut("One, "), cut("two, "), reply("three.")])
    assert driven.result.answer == "One, two, three."
    assert driven.texts == ["user: hi", "assistant: One, two, three."]
    assert driven.notes == ["", CONTINUE, CONTINUE]


def test_what_a_continuation_repeats_stands_once() -> None:
    driven = drive(fresh(), "hi", replies=[cut("It was a dark and stormy"), reply("dark and stormy night.")])
    assert driven.result.answer == "It was a dark and stormy night."


def test_a_continuation_may_call_a_tool() -> None:
    driven = drive(fresh(), "hi", replies=[cut("I will re"), reply("ad it.", READ), reply("done")])
    assert driven.texts[1:3] == ["assistant: I will read it.", "tool: read gave c1"]
    assert driven.result.answer == "done"


def test_an_answer_that_is_cut_again_and_again_is_kept_as_a_partial() -> None:
    driven = drive(fresh(), "hi", replies=[cut(f"{n} ") for n in range(MOST_CONTINUATIONS + 1)])
    assert driven.result.reason is R.CUT_TEXT
    assert (driven.result.answer, driven.result.partial) == (None, "0 1 2 3 ")
    assert driven.result.text == "0 1 2 3 "


def test_spec_34452_a_dropped_stream_is_continued_like_a_cut() -> None:
    driven = drive(fresh(), "hi", replies=[reply("The", stop=StopReason.CUT), reply(" end")])
    assert driven.result.answer == "The end"


def test_the_count_of_continuations_begins_anew_with_a_whole_reply() -> None:
    texts = [cut(f"{n} ") for n in range(MOST_CONTINUATIONS)]
    driven = drive(fresh(), "hi", replies=[*texts, reply("go", READ), *texts, reply("end")])
    assert driven.result.reason is R.COMPLETED


def test_an_empty_continuation_is_asked_about_and_the_partial_stays() -> None:
    driven = drive(fresh(), "hi", replies=[cut("One, "), reply(), reply("two.")])
    assert driven.result.answer == "One, two."
    assert driven.notes[2] == f"{CONTINUE}\n{EMPTY}"


# ---- Cut and invalid calls ------------------------------------------------------------------------------------------


def test_a_cut_call_is_asked_for_once_more_with_a_larger_cap_and_the_cut_one_forgotten() -> None:
    driven = drive(fresh(), "hi", replies=[cut(cut_call()), reply(WRITE), reply("done")])
    assert [a.request.output_cap for a in driven.requests] == [None, 8192, 8192]
    assert [c.arguments for c in driven.ran] == [{"path": "b"}]
    assert len(driven.disk) == 4


def test_a_call_that_is_cut_twice_is_told_to_be_split_and_never_run() -> None:
    driven = drive(fresh(), "hi", replies=[cut(cut_call()), cut(cut_call()), reply("done")])
    assert driven.ran == []
    assert driven.disk[2].results[0].status == "error"
    assert "Split the work" in driven.texts[2]


def test_whole_calls_beside_a_cut_one_run() -> None:
    both = cut(READ, cut_call("c2"))
    driven = drive(fresh(), "hi", replies=[both, both, reply("done")])
    assert [r.status for r in driven.disk[2].results] == ["ok", "error"]


def test_an_asked_for_cap_is_where_the_turn_begins() -> None:
    driven = drive(fresh(limits={"output_cap": 1000}), "hi", replies=[cut(cut_call()), reply("x")])
    assert [a.request.output_cap for a in driven.requests] == [1000, 2000]


def test_an_invalid_call_beside_good_ones_is_told_and_the_good_ones_run() -> None:
    driven = drive(fresh(), "hi", replies=[reply(call("fly", "c1"), WRITE)] * 3 + [reply("done")])
    assert driven.result.reason is R.COMPLETED
    assert [r.status for r in driven.disk[2].results] == ["error", "ok"]
    assert len(driven.ran) == 3


def test_a_step_that_works_forgives_the_invalid_ones_before() -> None:
    wrong = reply(call("fly"))
    driven = drive(fresh(), "hi", replies=[wrong, wrong, reply(READ), wrong, wrong, reply("done")])
    assert driven.result.reason is R.COMPLETED


# ---- Empty replies --------------------------------------------------------------------------------------------------


def test_9400_an_empty_reply_after_tools_is_asked_about_and_nothing_of_it_is_stored() -> None:
    driven = drive(fresh(), "hi", replies=[reply(READ), reply(), reply(THOUGHT), reply("done")])
    assert driven.notes == ["", "", EMPTY, THOUGHT_ONLY]
    assert [m.role for m in driven.disk] == ["user", "assistant", "tool", "assistant"]


def test_a_real_reply_forgives_the_empty_ones_before() -> None:
    empty = [reply(), reply()]
    driven = drive(fresh(), "hi", replies=[*empty, reply(READ), *empty, reply("done")])
    assert driven.result.reason is R.COMPLETED


# ---- Repeated calls -------------------------------------------------------------------------------------------------


def test_a_call_that_is_repeated_with_the_same_outcome_is_warned_about() -> None:
    driven = drive(
        fresh(), "hi", replies=[reply(READ), reply(READ), reply("done")], tools=lambda c: done(c, "the same")
    )
    assert driven.notes[2].startswith("You have made the same call of read 2 times")


def test_a_read_that_gives_the_same_three_times_must_lead_to_an_answer_and_that_is_no_failure() -> None:
    def same(asked: ToolCall) -> ToolResult:
        return done(asked, "the same")

    driven = drive(fresh(), "hi", replies=[reply(READ)] * 3 + [reply("the answer")], tools=same)
    assert driven.requests[-1].request.may_call is False
    assert driven.notes[-1] == FINAL_NOTES[R.COMPLETED]
    assert (driven.result.reason, driven.result.answer) == (R.COMPLETED, "the answer")


def test_a_forced_answer_that_does_not_come_is_stuck() -> None:
    def same(asked: ToolCall) -> ToolResult:
        return done(asked, "the same")

    driven = drive(fresh(), "hi", replies=[reply(READ)] * 3 + [reply(READ)], tools=same)
    assert (driven.result.reason, driven.result.answer) == (R.STUCK_CALLS, None)
    assert len(driven.ran) == 3, "a call that was not allowed is dropped"


def test_a_repeated_read_whose_result_changes_goes_on() -> None:
    results = iter(range(100))
    driven = drive(
        fresh(), "hi", replies=[reply(READ)] * 6 + [reply("done")], tools=lambda c: done(c, f"line {next(results)}")
    )
    assert driven.result.reason is R.COMPLETED
    assert len(driven.ran) == 6


def test_a_change_between_two_failures_is_progress() -> None:
    def tool(asked: ToolCall) -> ToolResult:
        return done(asked) if asked.name == "write" else failed(asked)

    steps = [reply(call("shell", "c", command="make")), reply(WRITE)] * 6
    assert drive(fresh(), "hi", replies=[*steps, reply("done")], tools=tool).result.reason is R.COMPLETED


def test_stuck_calls_are_summed_up_without_tools() -> None:
    driven = drive(fresh(), "hi", replies=[*SAME_FAILING, reply("it fails")], tools=failed)
    last = driven.requests[-1].request
    assert (last.may_call, last.purpose, last.note) == (False, "summary", FINAL_NOTES[R.STUCK_CALLS])
    assert driven.result.answer == "it fails"


def test_a_denied_call_that_the_model_works_round_is_completed() -> None:
    driven = drive(fresh(), "hi", replies=[reply(WRITE), reply("another way")], tools=blocked)
    assert driven.result.reason is R.COMPLETED


# ---- Budget ---------------------------------------------------------------------------------------------------------


def test_the_model_is_told_once_at_70_and_at_90_percent_of_its_iterations() -> None:
    driven = drive(fresh(limits={"iterations": 10}), "hi", replies=[*STEPS[:10], reply("so far")])
    told = {n: note for n, note in enumerate(driven.notes[:10]) if note}
    assert list(told) == [7, 9]
    assert told[7] == "You have used 7 of 10 steps for this task. Work towards your final answer."
    assert driven.result.reason is R.BUDGET_ITERATIONS


@pytest.mark.parametrize("warn_at", [(), (0.7, 0.9)])
def test_without_shares_or_without_a_limit_nothing_is_told(warn_at: tuple[float, ...]) -> None:
    limits = {"iterations": None if warn_at else 10, "warn_model_at": warn_at}
    driven = drive(fresh(limits=limits), "hi", replies=[*STEPS[:9], reply("done")])
    assert driven.notes == [""] * 10


def test_a_retry_carries_the_note_again() -> None:
    replies = [*STEPS[:7], Fault(FaultKind.STALL), reply("done")]
    notes = drive(fresh(limits={"iterations": 10}), "hi", replies=replies).notes
    assert notes[7] == notes[8] != ""


def test_an_answer_with_the_last_iteration_is_completed() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[reply("done")])
    assert (driven.result.reason, kinds(driven).count("Consult")) == (R.COMPLETED, 0)


def test_iterations_used_before_a_crash_count() -> None:
    driven = drive(fresh(user("hi"), iterations=5, limits={"iterations": 5}), replies=[reply("so far")])
    assert driven.result.reason is R.BUDGET_ITERATIONS
    assert [a.request.purpose for a in driven.requests] == ["summary"]


def test_a_limit_of_none_at_all_still_sums_up() -> None:
    driven = drive(fresh(limits={"iterations": 0}), "hi", replies=[reply("I could do nothing")])
    assert driven.result.answer == "I could do nothing"


@pytest.mark.parametrize(
    "closing_reply",
    [
        reply(),
        reply(THOUGHT),
        reply(READ),
        reply(Refusal("no")),
        Fault(FaultKind.AUTH, "bad key"),
        Fault(FaultKind.BUDGET, budget=R.BUDGET_TOKENS),
        Fault(FaultKind.CONTEXT_OVERFLOW),
    ],
)
def test_whatever_happens_in_the_closing_request_the_budget_stays_the_reason(closing_reply: Scripted) -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[reply(READ), closing_reply])
    assert (driven.result.reason, driven.result.answer) == (R.BUDGET_ITERATIONS, None)
    assert driven.disk[-1].origin == "closing"


def test_the_first_budget_that_is_used_up_is_the_reason() -> None:
    first = Answered(reply(READ), Spent(exhausted=R.BUDGET_TIME))
    last = Answered(reply("so far"), Spent(exhausted=R.BUDGET_TOKENS))
    assert drive(fresh(), "hi", replies=[first, last]).result.reason is R.BUDGET_TIME


def test_a_summary_that_is_cut_is_still_the_answer() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[reply(READ), cut("so f")])
    assert driven.result.answer == "so f"


def test_a_text_that_was_cut_when_the_budget_ended_is_finished_by_the_summary() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[cut("The be"), reply("ginning.")])
    assert (driven.result.reason, driven.result.answer) == (R.BUDGET_ITERATIONS, "The beginning.")


def test_the_budget_that_children_used_up_ends_the_parent() -> None:
    generator = turn(fresh(user("hi"), asks(READ)), None)
    assert isinstance(next(generator), RunTools)
    assert isinstance(generator.send(Ran((done(READ),), Spent(Usage(9), R.BUDGET_TOKENS))), Record)
    asked = generator.send(None)
    assert isinstance(asked, AskModel)
    assert asked.request.purpose == "summary"


# ---- Objections -----------------------------------------------------------------------------------------------------


def test_an_objection_keeps_the_turn_going_and_its_words_are_a_message() -> None:
    objection = Objection("You have not run the tests.")
    driven = drive(fresh(), "hi", replies=[reply("done"), reply("now")], consult={"turn_end": [objection]})
    assert driven.texts == ["user: hi", "assistant: done", "user: You have not run the tests.", "assistant: now"]
    assert driven.disk[2].origin == "nudge"
    consulted = [e.facts for e in driven.effects if isinstance(e, Consult)]
    assert consulted == [{"answer": "done", "objections": 0}, {"answer": "now", "objections": 1}]


def test_a_plugin_that_always_objects_is_heard_three_times() -> None:
    objections = [Objection("no")] * 9
    driven = drive(
        fresh(), "hi", replies=[reply(str(n)) for n in range(MOST_OBJECTIONS + 1)], consult={"turn_end": objections}
    )
    assert (driven.result.reason, driven.result.answer) == (R.COMPLETED, "3")


@pytest.mark.parametrize("answer", [Objection(" "), None, "no"])
def test_what_is_no_objection_lets_the_answer_stand(answer: Any) -> None:
    assert drive(fresh(), "hi", replies=[reply("x")], consult={"turn_end": [answer]}).result.answer == "x"


# ---- Steering -------------------------------------------------------------------------------------------------------


def test_steering_that_comes_with_calls_goes_behind_their_results() -> None:
    driven = drive(fresh(), "hi", replies=[steered(reply(READ), "also b"), reply("done")])
    assert driven.disk[2].parts == (done(READ), Text("also b", "steer"))
    assert (driven.taken, driven.result.steering) == ([1], ())


def test_steering_that_comes_with_an_answer_keeps_the_turn_going() -> None:
    driven = drive(fresh(), "hi", replies=[steered(reply("done"), "also b", "and c"), reply("all done")])
    assert driven.disk[2] == Message("user", (Text("also b", "steer"), Text("and c", "steer")), "steer")
    assert driven.texts[-1] == "assistant: all done"
    assert driven.taken == [1, 2]


def test_steering_that_comes_with_results_goes_behind_them() -> None:
    generator = turn(fresh(user("hi"), asks(READ)), None)
    next(generator)
    record = generator.send(Ran((done(READ),), steering=(Steer(3, "stop\ud800"),)))
    assert isinstance(record, Record)
    (change,) = record.changes
    assert change.taken == (3,)  # type: ignore[union-attr]
    assert change.messages[0].parts[-1] == Text("stop\ufffd", "steer")  # type: ignore[union-attr]


@pytest.mark.parametrize("first", [reply(), cut("One, "), cut(cut_call())])
def test_steering_that_comes_with_what_is_no_whole_reply_waits_for_the_next(first: ModelReply) -> None:
    driven = drive(fresh(), "hi", replies=[steered(first, "also b"), reply("two."), reply("ok")])
    assert driven.disk[2] == Message("user", (Text("also b", "steer"),), "steer")
    assert driven.taken == [1]


def test_blank_steering_is_taken_and_says_nothing() -> None:
    driven = drive(fresh(), "hi", replies=[steered(reply("done"), " ")])
    assert driven.taken == [1]
    assert driven.texts == ["user: hi", "assistant: done"]


def test_steering_that_no_message_took_is_handed_back() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[reply(READ), steered(reply("so far"), "also b")])
    assert driven.result.steering == ("also b",)
    assert driven.taken == []
    stopped = drive(fresh(), "hi", replies=[Stopped(R.INTERRUPTED, steering=(Steer(1, "wait"),))])
    assert stopped.result.steering == ("wait",)


def test_an_answer_with_steering_at_the_limit_is_summed_up_and_the_words_are_kept() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[steered(reply("done"), "also b"), reply("so far")])
    assert driven.texts[1:] == ["assistant: done", "user: also b", "assistant: so far"]


# ---- Stops ----------------------------------------------------------------------------------------------------------

STORY: list[Scripted] = [
    reply("I look.", READ, WRITE),
    Fault(FaultKind.STALL, partial="half of it"),
    cut("The first half, "),
    reply("the second half."),
]
SPOKEN = ("I look.", "The first half, ", "the second half.")
POINTS = 8  # ask, run, ask, recovery, wait, ask, ask, turn_end


def test_the_story_without_a_stop_passes_all_four_kinds_of_effects() -> None:
    driven = drive(fresh(), "hi", replies=STORY)
    stoppable = [type(e) for e in driven.effects if isinstance(e, (AskModel, RunTools, Wait, Consult))]
    assert stoppable == [AskModel, RunTools, AskModel, Consult, Wait, AskModel, AskModel, Consult]
    assert driven.result.answer == "The first half, the second half."


@pytest.mark.parametrize("reason", [R.INTERRUPTED, R.TERMINATED])
@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("at", range(POINTS))
def test_a_stop_anywhere_loses_nothing_and_leaves_the_conversation_at_rest(
    at: int, when: Any, reason: EndReason
) -> None:
    driven = drive(fresh(), "hi", replies=STORY, stop=Stop(at, when, reason))
    assert driven.result.reason is reason
    assert isinstance(driven.effects[-1], Record)
    told = {r.call_id: r.status for m in driven.disk for r in m.results}
    assert all((told.get(c.id) == "ok") for c in driven.ran), "acted, and the model is told otherwise"
    assert all(told[c.id] == "cancelled" for c in (READ, WRITE) if c.id in told and c not in driven.ran)
    if at > 1:
        assert driven.texts[1:3] == ["assistant: I look.", "tool: read gave c1 | write gave c2"]
    if at > 5:
        assert driven.disk[-1].text.startswith("The first half, ")


def test_a_stop_before_the_first_word_closes_the_turn() -> None:
    driven = drive(fresh(), "hi", replies=STORY, stop=Stop(0, "before"))
    assert driven.texts == ["user: hi", "assistant: This turn was stopped here by the user."]
    assert (driven.result.answer, driven.result.partial) == (None, "")


def test_streamed_text_that_a_stop_cut_is_kept_as_a_partial() -> None:
    driven = drive(fresh(), "hi", replies=STORY, stop=Stop(0, "during"))
    assert driven.result.partial == "I l"
    assert driven.disk[-1].origin == "partial"


def test_streamed_text_joins_the_text_that_it_was_to_continue() -> None:
    driven = drive(fresh(), "hi", replies=STORY, stop=Stop(6, "during"))
    assert driven.texts[-1] == "assistant: The first half, the seco"
    assert driven.result.partial == "The first half, the seco"


def test_a_stop_in_the_middle_of_a_batch_keeps_what_was_done_and_cancels_the_rest() -> None:
    driven = drive(fresh(), "hi", replies=STORY, stop=Stop(1, "during"))
    assert [(r.status, r.text) for r in driven.disk[2].results] == [
        ("ok", "read gave c1"),
        ("cancelled", "write was not run."),
    ]
    assert driven.disk[3].origin == "closing"


def test_a_stop_before_a_batch_runs_nothing() -> None:
    assert drive(fresh(), "hi", replies=STORY, stop=Stop(1, "before")).ran == []


def test_a_stop_at_the_consult_about_an_answer_keeps_the_answer() -> None:
    driven = drive(fresh(), "hi", replies=STORY, stop=Stop(7, "before"))
    assert (driven.result.reason, driven.result.answer) == (R.INTERRUPTED, "The first half, the second half.")


def test_session_state_that_came_with_a_stop_is_taken_over() -> None:
    result = ToolResult("c1", "ok", (Text("x"),), {"todo": 1})
    generator = turn(state := fresh(user("hi"), asks(READ)), None)
    next(generator)
    record = generator.throw(Stopped(R.INTERRUPTED, results=(result,), spent=Spent(Usage(5))))
    assert isinstance(record, Record)
    assert (state.known, state.usage) == ({"todo": 1}, Usage(5))
    assert state.messages[2].results[0].state is None


def test_a_stop_in_the_closing_request_is_a_stop() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[reply(READ), Stopped(R.INTERRUPTED, partial="so")])
    assert (driven.result.reason, driven.result.partial) == (R.INTERRUPTED, "so")


def test_a_stop_in_a_compression_leaves_the_conversation_as_it_was() -> None:
    driven = drive(
        fresh(user("long"), said("long")),
        "hi",
        replies=[Fault(FaultKind.CONTEXT_OVERFLOW)],
        consult={"compression": [Stopped(R.INTERRUPTED)]},
    )
    assert driven.texts[:3] == ["user: long", "assistant: long", "user: hi"]


def test_a_lone_surrogate_in_a_cut_stream_is_cleaned() -> None:
    assert drive(fresh(), "hi", replies=[Stopped(R.INTERRUPTED, partial="a\ud800")]).result.partial == "a\ufffd"


# ---- Resume ---------------------------------------------------------------------------------------------------------

HI = user("hi")
TAILS: dict[str, tuple[list[Message], list[Scripted], str]] = {
    "a question": ([HI], [reply("x")], "x"),
    "steering": ([HI, said("a"), user("and b", "steer")], [reply("x")], "x"),
    "open calls": ([HI, asks(READ)], [reply("x")], "x"),
    "results": ([HI, asks(READ), told(done(READ))], [reply("x")], "x"),
    "a partial": ([HI, said("be", "partial")], [reply("gin")], "begin"),
    "an answer": ([HI, said("a")], [], "a"),
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_turn_goes_on_from_every_tail(tail: str) -> None:
    messages, replies, answer = TAILS[tail]
    driven = drive(fresh(*messages), replies=replies)
    assert (driven.result.reason, driven.result.answer) == (R.COMPLETED, answer)


def test_an_answer_that_a_crash_left_unended_is_still_put_to_the_plugins() -> None:
    driven = drive(fresh(HI, said("a")), replies=[reply("b")], consult={"turn_end": [Objection("more")]})
    assert driven.result.answer == "b"


def test_calls_with_a_problem_are_never_run_not_after_a_crash_either() -> None:
    driven = drive(fresh(HI, asks(call("write", "c1", problem="not JSON"), READ_2)), replies=[reply("x")])
    assert driven.ran == [READ_2]
    assert driven.disk[2].results[0].text == "This call was not run: not JSON"


READ_2 = call("read", "c9", path="z")


@pytest.mark.parametrize("tail", TAILS)
def test_a_new_message_after_a_crash_closes_what_was_open_in_the_record_that_holds_it(tail: str) -> None:
    messages, _, _ = TAILS[tail]
    driven = drive(fresh(*messages), UserInput((Text("something else"),), (8,)), replies=[reply("y")])
    record = next(e for e in driven.effects if isinstance(e, Record))
    assert driven.disk[: len(messages)] == messages, "nothing that was stored is lost"
    assert record.changes[0].messages[-1].text == "something else"  # type: ignore[union-attr]
    assert record.changes[0].taken == (8,)  # type: ignore[union-attr]
    assert driven.ran == []
    assert driven.texts[-2:] == ["user: something else", "assistant: y"]


def test_what_never_started_is_not_run_when_the_user_has_something_new() -> None:
    problem = call("write", "c1", problem="not JSON")
    driven = drive(fresh(HI, asks(problem, READ_2)), "new", replies=[reply("x")])
    asked = next(e for e in driven.effects if isinstance(e, RunTools))
    assert (asked.calls, asked.may_start) == ((READ_2,), False)
    assert [r.status for r in driven.disk[2].results] == ["error", "cancelled"]
    assert driven.disk[3].origin == "closing"


def test_calls_that_all_have_problems_are_closed_without_asking_the_journal() -> None:
    driven = drive(fresh(HI, asks(call("write", "c1", problem="not JSON"))), "new", replies=[reply("x")])
    assert "RunTools" not in kinds(driven)


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_stop_while_the_old_calls_are_closed_keeps_the_new_message(when: Any) -> None:
    driven = drive(fresh(HI, asks(READ)), UserInput((Text("new"),), (8,)), stop=Stop(0, when))
    assert driven.taken == [8]
    assert driven.texts[-2:] == ["user: new", "assistant: This turn was stopped here by the user."]
    assert driven.result.reason is R.INTERRUPTED
    assert len([e for e in driven.effects if isinstance(e, Record)]) == 1


# ---- What a front end sees ------------------------------------------------------------------------------------------


def test_every_recorded_reply_is_shown_and_a_forced_answer_as_final() -> None:
    driven = drive(fresh(limits={"iterations": 1}), "hi", replies=[reply("I look.", READ), reply("so far")])
    shown = [e.event for e in driven.effects if isinstance(e, Notify)]
    assert shown == [AssistantMessage(text="I look."), AssistantMessage(text="so far", final=True)]


PARTS: list[tuple[Part, ...]] = [(THOUGHT, Text("x")), (Text("x"), Text(" ")), (Text("a\ud800"),)]


@pytest.mark.parametrize("parts", PARTS)
def test_an_answer_is_the_text_of_the_last_message_whatever_its_parts(parts: tuple[Part, ...]) -> None:
    driven = drive(fresh(), "hi", replies=[ModelReply(parts)])
    assert driven.result.answer == driven.disk[-1].text
