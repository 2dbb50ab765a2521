"""What a run shows and prints: display, output formats, the last line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.kernel import events
from hermes.kernel.cli.display import Display, Look, harmless
from hermes.kernel.cli.front import Front, _ending
from hermes.kernel.cli.output import (
    ENDINGS,
    Ending,
    JsonOutput,
    Stdout,
    StreamJsonOutput,
    StructuredOutput,
    TextOutput,
    ending_line,
    ending_to_json,
)
from hermes.kernel.cli.run_settings import RunOptions
from hermes.kernel.endings import EndReason

S = "s1"
STARTED = events.SessionStarted(session=S, model="any", provider="scripted", directory="/x")


class Screen:
    """stdout and stderr as texts, with display and output on them."""

    def __init__(self, *, terminal: bool = False, streams: bool = True, look: Look | None = None) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.display = Display(self.err, look or Look())
        self.output = TextOutput(Stdout(self.out), self.display, terminal=terminal, streams=streams)
        self.happens(STARTED)

    def happens(self, *what: events.Event) -> Screen:
        for event in what:
            self.display.on_event(event)
            self.output.on_event(event)
        return self

    def ends(self, answer: str | None, reason: EndReason = EndReason.COMPLETED) -> str:
        self.output.finish(Ending(reason, session=S, answer=answer))
        return self.out.getvalue()


def delta(text: str, attempt: int = 1, session: str = S) -> events.Event:
    return events.TextDelta(session=session, attempt=attempt, text=text)


TOOL = (
    events.ToolStarted(session=S, call_id="c", name="read_file", arguments={"path": "README.md"}),
    events.ToolEnded(session=S, call_id="c", name="read_file", status="ok", seconds=0.12, text="line one\nline two"),
)


# ---- stdout, text ---------------------------------------------------------------------------------------------------


def test_a_pipe_gets_the_final_answer_only_with_one_newline() -> None:
    screen = Screen().happens(delta("Let me look."), *TOOL, delta("Done."))
    assert screen.ends("Done.\n\n") == "Done.\n"


def test_a_terminal_gets_the_text_as_it_comes_and_not_twice() -> None:
    screen = Screen(terminal=True).happens(delta("Hel"), delta("lo"))
    assert screen.out.getvalue() == "Hello"
    assert screen.ends("Hello") == "Hello\n"


def test_text_beside_calls_stands_on_a_line_of_its_own() -> None:
    screen = Screen(terminal=True).happens(delta("Let me look."), *TOOL, delta("Done."))
    assert screen.ends("Done.") == "Let me look.\nDone.\n"


def test_without_streaming_a_terminal_gets_interim_text_and_answer() -> None:
    said = events.AssistantMessage(session=S, text="Let me look.")
    final = events.AssistantMessage(session=S, text="Done.", final=True)
    screen = Screen(terminal=True, streams=False).happens(delta("Let"), said, *TOOL, final)
    assert screen.ends("Done.") == "Let me look.\nDone.\n"


def test_an_attempt_that_was_dropped_after_shown_text_is_said_and_the_text_comes_whole() -> None:
    dropped = events.AttemptDropped(session=S, attempt=1, why="connection lost")
    screen = Screen(terminal=True).happens(delta("Half"), dropped, delta("Whole", 2))
    assert screen.ends("Whole") == "Half\nWhole\n"
    assert "hermes: what stands above was dropped: connection lost\n" in screen.err.getvalue()


def test_an_attempt_that_was_dropped_before_any_text_says_nothing() -> None:
    screen = Screen(terminal=True).happens(events.AttemptDropped(session=S, attempt=1, why="503"), delta("Whole", 2))
    assert screen.ends("Whole") == "Whole\n"
    assert screen.err.getvalue() == ""


def test_an_answer_that_goes_on_after_what_was_shown_is_completed() -> None:
    assert Screen(terminal=True).happens(delta("part one")).ends("part one, part two") == "part one, part two\n"


def test_an_answer_that_is_not_what_was_shown_is_printed_whole() -> None:
    assert Screen(terminal=True).happens(delta("draft")).ends("final") == "draft\nfinal\n"


def test_an_answer_that_took_two_replies_is_not_printed_again() -> None:
    screen = Screen(terminal=True).happens(delta("part one, "), delta("part two", 2))
    assert screen.ends("part one, part two") == "part one, part two\n"


def test_what_delegated_children_say_is_not_the_answer() -> None:
    screen = Screen(terminal=True).happens(delta("child speaks", session="child"), delta("Mine."))
    assert screen.ends("Mine.") == "Mine.\n"


def test_no_answer_prints_nothing() -> None:
    assert Screen().ends(None, EndReason.INTERRUPTED) == ""


def test_what_there_is_of_an_answer_is_printed_when_the_run_failed() -> None:
    assert Screen().ends("so far", EndReason.BUDGET_ITERATIONS) == "so far\n"


def test_a_model_cannot_drive_the_terminal() -> None:
    nasty = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\rd\x9b31me"
    screen = Screen(terminal=True).happens(delta(nasty))
    assert screen.ends(nasty) == "abcd31me\n"
    assert harmless("tab\tand\nline") == "tab\tand\nline"


def test_a_pipe_gets_the_answer_as_it_is() -> None:
    assert Screen().ends("a\x1b[1mb") == "a\x1b[1mb\n"


def test_B062_a_lone_surrogate_in_the_answer_is_replaced() -> None:
    data = io.BytesIO()
    with io.TextIOWrapper(data, encoding="utf-8", write_through=True) as out:
        TextOutput(Stdout(out), Display(io.StringIO(), Look()), terminal=False, streams=False).finish(
            Ending(EndReason.COMPLETED, answer="x\ud800 \ud83c\udf78")
        )
        assert data.getvalue().decode("utf-8") == "x\ufffd \U0001f378\n"


# ---- stdout, JSON ---------------------------------------------------------------------------------------------------

KEYS = {
    "v", "type", "session", "turn", "reason", "exit_code", "answer", "partial", "detail", "iterations", "seconds",
    "usage", "usage_by", "structured", "model", "stored", "steering",
}  # fmt: skip


def test_json_is_one_object_with_these_keys_and_nothing_else_on_stdout() -> None:
    out = io.StringIO()
    output = JsonOutput(Stdout(out))
    output.on_event(delta("x"))
    output.finish(Ending(EndReason.CUT_TEXT, session=S, turn=1, answer="half", model="scripted:any", stored=True))
    result = json.loads(out.getvalue())
    assert out.getvalue().count("\n") == 1
    assert set(result) == KEYS
    assert (result["v"], result["reason"], result["exit_code"], result["answer"]) == (1, "cut_text", 8, "half")


def test_stream_json_has_a_versioned_object_a_line_and_the_result_last() -> None:
    out = io.StringIO()
    output = StreamJsonOutput(Stdout(out))
    for event in (STARTED, delta("a\u2028b"), *TOOL):
        output.on_event(event)
    output.finish(Ending(EndReason.COMPLETED, session=S, answer="ok"))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    types = [line["type"] for line in lines]
    assert types == ["session_started", "text_delta", "tool_started", "tool_ended", "result"]
    assert all(line["v"] == 1 for line in lines)
    assert lines[1]["text"] == "a\u2028b"


@pytest.mark.parametrize("reason", [reason for reason in EndReason if reason is not EndReason.COMPLETED])
def test_every_ending_has_the_same_word_in_json_and_on_the_last_line(reason: EndReason) -> None:
    ending = Ending(reason, session=S, iterations=5)
    assert ending_to_json(ending)["reason"] == reason.value
    line = ending_line(ending)
    word = f"incomplete/{reason.value}" if reason.exit_code == 8 else reason.value
    what, _, remedy = line.removeprefix(f"hermes: {word}: ").partition("; ")
    assert line.startswith(f"hermes: {word}: ")
    assert what
    assert remedy
    assert "{" not in line
    assert "\n" not in line


def test_every_ending_has_a_row() -> None:
    assert set(ENDINGS) == set(EndReason) - {EndReason.COMPLETED}  # which says nothing


def test_the_last_line_says_what_happened_in_the_turns_own_words() -> None:
    ending = Ending(EndReason.BUDGET_ITERATIONS, "stopped after 5 model calls (limit 5)", session="20260101_1")
    assert ending_line(ending) == (
        "hermes: budget_iterations: stopped after 5 model calls (limit 5); --max-iterations raises it; "
        '`hermes run --resume 20260101_1 "go on"` goes on'
    )


def test_advice_that_the_detail_gives_is_not_given_twice() -> None:
    ending = Ending(EndReason.REFUSED, "the model refused: no; ask somebody else", session=S)
    assert ending_line(ending) == "hermes: refused: the model refused: no; ask somebody else"


def test_a_fault_of_our_own_leaves_a_result_in_json_and_goes_on_to_the_last_guard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Broken(Front):
        def run(self, config_files: tuple[Path, ...]) -> Ending:
            raise RuntimeError("a fault of our own")

    with pytest.raises(RuntimeError):
        _ending(Broken(RunOptions(output_format="json")), ())
    assert json.loads(capsys.readouterr().out)["reason"] == "internal"


def test_several_settings_problems_have_a_line_each() -> None:
    line = ending_line(Ending(EndReason.SETTINGS, "a.yaml:1:2: x: wrong\na.yaml:2:2: y: wrong", problems=2))
    assert line.splitlines() == [
        "a.yaml:1:2: x: wrong",
        "a.yaml:2:2: y: wrong",
        "hermes: settings: 2 problems, named above; hermes config validate checks them",
    ]


def test_one_error_of_several_lines_keeps_its_lines() -> None:
    line = ending_line(Ending(EndReason.SETTINGS, "no model was found. Ways to get one:\n  ollama serve", problems=1))
    assert line == "hermes: settings: no model was found. Ways to get one:\n  ollama serve"


def test_a_detail_of_several_lines_is_made_one() -> None:
    line = ending_line(Ending(EndReason.PROVIDER_FAILED, "<html>\n  it broke\n</html>", session=S))
    assert line.startswith("hermes: provider_failed: <html> it broke </html>; ")


def test_the_last_line_shows_no_secret() -> None:
    assert "abcdefghij" not in ending_line(Ending(EndReason.AUTH, "Incorrect key: sk-abcdefghijklmnop", session=S))


# ---- stdout that goes away ------------------------------------------------------------------------------------------


@pytest.fixture
def broken_pipe() -> Iterator[io.TextIOWrapper]:
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.suppress(BrokenPipeError), open(writer, "w", encoding="utf-8") as stream:
        yield stream


def test_a_broken_pipe_is_quiet(broken_pipe: io.TextIOWrapper) -> None:
    stdout = Stdout(broken_pipe)
    stdout.write("one\n")
    stdout.write("two\n")
    assert stdout.gone


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_an_error() -> None:
    with open("/dev/full", "w", encoding="utf-8") as stream, pytest.raises(OSError, match="No space"):
        JsonOutput(Stdout(stream)).finish(Ending(EndReason.COMPLETED, answer="x"))


# ---- stderr ---------------------------------------------------------------------------------------------------------


def test_notices_are_one_line_each_whatever_stderr_is() -> None:
    screen = Screen().happens(events.Notice(session=S, kind="fallback", text="now with\nopenrouter:x \x1b[31m"))
    assert screen.err.getvalue() == "hermes: now with openrouter:x\n"


def test_tool_lines_are_for_terminals() -> None:
    assert Screen().happens(*TOOL).err.getvalue() == ""
    verbose = Screen(look=Look(verbosity=1)).happens(*TOOL).err.getvalue()
    assert "  read_file path=README.md  ok, 0.1 s\n" in verbose
    assert "line one" not in verbose


def test_tool_lines_can_be_full_or_none() -> None:
    full = Screen(look=Look(verbosity=1, tools="full")).happens(*TOOL).err.getvalue()
    assert "    line one\n    line two\n" in full
    assert "read_file" not in Screen(look=Look(verbosity=1, tools="none")).happens(*TOOL).err.getvalue()


def test_quiet_silences_notices_and_tool_lines() -> None:
    notice = events.Notice(session=S, kind="warning", text="careful")
    assert Screen(look=Look(quiet=True, verbosity=1)).happens(notice, *TOOL).err.getvalue() == ""


def test_tool_lines_hide_secrets() -> None:
    started = events.ToolStarted(session=S, call_id="d", name="t", arguments={"k": "sk-abcdefghijklmnop"})
    ended = events.ToolEnded(session=S, call_id="d", name="t", status="ok", seconds=0, text="")
    assert "[hidden sk_key]" in Screen(look=Look(verbosity=1)).happens(started, ended).err.getvalue()


def test_only_a_long_wait_is_told() -> None:
    short, long = (events.Waiting(session=S, seconds=s, why="rate limited") for s in (1, 30))
    assert Screen().happens(short).err.getvalue() == ""
    assert Screen().happens(long).err.getvalue() == "hermes: waiting 30 s: rate limited\n"


def test_B133_a_long_preparation_is_told_once_where_there_is_no_spinner() -> None:
    steps = [events.Progress(session=S, what="compressing", share=share / 10) for share in range(10)]
    assert Screen().happens(*steps).err.getvalue() == "hermes: compressing 0%\n"


def test_a_stderr_that_is_gone_does_not_end_the_run(broken_pipe: io.TextIOWrapper) -> None:
    display = Display(broken_pipe, Look(live=True))
    display.notice("nobody reads this")
    display.close()


def test_a_spinner_leaves_no_trace() -> None:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream:
        display = Display(stream, Look(live=True))
        display.status("thinking")
        drawn = os.read(master, 1000).decode()
        display.line("a line")
        display.close()
    rest = os.read(master, 1000).decode()
    os.close(master)
    assert "thinking" in drawn
    assert "\r\x1b[Ka line\r\n" in rest


def test_an_answer_with_a_schema_is_indented_on_a_terminal_and_a_line_of_ascii_elsewhere() -> None:
    ending = Ending(EndReason.COMPLETED, session=S, answer='{"n": "é"}', structured={"n": "é\x9b"})
    for terminal, expected in ((False, '{"n": "\\u00e9\\u009b"}\n'), (True, '{\n  "n": "é')):
        out = io.StringIO()
        output = StructuredOutput(Stdout(out), terminal=terminal)
        output.on_event(delta("not shown"))
        output.finish(ending)
        assert out.getvalue().startswith(expected)
        assert "\x9b" not in out.getvalue()
