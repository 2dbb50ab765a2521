"""What a run leaves behind: the answer on stdout in one of three formats, and the last line on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from hermes.kernel import events
from hermes.kernel.cli.display import Display, harmless, plain
from hermes.kernel.cli.tally import usage_to_json
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Json, Usage, clean, clean_json
from hermes.kernel.redact import redact

RESULT_VERSION = 1
FORMATS = ("text", "json", "stream-json")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, in whatever way: the result of a turn, or an error before there was one (`session` None).

    `detail` is what happened, one line or several, without what to do about it. `partial` is what there is of an answer
    when there is none. `problems` counts those of the settings, each a line of `detail`. `structured` is the value of
    an answer that fits a schema. `usage_by` has a row for each model and purpose that was called, see `Tally`.
    """

    reason: EndReason
    detail: str = ""
    session: str | None = None
    turn: int | None = None
    answer: str | None = None
    partial: str = ""
    iterations: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    stored: bool = False
    steering: tuple[str, ...] = ()
    problems: int = 0
    structured: Json = None
    usage_by: tuple[Mapping[str, Json], ...] = ()


def ending_to_json(ending: Ending) -> dict[str, Any]:
    """The object of `--output-format json`, and the last line of stream-json."""
    return {
        "v": RESULT_VERSION,
        "type": "result",
        "session": ending.session,
        "turn": ending.turn,
        "reason": ending.reason.value,
        "exit_code": ending.reason.exit_code,
        "answer": ending.answer,
        "structured": ending.structured,
        "partial": ending.partial,
        "detail": ending.detail,
        "iterations": ending.iterations,
        "seconds": round(ending.seconds, 3),
        "usage": usage_to_json(ending.usage),
        "usage_by": list(ending.usage_by),
        "model": ending.model,
        "stored": ending.stored,
        "steering": list(ending.steering),
    }


# ---- The last line --------------------------------------------------------------------------------------------------

_GO_ON = '`hermes run --resume {session} "go on"` goes on'
_FINISH = "`hermes run --resume {session}` finishes it"

# reason: what happened when nobody said it better, what to do about it, how to go on with the session
ENDINGS: dict[EndReason, tuple[str, str, str]] = {
    EndReason.INTERNAL: ("hermes itself failed", "--debug shows where; please report it", ""),
    EndReason.USAGE: ("this cannot be run", "hermes run --help shows the options", ""),
    EndReason.SETTINGS: ("the settings are wrong", "hermes config validate checks them", ""),
    EndReason.AUTH: ("the provider refused the key", "check the key, or take another --model", _GO_ON),
    EndReason.BILLING: ("the provider wants money", "add credit there, or take another --model", _GO_ON),
    EndReason.PROVIDER_FAILED: ("the provider gave no reply", "try later, or another --model", _GO_ON),
    EndReason.INVALID_RESPONSES: ("the model's replies made no sense", "try again, or another --model", _GO_ON),
    EndReason.BUDGET_ITERATIONS: ("stopped after {iterations} model calls", "--max-iterations raises it", _GO_ON),
    EndReason.BUDGET_TOKENS: ("the token limit is used up", "limits.max_tokens raises it", _GO_ON),
    EndReason.BUDGET_COST: ("the cost limit is used up", "limits.max_cost_usd raises it", _GO_ON),
    EndReason.BUDGET_TIME: ("the time is used up", "--max-seconds raises it", _GO_ON),
    EndReason.NEEDS_PERSON: ("only a person can answer what it asked", "run it again with --interactive", _GO_ON),
    EndReason.CUT_TEXT: ("the answer was cut off", "raise model_options.max_output_tokens", _GO_ON),
    EndReason.CUT_TOOL_CALL: ("a tool call was cut off", "raise model_options.max_output_tokens, or ask for less", ""),
    EndReason.THINKING_EXHAUSTED: (
        "the model thought until its output limit",
        "lower model_options.reasoning_effort or raise model_options.max_output_tokens",
        "",
    ),
    EndReason.EMPTY_ANSWER: ("the model answered nothing", "try again, or another --model", _GO_ON),
    EndReason.STUCK_CALLS: (
        "the model repeated a failing call",
        "say more in the prompt, or try another --model",
        _GO_ON,
    ),
    EndReason.INVALID_TOOLS: ("the model called no tool that exists", "check --toolsets, or try another --model", ""),
    EndReason.SCHEMA_UNMET: (
        "the answer does not fit the schema",
        "say more in the prompt, or try another --model",
        _GO_ON,
    ),
    EndReason.REFUSED: ("the model refused", "put it differently, or try another --model", ""),
    EndReason.CONTEXT_FULL: (
        "the conversation is too long for the model",
        "start a new one, or try another --model",
        "",
    ),
    EndReason.PLUGIN: ("a plugin failed", "hermes plugins list shows them, plugins.disabled switches one off", ""),
    EndReason.STORE_FAILED: ("the session could not be stored", "make room at `hermes sessions path`, or mend it", ""),
    EndReason.HANGUP: ("the terminal went away", "", _GO_ON),
    EndReason.INTERRUPTED: ("stopped by you", "", _GO_ON),
    EndReason.TERMINATED: ("stopped from outside", "", _GO_ON),
    EndReason.CRASHED: ("the process died", "", _FINISH),
}


