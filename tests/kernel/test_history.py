"""The invariants of a conversation, and the functions that make and mend its messages."""

from __future__ import annotations

import pytest
from conversations import any_lists, any_texts, assistant_texts, conversations, plain, some
from driving import asks, call, done, said, told, user
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.history import (
    CALL_ID,
    Checker,
    InvalidConversation,
    closing,
    fresh_id,
    joined,
    repair,
    result_text,
    tidy,
    user_message,
    with_note,
)
from hermes.kernel.messages import Image, Message, Refusal, Replay, Text, Thinking, ToolCall, ToolResult

HI = user("hi")
C1, C2 = call(id="c1"), call(id="c2")


# ---- The checker ----------------------------------------------------------------------------------------------------

BROKEN = {
    "starts with the assistant": [said("x")],
    "two user messages": [HI, HI],
    "two assistant messages": [HI, said("a"), said("b")],
    "a user message after results": [HI, asks(C1), told(done(C1)), HI],
    "calls without results": [HI, asks(C1), said("x")],
    "a call without its result": [HI, asks(C1, C2), told(done(C1))],
    "a result too many": [HI, asks(C1), told(done(C1), done(C2))],
    "results in another order": [HI, asks(C1, C2), told(done(C2), done(C1))],
    "results without calls": [HI, said("x"), told(done(C1))],
    "an id twice in a message": [HI, asks(C1, C1)],
    "an id twice in a session": [HI, asks(C1), told(done(C1)), asks(C1)],
    "an id too long": [HI, asks(call(id="x" * 41))],
    "an id in another alphabet": [HI, asks(call(id="c~2"))],
    "an id with a line end": [HI, asks(call(id="c1\n"))],
    "arguments that are no object": [HI, asks(ToolCall("c1", "read", "[]"))],  # type: ignore[arg-type]
    "arguments with a lone surrogate": [HI, asks(call(path="\ud800"))],
    "a call without a name": [HI, asks(call(" "))],
    "a name with a lone surrogate": [HI, asks(call("\ud800"))],
    "an empty message": [Message("user", ())],
    "a blank text": [user(" \n")],
    "a lone surrogate": [user("a\ud800")],
    "a thought alone": [HI, Message("assistant", (Thinking("hm"),))],
    "a blank thought": [HI, Message("assistant", (Thinking(" "), Text("x")))],
    "an empty result": [HI, asks(C1), told(ToolResult("c1", "ok", ()))],
    "a blank result": [HI, asks(C1), told(ToolResult("c1", "ok", (Text(""),)))],
    "a result in a user message": [Message("user", (done(C1),))],
    "a call in a user message": [Message("user", (C1,))],
    "a picture alone from the assistant": [HI, Message("assistant", (Image(data="AA"),))],
}


@pytest.mark.parametrize("messages", BROKEN.values(), ids=BROKEN)
def test_the_checker_refuses(messages: list[Message]) -> None:
    with pytest.raises(InvalidConversation):
        Checker(messages)


def test_a_refused_message_changes_nothing_in_the_checker() -> None:
    checker = Checker([HI])
    with pytest.raises(InvalidConversation):
        checker.feed(asks(C1, call(id="bad id")))
    checker.feed(asks(C1))
    assert len(checker) == 2


def test_the_checker_names_the_place_and_the_rule() -> None:
    with pytest.raises(InvalidConversation, match=r"message 1 \(user\): follows a message of user"):
        Checker([HI, HI])


@some
@given(conversations())
def test_the_checker_takes_every_valid_conversation(messages: list[Message]) -> None:
    assert len(Checker(messages)) == len(messages)


@some
@given(conversations(), st.data())
def test_going_back_and_feeding_again_equals_a_fresh_checker(messages: list[Message], data: st.DataObject) -> None:
    checker = Checker(messages)
    index = data.draw(st.integers(0, len(messages)))
    other = data.draw(conversations())
    checker.back_to(index)
    fed = _fed(checker, [*messages[index:], *other])
    fresh = Checker(messages[:index])
    assert _fed(fresh, [*messages[index:], *other]) == fed
    assert (checker._trail, checker._ids) == (fresh._trail, fresh._ids)


