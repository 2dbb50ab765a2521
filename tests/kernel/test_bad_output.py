"""Bad output, through the whole turn: a strict scripted model says what it should not, and the turn makes do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from driving import call as asked
from driving import cut, drive, fresh, reply

from hermes.kernel.config.settings import LimitSettings, ModelOptions, RequestSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Image, Refusal, StopReason, Thinking, Usage
from hermes.kernel.toolspec import tool
from hermes.testing import Call, Reply, call, calls, text

HALF = '{"path": "a.md", "content": "# Title\\n line'
"""Arguments that the output limit cut in the middle of a string (case B004)."""


def told(house: Any, number: int) -> list[str]:
    """The results that a request brings with its last messages."""
    return [m["content"] for m in house.server.requests[number].messages if m["role"] == "tool"]


def ran(house: Any) -> list[dict[str, Any]]:
    """What ran, of two tools that note their arguments: `note` changes things, `look` only reads."""
    seen: list[dict[str, Any]] = []

    @tool(parameters={"type": "object"})
    def note(**arguments: Any) -> str:
        seen.append({"note": arguments})
        return "noted"

    @tool(reads="path:{path}", idempotent=True)
    def look(path: str) -> str:
        """Look at a path."""
        seen.append({"look": path})
        return f"saw {path}"

    house.tools(note, look)
    return seen


# ---- Text that the output limit cut ---------------------------------------------------------------------------------


def test_a_text_in_four_pieces_is_one_message_without_what_the_pieces_repeat(house) -> None:
    house.server.add(
        text("The quick brown fox jumps ", finish="length"),
        text("brown fox jumps over the lazy dog, ", finish="length"),
        text("and goes on ", finish="length"),
        text("until it is home."),
    )
    result = house.agent().run("tell me")
    whole = "The quick brown fox jumps over the lazy dog, and goes on until it is home."
    assert (result.reason, result.answer) == (EndReason.COMPLETED, whole)
    assert [m.text for m in result.messages] == ["tell me", whole]
    assert house.server.problems == []


def test_a_text_that_is_cut_a_fourth_time_ends_with_what_there_is(house) -> None:
    house.server.add(*(text(f"piece {n}, ", finish="length") for n in range(4)))
    agent = house.agent()
    result = agent.run("tell me")
    assert (result.reason, result.answer) == (EndReason.CUT_TEXT, None)
    assert result.partial == "piece 0, piece 1, piece 2, piece 3, "
    assert "max_output_tokens" in result.detail
    assert len(house.server.requests) == 4
    house.server.add(text("and more."))
    assert agent.run("go on").answer == "and more."
    assert house.server.problems == []


@pytest.mark.parametrize("length", [20, 1500, 5000])
def test_a_continuation_that_begins_anew_is_not_joined_to_what_it_repeats(length: int) -> None:
    whole = " ".join(str(n) for n in range(2000))
    driven = drive(fresh(), "count", replies=[cut(whole[:length]), reply(whole)])
    assert driven.result.answer == whole


def test_spec_13971_a_text_that_looks_unfinished_is_whole_when_the_server_says_so(house) -> None:
    house.server.add(text("Here is what I found so far:\n\n- the first"))
    result = house.agent().run("look")
    assert (result.reason, len(house.server.requests)) == (EndReason.COMPLETED, 1)


# ---- Calls that the output limit cut --------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop"])
def test_B004_a_cut_call_is_asked_for_again_with_more_room_and_never_run(house, finish: str) -> None:
    seen = ran(house)
    house.server.add(call("note", HALF).but(finish=finish), call("note", path="a.md"), text("Done."))
    result = house.agent(model_options=ModelOptions(max_output_tokens=1000)).run("write it")
    assert (result.answer, seen) == ("Done.", [{"note": {"path": "a.md"}}])
    first, second = house.server.requests[:2]
    assert second.body["messages"] == first.body["messages"], "the same request once more"
    assert [r.body["max_tokens"] for r in (first, second)] == [1000, 2000]


def test_B004_a_call_that_is_cut_again_is_told_to_be_split_twice_at_most(house) -> None:
    seen = ran(house)
    house.server.add(*[call("note", HALF).but(finish="length")] * 6)
    agent = house.agent()
    result = agent.run("write it")
    assert (result.reason, seen, len(house.server.requests)) == (EndReason.CUT_TOOL_CALL, [], 6)
    assert "none of them was run" in result.detail
    assert [("was not run" in t, "several smaller calls" in t) for t in told(house, -1)] == [(True, True)] * 2
    assert "# Title" not in json.dumps([m.parts[0].arguments for m in result.messages if m.calls], default=str)
    house.server.add(text("I see."))
    assert agent.run("what now?").answer == "I see."
    assert house.server.problems == []


def test_the_second_try_of_a_cut_call_never_has_less_room_than_the_first_had(house) -> None:
    ran(house)
    wrote = call("note", HALF).but(finish="length", usage=Usage(10, 12_000))
    house.server.add(wrote, text("Done."))
    house.agent().run("write it")
    assert [r.body.get("max_tokens") for r in house.server.requests] == [None, 24_000]


def test_a_call_whose_stream_broke_off_is_asked_for_again_with_the_same_room() -> None:
    broken = reply(asked(problem="cut: the reply ended"), stop=StopReason.CUT)
    driven = drive(fresh(), "go", replies=[broken, reply("x")])
    assert [r.request.output_cap for r in driven.requests] == [None, None]
    assert driven.ran == []


def test_whole_calls_beside_a_cut_one_run_once_it_is_plain_that_it_stays_cut(house) -> None:
    seen = ran(house)
    both = calls(Call("look", {"path": "a"}), Call("note", HALF)).but(finish="length")
    house.server.add(both, both, text("Done."))
    assert house.agent().run("go").answer == "Done."
    assert seen == [{"look": "a"}]
    assert ["saw a" in told(house, -1)[0], "smaller calls" in told(house, -1)[1]] == [True, True]


def test_nothing_at_all_under_the_limit_leaves_the_conversation_as_it_was_and_gets_more_room(house) -> None:
    house.server.add(text("", finish="length").but(usage=Usage(10, 0)), text("There."))
    result = house.agent(model_options=ModelOptions(max_output_tokens=500)).run("go")
    assert [m.text for m in result.messages] == ["go", "There."]
    assert [r.body["max_tokens"] for r in house.server.requests] == [500, 1000]


# ---- Thinking -------------------------------------------------------------------------------------------------------


def test_thoughts_that_took_all_of_the_output_say_what_to_change() -> None:
    driven = drive(fresh(), "go", replies=[cut(Thinking("and then"))])
    assert driven.result.reason is EndReason.THINKING_EXHAUSTED
    assert "reasoning_effort" in driven.result.detail
    assert "max_output_tokens" in driven.result.detail


def test_hidden_thoughts_that_took_all_of_the_output_are_known_by_their_count(house) -> None:
    house.server.add(text("", finish="length").but(usage=Usage(10, 0, reasoning_tokens=500)))
    result = house.agent().run("go")
    assert (result.reason, len(house.server.requests)) == (EndReason.THINKING_EXHAUSTED, 1)


def test_thoughts_alone_are_asked_for_their_answer_and_not_stored(house) -> None:
    house.server.add(text("", thinking="I think so"), text("Yes."))
    result = house.agent().run("is it?")
    assert (result.answer, len(result.messages)) == ("Yes.", 2)
    assert "thoughts but no text" in json.dumps(house.server.requests[1].last)


# ---- Names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Note", "note_tool", "NoteTool_tool", 'note" parameter="x', "functions.note"])
def test_B097_spec_33007_a_near_miss_runs_under_the_name_that_was_meant(house, name: str) -> None:
    seen = ran(house)
    house.server.add(call(name, {"x": 1}), text("Done."))
    result = house.agent().run("go")
    assert (result.answer, seen) == ("Done.", [{"note": {"x": 1}}])
    assert [c.name for m in result.messages for c in m.calls] == ["note"]
    assert house.server.problems == []


def test_spec_9_4_1_a_similar_name_runs_only_where_nothing_can_change(house) -> None:
    seen = ran(house)
    house.server.add(calls(Call("loook", {"path": "a"}), Call("notes_", {"x": 1})), text("Done."))
    house.agent().run("go")
    assert seen == [{"look": "a"}]
    assert "there is no tool 'notes_'. Did you mean note?" in told(house, -1)[1]


def test_B098_one_bad_name_does_not_void_the_batch(house) -> None:
    seen = ran(house)
    house.server.add(calls(Call("fly", {"high": True}), Call("look", {"path": "a"})), text("Done."))
    house.agent().run("go")
    first, second = told(house, -1)
    assert ("there is no tool 'fly'" in first, "look, memory" in first, "saw a" in second) == (True, True, True)
    assert seen == [{"look": "a"}]


def test_three_steps_of_invalid_calls_alone_end_the_turn(house) -> None:
    house.server.add(*(call(f"fly{n}") for n in range(3)))
    result = house.agent().run("go")
    assert (result.reason, len(house.server.requests)) == (EndReason.INVALID_TOOLS, 3)
    assert "was not run" in result.messages[-2].results[0].text


def test_a_valid_call_between_sets_the_count_of_invalid_steps_back(house) -> None:
    ran(house)
    house.server.add(call("fly1"), call("fly2"), calls(Call("fly3"), Call("look", {"path": "a"})), call("fly4"))
    house.server.add(call("fly5"), text("Done."))
    assert house.agent().run("go").answer == "Done."


def test_B100_spec_47967_phantom_calls_without_a_name_are_answered_tersely_and_end_the_turn(house) -> None:
    house.server.add(*[calls(Call("", {}), Call(" ", {"x": 1}))] * 3)
    result = house.agent().run("what does the file say?")
    assert result.reason is EndReason.INVALID_TOOLS
    assert all("without a name" in t and "The tools are" not in t for t in told(house, -1))
    assert {c.name for m in result.messages for c in m.calls} == {"invalid_tool_call"}
    assert house.server.problems == []


# ---- Arguments ------------------------------------------------------------------------------------------------------


def test_B061_an_unreadable_call_is_told_where_and_the_good_one_runs(house) -> None:
    seen = ran(house)
    house.server.add(calls(Call("note", '{"a": b ad}'), Call("look", {"path": "a"})), text("Done."))
    assert house.agent().run("go").answer == "Done."
    assert seen == [{"look": "a"}]
    first, second = told(house, -1)
    assert ("line 1 column" in first, "saw a" in second) == (True, True)


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ('{"s": "a\tb\nc"}', {"s": "a\tb\nc"}),
        ('{"s": "it\'s the user\'s\n"}', {"s": "it's the user's\n"}),
        ("{'query': 'it\"s', 'n': None, 'b': True}", {"query": 'it"s', "n": None, "b": True}),
        ('```json\n{"a": [1, 2,], }\n```', {"a": [1, 2]}),
        ('{"a": {"b": "c"}', {"a": {"b": "c"}}),
        ('"{\\"a\\": \\"b\\"}"', {"a": "b"}),
        ("", {}),
    ],
)
def test_B060_spec_12068_spec_12093_what_has_one_reading_runs_as_it_was_meant(house, raw: str, meant: Any) -> None:
    seen = ran(house)
    house.server.add(call("note", raw), text("Done."))
    house.agent().run("go")
    assert seen == [{"note": meant}]
    assert json.loads(house.server.requests[1].messages[2]["tool_calls"][0]["function"]["arguments"]) == meant
    assert house.server.problems == []


@pytest.mark.parametrize("raw", ['{"cmd": "rm -r /tmp/a', '{"n": 1', '{"a": tru', '{"a"', '{"a": "b", ', "{"])
def test_B060_what_ends_in_the_middle_is_cut_whatever_the_stop_reason_says(house, raw: str) -> None:
    seen = ran(house)
    house.server.add(*[call("note", raw).but(finish="tool_calls")] * 2, text("Done."))
    assert house.agent().run("go").answer == "Done."
    assert (seen, len(told(house, -1))) == ([], 1)


def test_B114_types_that_are_slightly_wrong_are_coerced_and_the_rest_is_told(house) -> None:
    seen: list[Any] = []

    @tool
    def count(n: int, names: list[str], exact: bool = False) -> str:
        seen.append((n, names, exact))
        return "counted"

    house.tools(count)
    house.server.add(call("count", {"n": "42", "names": '["a"]', "exact": "true"}), call("count", {"n": "3.14"}))
    house.server.add(text("Done."))
    house.agent().run("go")
    assert seen == [(42, ["a"], True)]
    assert ("n: must be an integer" in told(house, -1)[1], "names: is missing" in told(house, -1)[1]) == (True, True)


# ---- Duplicates -----------------------------------------------------------------------------------------------------


def test_spec_1_5_the_same_call_twice_in_a_reply_runs_once_and_both_are_answered(house) -> None:
    seen = ran(house)
    house.server.add(calls(Call("note", {"x": 1}, "a"), Call("note", {"x": 1}, "b"), Call("note", {"x": 2}, "a")))
    house.server.add(text("Done."))
    result = house.agent().run("go")
    assert seen == [{"note": {"x": 1}}, {"note": {"x": 2}}]
    assert len({c.id for m in result.messages for c in m.calls}) == 3
    assert [("noted" in t, "twice" in t) for t in told(house, -1)] == [(True, False), (False, True), (True, False)]
    assert house.server.problems == []


# ---- Empty replies and refusals -------------------------------------------------------------------------------------


def chain(house: Any, **more: Any) -> Any:
    return house.agent(fallback=("scripted:other",), request=RequestSettings(attempts=1), **more)


def test_spec_9400_silence_after_tools_is_asked_about_once_and_nothing_of_it_stays(house) -> None:
    ran(house)
    house.server.add(call("look", path="a"), text(""), text("It says a."))
    result = house.agent().run("what does it say?")
    assert (result.answer, len(result.messages)) == ("It says a.", 4)
    assert "was empty" in told(house, 2)[0]
    assert house.server.problems == []


def test_spec_9_6_6_a_model_that_stays_silent_is_left_for_the_next(house) -> None:
    house.server.add(text(""), text(""), text(""), text("Here."))
    result = chain(house).run("hello?")
    assert (result.answer, [r.model for r in house.server.requests]) == ("Here.", ["any"] * 3 + ["other"])
    assert any("going on with scripted:other" in line for line in house.notices("fallback"))


def test_spec_9_6_2_an_answer_that_was_said_beside_a_note_is_the_answer_of_a_model_that_stays_silent(house) -> None:
    house.server.add(calls(Call("todo", {"todos": []}), text="It is 42."), text(""), text(""), text(""))
    result = house.agent().run("what is it?")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "It is 42.")
    assert [m.text for m in result.messages if m.role == "assistant"] == ["It is 42.", "It is 42."]


def test_words_beside_a_call_that_does_something_are_no_answer(house) -> None:
    ran(house)
    house.server.add(calls(Call("look", {"path": "a"}), text="Let me look."), text(""), text(""), text(""))
    assert house.agent().run("what is it?").reason is EndReason.EMPTY_ANSWER


def test_silence_of_all_models_ends_the_turn(house) -> None:
    house.server.add(*[text("")] * 6)
    result = chain(house).run("hello?")
    assert (result.reason, len(house.server.requests)) == (EndReason.EMPTY_ANSWER, 6)
    assert result.messages[-1].origin == "closing"


def test_spec_9_2_a_refusal_is_put_to_the_next_model_once(house) -> None:
    house.server.add(text("I cannot.", finish="content_filter"), text("I can."))
    assert chain(house).run("please").answer == "I can."
    assert [r.model for r in house.server.requests] == ["any", "other"]


def test_a_refusal_of_all_models_is_told_in_its_own_words() -> None:
    driven = drive(fresh(targets=("one", "two")), "please", replies=[reply(Refusal("Never.")), reply(Refusal("No."))])
    assert (driven.result.reason, driven.result.detail) == (EndReason.REFUSED, "the model refused: No.")
    assert [a.target for a in driven.requests] == ["one", "two"]


# ---- Circles --------------------------------------------------------------------------------------------------------


def circle(house: Any, *made: Reply) -> int:
    """How many calls a model makes that makes these in turn for ever, until it has to answer."""
    count = [0]

    def answer(request: Any) -> Reply:
        if request.body.get("tool_choice") == "none":
            return text("That is all.")
        count[0] += 1
        return made[(count[0] - 1) % len(made)].but()

    house.server.play(answer)
    result = house.agent(limits=LimitSettings(iterations=60)).run("go")
    assert result.reason in (EndReason.COMPLETED, EndReason.STUCK_CALLS)
    assert result.answer == "That is all."
    return count[0]


def test_B096_reads_that_take_turns_are_a_circle(house) -> None:
    ran(house)
    assert circle(house, call("look", path="a"), call("look", path="b"), call("look", path="c")) <= 10


def test_B096_the_same_outcome_whatever_it_is_asked_ends_in_the_end(house) -> None:
    @tool(parameters={"type": "object"})
    def fetch(**arguments: Any) -> str:
        raise ToolError("404: there is no such page")

    house.tools(fetch)
    assert circle(house, *(call("fetch", n=n) for n in range(50))) == 20
    assert "the same outcome 5 times in a row" in told(house, 5)[-1]


def test_B096_a_change_that_is_made_again_and_again_ends(house) -> None:
    ran(house)
    assert circle(house, call("note", to="the same place")) == 10


def test_B096_changes_that_take_turns_end(house) -> None:
    ran(house)
    assert circle(house, call("note", to="a"), call("note", to="b"), call("note", to="c")) == 30


def test_B096_many_changes_with_one_outcome_are_no_circle(house) -> None:
    seen = ran(house)
    house.server.add(*(call("note", to=n) for n in range(40)), text("All noted."))
    assert house.agent().run("note them").answer == "All noted."
    assert len(seen) == 40


def test_B096_failures_that_are_spread_over_tools_end(house) -> None:
    @tool(parameters={"type": "object"})
    def get(**arguments: Any) -> str:
        raise ToolError(f"no {arguments}")

    @tool(parameters={"type": "object"})
    def search(**arguments: Any) -> str:
        raise ToolError(f"nothing like {arguments}")

    house.tools(get, search)
    assert circle(house, *(call(("get", "search")[n % 2], n=n) for n in range(50))) == 20


def test_B096_looking_again_at_something_that_changes_is_no_circle(house) -> None:
    seen: list[int] = []

    @tool
    def status() -> str:
        seen.append(1)
        return f"{len(seen)} of 40 are done"

    house.tools(status)
    house.server.add(*[call("status")] * 40, text("All done."))
    assert house.agent(limits=LimitSettings(iterations=60)).run("wait for it").answer == "All done."


def test_B096_pictures_that_differ_are_different_outcomes(house) -> None:
    shots = iter(["AAAA", "BBBB", "CCCC", "DDDD"])

    @tool(reads="screen", idempotent=True)
    def shot() -> list[Any]:
        return [Image("image/png", next(shots))]

    house.tools(shot)
    house.server.add(*[call("shot")] * 4, text("I see."))
    assert house.agent().run("watch").answer == "I see."
