"""Perform RunTools: drive the batch, and do what its acts ask: journal, hooks, questions, threads, files.

The one place beside `plugins.py` that catches everything: a tool may raise what it likes, the model gets a short error.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hermes.kernel.batch import APPROVED, BatchFacts, BatchResult, batch
from hermes.kernel.effects import (
    Act,
    ApprovalAnswer,
    ApprovalRequest,
    Ask,
    CallEnd,
    CallOpinion,
    CallRecord,
    Checkpoint,
    Collect,
    ConsultCall,
    Execute,
    JournalFinished,
    JournalStarted,
    Recall,
    RunTools,
    ShowBatch,
    Spill,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import PluginError, StopRun, ToolError
from hermes.kernel.events import Event, ToolEnded, ToolStarted
from hermes.kernel.hookcalls import strictest_approval, strictest_opinion
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Json, Text, ToolCall, ToolResult
from hermes.kernel.plugins import Plugins
from hermes.kernel.roles import Finding, Tool, ToolCallInfo, ToolContext, ToolReturn
from hermes.kernel.running import Running, Workers
from hermes.kernel.toolspec import call_tool, normalised

_LOG = logging.getLogger("hermes.tools")
_ERROR_MAX_CHARS = 2000
"""Runtime specification 1.0 of the tools part, result contract."""

_ROLE_TAGS = re.compile(
    r"</?(tool_call|function_call|result|response|output|input|system|assistant|user)\b[^>]*>", re.I
)


class Person(Protocol):
    """Who can be asked. `question` gives None when there is no answer."""

    def question(self, text: str, choices: Any) -> str | None: ...

    def approve(self, request: ApprovalRequest) -> ApprovalAnswer: ...


class CallLog(Protocol):
    """What a tool runner writes of calls; never raises."""

    def start_calls(self, turn: int, calls: tuple[ToolCall, ...]) -> None: ...

    def finish_call(self, result: ToolResult) -> bool: ...

    def calls(self, call_ids: tuple[str, ...]) -> Mapping[str, CallRecord]: ...

    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the calls of one turn share. `context` makes the ToolContext of one running call."""

    turn: int
    depth: int
    token: Token
    cwd: Path
    results_folder: Path
    seconds_left: Callable[[], float | None]
    context: Callable[[Tool, Running], ToolContext]


