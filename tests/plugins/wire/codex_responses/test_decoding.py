"""Replies from events, as servers send them and as they should not."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.kernel.effects import FaultKind
from hermes.kernel.faults import classify
from hermes.kernel.messages import Refusal, StopReason, Text, Thinking, Usage
from hermes.kernel.providers import Delta, WireFault

# ---- Events, made short ---------------------------------------------------------------------------------------------


def message(text: Any, item_id: str = "msg_1", **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if isinstance(text, str) else text
    return {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": "completed",
        "content": content,
    } | more


def call(name: str = "f", arguments: Any = "{}", call_id: Any = "call_1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments} | more


def reasoning(text: str = "", sealed: Any = "gAAA", item_id: str = "rs_1") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": sealed}


def done(item: Any, index: int | None = 0) -> dict[str, Any]:
    place = {} if index is None else {"output_index": index}
    return {"type": "response.output_item.done", **place, "item": item}


def added(item: Any, index: int | None = 0) -> dict[str, Any]:
    return done(item, index) | {"type": "response.output_item.added"}


def delta(text: Any, of: str = "output_text", **place: Any) -> dict[str, Any]:
    return {"type": f"response.{of}.delta", "delta": text, **place}


def completed(output: Any = None, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, "output": output, "error": None} | more}


def incomplete(reason: str | None) -> dict[str, Any]:
    return completed([], "incomplete", incomplete_details={"reason": reason} if reason else None)


CREATED = {"type": "response.created", "response": {"status": "in_progress", "model": "gpt-x", "output": []}}


def fault_of(decode: Any, *events: Any, **more: Any) -> WireFault:
    with pytest.raises(WireFault) as caught:
        decode(*events, **more)
    return caught.value


# ---- What a good stream comes to ------------------------------------------------------------------------------------


def test_thinking_text_and_calls_keep_the_model_s_order(decode: Any, target: Any) -> None:
    read = decode(
        CREATED,
        done(reasoning("first")),
        done(message("Let me look.", phase="final_answer"), 1),
        done(call("read_file", '{"path":"ä"}'), 2),
        done(reasoning("second", item_id="rs_2"), 3),
        done(call("noop", "", "call_2"), 4),
        completed(),
    )
    parts = read.reply.parts
    assert [type(part).__name__ for part in parts] == ["Thinking", "Text", "ToolCall", "Thinking", "ToolCall"]
    assert [(c.id, c.name, dict(c.arguments), c.problem) for c in read.reply.calls] == [
        ("call_1", "read_file", {"path": "ä"}, None),
        ("call_2", "noop", {}, None),
    ]
    assert (read.reply.stop_reason, read.reply.model) == (StopReason.TOOL_CALLS, "gpt-x")
    assert parts[0].replay.payload == {
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "first"}],
        "encrypted_content": "gAAA",
    }
    assert parts[0].replay.issuer == target.issuer
    assert parts[1].replay.payload == {"id": "msg_1", "phase": "final_answer", "reasoned": True}


def test_a_text_is_shown_as_it_streams_and_only_once(decode: Any) -> None:
    pieces = [delta("Hel", output_index=0), delta("lo", output_index=0)]
    read = decode(added(message([])), *pieces, done(message("Hello")), completed())
    assert read.deltas == [Delta("text", "Hel"), Delta("text", "lo")]
    assert (read.reply.text, read.reply.stop_reason) == ("Hello", StopReason.STOP)


def test_what_did_not_stream_is_shown_when_its_item_is_done(decode: Any) -> None:
    read = decode(delta("Hel"), done(message("Hello"), None), done(reasoning("hm"), None), completed())
    assert read.deltas == [Delta("text", "Hel"), Delta("text", "lo"), Delta("thinking", "hm")]


def test_the_parts_of_a_summary_stand_apart(decode: Any) -> None:
    of = "reasoning_summary_text"
    read = decode(
        delta("One", of, summary_index=0, output_index=0),
        delta("Two", of, summary_index=1, output_index=0),
        done(reasoning() | {"summary": [{"type": "summary_text", "text": t} for t in ("One", "Two")]}),
        done(message("a"), 1),
        completed(),
    )
    assert (read.shown("thinking"), read.reply.parts[0].text) == ("One\n\nTwo", "One\n\nTwo")


def test_the_reasoning_of_open_models_is_shown_and_not_replayed(decode: Any) -> None:
    item = reasoning(sealed=None) | {"content": [{"type": "reasoning_text", "text": "raw"}], "summary": []}
    read = decode(delta("raw", "reasoning_text", output_index=0), done(item), done(message("a"), 1), completed())
    assert (read.shown("thinking"), read.reply.parts[0]) == ("raw", Thinking("raw"))


def test_a_sealed_thought_without_a_summary_is_kept_for_its_replay(decode: Any) -> None:
    thinking = decode(done(reasoning("")), done(message("a"), 1), completed()).reply.parts[0]
    assert (thinking.text, thinking.replay.payload["encrypted_content"]) == ("", "gAAA")


def test_a_call_is_announced_by_name_once(decode: Any) -> None:
    read = decode(added(call("f", "")), delta('{"a"', "function_call_arguments", output_index=0), done(call()),
                  done(call("g", "{}", "call_2"), 1), completed())  # fmt: skip
    assert read.deltas == [Delta("call", "f"), Delta("call", "g")]


def test_B026_a_tool_comes_back_under_its_own_name(decode: Any) -> None:
    from hermes.plugins.wire.toolnames import wire_name

    sent = wire_name("calendar.respondToEvent")
    assert decode(done(call(sent)), completed()).reply.calls[0].name == "calendar.respondToEvent"


def test_usage_is_in_disjoint_buckets(decode: Any) -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 150,
    }
    assert decode(done(message("a")), completed(usage=usage)).reply.usage == Usage(30, 30, 60, 10, 20)
    on_top = usage | {"total_tokens": 170}
    assert decode(done(message("a")), completed(usage=on_top)).reply.usage == Usage(30, 50, 60, 10, 20)


@pytest.mark.parametrize("stated", [{"cost": 0.25}, {"cost_in_usd_ticks": 2_500_000_000}])
def test_what_a_call_cost_is_read_where_the_provider_says_so(decode: Any, stated: Any) -> None:
    assert decode(done(message("a")), completed(usage=stated)).reply.usage == Usage(cost_usd=0.25)


def test_spec_12_2_2_usage_is_read_under_the_names_of_chat_completions_too(decode: Any) -> None:
    usage = {
        "prompt_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens": 50,
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    assert decode(done(message("a")), completed(usage=usage)).reply.usage == Usage(40, 30, 60, 0, 20)


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": None, "output_tokens": "many"}, {"input_tokens": -3}])
def test_usage_that_is_no_count_is_nothing(decode: Any, usage: Any) -> None:
    assert decode(done(message("a")), completed(usage=usage)).reply.usage == Usage()


# ---- Late, repeated, without index, unknown -------------------------------------------------------------------------


def test_events_of_unknown_types_are_left_alone(decode: Any) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    read = decode(
        {"type": "codex.rate_limits", "limit": 1},
        {"type": "keepalive"},
        CREATED,
        added(search),
        {"type": "response.web_search_call.searching", "output_index": 0},
        done(search),
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.annotation.added", "annotation": {}},
        done(message("a"), 1),
        completed(),
    )
    assert (read.reply.text, len(read.reply.parts), read.reply.stop_reason) == ("a", 1, StopReason.STOP)


def test_items_without_an_index_keep_the_order_in_which_they_began(decode: Any) -> None:
    read = decode(done(message("a"), None), done(call(), None), done(call("g", call_id="call_2"), None), completed())
    assert [type(part).__name__ for part in read.reply.parts] == ["Text", "ToolCall", "ToolCall"]


def test_items_that_are_done_out_of_order_are_put_in_theirs(decode: Any) -> None:
    read = decode(done(call("second", call_id="b", id="fc_2"), 1), done(call("first", call_id="a"), 0), completed())
    assert [c.name for c in read.reply.calls] == ["first", "second"]


def test_an_item_that_is_done_twice_is_there_once(decode: Any) -> None:
    read = decode(done(message("a")), done(message("a")), done(call(), 1), done(call(), 1), completed())
    assert [type(part).__name__ for part in read.reply.parts] == ["Text", "ToolCall"]


def test_an_event_that_is_sent_twice_is_read_once(decode: Any) -> None:
    twice = delta("ha", output_index=0, sequence_number=3)
    read = decode(twice, twice, delta("ha", output_index=0, sequence_number=4))
    assert (read.reply.text, read.shown()) == ("haha", "haha")


def test_a_delta_that_comes_after_its_item_is_not_read(decode: Any) -> None:
    read = decode(done(message("Hello")), delta("lo", output_index=0), completed())
    assert (read.reply.text, read.shown()) == ("Hello", "Hello")


def test_deltas_of_parallel_calls_find_their_call_by_item(decode: Any) -> None:
    of = "function_call_arguments"
    read = decode(
        added(call("f", "", "a", id="fc_a"), None),
        added(call("g", "", "b", id="fc_b"), None),
        delta('{"x":', of, item_id="fc_a"),
        delta('{"y":', of, item_id="fc_b"),
        delta("1}", of, item_id="fc_a"),
        delta("2}", of, item_id="fc_b"),
        completed(),
    )
    assert [(c.name, dict(c.arguments)) for c in read.reply.calls] == [("f", {"x": 1}), ("g", {"y": 2})]


def test_an_index_that_is_used_for_each_item_does_not_join_them(decode: Any) -> None:
    of = "function_call_arguments"
    read = decode(
        added(call("f", "", "a", id="fc_a")),
        added(call("g", "", "b", id="fc_b")),
        delta('{"x":1}', of, item_id="fc_a", output_index=0),
        done(call("g", '{"y":2}', "b", id="fc_b")),
        done(message("text", "msg_1")),
        done(message("more", "msg_2")),
        completed(),
    )
    assert [(c.id, dict(c.arguments)) for c in read.reply.calls] == [("a", {"x": 1}), ("b", {"y": 2})]
    assert read.reply.text == "textmore"


def test_an_item_that_has_another_id_in_each_event_is_one(decode: Any) -> None:
    """Copilot does that, with ids of some 400 characters, which cannot be sent back."""
    read = decode(
        added(message([], "a" * 400)),
        delta("Hel", item_id="b" * 400, output_index=0),
        delta("lo", item_id="c" * 400, output_index=0),
        done(message("Hello", "d" * 400)),
        completed(),
    )
    assert (read.reply.parts, read.shown()) == ((Text("Hello"),), "Hello")


def test_halves_of_a_surrogate_pair_are_joined(decode: Any) -> None:
    read = decode(delta("\ud83d", output_index=0), delta("\ude00!", output_index=0))
    assert (read.shown(), read.reply.text) == ("😀!", "😀!")


@pytest.mark.parametrize("text", ["", None, [], 7])
def test_B052_an_empty_or_null_delta_is_nothing(decode: Any, text: Any) -> None:
    read = decode(delta(text, output_index=0), done(message(""), 0), done(call(), 1), completed())
    assert ([type(p).__name__ for p in read.reply.parts], read.reply.stop_reason) == (
        ["ToolCall"],
        StopReason.TOOL_CALLS,
    )


# ---- Null where a list should be ------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [None, [], "absent"])
def test_spec_33042_B066_the_items_count_and_not_what_the_last_event_repeats(decode: Any, output: Any) -> None:
    last = completed(output) if output != "absent" else {"type": "response.completed", "response": None}
    assert decode(done(message("a")), last).reply.text == "a"
    assert decode(done(message("a")), completed([message("stale", "msg_9")])).reply.text == "a"


def test_B066_what_is_null_in_an_item_is_taken_from_its_deltas(decode: Any) -> None:
    read = decode(
        delta("thought", "reasoning_summary_text", output_index=0),
        done({"type": "reasoning", "id": "rs_1", "summary": None, "encrypted_content": "gAAA"}),
        delta("Hello", output_index=1),
        done({"type": "message", "id": "msg_1", "content": None}, 1),
        added(call("f", ""), 2),
        delta('{"a":1}', "function_call_arguments", output_index=2),
        done(call(None, None, None), 2),  # type: ignore[arg-type]
        completed(),
    )
    thinking, text, made = read.reply.parts
    assert (thinking.text, text.text, made.name, dict(made.arguments)) == ("thought", "Hello", "f", {"a": 1})
    assert thinking.replay.payload == {"id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


@pytest.mark.parametrize("item", [None, [], {}, {"type": None}, {"type": "message"}, {"type": "reasoning"}])
def test_B066_an_item_without_anything_is_nothing(decode: Any, item: Any) -> None:
    assert decode(done(item, 1), done(message("a")), completed()).reply.parts[-1].text == "a"


def test_the_last_event_is_read_when_nothing_else_came(decode: Any) -> None:
    read = decode(CREATED, completed([reasoning("hm"), message("a"), call()]))
    assert [type(part).__name__ for part in read.reply.parts] == ["Thinking", "Text", "ToolCall"]
    assert (read.shown(), read.shown("thinking"), read.shown("call")) == ("a", "hm", "f")


def test_announced_reasoning_is_not_replayed_since_its_seal_may_be_half(decode: Any) -> None:
    read = decode(added(reasoning(sealed="half")), delta("hm", "reasoning_summary_text", output_index=0),
                  delta("a", output_index=1))  # fmt: skip
    assert read.reply.parts[0] == Thinking("hm")


# ---- How it ended ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "stop"),
    [
        (completed(), StopReason.STOP),
        ({"type": "response.done", "response": {}}, StopReason.STOP),
        (incomplete("max_output_tokens"), StopReason.LENGTH),
        (incomplete("content_filter"), StopReason.REFUSAL),
        (incomplete("steered"), StopReason.CUT),
        (incomplete(None), StopReason.CUT),
        (completed(status="completed") | {"response": {"status": "incomplete"}}, StopReason.CUT),
        ("[DONE]", StopReason.OTHER),
        (CREATED, StopReason.CUT),
    ],
)
def test_B065_each_end_of_a_text_has_its_stop_reason(decode: Any, last: Any, stop: StopReason) -> None:
    assert decode(done(message("text")), last).reply.stop_reason is stop


def test_B054_a_stream_that_ends_without_a_last_event_is_cut(decode: Any) -> None:
    read = decode(delta("half an ans", output_index=0))
    assert (read.reply.text, read.reply.stop_reason) == ("half an ans", StopReason.CUT)


@pytest.mark.parametrize("last", [[], [incomplete("max_output_tokens")]])
def test_B054_half_a_call_is_a_call_that_was_cut(decode: Any, last: Any) -> None:
    events = [added(call("f", "")), delta('{"path": "a', "function_call_arguments", output_index=0)]
    (made,) = decode(*events, *last).reply.calls
    assert (dict(made.arguments), str(made.problem).startswith("cut: ")) == ({}, True)


def test_B054_only_the_last_call_of_a_cut_reply_can_be_half(decode: Any) -> None:
    read = decode(
        done(call("f", "not json")), done(call("g", '{"a": "b', "call_2"), 1), incomplete("max_output_tokens")
    )
    first, last = read.reply.calls
    assert (str(first.problem).startswith("cut: "), str(last.problem).startswith("cut: ")) == (False, True)


def test_arguments_that_come_as_an_object_are_taken_as_they_are(decode: Any) -> None:
    assert dict(decode(done(call("f", {"a": "ä"})), completed()).reply.calls[0].arguments) == {"a": "ä"}


def test_the_whole_arguments_of_a_call_are_taken_from_their_done_event(decode: Any) -> None:
    whole = {"type": "response.function_call_arguments.done", "arguments": '{"a":1}', "output_index": 0}
    read = decode(added(call("f", "")), delta('{"a', "function_call_arguments", output_index=0), whole)
    assert dict(read.reply.calls[0].arguments) == {"a": 1}


def test_nothing_at_all_is_invalid(decode: Any) -> None:
    assert fault_of(decode, CREATED).cause == "invalid"
    assert fault_of(decode, CREATED, "[DONE]").cause == "invalid"
    assert fault_of(decode, "text").cause == "invalid"


def test_B054_thinking_alone_with_an_end_is_a_reply(decode: Any) -> None:
    read = decode(done(reasoning("hm")), completed())
    assert ([type(part).__name__ for part in read.reply.parts], read.reply.stop_reason) == (
        ["Thinking"],
        StopReason.STOP,
    )


def test_spec_64434_thinking_alone_is_a_stop_on_unknown_hosts_and_unfinished_where_a_quirk_says_so(
    decode: Any, new_target: Any
) -> None:
    known = new_target(reasoning_alone_is_incomplete=True)
    assert decode(done(reasoning("hm")), completed()).reply.stop_reason is StopReason.STOP
    assert decode(done(reasoning("hm")), completed(), target=known).reply.stop_reason is StopReason.OTHER
    answered = decode(done(reasoning("hm")), done(message("a"), 1), completed(), target=known)
    assert answered.reply.stop_reason is StopReason.STOP


# ---- Refusals -------------------------------------------------------------------------------------------------------


def test_B064_a_refusal_is_a_refusal_and_is_shown(decode: Any) -> None:
    content = [{"type": "refusal", "refusal": "I cannot."}]
    read = decode(delta("I can", "refusal", output_index=0), done(message(content)), completed())
    assert [type(part) for part in read.reply.parts] == [Refusal]
    assert (read.reply.text, read.shown(), read.reply.stop_reason) == ("I cannot.", "I cannot.", StopReason.REFUSAL)


def test_B064_a_filter_without_any_output_is_a_refusal(decode: Any) -> None:
    read = decode(CREATED, incomplete("content_filter"))
    assert (read.reply.parts, read.reply.stop_reason) == ((), StopReason.REFUSAL)


def test_a_refusal_beside_a_text_does_not_end_it(decode: Any) -> None:
    content = [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "Not that."}]
    read = decode(done(message(content)), completed())
    assert ([type(part) for part in read.reply.parts], read.reply.stop_reason) == ([Text, Refusal], StopReason.STOP)


# ---- Narration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["commentary", "analysis"])
def test_spec_24933_41293_narration_is_thinking_and_never_in_the_answer(decode: Any, phase: str) -> None:
    read = decode(
        added(message([], phase=phase)),
        delta("I look first.", output_index=0),
        done(message("I look first.", phase=phase)),
        done(message("It is 7.", "msg_2", phase="final_answer"), 1),
        completed(),
    )
    thinking, answer = read.reply.parts
    assert (read.reply.text, read.shown(), read.shown("thinking")) == ("It is 7.", "It is 7.", "I look first.")
    assert (thinking.text, thinking.replay.kind) == ("I look first.", "message")
    assert thinking.replay.payload == {"id": "msg_1", "phase": phase}
    assert answer.replay.payload == {"id": "msg_2", "phase": "final_answer"}


# ---- Ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item_id", ["m" * 3 + "x" * 62, "item_1", "msg_ü", "", None, 7])
def test_spec_3_4_4_only_an_id_that_can_be_sent_back_is_kept(decode: Any, item_id: Any) -> None:
    assert decode(done(message("a") | {"id": item_id}), completed()).reply.parts == (Text("a"),)


def test_spec_3_4_4_reasoning_under_a_made_up_id_is_not_replayed(decode: Any) -> None:
    read = decode(done(reasoning("hm", item_id="rs_tmp_1")), done(message("a"), 1), completed())
    assert read.reply.parts[0] == Thinking("hm")
    assert read.reply.parts[1].replay.payload["reasoned"] is True


@pytest.mark.parametrize("call_id", ["", None])
def test_spec_3_4_5_B046_a_call_without_an_id_gets_one_that_is_the_same_each_time(decode: Any, call_id: Any) -> None:
    events = [done(call("f", '{"x":1}', call_id, id=f"fc_{n}"), n) for n in range(2)]
    first, second = (decode(*events, completed()).reply.calls for _ in range(2))
    assert [c.id for c in first] == [c.id for c in second]
    assert len({c.id for c in first}) == 2
    assert all(len(c.id) == 17 and c.id.startswith("call_") for c in first)
    other = decode(done(call("f", '{"x":2}', call_id)), completed()).reply.calls
    assert other[0].id not in {c.id for c in first}


def test_B045_B046_equal_ids_are_left_to_the_kernel_and_no_call_is_lost(decode: Any) -> None:
    twice = [done(call("f", f'{{"x":{n}}}', "functions.eval:301", id=f"fc_{n}"), n) for n in range(2)]
    calls = decode(*twice, completed()).reply.calls
    assert [(c.id, dict(c.arguments)) for c in calls] == [("functions.eval:301", {"x": n}) for n in range(2)]


# ---- In the wrong place ---------------------------------------------------------------------------------------------

LEAK = 'assistant to=functions.exec_command commentary json\n{"cmd":"ls"}'


def test_spec_3_4_11_a_call_that_leaked_into_the_text_is_no_answer(decode: Any) -> None:
    alone = decode(done(message(LEAK)), completed()).reply
    after = decode(done(reasoning("hm")), done(message(f"Let me look.\n{LEAK}"), 1), completed()).reply
    assert (alone.parts, alone.stop_reason) == ((), StopReason.CUT)
    assert ([part.text for part in after.parts], after.stop_reason) == (["hm", "Let me look."], StopReason.CUT)
    assert after.parts[1].replay is None


@pytest.mark.parametrize(
    "text", ["The header `to=functions.f` names the tool: {…}", "to=functions.exec", "into=functions.f {"]
)
def test_a_text_about_such_calls_stays(decode: Any, text: str) -> None:
    reply = decode(done(message(text)), completed()).reply
    assert (reply.text, reply.stop_reason) == (text, StopReason.STOP)


def test_a_leak_beside_real_calls_stays(decode: Any) -> None:
    assert decode(done(message(LEAK)), done(call(), 1), completed()).reply.text == LEAK


@pytest.mark.parametrize("ending", ["", "</response>", "\n</response>\n"])
def test_spec_3_4_11_an_answer_in_the_reasoning_is_taken_where_a_quirk_says_so(
    decode: Any, new_target: Any, ending: str
) -> None:
    thought = reasoning(f"I add them.\n<response>\nIt is 7.{ending}")
    xai = new_target(answer_in_reasoning=True, reasoning_alone_is_incomplete=True)
    reply = decode(done(thought), completed(), target=xai).reply
    assert ([part.text for part in reply.parts], reply.stop_reason) == (["I add them.", "It is 7."], StopReason.STOP)
    assert reply.parts[0].replay.payload["summary"] == thought["summary"]
    assert decode(done(thought), completed()).reply.text == ""
    answered = decode(done(thought), done(message("Seven."), 1), completed(), target=xai).reply
    assert answered.text == "Seven."


# ---- Errors in place of events --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind", "said"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None},
         FaultKind.RATE_LIMIT, "Slow down"),
        ({"type": "error", "error": {"type": "server_error", "code": None, "message": "Boom"}},
         FaultKind.SERVER_ERROR, "Boom"),
        ({"type": "error", "status": 429,
          "error": {"type": "usage_limit_reached", "message": "No more", "resets_in_seconds": 9}},
         FaultKind.RATE_LIMIT, "No more"),
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, FaultKind.OVERLOADED, "Overloaded"),
        (completed([], "failed", error={"code": "server_error", "message": "Boom"}), FaultKind.SERVER_ERROR, "Boom"),
        (completed([], "failed", error={"code": "context_length_exceeded", "message": "Too long"}),
         FaultKind.CONTEXT_OVERFLOW, "Too long"),
        (completed([], "failed", error={"code": "insufficient_quota", "message": "Pay"}), FaultKind.BILLING, "Pay"),
        (completed(None, "failed", error=None), FaultKind.UNKNOWN, "the response failed"),
        (completed(None, "cancelled", error=None), FaultKind.UNKNOWN, "the response cancelled"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [[], [CREATED, delta("Hel", output_index=0)]])
def test_B056_an_error_in_a_stream_of_status_200_is_a_fault_with_its_code(
    decode: Any, event: Any, kind: FaultKind, said: str, before: Any
) -> None:
    fault = fault_of(decode, *before, event)
    assert (fault.cause, fault.phase, classify(fault).kind) == ("http", "stream", kind)
    assert said in classify(fault).detail


# ---- Whole replies --------------------------------------------------------------------------------------------------


def test_a_whole_response_is_read(decode: Any) -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    body = completed([reasoning("hm"), message("a"), call()], model="gpt-x", usage=usage)["response"]
    read = decode(whole=body)
    assert [type(part).__name__ for part in read.reply.parts] == ["Thinking", "Text", "ToolCall"]
    assert (read.shown(), read.reply.usage, read.reply.model) == ("a", Usage(10, 5), "gpt-x")
    assert read.reply.stop_reason is StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("body", "text", "stop"),
    [
        ({"output": [message("a")]}, "a", StopReason.STOP),
        ({"output": None, "output_text": "a"}, "a", StopReason.STOP),
        ({"output": message("a"), "status": "completed"}, "a", StopReason.STOP),
        ({"output": [message("plain") | {"content": "plain"}]}, "plain", StopReason.STOP),
        ({"output": [None, message("a")], "status": "in_progress"}, "a", StopReason.CUT),
        ({"output": [], "status": "completed"}, "", StopReason.STOP),
    ],
)
def test_whole_responses_come_in_many_forms(decode: Any, body: Any, text: str, stop: StopReason) -> None:
    reply = decode(whole=body).reply
    assert (reply.text, reply.stop_reason) == (text, stop)


def test_a_whole_response_that_failed_is_a_fault(decode: Any) -> None:
    body = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "Boom"}}
    assert fault_of(decode, whole=body).code == "server_error"
    assert fault_of(decode, whole={"error": "no such thing"}).message == "no such thing"


@pytest.mark.parametrize("body", [[], {}, {"choices": []}, {"object": "list"}, "text"])
def test_what_is_no_response_is_invalid(decode: Any, body: Any) -> None:
    assert fault_of(decode, whole=body).cause == "invalid"
