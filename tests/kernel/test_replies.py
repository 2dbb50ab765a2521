"""What is made of a reply: its kind, what is stored of it, and calls that are repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversations import any_texts, calls, some
from driving import TOOLS, call, cut, fresh, reply, user
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.history import CALL_ID, Checker
from hermes.kernel.messages import (
    ModelReply,
    Part,
    Refusal,
    Replay,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
    clean_json,
)
from hermes.kernel.replies import (
    CUT,
    OUTPUT_CAP_CEILING,
    Kind,
    Repeats,
    kind_of,
    larger_cap,
    signature,
    stored,
)

THOUGHT = Thinking("hm")
CUT_CALL = call(problem=f"{CUT}it ends early")

KINDS = [
    (reply("x"), Kind.TEXT),
    (reply(THOUGHT, "x"), Kind.TEXT),
    (reply("x", stop=StopReason.OTHER), Kind.TEXT),
    (cut("x"), Kind.CUT_TEXT),
    (reply("x", stop=StopReason.CUT), Kind.CUT_TEXT),
    (reply(call()), Kind.CALLS),
    (reply("x", call()), Kind.CALLS),
    (cut(call()), Kind.CALLS),
    (reply(call(problem="bad JSON")), Kind.CALLS),
    (cut(CUT_CALL), Kind.CUT_CALL),
    (reply(call(), CUT_CALL), Kind.CUT_CALL),
    (reply(), Kind.EMPTY),
    (reply(" \n"), Kind.EMPTY),
    (cut(), Kind.EMPTY),
    (reply(THOUGHT), Kind.THOUGHT_ONLY),
    (reply(THOUGHT, " "), Kind.THOUGHT_ONLY),
    (reply(THOUGHT, stop=StopReason.CUT), Kind.THOUGHT_ONLY),
    (cut(THOUGHT), Kind.THINKING_CUT),
    (replace(cut(), usage=Usage(10, 0, reasoning_tokens=4096)), Kind.THINKING_CUT),
    (replace(reply(), usage=Usage(10, 0, reasoning_tokens=4096)), Kind.EMPTY),
    (reply(Refusal("no")), Kind.REFUSED),
    (reply("x", stop=StopReason.REFUSAL), Kind.REFUSED),
    (reply(stop=StopReason.REFUSAL), Kind.REFUSED),
]


@pytest.mark.parametrize(("given_reply", "kind"), KINDS)
def test_a_reply_is_of_one_kind(given_reply: ModelReply, kind: Kind) -> None:
    assert kind_of(given_reply, may_call=True) is kind


@pytest.mark.parametrize(
    ("given_reply", "kind"), [(reply("x", call()), Kind.TEXT), (reply(call()), Kind.EMPTY), (cut(CUT_CALL), Kind.EMPTY)]
)
def test_calls_that_were_not_allowed_do_not_count(given_reply: ModelReply, kind: Kind) -> None:
    assert kind_of(given_reply, may_call=False) is kind


# ---- What is stored -------------------------------------------------------------------------------------------------


def test_ids_that_a_model_repeats_are_new_in_the_session() -> None:
    state = fresh(user("hi"), call_ids={"call_0"})
    message = stored(reply(call(id="call_0"), call(id="call_0", path="x"), call(id="", n=1)), state, may_call=True)
    assert [c.id for c in message.calls] == ["call_0_2", "call_0_3", "call"]
    assert all(c.problem is None for c in message.calls)
    assert state.call_ids == {"call_0", "call_0_2", "call_0_3", "call"}


@pytest.mark.parametrize(("first_id", "second_id"), [("c1", "c1"), ("a", "b"), ("", "")])
def test_the_same_call_twice_in_a_reply_runs_once_whatever_its_ids(first_id: str, second_id: str) -> None:
    twice = reply(call(id=first_id, path="x", n=1), call("Read", id=second_id, n=1, path="x"))
    first, second = stored(twice, fresh(), may_call=True).calls
    assert (first.problem, first.id == second.id) == (None, False)
    assert second.problem is not None
    assert "twice" in second.problem


def test_calls_that_differ_in_a_value_only_are_all_meant() -> None:
    message = stored(reply(call(id="a", n=1), call(id="a", n=2), call("shell", id="a", n=1)), fresh(), may_call=True)
    assert [c.problem for c in message.calls] == [None, None, None]


def test_an_unknown_tool_is_told_what_there_is() -> None:
    (made,) = stored(reply(call("fly", height=3)), fresh(), may_call=True).calls
    assert made.problem == "there is no tool 'fly'. The tools are: read, shell, write."
    assert made.arguments == {}


@pytest.mark.parametrize("name", ["", "  ", '"', "<"])
def test_47967_a_blank_name_is_answered_without_the_list_of_tools(name: str) -> None:
    (made,) = stored(reply(call(name)), fresh(), may_call=True).calls
    assert made.name == "invalid_tool_call"
    assert made.problem is not None
    assert "without a name" in made.problem
    assert "read" not in made.problem


def test_a_call_whose_arguments_were_not_read_keeps_its_problem_and_no_arguments() -> None:
    (made,) = stored(reply(call(problem="not JSON: \ud800", path="x")), fresh(), may_call=True).calls
    assert (made.arguments, made.problem) == ({}, "not JSON: \ufffd")


def test_calls_that_were_not_allowed_are_dropped() -> None:
    assert stored(reply("x", call()), fresh(), may_call=False).parts == (Text("x"),)


def test_a_cut_text_is_marked_and_the_replay_of_the_reply_is_kept() -> None:
    replay = Replay("w h", "id", "r1")
    message = stored(ModelReply((Text("x"),), replay=replay), fresh(), may_call=True, origin="partial")
    assert (message.origin, message.replay) == ("partial", replay)


replies = st.lists(st.builds(Text, any_texts) | st.builds(Thinking, any_texts) | calls, min_size=1, max_size=4)


@some
@given(replies)
def test_whatever_a_model_says_is_stored_as_a_valid_message(parts: list[Part]) -> None:
    asked = ModelReply(tuple(p for p in parts if not isinstance(p, ToolCall) or isinstance(p.arguments, dict)))
    if kind_of(asked, may_call=True) in (Kind.CALLS, Kind.TEXT):
        message = stored(asked, fresh(), may_call=True)
        Checker([user("hi"), message])
        assert all(CALL_ID.match(c.id) for c in message.calls)
        assert all(c.name in TOOLS for c in message.calls if not c.problem)
        assert len(message.calls) == len(asked.calls)
        assert all(clean_json(c.arguments) == c.arguments for c in message.calls)


# ---- Output cap and repeats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "wrote", "larger"),
    [
        (None, 0, 8192),
        (1000, 1000, 2000),
        (20_000, 20_000, OUTPUT_CAP_CEILING),
        (50_000, 50_000, 50_000),
        (None, 16_000, 32_000),
        (None, 64_000, 64_000),
    ],
)
def test_the_output_cap_doubles_to_a_ceiling_and_never_shrinks(cap: int | None, wrote: int, larger: int) -> None:
    assert larger_cap(cap, replace(cut("x"), usage=Usage(5, wrote // 2, reasoning_tokens=wrote - wrote // 2))) == larger


@pytest.mark.parametrize("cap", [None, 1000])
def test_a_stream_that_broke_off_is_no_matter_of_room(cap: int | None) -> None:
    assert larger_cap(cap, reply("x", stop=StopReason.CUT)) == cap


def test_the_order_of_arguments_does_not_make_another_call() -> None:
    assert signature(call(a=1, b=2)) == signature(call(b=2, a=1, id="other"))
    assert signature(call(a=1)) != signature(call(a="1"))


def test_only_the_same_call_with_the_same_outcome_in_a_row_counts() -> None:
    repeats = Repeats()
    outcomes = [(call(), "x"), (call(), "x"), (call(), "y"), (call("shell"), "x"), (call(), "y")]
    assert [repeats.add(c, outcome, changes_things=False) for c, outcome in outcomes] == [1, 2, 1, 1, 2]


def test_a_change_between_makes_the_same_call_sensible_again() -> None:
    repeats = Repeats()
    assert [repeats.add(call(), "x", changes_things=False) for _ in range(2)] == [1, 2]
    assert repeats.add(call("write"), "done", changes_things=True) == 1
    assert repeats.add(call(), "x", changes_things=False) == 1
    assert repeats.add(call("write"), "done", changes_things=True) == 2, "the change itself may be repeated in vain"