def ending_line(ending: Ending) -> str:
    """`hermes: REASON: what happened; what to do`.

    Several problems of the settings have a line each before it; the text of one error may go on for lines after it.
    """
    word = f"incomplete/{ending.reason.value}" if ending.reason.is_incomplete else ending.reason.value
    default, advice, go_on = ENDINGS[ending.reason]
    lines = [redact(harmless(line).rstrip(), assignments=True) for line in ending.detail.splitlines() if line.strip()]
    if ending.problems > 1:
        return "\n".join([*lines, f"hermes: {word}: {ending.problems} problems, named above; {advice}"])
    if ending.session is None and lines:  # an error of ours before the session says itself what to do
        return "\n".join([f"hermes: {word}: {lines[0].strip()}", *lines[1:]])
    what = plain(" ".join(lines)) or default.format(iterations=ending.iterations)
    parts = [what.rstrip(".;")]
    if advice and not (lines and "; " in what):  # a detail in two halves has its advice
        parts.append(advice)
    if go_on and ending.session:
        parts.append(go_on.format(session=ending.session))
    return f"hermes: {word}: {'; '.join(parts)}"


# ---- stdout ---------------------------------------------------------------------------------------------------------


class Stdout:
    """Standard output that may go away: after a broken pipe everything is quietly dropped.

    Other write errors (a full disk) are raised: an answer must not get lost unnoticed.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.gone = stream is None
        """`hermes run … >&-` has none."""

    def write(self, text: str) -> None:
        if self.gone or self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            self._drop()
        except OSError as error:
            if error.errno != 22 or os.name != "nt":  # Windows calls a broken pipe EINVAL
                self._drop()
                raise
            self._drop()

    def _drop(self) -> None:
        """Nothing may be written again: the interpreter would complain when it flushes at its end."""
        self.gone = True
        if self._stream is None:
            return
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


class Output(Protocol):
    def on_event(self, event: events.Event) -> None: ...

    def finish(self, ending: Ending) -> None:
        """Write what there is; called once. Raises OSError when stdout cannot be written."""
        ...


class TextOutput:
    """The answer as plain text with one newline at its end; on a terminal it appears as it comes."""

    def __init__(self, stdout: Stdout, display: Display, *, terminal: bool, streams: bool) -> None:
        self._stdout, self._display = stdout, display
        self._terminal, self._streams = terminal, terminal and streams
        self._session = ""
        self._shown = ""
        """What stands on the screen since the last tool call."""

    def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.SessionStarted):
            self._session = self._session or event.session
        if not self._terminal or event.session != self._session:
            return  # only the answer; what delegated children say is for their parent
        match event:
            case events.TextDelta() if self._streams and event.text:
                self._display.status(None)
                self._show(event.text)
            case events.AttemptDropped() if self._shown:
                self._end_line()
                self._display.line(f"hermes: what stands above was dropped: {plain(redact(event.why))}")
                self._shown = ""
            case events.AssistantMessage() if not event.final and event.text not in self._shown:
                self._show(event.text)
            case events.ToolStarted():
                self._end_line()
                self._shown = ""

    def finish(self, ending: Ending) -> None:
        answer = clean(ending.partial if ending.answer is None else ending.answer).rstrip("\n")
        if self._terminal:
            answer = harmless(answer)
            shown = self._shown.strip()
            if shown and (answer.strip() == shown or shown.endswith(answer.strip())):
                self._end_line()
                return
            if shown and answer.startswith(self._shown):
                answer = answer[len(self._shown) :]
            else:
                self._end_line()
        if answer:
            self._stdout.write(answer + "\n")

    def _show(self, text: str) -> None:
        text = harmless(clean(text))
        self._shown += text
        self._stdout.write(text)

    def _end_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            self._stdout.write("\n")


class StructuredOutput:
    """The value that fits the schema as JSON: a line of ASCII, indented on a terminal; else what there is of a text."""

    def __init__(self, stdout: Stdout, *, terminal: bool) -> None:
        self._stdout, self._terminal = stdout, terminal

    def on_event(self, event: events.Event) -> None:
        pass

    def finish(self, ending: Ending) -> None:
        text = clean(ending.partial if ending.answer is None else ending.answer).rstrip("\n")
        if ending.structured is not None or ending.reason is EndReason.COMPLETED:
            text = json.dumps(ending.structured, ensure_ascii=not self._terminal, indent=2 if self._terminal else None)
        if text:
            self._stdout.write((harmless(text) if self._terminal else text) + "\n")


class JsonOutput:
    """One JSON object at the end. ASCII only, so that no encoding and no line separator can spoil it."""

    def __init__(self, stdout: Stdout) -> None:
        self._stdout = stdout

    def on_event(self, event: events.Event) -> None:
        pass

    def finish(self, ending: Ending) -> None:
        self._stdout.write(json.dumps(clean_json(ending_to_json(ending))) + "\n")


class StreamJsonOutput:
    """One JSON object a line for every event, and the result as the last line."""

    def __init__(self, stdout: Stdout) -> None:
        self._stdout = stdout
        self._lock = threading.Lock()

    def on_event(self, event: events.Event) -> None:
        line = json.dumps(clean_json(events.event_to_json(event)), default=str)
        with self._lock:
            self._stdout.write(line + "\n")

    def finish(self, ending: Ending) -> None:
        self._stdout.write(json.dumps(clean_json(ending_to_json(ending))) + "\n")