def _fed(checker: Checker, messages: list[Message]) -> list[bool]:
    taken = []
    for message in messages:
        try:
            checker.feed(message)
            taken.append(True)
        except InvalidConversation:
            taken.append(False)
    return taken


@some
@given(conversations(at_rest=True))
def test_a_conversation_at_rest_ends_with_a_text_of_the_assistant_and_cannot_be_sent(messages: list[Message]) -> None:
    checker = Checker(messages)
    checker.check_rest()
    with pytest.raises(InvalidConversation, match="cannot be sent"):
        checker.check_sendable()


@pytest.mark.parametrize("messages", [[], [HI], [HI, asks(C1)], [HI, asks(C1), told(done(C1))]])
def test_an_open_end_is_not_at_rest(messages: list[Message]) -> None:
    with pytest.raises(InvalidConversation, match="not at rest"):
        Checker(messages).check_rest()


@pytest.mark.parametrize("messages", [[], [HI, asks(C1)], [HI, said("x", "partial")]])
def test_only_a_user_or_tool_message_may_be_the_last_that_is_sent(messages: list[Message]) -> None:
    with pytest.raises(InvalidConversation, match="cannot be sent"):
        Checker(messages).check_sendable()


# ---- Ids ------------------------------------------------------------------------------------------------------------


@some
@given(
    any_texts | st.text(max_size=60), st.sets(st.sampled_from(["", "call", "c1", "c1_2", "x" * 40, "x" * 38 + "_2"]))
)
def test_a_fresh_id_fits_and_is_new(wanted: str, used: set[str]) -> None:
    assert CALL_ID.match(fresh_id(wanted, used))
    assert fresh_id(wanted, used) not in used


def test_a_fresh_id_stays_new_when_a_model_repeats_one_for_ever() -> None:
    used: set[str] = set()
    for _ in range(300):
        used.add(fresh_id("x" * 40, used))
    assert len(used) == 300
    assert all(CALL_ID.match(id_) for id_ in used)


def test_an_id_that_fits_is_kept() -> None:
    assert fresh_id("toolu_01-Ab", set()) == "toolu_01-Ab"
    assert fresh_id("call_0", {"call_0", "call_0_2"}) == "call_0_3"
    assert fresh_id("", set()) == "call"


# ---- Making messages ------------------------------------------------------------------------------------------------


def test_tidy_cleans_texts_drops_blank_ones_and_fills_an_empty_result() -> None:
    signed = Thinking("", Replay("w h", "signature", "x"))
    parts = tidy([Text(" "), Text("a\ud800"), Thinking(""), signed, ToolResult("c1", "ok", (Text("\n"),))])
    assert parts == (Text("a\ufffd"), signed, ToolResult("c1", "ok", (Text("(no output)"),)))


def test_a_text_that_was_cleaned_loses_its_replay_since_it_is_no_longer_word_for_word() -> None:
    replay = Replay("w h", "item", {})
    assert tidy([Text("good", replay=replay), Text("\ud800", replay=replay)]) == (
        Text("good", replay=replay),
        Text("\ufffd"),
    )


@some
@given(any_texts)
def test_messages_that_the_kernel_writes_are_never_blank(text: str) -> None:
    Checker([user_message([Text(text)]), closing(text)]).check_rest()
    Checker([HI, asks(C1), told(result_text("c1", "error", text))]).check_sendable()


# ---- Joining --------------------------------------------------------------------------------------------------------

partials = st.lists(plain.map(Text) | plain.map(Refusal), min_size=1, max_size=3).map(
    lambda parts: Message("assistant", tuple(parts), "partial")
)
continuations = assistant_texts.flatmap(
    lambda parts: plain.map(lambda text: Message("assistant", (*parts, Text(text))))
)


@some
@given(partials, continuations)
def test_joined_loses_nothing_of_either_half_but_a_repeated_overlap(first: Message, reply: Message) -> None:
    text = joined(first, reply).text
    assert text.startswith(first.text)
    rest = text[len(first.text) :]
    assert reply.text.endswith(rest)
    dropped = reply.text[: len(reply.text) - len(rest)]
    assert not dropped or (len(dropped) >= 12 and first.text.endswith(dropped))
    Checker([HI, joined(first, reply)]).check_rest()


