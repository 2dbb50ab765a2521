"""Streams that end badly, in every format: what was shown of them is void, and nothing of them comes back."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.kernel.config.settings import RequestSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import AttemptDropped, TextDelta, ToolStarted
from hermes.testing import Call, calls, text

PATIENT = RequestSettings(attempts=3, stall_timeout_s=0.3)


def test_spec_65991_what_a_stream_that_was_given_up_still_sends_goes_nowhere(
    house: Any, api_mode: str, middle: int
) -> None:
    def on_event(event: Any) -> None:
        if isinstance(event, TextDelta) and event.attempt == 2:
            house.server.release()  # the first stream goes on while the second is read

    house.server.add(text("the old words").but(hold_after=middle), text("What is new.").but(pieces=6))
    result = house.agent(api_mode, request=PATIENT, on_event=on_event).run("go")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "What is new."), result.detail
    told = [event for event in house.events if isinstance(event, TextDelta | AttemptDropped)]
    assert [event.attempt for event in told] == sorted(event.attempt for event in told)
    assert "".join(event.text for event in told if isinstance(event, TextDelta) and event.attempt == 2) == result.answer
    assert [event.attempt for event in house.seen(AttemptDropped)] == [1]


def test_spec_32421_a_filter_in_the_middle_of_a_call_leads_to_the_fallback_and_nothing_of_the_reply_stays(
    house: Any, api_mode: str
) -> None:
    (house.work / "a.txt").write_text("content", encoding="utf-8")
    half = calls(Call("read_file", '{"path": "a.t'), text="I look at")
    other = next(name for name in ("anthropic_messages", "chat_completions") if name != api_mode)
    house.server.add(half.but(finish="content_filter"), text("Done."))
    result = house.agent(api_mode, fallback=(house.model(other),)).run("go")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "Done."), result.detail
    assert [request.api_mode for request in house.server.requests] == [api_mode, other]
    assert [message.text for message in result.messages] == ["go", "Done."]
    assert house.seen(ToolStarted) == []


def test_spec_52711_a_reply_that_is_cut_at_the_same_words_each_time_is_kept_once(house: Any, api_mode: str) -> None:
    house.server.play(lambda request: text("All of the visible words.", thinking="Hm.", finish="length"))
    result = house.agent(api_mode).run("go")
    assert (result.reason, result.partial) == (EndReason.CUT_TEXT, "All of the visible words.")
    assert len(house.server.requests) <= 4


@pytest.mark.parametrize("words", ["The file has three parts", "Let me think:", "1.", "`", "最后"])
def test_spec_13971_words_that_end_oddly_with_a_good_reason_are_whole(house: Any, api_mode: str, words: str) -> None:
    house.server.add(text(words, finish="stop"))
    assert house.agent(api_mode).run("go").answer == words
