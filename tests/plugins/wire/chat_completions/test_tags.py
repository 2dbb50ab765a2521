"""Thinking and calls that a model writes into its text as tags: nothing leaks, and prose about tags stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.messages import Thinking
from hermes.kernel.providers import Profile, Target
from hermes.plugins.wire.chat_completions.calltags import CallTagFilter
from hermes.plugins.wire.chat_completions.decoding import Assembler
from hermes.plugins.wire.chat_completions.thinktags import ThinkSplitter

TARGET = Target("t:m", Profile("t"), "m", "http://x/v1", "chat_completions")


def streamed(*texts: str, **fields: Any) -> tuple[str, str, str]:
    """What was shown, and the text and the thinking of the reply."""
    assembler = Assembler(TARGET)
    chunks = [{"choices": [{"delta": {"content": text, **fields}}]} for text in texts]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    deltas = [d for chunk in chunks for d in assembler.feed(chunk)] + list(assembler.rest())
    reply = assembler.reply()
    shown = "".join(d.text for d in deltas if d.kind == "text")
    return shown, reply.text, "".join(p.text for p in reply.parts if isinstance(p, Thinking))


# ---- Thinking -------------------------------------------------------------------------------------------------------


def test_spec_17924_a_tag_and_its_text_in_separate_deltas_leak_nothing() -> None:
    assert streamed("<think>", "secret", "</think>", "hello") == ("hello", "hello", "secret")
    assert streamed("<th", "ink>sec", "ret</thi", "nk>\n\nhello") == ("hello", "hello", "secret")


def test_spec_17924_an_innocent_bracket_at_the_end_is_shown() -> None:
    assert streamed("a <", " b") == ("a < b", "a < b", "")
    assert streamed("<") == ("<", "<", "")
    assert streamed("1 <think") == ("1 <think", "1 <think", "")


def test_spec_8878_9568_9306_thinking_that_is_never_closed_is_thinking_to_the_end() -> None:
    assembler = Assembler(TARGET)
    list(assembler.feed({"choices": [{"delta": {"content": "\n<think>so much"}, "finish_reason": "length"}]}))
    assert [d.kind for d in assembler.rest()] in ([], ["thinking"])
    assert [type(p) for p in assembler.reply().parts] == [Thinking]


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning", "thought", "REASONING_SCRATCHPAD"])
def test_spec_3_7_12_each_known_tag_opens_thinking(tag: str) -> None:
    assert streamed(f"<{tag}>a</{tag}>b") == ("b", "b", "a")


def test_a_tag_in_the_middle_of_an_answer_is_part_of_it() -> None:
    text = "Write <think>like this</think>."
    assert streamed(text) == (text, text, "")


def test_geminis_word_that_a_text_is_a_thought_counts_with_and_without_tags() -> None:
    said = {"extra_content": {"google": {"thought": True}}}
    assembler = Assembler(TARGET)
    chunks: list[dict[str, Any]] = [{"content": "Plan: "} | said, {"content": "read"} | said, {"content": "Done."}]
    deltas = [d for delta in chunks for d in assembler.feed({"choices": [{"delta": delta, "finish_reason": "stop"}]})]
    assert [(d.kind, d.text) for d in deltas] == [("thinking", "Plan: "), ("thinking", "read"), ("text", "Done.")]
    assert assembler.reply().replay is None
    assert streamed("<thought>I see</thought>Yes", **said) == ("Yes", "Yes", "I see")
    assert streamed("<thou", "ght>I", " see", **said)[2] == "I see"


# ---- Calls ----------------------------------------------------------------------------------------------------------

LEAKED = '<function name="read_file">{"path": "a"}</function>'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (LEAKED, ""),
        (f"Let me look.\n{LEAKED}\nDone.", "Let me look.\n\nDone."),
        (f"Look:\n  {LEAKED}", "Look:\n  "),
        ("<function name='f' id=1>{never closed", ""),
        (f"{LEAKED}{LEAKED}after", "after"),
        (f"Use {LEAKED} for that.", f"Use {LEAKED} for that."),
        (f"```xml\n{LEAKED}\n```\nlike this", f"```xml\n{LEAKED}\n```\nlike this"),
        (f"```\ncode\n```\n{LEAKED}", "```\ncode\n```\n"),
        ("<function>has no name</function>", "<function>has no name</function>"),
        ("<functional>x", "<functional>x"),
        ("<function name=", "<function name="),
        ("<function " + "x" * 300, "<function " + "x" * 300),
        ("a < b\n<c> <function", "a < b\n<c> <function"),
    ],
)
def test_spec_67318_a_leaked_call_is_taken_out_and_prose_about_one_stays(text: str, left: str) -> None:
    whole = CallTagFilter()
    assert whole.feed(text) + whole.rest() == left
    letters = CallTagFilter()
    assert "".join(letters.feed(letter) for letter in text) + letters.rest() == left


def test_spec_67318_a_leaked_call_is_neither_shown_nor_stored() -> None:
    assert streamed("One.\n<func", 'tion name="f">{"a"', ": 1}</func", "tion>") == ("One.\n", "One.\n", "")
    assert streamed(f"{LEAKED}ok") == ("ok", "ok", "")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*"<>/\n a`", "```", "<think>", "</think>", LEAKED, "<function ", "</function>"])))
def test_pieces_of_any_size_come_to_the_same_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    for cut in (pieces, [text], list(text)):
        splitter, calls = ThinkSplitter(), CallTagFilter()
        split = [p for piece in cut for p in splitter.feed(piece)] + splitter.rest()
        kept = "".join(calls.feed(t) for kind, t in split if kind == "text") + calls.rest()
        thought = "".join(t for kind, t in split if kind == "thinking")
        if cut is pieces:
            expected = (kept, "".join(thought.split()))
        assert (kept, "".join(thought.split())) == expected
