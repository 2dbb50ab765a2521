"""The life of a batch of tool calls: every act by hand, one result a call on every path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from driving import call

from hermes.kernel.batch import APPROVED, PREVIEW_CHARS, BatchFacts, BatchResult, batch
from hermes.kernel.config.settings import ApprovalRule, ApprovalSettings
from hermes.kernel.effects import (
    Act,
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
from hermes.kernel.history import Checker, result_text
from hermes.kernel.messages import Image, Message, Text, ToolCall, ToolResult
from hermes.kernel.roles import Finding, Tool

SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}, "n": {"type": "integer"}}, "required": ["key"]}


def _never(**arguments: object) -> None:
    raise AssertionError("a batch runs nothing itself")


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("read", "", SCHEMA, _never, reads=("key:{key}",), idempotent=True),
        Tool("write", "", SCHEMA, _never, writes=("key:{key}",)),
        Tool("shell", "", {"type": "object", "properties": {"command": {"type": "string"}}}, _never),
        Tool("whole", "", SCHEMA, _never, reads=("key:{key}",), result_max_chars=0),
    )
}


@dataclass
class Acted:
    result: BatchResult = field(init=False)
    acts: list[Act] = field(default_factory=list)

    def of(self, kind: type) -> list[Any]:
        return [act for act in self.acts if isinstance(act, kind)]

    @property
    def statuses(self) -> list[str]:
        return [r.status for r in self.result.results]

    @property
    def texts(self) -> list[str]:
        return [r.text for r in self.result.results]

    @property
    def steps(self) -> list[list[str]]:
        return [[c.id for c in act.calls] for act in self.of(Execute)]

    @property
    def journal(self) -> list[tuple[str, ...]]:
        """started and finished rows in the order in which they were written"""
        rows: list[tuple[str, ...]] = []
        for act in self.acts:
            if isinstance(act, JournalStarted):
                rows += [("started", c.id) for c in act.calls]
            elif isinstance(act, JournalFinished):
                rows.append((act.result.status, act.result.call_id))
        return rows


def run(
    *calls: ToolCall,
    known: Sequence[CallRecord] = (),
    may_start: bool = True,
    opinion: Callable[[ToolCall], tuple[CallOpinion, Finding | None]] = lambda c: (CallOpinion(), None),
    answers: Sequence[str] = (),
    end: Callable[[ToolCall], CallEnd] = lambda c: CallEnd(c.id, "ok", (Text(f"did {c.id}"),)),
    stop_at: tuple[type, int] | None = None,
    spill: str | None = "/tmp/result.txt",
    **facts: Any,
) -> Acted:
    """Drive a batch. `stop_at`: the nth act of this kind is answered as a turn that was stopped."""
    acted, running, answering = Acted(), list[ToolCall](), list(answers)
    acts = batch(calls, BatchFacts(TOOLS, Path("/"), **facts), may_start=may_start)
    outcome: Any = None
    while True:
        try:
            act = acts.send(outcome)
        except StopIteration as stopped:
            acted.result = stopped.value
            break
        acted.acts.append(act)
        stops = stop_at is not None and isinstance(act, stop_at[0]) and len(acted.of(stop_at[0])) == stop_at[1] + 1
        match act:
            case Recall(call_ids=ids):
                assert ids == tuple(c.id for c in calls)
                outcome = {record.call_id: record for record in known}
            case ConsultCall(call=asked):
                outcome = (CallOpinion(stopped=True), None) if stops else opinion(asked)
            case Ask():
                outcome = "stopped" if stops else answering.pop(0)
            case Execute(calls=begun):
                outcome = not stops
                running = list(begun) if outcome else []
            case Collect():
                outcome = None if stops else end(running.pop(0))
            case Spill():
                outcome = spill
            case _:
                outcome = None
    assert [r.call_id for r in acted.result.results] == [c.id for c in calls], "one result a call, in their order"
    Checker([Message("user", (Text("go"),)), Message("assistant", calls), Message("tool", acted.result.results)])
    finished = [row[1] for row in acted.journal if row[0] != "started"]
    assert len(finished) == len(set(finished)), "a call finished twice"
    return acted


READ, READ_2 = call("read", "r1", key="a"), call("read", "r2", key="b")
WRITE, SHELL = call("write", "w1", key="a"), call("shell", "s1", command="ls")


# ---- The plain way --------------------------------------------------------------------------------------------------


def test_a_call_is_started_in_the_journal_before_it_runs_and_finished_after() -> None:
    acted = run(WRITE)
    kinds = [type(act) for act in acted.acts]
    assert kinds == [Recall, ConsultCall, Checkpoint, JournalStarted, Execute, Collect, JournalFinished]
    assert acted.texts == ["did w1"]


def test_reads_run_together_without_a_checkpoint_and_what_changes_waits_for_them() -> None:
    acted = run(READ, READ_2, WRITE, SHELL)
    assert acted.steps == [["r1", "r2"], ["w1"], ["s1"]]
    assert [[c.id for c in act.calls] for act in acted.of(Checkpoint)] == [["w1"], ["s1"]]


def test_every_call_is_finished_as_it_ends_so_that_a_crash_loses_only_what_still_runs() -> None:
    assert run(READ, READ_2).journal == [("started", "r1"), ("started", "r2"), ("ok", "r1"), ("ok", "r2")]


def test_no_more_calls_than_workers_run_at_once() -> None:
    reads = [call("read", f"r{i}", key=str(i)) for i in range(5)]
    assert [len(step) for step in run(*reads, workers=2).steps] == [2, 2, 1]


def test_the_journal_has_the_arguments_as_they_are_run() -> None:
    acted = run(call("read", "r1", key="a", n="3"))
    assert acted.of(JournalStarted)[0].calls[0].arguments == {"key": "a", "n": 3}
    assert acted.of(Execute)[0].calls == acted.of(JournalStarted)[0].calls
    assert acted.of(ConsultCall)[0].call.arguments == {"key": "a", "n": 3}


@pytest.mark.parametrize("status", ["ok", "error", "timeout"])
def test_a_result_has_the_status_with_which_its_call_ended(status: Any) -> None:
    assert run(READ, end=lambda c: CallEnd(c.id, status, (Text("x"),))).statuses == [status]


def test_session_state_is_written_with_the_result() -> None:
    acted = run(READ, end=lambda c: CallEnd(c.id, "ok", (Text("x"),), {"todo": [1]}))
    assert acted.of(JournalFinished)[0].result.state == {"todo": [1]}


def test_a_call_that_gives_nothing_has_a_result_all_the_same() -> None:
    assert run(READ, end=lambda c: CallEnd(c.id, "ok", ())).texts == ["(no output)"]


# ---- What is not run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "word"),
    [(call("gone", "g1"), "no tool gone"), (call("read", "r1"), "key"), (call("read", "r1", key="a", n="x"), "n")],
)
def test_a_call_that_cannot_run_is_an_error_and_the_others_run(wrong: ToolCall, word: str) -> None:
    acted = run(wrong, WRITE)
    assert acted.statuses == ["error", "ok"]
    assert word in acted.texts[0]
    assert acted.journal == [("started", "w1"), ("ok", "w1")]


def test_a_hook_that_blocks_is_told_to_model_and_user() -> None:
    verdicts = {"write": CallOpinion("block", "not today"), "read": CallOpinion()}
    acted = run(WRITE, READ, opinion=lambda c: (verdicts[c.name], None))
    assert acted.statuses == ["blocked", "ok"]
    assert "not today" in acted.texts[0]
    assert [act.event.kind for act in acted.of(ShowBatch)] == ["denied"]
    assert acted.journal == [("started", "r1"), ("ok", "r1")]


def test_a_deny_rule_holds_against_the_subject_of_the_call() -> None:
    rules = ApprovalSettings(rules=(ApprovalRule("deny", "shell", "rm *"),))
    acted = run(call("shell", "s1", command="rm -r x"), SHELL_2, approval=rules)
    assert acted.statuses == ["blocked", "ok"]


SHELL_2 = call("shell", "s2", command="ls")


# ---- Approval -------------------------------------------------------------------------------------------------------


def risky(asked: ToolCall) -> tuple[CallOpinion, Finding | None]:
    return CallOpinion(), Finding("it may delete files") if asked.name == "shell" else None


@pytest.mark.parametrize(
    ("answer", "status"),
    [("once", "ok"), ("session", "ok"), ("always", "ok"), ("deny", "blocked"), ("nobody", "blocked")],
)
def test_a_person_decides_about_a_dangerous_call(answer: str, status: str) -> None:
    acted = run(SHELL, opinion=risky, answers=[answer])
    assert acted.statuses == [status]
    assert acted.of(Ask)[0].request.subject == "ls"
    assert bool(acted.journal) == (status == "ok"), "approval comes before the started row"


def test_when_nobody_can_be_asked_the_model_is_told_to_find_a_way_without() -> None:
    assert "nobody can be asked" in run(SHELL, opinion=risky, answers=["nobody"]).texts[0]


@pytest.mark.parametrize("answer", ["session", "always"])
def test_what_is_allowed_for_longer_is_asked_once_and_kept_in_the_session(answer: str) -> None:
    acted = run(SHELL, SHELL_2, opinion=risky, answers=[answer])
    assert len(acted.of(Ask)) == 1
    assert acted.statuses == ["ok", "ok"]
    kept = acted.of(JournalFinished)[0].result.state[APPROVED]
    assert len(run(SHELL, opinion=risky, approved=tuple(kept)).of(Ask)) == 0


def test_what_is_allowed_once_is_asked_again() -> None:
    acted = run(SHELL, SHELL_2, opinion=risky, answers=["once", "deny"])
    assert acted.statuses == ["ok", "blocked"]
    assert acted.of(JournalFinished)[0].result.state is None


def test_the_hard_line_is_never_asked_about() -> None:
    acted = run(SHELL, opinion=lambda c: (CallOpinion(), Finding("it wipes the disk", hard_line=True)))
    assert acted.statuses == ["blocked"]
    assert acted.of(Ask) == []


# ---- Bounds ---------------------------------------------------------------------------------------------------------


def long(text: str) -> Callable[[ToolCall], CallEnd]:
    return lambda c: CallEnd(c.id, "ok", (Text(text), Image("image/png", "AA")))


def test_a_long_result_is_saved_whole_and_shown_by_its_beginning() -> None:
    text = "line\n" * 2000
    acted = run(READ, end=long(text), result_max_chars=5000)
    assert acted.of(Spill) == [Spill("r1", text)]
    shown = acted.texts[0]
    assert "10000 characters" in shown
    assert "/tmp/result.txt" in shown
    assert len(shown) < PREVIEW_CHARS + 200
    assert isinstance(acted.result.results[0].parts[-1], Image)


@pytest.mark.parametrize("most", [1, 2, 10, 400, 1500])
@pytest.mark.parametrize("spill", ["/tmp/result.txt", None])
def test_the_bound_holds_however_small_it_is_and_where_no_file_can_be_written(most: int, spill: str | None) -> None:
    acted = run(READ, end=long("0123456789" * 200), result_max_chars=most, spill=spill)
    assert len(acted.texts[0]) <= most + 150


def test_a_result_that_cannot_be_saved_keeps_beginning_and_end() -> None:
    (text,) = run(READ, end=long("A" * 500 + "Z" * 500), result_max_chars=100, spill=None).texts
    assert text.startswith("A" * 40 + "\n[… 900 characters")
    assert text.endswith("]\n" + "Z" * 60)


def test_a_tool_may_say_that_its_result_is_never_saved_elsewhere() -> None:
    text = "x" * 1000
    assert run(call("whole", "h1", key="a"), end=long(text), result_max_chars=100).texts == [text]


def test_secrets_are_hidden_before_a_result_is_stored_or_saved() -> None:
    secret = "sk-ant-api03-" + "a1B2" * 12
    acted = run(READ, end=long(f"key {secret} " + "x" * 1000), result_max_chars=500)
    assert secret not in acted.of(Spill)[0].text
    assert secret not in acted.texts[0]


# ---- After a crash --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("may_start", [True, False])
def test_what_finished_is_not_run_again(may_start: bool) -> None:
    result = ToolResult("w1", "ok", (Text("did it"),), {"todo": 1})
    acted = run(WRITE, known=[CallRecord("w1", "ok", {}, result)], may_start=may_start)
    assert [type(a) for a in acted.acts] == [Recall]
    assert acted.texts == ["did it"]
    assert acted.result.results[0].state is None, "its state was read with the session"


def test_what_had_started_is_unknown_names_its_child_and_is_finished_in_the_journal() -> None:
    acted = run(WRITE, known=[CallRecord("w1", "started", {"key": "a"}, child="s-2")])
    assert acted.statuses == ["unknown"]
    assert "s-2" in acted.texts[0]
    assert acted.journal == [("unknown", "w1")]


def test_an_idempotent_call_that_had_started_runs_again_with_its_arguments_and_no_second_started_row() -> None:
    acted = run(READ, known=[CallRecord("r1", "started", {"key": "effective"})])
    assert acted.of(Execute)[0].calls[0].arguments == {"key": "effective"}
    assert acted.journal == [("ok", "r1")]


def test_when_nothing_may_start_only_what_is_known_is_told() -> None:
    known = [CallRecord("r1", "started", {"key": "a"}), CallRecord("w1", "ok", {}, result_text("w1", "ok", "did it"))]
    acted = run(READ, WRITE, SHELL, known=known, may_start=False)
    assert acted.statuses == ["unknown", "ok", "cancelled"]
    assert acted.of(Execute) == []


# ---- Stopped --------------------------------------------------------------------------------------------------------

STOPS = [
    ((ConsultCall, 0), ["cancelled"] * 4, []),
    ((ConsultCall, 1), ["cancelled"] * 4, []),
    ((Execute, 0), ["cancelled"] * 4, [("cancelled", "r1"), ("cancelled", "r2")]),
    ((Collect, 0), ["cancelled"] * 4, [("cancelled", "r1"), ("cancelled", "r2")]),
    ((Collect, 1), ["ok", "cancelled", "cancelled", "cancelled"], [("ok", "r1"), ("cancelled", "r2")]),
    ((Execute, 1), ["ok", "ok", "cancelled", "cancelled"], [("ok", "r1"), ("ok", "r2"), ("cancelled", "w1")]),
    ((Collect, 2), ["ok", "ok", "cancelled", "cancelled"], [("ok", "r1"), ("ok", "r2"), ("cancelled", "w1")]),
]


@pytest.mark.parametrize(("stop_at", "statuses", "finished"), STOPS)
def test_a_stop_leaves_one_result_a_call_and_no_started_row_open(
    stop_at: tuple[type, int], statuses: list[str], finished: list[tuple[str, str]]
) -> None:
    acted = run(READ, READ_2, WRITE, SHELL, stop_at=stop_at)
    assert acted.statuses == statuses
    assert acted.result.stopped
    assert [row for row in acted.journal if row[0] != "started"] == finished
    assert {row[1] for row in acted.journal if row[0] == "started"} == {row[1] for row in finished}


def test_a_stop_while_a_person_is_asked_runs_nothing() -> None:
    acted = run(READ, SHELL, WRITE, opinion=risky, stop_at=(Ask, 0))
    assert acted.statuses == ["cancelled"] * 3
    assert acted.journal == []


def test_a_call_that_was_stopped_while_it_ran_is_told_as_such() -> None:
    assert "may have done part of its work" in run(WRITE, stop_at=(Collect, 0)).texts[0]
    assert "was not run" in run(WRITE, stop_at=(Execute, 0)).texts[0]
