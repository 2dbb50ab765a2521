"""Each ending that a run can reach: the same word in exit code, JSON, session row and the last line on stderr."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.endings import EndReason
from hermes.testing import Reply, Request, call, fault, stall, text
from hermes.testing.script import Script

pytestmark = pytest.mark.skipif(os.name == "nt", reason="starts its runs by fork")


@dataclass(frozen=True)
class Case:
    """`says` is in the last line; `answer` in the JSON; without a `row` no session was begun."""

    reason: str
    replies: Script = ()
    arguments: Sequence[str] = ("do it",)
    settings: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    answer: str | None = None
    row: bool = True


LIMITED = {"limits": {"stop_after_failing_calls": 3}}
MISSING = call("read_file", path="absent.txt")
DANGEROUS = call("terminal", command="rm -rf ~/everything")
CUT_CALL = Reply(calls=call("write_file", '{"path": "a.txt", "content": "half').calls, finish="length")


def stall_until_asked_for_the_end(request: Request) -> Reply:
    """Where the time is used up before the first request, that is the closing one already."""
    return text("This far.") if request.body.get("tool_choice") == "none" else stall(2)


CASES = {
    "completed": Case("completed", [text("Done.")], answer="Done."),
    "a denied call that the model worked round": Case(
        "completed", [DANGEROUS, text("I may not delete that.")], answer="I may not delete that."
    ),
    "no such session": Case("usage", arguments=("--resume", "absent", "go on"), says="absent", row=False),
    "no prompt": Case("usage", arguments=(), says="no prompt", row=False),
    "two sessions at once": Case("usage", arguments=("--continue", "--resume", "x", "go"), says="--resume", row=False),
    "no such provider": Case("settings", arguments=("-m", "nobody:x", "do it"), says="nobody", row=False),
    "no such toolset (B125)": Case("settings", arguments=("-t", "fiel", "do it"), says="'fiel'", row=False),
    "the key is refused": Case("auth", [fault(401, "Incorrect API key provided: sk-abcdefghijklmnop")]),
    "no credit": Case("billing", [fault(429, "You exceeded your current quota", code="insufficient_quota")]),
    "the server fails": Case("provider_failed", [fault(500, "it broke")]),
    "the server talks nonsense": Case("invalid_responses", [Reply(body="<html>hello</html>")]),
    "out of iterations": Case(
        "budget_iterations",
        [MISSING, text("This far.")],
        ("--max-turns", "1", "do it"),
        says="--max-iterations",
        answer="This far.",
    ),
    "out of tokens": Case(
        "budget_tokens",
        [MISSING, text("This far.")],
        settings={"limits": {"max_tokens": 12}},
        says="limits.max_tokens",
        answer="This far.",
    ),
    "out of time": Case(
        "budget_time",
        stall_until_asked_for_the_end,
        ("--max-seconds", "0.5", "do it"),
        says="--max-seconds",
        answer="This far.",
    ),
    "only a person could allow it": Case(
        "needs_person", [DANGEROUS] * 3 + [text("I need you.")], settings=LIMITED, says="--interactive"
    ),
    "the text is cut off": Case("cut_text", [text(f"part {n} ", finish="length") for n in range(8)]),
    "a call is cut off": Case("cut_tool_call", [CUT_CALL] * 12),
    "all thought and no answer": Case("thinking_exhausted", [Reply(thinking="hm", finish="length")] * 3),
    "an empty answer": Case("empty_answer", [Reply()] * 5),
    "the same failing call": Case("stuck_calls", [MISSING] * 3 + [text("I cannot.")], settings=LIMITED),
    "tools that do not exist": Case("invalid_tools", [call("teleport", to="Mars")] * 6),
    "the model refuses": Case("refused", [text("I will not.", finish="content_filter")] * 2),
    "too long for the model": Case(
        "context_full", [fault(400, "maximum context length is 8192 tokens", code="context_length_exceeded")]
    ),
    "a required plugin is missing": Case(
        "plugin", settings={"plugins": {"required": ["absent"]}}, says="absent", row=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_ending_is_the_same_word_everywhere(hermes, name: str) -> None:
    case = CASES[name]
    hermes.settings(**{"request": {"attempts": 1}, **case.settings})
    hermes.server.play(case.replies)
    done = hermes.run("--output-format", "json", *case.arguments)
    reason = EndReason(case.reason)
    result = done.json
    assert (result["reason"], done.code, result["exit_code"]) == (case.reason, reason.exit_code, reason.exit_code), (
        done.stderr
    )
    assert result["answer"] == case.answer or case.answer is None
    assert (result["session"] is not None) == case.row
    hermes.settings()
    rows = hermes.rows()
    assert [(row["id"], row["end_reason"]) for row in rows] == ([(result["session"], case.reason)] if case.row else [])
    if reason is EndReason.COMPLETED:
        assert f"hermes: {case.reason}" not in done.stderr
        return
    word = f"incomplete/{case.reason}" if reason.exit_code == 8 else case.reason
    assert done.last_line.startswith(f"hermes: {word}: ")
    assert case.says in done.last_line
    assert done.stderr.count(f"hermes: {word}: ") == 1
    assert "Traceback" not in done.stderr
    assert "abcdefghijklmnop" not in done.stderr + done.stdout


def test_what_there_is_of_an_answer_is_printed(hermes) -> None:
    hermes.server.add(MISSING, text("This far."))
    done = hermes.run("--max-iterations", "1", "do it")
    assert (done.code, done.stdout) == (6, "This far.\n")


def test_out_of_money_ends_with_budget_cost(hermes) -> None:
    provider = {"openai": {"base_url": hermes.server.base_url, "api_key": "x"}}
    hermes.settings(model="openai:gpt-5-mini", providers=provider, limits={"max_cost_usd": 1e-9})
    hermes.server.add(MISSING, text("This far."))
    done = hermes.run("-o", "json", "do it")
    assert (done.code, done.json["reason"]) == (6, "budget_cost"), done.stderr
    assert hermes.rows()[0]["end_reason"] == "budget_cost"
    assert done.last_line.startswith("hermes: budget_cost: ")


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "hangup")],
)
def test_a_signal_ends_the_turn_properly(hermes, number: signal.Signals, reason: str) -> None:
    hermes.server.add(stall(2, "words that stand "))

    def stop(pid: int) -> None:
        hermes.server.wait_for_requests(1)
        os.kill(pid, number)

    done = hermes.run("-o", "stream-json", "do it", meanwhile=stop)
    assert (done.code, done.json["reason"]) == (EndReason(reason).exit_code, reason), done.stderr
    assert done.last_line.startswith(f"hermes: {reason}: ")
    assert done.json["session"] in done.last_line
    assert hermes.rows()[0]["end_reason"] == reason


def test_a_second_signal_exits_at_once(hermes) -> None:
    hermes.server.add(call("terminal", command="trap '' INT TERM; sleep 30"))

    def stop(pid: int) -> None:
        hermes.server.wait_for_requests(1)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGINT)

    start = time.monotonic()
    assert hermes.run("do it", meanwhile=stop).code == 130
    assert time.monotonic() - start < 20


def test_a_session_whose_turn_runs_elsewhere_is_refused_by_the_name_of_the_process(hermes) -> None:
    hermes.server.add(stall(1), text("x"))
    seen: list[str] = []

    def second(pid: int) -> None:
        import subprocess
        import sys

        hermes.server.wait_for_requests(1)
        command = [sys.executable, "-m", "hermes", "run", "--session", "mine", "-o", "json", "go on"]
        done = subprocess.run(
            command, cwd=hermes.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8"
        )
        seen.extend((str(done.returncode), done.stderr, str(pid)))
        os.kill(pid, signal.SIGTERM)

    hermes.run("--session", "mine", "do it", meanwhile=second)
    code, stderr, pid = seen
    assert code == "2"
    assert stderr.splitlines()[-1].startswith("hermes: usage: ")
    assert pid in stderr


def test_a_store_that_fails_ends_the_run_only_where_settings_say_so(hermes, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory", encoding="utf-8")
    sessions = {"path": str(tmp_path / "file" / "sessions.db")}
    hermes.server.add(text("Done."))
    hermes.settings(sessions=sessions)
    done = hermes.run("-o", "json", "do it")
    assert (done.code, done.json["answer"], done.json["stored"]) == (0, "Done.", False), done.stderr
    assert done.stderr.count("in memory only") == 1

    hermes.settings(sessions={**sessions, "stop_when_failing": True})
    done = hermes.run("-o", "json", "do it")
    assert (done.code, done.json["reason"]) == (12, "store_failed")
    assert done.last_line.startswith("hermes: store_failed: ")


def test_a_server_that_cannot_be_reached_is_given_up_within_20_s(hermes) -> None:
    provider = {"scripted": {"base_url": "http://127.0.0.1:9/v1", "api_key": "x"}}
    hermes.settings(providers=provider)
    start = time.monotonic()
    done = hermes.run("-o", "json", "do it")
    assert (done.code, done.json["reason"]) == (5, "provider_failed")
    assert time.monotonic() - start < 20