@some
@given(st.text(min_size=1, max_size=40).filter(str.strip), st.text(min_size=1, max_size=30), st.integers(12, 30))
def test_what_the_continuation_repeats_of_the_end_stands_once(head: str, tail: str, size: int) -> None:
    overlap = head[-size:]
    if len(overlap) >= 12:
        assert joined(said(head, "partial"), said(overlap + tail)).text.startswith(head)
        assert len(joined(said(head, "partial"), said(overlap + tail)).text) <= len(head + tail)


def test_a_short_repeat_is_the_texts_own() -> None:
    assert joined(said("the ", "partial"), said("the end")).text == "the the end"


def test_a_joined_message_keeps_calls_and_the_later_thoughts_and_takes_the_later_origin() -> None:
    first = Message("assistant", (Thinking("old"), Text("I will re")), "partial", Replay("w h", "id", 1))
    reply = Message("assistant", (Thinking("new"), Text("ad it."), C1))
    assert joined(first, reply) == Message("assistant", (Thinking("new"), Text("I will read it."), C1))
    assert joined(first, said("ad", "partial")).origin == "partial"


def test_a_text_behind_a_call_is_not_drawn_before_it() -> None:
    message = joined(said("a", "partial"), Message("assistant", (C1, Text("b"))))
    assert message.parts == (Text("a"), C1, Text("b"))


# ---- Notes ----------------------------------------------------------------------------------------------------------


@some
@given(conversations(), plain)
def test_a_conversation_with_a_note_can_be_sent(messages: list[Message], note: str) -> None:
    if messages[-1].calls:
        return
    sent = with_note(messages, note)
    Checker(sent).check_sendable()
    kept = min(len(messages), len(sent) - 1)
    assert all(a is b for a, b in zip(sent[:kept], messages, strict=False)), "the prefix must stay the same objects"
    assert note in (sent[-1].text + "".join(r.text for r in sent[-1].results))


def test_a_note_goes_into_the_last_result_before_what_the_user_said() -> None:
    message = Message("tool", (done(C1), done(C2), Text("stop that", "steer")))
    sent = with_note([HI, asks(C1, C2), message], "hurry")[-1]
    assert sent.results[1].parts[-1] == Text("hurry", "warning")
    assert sent.results[0] is message.parts[0]
    assert sent.parts[-1] is message.parts[-1]


def test_a_note_goes_into_the_last_user_message_and_behind_an_assistant_as_one_of_its_own() -> None:
    assert with_note([HI], "n")[-1].parts == (Text("hi"), Text("n", "warning"))
    assert with_note([HI, said("cut", "partial")], "n")[-1] == Message("user", (Text("n", "warning"),), "nudge")


def test_a_blank_note_changes_nothing() -> None:
    assert with_note([HI], " ") == (HI,)


# ---- Repair ---------------------------------------------------------------------------------------------------------


@some
@given(any_lists)
def test_repair_makes_a_valid_conversation_of_any_list_and_is_idempotent(messages: list[Message]) -> None:
    repaired = repair(messages)
    Checker(repaired)
    again = repair(repaired)
    assert len(again) == len(repaired)
    assert all(a is b for a, b in zip(again, repaired, strict=True))


@some
@given(conversations())
def test_repair_leaves_a_valid_conversation_as_it_is_object_for_object(messages: list[Message]) -> None:
    repaired = repair(messages)
    assert len(repaired) == len(messages)
    assert all(a is b for a, b in zip(repaired, messages, strict=True))


@some
@given(any_lists)
def test_whatever_the_checker_takes_repair_leaves_alone(messages: list[Message]) -> None:
    valid: list[Message] = []
    checker = Checker()
    for message in messages:
        try:
            checker.feed(message)
        except InvalidConversation:
            continue
        valid.append(message)
    repaired = repair(valid)
    assert len(repaired) == len(valid)
    assert all(a is b for a, b in zip(repaired, valid, strict=True))


@some
@given(any_lists)
def test_repair_keeps_every_visible_text_of_users_and_models(messages: list[Message]) -> None:
    before = [t for m in messages if m.role != "tool" for t in _texts(m)]
    after = [t for m in repair(messages) if m.role != "tool" for t in _texts(m)]
    assert [t for t in after if t in before] == [t for t in before if t in after]
    assert not [t for t in before if t not in after]