@dataclass(slots=True)
class ToolRunner:
    """Runs the batches of one conversation."""

    facts: Callable[[Mapping[str, Json]], BatchFacts]
    plugins: Plugins
    log: CallLog
    emit: Callable[[Event], None]
    person: Person | None
    session: str
    default_deadline_s: float = 300.0
    remember: Callable[[ApprovalRequest], None] = lambda request: None
    _began: dict[str, tuple[float, ToolCall]] = field(default_factory=dict)

    def run(self, effect: RunTools, state: Mapping[str, Json], around: Surroundings) -> BatchResult:
        facts = self.facts(state)
        workers = Workers(around.token, around.depth)
        acts = batch(effect.calls, facts, may_start=effect.may_start)
        outcome: Any = None
        while True:
            try:
                act = acts.send(outcome)
            except StopIteration as end:
                result: BatchResult = end.value
                return result
            outcome = self._perform(act, facts, around, workers)

    def _perform(self, act: Act, facts: BatchFacts, around: Surroundings, workers: Workers) -> Any:
        match act:
            case Recall(call_ids=call_ids):
                return self.log.calls(call_ids)
            case JournalStarted(calls=calls):
                return self.log.start_calls(around.turn, calls)
            case JournalFinished(result=result):
                return self._finished(result)
            case ConsultCall(call=call):
                return self._consult(call, facts.tools[call.name], around)
            case Ask(request=request):
                return self._ask(request, around.token)
            case Execute(calls=calls):
                return self._execute(calls, facts, around, workers)
            case Collect():
                return workers.next()
            case Spill(call_id=call_id, text=text):
                return spill(around.results_folder, call_id, text)
            case ShowBatch(event=event):
                return self.emit(event)
            case Checkpoint():
                return None

    # ---- Before a call runs -----------------------------------------------------------------------------------------

    def _consult(self, call: ToolCall, tool: Tool, around: Surroundings) -> tuple[CallOpinion, Finding | None]:
        if around.token():
            return CallOpinion(stopped=True), None
        opinion = CallOpinion()
        if tool.assess is not None or self.plugins.wants("decide_tool_call"):
            self.log.flush()  # others' code runs now
        if self.plugins.wants("decide_tool_call"):
            info = ToolCallInfo(self.session, call.id, call.name, call.arguments)
            opinion = strictest_opinion(self.plugins.decide("decide_tool_call", call=info))
        finding = None
        if tool.assess is not None:
            try:
                context = around.context(tool, Running(call, around.token, None))
                finding = tool.assess(call.arguments, context)
            except Exception as error:  # a tool that cannot judge its own call: a person has to
                finding = Finding(f"{tool.name} could not judge the call: {type(error).__name__}: {error}")
        return opinion, finding

    def _ask(self, request: ApprovalRequest, token: Token) -> ApprovalAnswer:
        self.log.flush()
        answer = None
        if self.plugins.wants("decide_approval"):
            answer = strictest_approval(self.plugins.decide("decide_approval", request=request))
        if answer in ("deny", "once", "session"):
            return answer
        if token():
            return "stopped"
        if self.person is None:
            return "nobody" if answer != "ask" else "deny"
        given = _approve(self.person, request, token)
        if given == "always":
            self.remember(request)
        return given

    # ---- Run --------------------------------------------------------------------------------------------------------

    def _execute(self, calls: tuple[ToolCall, ...], facts: BatchFacts, around: Surroundings, workers: Workers) -> bool:
        self.log.flush()
        if around.token():
            return False
        for call in calls:
            tool = facts.tools[call.name]
            self._began[call.id] = (time.monotonic(), call)
            self.emit(ToolStarted(call_id=call.id, name=call.name, arguments=dict(call.arguments)))
            if self.plugins.wants("before_tool_call"):
                info = ToolCallInfo(self.session, call.id, call.name, call.arguments)
                self.plugins.observe("before_tool_call", call=info)
            running = Running(call, Token(around.token), self._deadline(tool, around))
            workers.start(running, lambda r, t=tool: self._work(r, t, around))  # type: ignore[misc]
        return True

    def _deadline(self, tool: Tool, around: Surroundings) -> float | None:
        """The call's own deadline, the settings', and what is left of the run's time; 0 of a tool means none."""
        seconds = self.default_deadline_s if tool.deadline_s is None else tool.deadline_s or None
        left = around.seconds_left()
        bounds = [s for s in (seconds, left) if s is not None]
        return time.monotonic() + min(bounds) if bounds else None

    def _work(self, running: Running, tool: Tool, around: Surroundings) -> CallEnd:
        """Run one call in its own thread; whatever it raises becomes its result."""
        call = running.call
        try:
            context = around.context(tool, running)

            def proceed(changed: ToolCall) -> ToolReturn:
                return call_tool(tool, changed.arguments, context)

            given = self.plugins.around("around_tool_call", call, proceed)
            if not isinstance(given, ToolReturn):
                raise PluginError(f"a plugin around {tool.name} gave {type(given).__name__}, not a ToolReturn")
            given = normalised(tool.name, given)
        except StopRun as stop:
            around.token.set(EndReason.INTERRUPTED, stop.why or f"{tool.name} stopped the run")
            return CallEnd(call.id, "error", (Text(f"{tool.name} stopped the run: {stop.why}"),))
        except ToolError as error:
            return CallEnd(call.id, "error", (Text(_sanitised(str(error))),))
        except BaseException as error:
            _LOG.warning("tool %s raised", tool.name, exc_info=True)
            text = _sanitised(f"{tool.name} failed: {type(error).__name__}: {error}")
            return CallEnd(call.id, "error", (Text(text),))
        finally:
            running.token.close()
        return CallEnd(call.id, "error" if given.failed else "ok", tuple(given.parts), given.state)  # type: ignore[arg-type]

    def _finished(self, result: ToolResult) -> None:
        self.log.finish_call(result)
        began, call = self._began.pop(result.call_id, (None, None))
        if began is None or call is None:
            return
        seconds = time.monotonic() - began
        text = result.text
        self.emit(ToolEnded(call_id=call.id, name=call.name, status=result.status, seconds=seconds, text=text))
        if self.plugins.wants("after_tool_call"):
            size = len(text.encode())
            info = ToolCallInfo(self.session, call.id, call.name, call.arguments, result.status, seconds, size)
            self.plugins.observe("after_tool_call", call=info)


def _approve(person: Person, request: ApprovalRequest, token: Token) -> ApprovalAnswer:
    """Ask in a thread of its own: a turn that is stopped waits for nobody. Raises what the person's side raises."""
    answers: queue.SimpleQueue[ApprovalAnswer | BaseException] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(person.approve(request))
        except BaseException as error:  # raised again in the thread that waits
            answers.put(error)

    forget = token.on_cancel(lambda: answers.put("stopped"))
    threading.Thread(target=ask, name="hermes-approval", daemon=True).start()
    answer = answers.get()
    forget()
    if token():
        return "stopped"
    if isinstance(answer, BaseException):
        raise answer
    return answer


def approved_of(state: Mapping[str, Json]) -> tuple[str, ...]:
    """What a person allowed for this session, from its durable state."""
    given = state.get(APPROVED)
    return tuple(map(str, given)) if isinstance(given, list) else ()


def spill(folder: Path, name: str, text: str) -> str | None:
    """Save a text that is too long for the conversation as NAME.txt; the path, or None when it cannot be written."""
    path = folder / f"{name}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        _LOG.warning("a long text could not be saved to %s: %s", path, error)
        return None
    return str(path)


def _sanitised(text: str) -> str:
    """A tool's error for the model: without tags that look like roles, and bounded."""
    text = _ROLE_TAGS.sub("", text).strip() or "the tool failed and said nothing"
    return text if len(text) <= _ERROR_MAX_CHARS else text[:_ERROR_MAX_CHARS] + " …"
