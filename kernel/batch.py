"""The life of a batch of tool calls, as a generator of acts that touches nothing: every decision, on every path.

What the journal knows of a call → fit the arguments to the schema → hooks and the tool itself may block or ask →
approval → checkpoint → journal "started" with the effective arguments → run → bound, redact, spill → journal "finished"
with the session state → one result a call, in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from hermes.kernel.approval import Decision, judge
from hermes.kernel.arguments import coerce
from hermes.kernel.config.settings import ApprovalSettings
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
    ShowBatch,
    Spill,
)
from hermes.kernel.events import Notice
from hermes.kernel.history import result_text, tidy_result
from hermes.kernel.messages import Image, Text, ToolCall, ToolResult
from hermes.kernel.redact import redact
from hermes.kernel.roles import Finding, Tool
from hermes.kernel.schedule import plan, resources_of

PREVIEW_CHARS = 1500
"""What is shown of a spilled result (tools specification 1.0, result size pipeline)."""

APPROVED = "approved"
"""Key of the session state that holds what a person allowed for the session."""


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What a batch needs to know. `approved` are the keys that a person allowed for this session."""

    tools: Mapping[str, Tool]
    cwd: Path
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)
    workers: int = 8
    result_max_chars: int = 50_000
    approved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One result a call, in their order. `stopped`: the turn was interrupted meanwhile."""

    results: tuple[ToolResult, ...]
    stopped: bool = False


Acts: TypeAlias = "Generator[Act, Any, Any]"


@dataclass(slots=True)
class Batch:
    """What one run of `batch` has come to know."""

    facts: BatchFacts
    results: dict[str, ToolResult] = field(default_factory=dict)
    ready: list[ToolCall] = field(default_factory=list)
    again: set[str] = field(default_factory=set)
    approved: list[str] = field(default_factory=list)
    stopped: bool = False


def batch(calls: Sequence[ToolCall], facts: BatchFacts, *, may_start: bool) -> Generator[Act, Any, BatchResult]:
    """Idempotent by call id: what the journal has is not run again, unless it is declared idempotent."""
    life = Batch(facts, approved=list(facts.approved))
    known: Mapping[str, CallRecord] = yield Recall(tuple(c.id for c in calls))
    for call in calls:
        if record := known.get(call.id):
            yield from recall(life, call, record, may_start=may_start)
        elif not may_start:
            life.results[call.id] = result_text(call.id, "cancelled", f"{call.name} was not run.")
        elif not life.stopped:
            yield from prepare(life, call)
    yield from run_steps(life)
    for call in calls:
        if call.id in life.again and call.id not in life.results:
            yield from unknown(life, call, "")
        elif call.id not in life.results:
            text = f"{call.name} was not run: the turn was stopped before it began."
            life.results[call.id] = result_text(call.id, "cancelled", text)
    return BatchResult(tuple(life.results[c.id] for c in calls), life.stopped)


def recall(life: Batch, call: ToolCall, record: CallRecord, *, may_start: bool) -> Acts:
    """A call that the journal knows: its result, or what a crash left of it."""
    tool = life.facts.tools.get(call.name)
    if record.result is not None:
        # its state was read with the session; a call that is run now may have changed it since
        life.results[call.id] = replace(record.result, state=None)
    elif may_start and tool is not None and tool.idempotent:
        life.again.add(call.id)
        life.ready.append(replace(call, arguments=dict(record.arguments)))
    else:
        yield from unknown(life, call, f" It had begun session {record.child}." if record.child else "")


def unknown(life: Batch, call: ToolCall, more: str) -> Acts:
    """Answer a call that had started when the process died: nobody knows what came of it."""
    text = f"The outcome of {call.name} is unknown: it had started when the process died; it may have run.{more}"
    life.results[call.id] = result_text(call.id, "unknown", text)
    yield JournalFinished(life.results[call.id])


# ---- Before it runs -------------------------------------------------------------------------------------------------


def prepare(life: Batch, call: ToolCall) -> Acts:
    """Make a call ready to run, or give it the result that says why it is not."""
    tool = life.facts.tools.get(call.name)
    if tool is None:
        life.results[call.id] = result_text(call.id, "error", f"There is no tool {call.name} any more.")
        return
    arguments, problem = coerce(call.arguments, tool.parameters)
    if problem:
        life.results[call.id] = result_text(call.id, "error", f"{call.name} was not run: {problem}")
        return
    call = replace(call, arguments=arguments)
    opinion: CallOpinion
    finding: Finding | None
    opinion, finding = yield ConsultCall(call)
    if opinion.stopped:
        life.stopped = True
        return
    subject = finding.subject if finding and finding.subject else subject_of(call)
    decision = judge(call.name, subject, opinion, finding, life.facts.approval, life.approved)
    if decision.kind == "ask":
        decision = yield from approve(life, call, subject, decision)
    if decision.kind == "deny":
        life.results[call.id] = result_text(call.id, "blocked", f"{call.name} was not run: {decision.reason}")
        yield ShowBatch(Notice(kind="denied", text=f"{call.name} was not run: {decision.reason}"))
    elif not life.stopped:
        life.ready.append(call)


def subject_of(call: ToolCall) -> str:
    """What approval rules match when the tool names nothing: the command or path, else all arguments."""
    for name in ("command", "path", "url"):
        if isinstance(value := call.arguments.get(name), str):
            return value
    return " ".join(str(v) for v in call.arguments.values())


def approve(life: Batch, call: ToolCall, subject: str, decision: Decision) -> Acts:
    """Ask a person; gives the Decision that follows from the answer."""
    answer: ApprovalAnswer = yield Ask(ApprovalRequest(call, decision.reason, subject))
    if answer == "stopped":
        life.stopped = True
        return Decision("ask", decision.reason)
    if answer in ("session", "always"):  # the rule of an "always" is only read by the next run
        life.approved.extend(decision.keys)
    if answer in ("once", "session", "always"):
        return Decision("run")
    if answer == "nobody":
        why = f"{decision.reason}. It needs a person's approval and nobody can be asked here. Find a way without it."
        return Decision("deny", why)
    return Decision("deny", f"{decision.reason}. The user did not allow it; do not try it in another form.")


# ---- Run ------------------------------------------------------------------------------------------------------------


def run_steps(life: Batch) -> Acts:
    ready = {c.id: c for c in life.ready}
    wanted = [(c.id, resources_of(life.facts.tools[c.name], c.arguments, life.facts.cwd)) for c in life.ready]
    for step in plan(wanted, life.facts.workers):
        if life.stopped:
            return
        calls = tuple(ready[call_id] for call_id in step)
        touches = dict(wanted)
        if changing := tuple(c for c in calls if touches[c.id].writes or touches[c.id].exclusive):
            yield Checkpoint(changing)
        if fresh := tuple(c for c in calls if c.id not in life.again):
            yield JournalStarted(fresh)
        yield from run_step(life, {c.id: c for c in calls})


def run_step(life: Batch, running: dict[str, ToolCall]) -> Acts:
    """Start calls together and finish each as it ends, so that a crash loses only what still runs."""
    began = yield Execute(tuple(running.values()))
    if not began:
        yield from cancel(life, running, "was not run: the turn was stopped before it began")
        return
    while running:
        end: CallEnd | None = yield Collect()
        if end is None:
            yield from cancel(life, running, "was stopped by the user while it ran; it may have done part of its work")
            return
        result = yield from finish(life, running.pop(end.call_id), end)
        life.results[result.call_id] = result
        yield JournalFinished(result)


def cancel(life: Batch, running: Mapping[str, ToolCall], what: str) -> Acts:
    life.stopped = True
    for call in running.values():
        if call.id in life.again:
            yield from unknown(life, call, "")
            continue
        life.results[call.id] = result_text(call.id, "cancelled", f"{call.name} {what}.")
        yield JournalFinished(life.results[call.id])


def finish(life: Batch, call: ToolCall, end: CallEnd) -> Acts:
    """The result of a call that ended: redacted, bounded, with the session state that it sets."""
    parts = [replace(p, text=redact(p.text)) if isinstance(p, Text) else p for p in end.parts]
    most = life.facts.tools[call.name].result_max_chars
    most = life.facts.result_max_chars if most is None else most
    if most and sum(len(p.text) for p in parts if isinstance(p, Text)) > most:
        parts = yield from spill(call, parts, most)
    state = dict(end.state) if end.state is not None else None
    if tuple(life.approved) != life.facts.approved:
        state = {**(state or {}), APPROVED: list(life.approved)}
    return tidy_result(ToolResult(call.id, end.status, tuple(parts), state))


def spill(call: ToolCall, parts: Sequence[Text | Image], most: int) -> Acts:
    """Put a text that is too long into a file and show its beginning; cut it where no file can be written."""
    text = "\n".join(p.text for p in parts if isinstance(p, Text))
    images = [p for p in parts if isinstance(p, Image)]
    path = yield Spill(call.id, text)
    if path is None:
        head, tail = text[: most * 2 // 5], text[len(text) - most * 3 // 5 :]
        return [Text(f"{head}\n[… {len(text) - most} characters left out …]\n{tail}"), *images]
    shown = text[: min(PREVIEW_CHARS, most)]
    if (cut := shown.rfind("\n")) > len(shown) // 2:
        shown = shown[:cut]
    told = f"[The result has {len(text)} characters. All of it is in {path}; read it in parts with read_file.]"
    return [Text(f"{told}\n{shown}\n[…]"), *images]