def _texts(message: Message) -> list[str]:
    kept = [p for p in message.parts if isinstance(p, Text)]
    return [p.text for p in tidy(kept) if isinstance(p, Text)]


def test_a_call_without_a_result_is_told_that_its_outcome_is_unknown() -> None:
    repaired = repair([HI, asks(C1, C2), told(done(C2)), said("ok")])
    assert [r.status for r in repaired[2].results] == ["unknown", "ok"]


def test_open_calls_at_the_end_stay_open() -> None:
    messages = [HI, asks(C1)]
    assert repair(messages) == messages


def test_calls_that_the_next_message_leaves_open_are_closed_before_it() -> None:
    assert [m.role for m in repair([HI, asks(C1), said("x")])] == ["user", "assistant", "tool", "assistant"]


def test_a_call_that_gets_another_id_keeps_its_result() -> None:
    zero = call(id="call_0")
    repaired = repair([HI, asks(zero), told(done(zero, "first")), asks(zero), told(done(zero, "second"))])
    assert repaired[3].calls[0].id == "call_0_2"
    assert repaired[4].results == (result_text("call_0_2", "ok", "second"),)


def test_two_calls_with_one_id_keep_a_result_each() -> None:
    zero = call(id="call_0")
    repaired = repair([HI, asks(zero, zero), told(done(zero, "first"), done(zero, "second"))])
    assert [r.text for r in repaired[2].results] == ["first", "second"]
    assert [r.call_id for r in repaired[2].results] == ["call_0", "call_0_2"]


def test_results_in_messages_of_their_own_become_one_message() -> None:
    repaired = repair([HI, asks(C1, C2), told(done(C1, "first")), told(done(C2, "second"))])
    assert [m.role for m in repaired] == ["user", "assistant", "tool"]
    assert [r.text for r in repaired[2].results] == ["first", "second"]


def test_spec_15236_a_call_with_damaged_arguments_never_runs_with_none() -> None:
    damaged = ToolCall("c1", "shell", '{"command": "rm')  # type: ignore[arg-type]
    (repaired,) = repair([HI, Message("assistant", (damaged,))])[1].calls
    assert repaired.arguments == {}
    assert repaired.problem is not None


def test_spec_29148_49147_results_follow_their_calls_though_a_text_stood_between_them() -> None:
    late = [HI, asks(C1, C2), said("I look."), told(done(C1, "first")), told(done(C2, "second")), said("ok")]
    repaired = repair(late)
    assert [m.role for m in repaired] == ["user", "assistant", "tool", "assistant"]
    assert (repaired[1].calls, repaired[1].text) == ((C1, C2), "I look.")
    assert [r.text for r in repaired[2].results] == ["first", "second"]
    foreign = repair([HI, asks(C1), said("text"), told(done(C2, "of another"))])
    assert [r.status for r in foreign[2].results] == ["unknown"]


def test_spec_58327_of_two_results_of_one_call_the_first_is_kept() -> None:
    for results in ([told(done(C1, "first"), done(C1, "second"))], [told(done(C1, "first")), told(done(C1, "second"))]):
        assert [r.text for m in repair([HI, asks(C1), *results, said("ok")]) for r in m.results] == ["first"]


def test_spec_56980_a_call_without_a_name_gets_one_that_providers_accept() -> None:
    assert repair([HI, asks(call(""))])[1].calls[0].name == "invalid_tool_call"


def test_spec_43849_messages_of_one_side_in_a_row_get_the_missing_other_between_them() -> None:
    assert [m.role for m in repair([HI, user("and?")])] == ["user", "assistant", "user"]
    assert [m.role for m in repair([HI, said("a"), said("b")])] == ["user", "assistant", "user", "assistant"]
    assert [m.role for m in repair([said("a")])] == ["user", "assistant"]
    assert repair([HI, user("and?")])[1].origin == "closing"


def test_spec_48879_a_user_message_after_results_finds_the_turn_closed() -> None:
    assert [m.role for m in repair([HI, asks(C1), told(done(C1)), user("next")])][-3:] == ["tool", "assistant", "user"]
