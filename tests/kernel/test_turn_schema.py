"""A turn whose answer must fit a JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from driving import call, cut, drive, fresh, reply

from hermes.kernel.effects import Consult, Fault, FaultKind, Objection
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.outcomes import state_from_json, state_to_json
from hermes.kernel.structured import as_object

R = EndReason
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FITS, MISFIT = '{"n": 7}', '{"n": "seven"}'


def with_schema(schema: Any = SCHEMA, **more: Any) -> Any:
    return fresh(schema=schema, **more)


def test_an_answer_that_fits_is_the_answer_and_a_value() -> None:
    driven = drive(with_schema(), "count", replies=[reply(f"```json\n{FITS}\n```")])
    assert (driven.result.reason, driven.result.structured) == (R.COMPLETED, {"n": 7})
    assert driven.result.answer == f"```json\n{FITS}\n```"
    assert driven.requests[0].request.schema == SCHEMA


def test_a_turn_without_a_schema_asks_for_none_and_gives_no_value() -> None:
    driven = drive(fresh(), "count", replies=[reply(FITS)])
    assert driven.requests[0].request.schema is None
    assert driven.result.structured is None


def test_the_schema_holds_for_the_final_answer_alone() -> None:
    driven = drive(with_schema(), "count", replies=[reply("I look first.", call("read")), reply(FITS)])
    assert (driven.result.reason, driven.result.structured) == (R.COMPLETED, {"n": 7})
    assert [asked.request.may_call for asked in driven.requests] == [True, True]


def test_an_answer_that_does_not_fit_is_sent_back_once_with_what_is_wrong() -> None:
    driven = drive(with_schema(), "count", replies=[reply(MISFIT), reply(FITS)])
    assert (driven.result.reason, driven.result.structured) == (R.COMPLETED, {"n": 7})
    assert [m.origin for m in driven.disk] == ["", "", "nudge", ""]
    assert "'seven' is not of type 'integer'" in driven.disk[2].text
    assert [asked.request.may_call for asked in driven.requests] == [True, False]


def test_a_second_misfit_ends_the_turn_and_the_text_is_delivered_all_the_same() -> None:
    driven = drive(with_schema(), "count", replies=[reply(MISFIT), reply("I cannot count.")])
    assert (driven.result.reason, driven.result.answer) == (R.SCHEMA_UNMET, "I cannot count.")
    assert driven.result.structured is None
    assert "not JSON" in driven.result.detail


def test_the_repair_is_no_objection_and_a_plugin_may_still_object() -> None:
    objections = [Objection("more")] * 5
    replies = [reply(MISFIT), *[reply(FITS)] * 4]
    driven = drive(with_schema(), "count", replies=replies, consult={"turn_end": objections})
    assert driven.result.reason is R.COMPLETED
    asked = [e for e in driven.effects if isinstance(e, Consult) and e.question == "turn_end"]
    assert [e.facts["objections"] for e in asked] == [0, 1, 2]


def test_after_the_repair_tools_may_be_called_again() -> None:
    replies = [reply(MISFIT), reply(FITS), reply(call("read")), reply(FITS)]
    driven = drive(with_schema(), "count", replies=replies, consult={"turn_end": [Objection("look again")]})
    assert driven.result.reason is R.COMPLETED
    assert [asked.request.may_call for asked in driven.requests] == [True, False, True, True]


def test_calls_that_come_in_the_repair_are_dropped() -> None:
    driven = drive(with_schema(), "count", replies=[reply(MISFIT), reply(FITS, call("read"))])
    assert (driven.result.reason, driven.ran) == (R.COMPLETED, [])
    assert not driven.disk[-1].calls


def test_calls_beside_a_repair_that_is_cut_are_dropped_too() -> None:
    replies = [reply(MISFIT), cut('{"n": ', call("read")), reply("7}")]
    driven = drive(with_schema(), "count", replies=replies)
    assert (driven.result.structured, driven.ran) == ({"n": 7}, [])


def test_a_root_that_is_no_object_is_asked_for_inside_one_and_taken_out() -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    driven = drive(with_schema(numbers), "count", replies=[reply('{"answer": [1, 2]}')])
    assert driven.requests[0].request.schema == as_object(numbers)
    assert driven.result.structured == [1, 2]


def test_the_rest_of_a_cut_answer_is_asked_for_without_the_schema_and_joined() -> None:
    """A server that holds each reply to the schema would begin a new object."""
    driven = drive(with_schema(), "count", replies=[cut('{"n": 1'), reply("23}")])
    assert driven.result.structured == {"n": 123}
    assert [asked.request.schema for asked in driven.requests] == [SCHEMA, None]


def test_an_answer_after_the_last_iteration_is_held_against_the_schema_and_the_reason_stays() -> None:
    for last, value in ((FITS, {"n": 7}), ("so far", None)):
        driven = drive(with_schema(limits={"iterations": 1}), "count", replies=[reply(call("read")), reply(last)])
        assert (driven.result.reason, driven.result.structured) == (R.BUDGET_ITERATIONS, value)
        assert driven.requests[-1].request.schema == SCHEMA


def test_an_answer_that_was_forced_by_repeated_calls_is_repaired_as_any_other() -> None:
    same = [reply(call("read", f"c{n}")) for n in range(3)]

    def tools(made: Any) -> Any:
        from driving import done

        return done(made, "the same")

    driven = drive(with_schema(), "count", replies=[*same, reply(MISFIT), reply(FITS)], tools=tools)
    assert (driven.result.reason, driven.result.structured) == (R.COMPLETED, {"n": 7})
    driven = drive(with_schema(), "count", replies=[*same, reply(MISFIT), reply(MISFIT)], tools=tools)
    assert driven.result.reason is R.SCHEMA_UNMET


def test_a_refused_schema_is_told_in_words_from_then_on_and_once_only() -> None:
    driven = drive(with_schema(), "count", replies=[Fault(FaultKind.BAD_REQUEST, "no response_format"), reply(FITS)])
    assert driven.result.reason is R.COMPLETED
    assert [asked.request.leave_out for asked in driven.requests] == [(), ("schema",)]
    assert driven.learned["leave_out:primary"] == (["schema"], None)
    notices = [e.event.text for e in driven.effects if isinstance(getattr(e, "event", None), Notice)]
    assert any("no response_format" in text for text in notices)

    driven = drive(with_schema(), "count", replies=[Fault(FaultKind.BAD_REQUEST, "no such thing")] * 2)
    assert driven.result.reason is R.PROVIDER_FAILED


def test_a_bad_request_without_a_schema_ends_the_turn_at_once() -> None:
    driven = drive(fresh(), "count", replies=[Fault(FaultKind.BAD_REQUEST, "no such thing")])
    assert driven.result.reason is R.PROVIDER_FAILED


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_the_schema_is_part_of_what_a_turn_knows_at_its_start(schema: Any) -> None:
    state = with_schema(schema, auxiliary=("p:aux",), blind=frozenset({"primary"}))
    written = json.loads(json.dumps(state_to_json(state)))
    read = state_from_json(written, "s", 1, (), frozenset())
    assert (read.schema, read.auxiliary, read.blind) == (schema, ("p:aux",), frozenset({"primary"}))
