"""Whole runs of `hermes run`: sessions, formats, pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.testing import call, cut, text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="starts its runs by fork")


def test_a_run_from_the_shell_reads_a_file_and_answers(hermes) -> None:
    (hermes.work / "a.txt").write_text("the word is ◕‿◕\n", encoding="utf-8")
    hermes.server.add(call("read_file", path="a.txt"), text("It says ◕‿◕."))
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "run", "what", "does", "a.txt", "say?"],
        cwd=hermes.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert (done.returncode, done.stdout.decode()) == (0, "It says ◕‿◕.\n"), done.stderr
    assert hermes.server.requests[0].last["content"].endswith("what does a.txt say?")
    assert "the word is ◕‿◕" in str(hermes.server.requests[1].last["content"])


def test_words_after_two_dashes_are_prompt(hermes) -> None:
    hermes.server.add(text("ok"))
    assert hermes.run("--", "--help", "me").stdout == "ok\n"
    assert "--help me" in str(hermes.server.requests[0].last["content"])


def test_a_session_by_name_is_begun_and_gone_on_with(hermes) -> None:
    hermes.server.add(text("one"), text("two"))
    first = hermes.run("-o", "json", "--session", "work", "first")
    second = hermes.run("-o", "json", "--session", "work", "second")
    assert first.json["session"] == second.json["session"]
    assert second.json["turn"] == 2
    assert [m["role"] for m in hermes.server.requests[1].messages] == ["system", "user", "assistant", "user"]


def test_continue_takes_the_newest_of_this_directory(hermes, tmp_path: Path) -> None:
    hermes.server.add(text("one"), text("elsewhere"), text("two"))
    first = hermes.run("-o", "json", "first")
    here, hermes.work = hermes.work, tmp_path / "elsewhere"
    hermes.work.mkdir()
    hermes.run("second")
    hermes.work = here
    assert hermes.run("-o", "json", "--continue", "third").json["session"] == first.json["session"]


def test_continue_without_a_session_is_a_usage_error(hermes) -> None:
    done = hermes.run("--continue", "go on")
    assert done.code == 2
    assert "no session" in done.last_line


def test_a_fork_leaves_the_session_as_it_was(hermes) -> None:
    hermes.server.add(text("one"), text("two"))
    first = hermes.run("-o", "json", "first")
    forked = hermes.run("-o", "json", "--resume", first.json["session"], "--fork", "second")
    assert forked.json["session"] != first.json["session"]
    assert {row["id"]: row["turns"] for row in hermes.rows() if "turns" in row}.get(first.json["session"], 1) == 1


def test_resume_without_a_prompt_needs_an_unfinished_turn(hermes) -> None:
    hermes.server.add(text("one"))
    session = hermes.run("-o", "json", "first").json["session"]
    done = hermes.run("--resume", session)
    assert done.code == 2
    assert "no unfinished turn" in done.last_line


def test_resume_without_a_prompt_finishes_a_turn_that_was_killed(hermes) -> None:
    hermes.server.add(text("never seen").but(hold_after=1), text("Done."))

    def kill(pid: int) -> None:
        hermes.server.wait_for_requests(1)
        os.kill(pid, 9)

    hermes.run("do it", meanwhile=kill)
    [row] = hermes.rows()
    done = hermes.run("-o", "json", "--resume", row["id"])
    assert (done.code, done.json["answer"]) == (0, "Done."), done.stderr
    assert "do it" in str(hermes.server.requests[1].last["content"])


def test_stream_json_is_one_versioned_object_a_line_and_the_result_last(hermes) -> None:
    hermes.server.add(call("read_file", path="absent"), text("ok"))
    lines = [json.loads(line) for line in hermes.run("-o", "stream-json", "do it").stdout.splitlines()]
    types = [line["type"] for line in lines]
    assert {"session_started", "turn_started", "tool_started", "tool_ended", "text_delta"} <= set(types)
    assert types[-1] == "result"
    assert types.count("result") == 1
    assert all(line["v"] == 1 for line in lines)


def test_a_reply_that_was_cut_off_is_asked_for_again(hermes) -> None:
    hermes.settings()
    hermes.server.add(cut(2), text("whole"))
    done = hermes.run("-o", "json", "do it")
    assert done.json["reason"] == "completed", done.stderr


def test_toolsets_none_leaves_no_shell_and_no_files(hermes) -> None:
    hermes.server.add(text("ok"))
    hermes.run("-t", "none", "do it")
    assert not {"terminal", "write_file", "read_file", "patch"} & set(hermes.server.requests[0].tool_names)


def test_the_callers_system_prompt_is_sent(hermes) -> None:
    hermes.server.add(text("ok"))
    hermes.run("--system-prompt", "Answer in rhymes.", "do it")
    assert "Answer in rhymes." in hermes.server.requests[0].system


def test_a_reader_that_leaves_is_no_error(hermes) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    hermes.server.add(text("ok"))
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "run", "do it"],
        cwd=hermes.work,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert b"Traceback" not in done.stderr
    assert b"ipe" not in done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_cannot_be_written_is_an_error_that_says_where_it_is(hermes) -> None:
    hermes.server.add(text("ok"))
    done = hermes.run("do it", stdout="/dev/full")
    assert done.code == 1
    assert "standard output" in done.last_line
    assert hermes.rows()[0]["id"] in done.last_line


def test_the_log_of_a_run_holds_no_key(hermes) -> None:
    hermes.settings(providers={"scripted": {"base_url": hermes.server.base_url, "api_key": "very-own-secret-key"}})
    hermes.server.add(text("ok"))
    hermes.run("-vv", "do it")
    log = hermes.home / "logs" / "hermes.log"
    assert "very-own-secret-key" not in log.read_text(encoding="utf-8")


def test_a_dry_run_names_model_and_plugins_and_starts_nothing(hermes) -> None:
    done = hermes.run("--dry-run", "-o", "json", "do it")
    assert done.code == 0
    shown = json.loads(done.stdout)
    assert (shown["type"], shown["model"]) == ("dry_run", "scripted:any")
    assert "files" in shown["plugins"]["hermes.tools"]
    assert hermes.server.requests == []
    assert hermes.rows() == []


def test_a_dry_run_imports_no_sdk_and_no_plugin(hermes) -> None:
    code = (
        "import sys; from hermes.kernel.cli.app import run_app; run_app(['run', '--dry-run', 'x']); "
        "print([m for m in sys.modules if m.split('.')[0] in ('openai', 'httpx2', 'sqlite3') or "
        "m.startswith('hermes.plugins')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=hermes.work, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


STUCK = """
import time
from hermes import Tool, hookimpl

@hookimpl
def register_tools():
    return [Tool("stick", "Never come back.", {"type": "object", "properties": {}}, lambda: time.sleep(600))]
"""


def test_a_tool_that_never_comes_back_does_not_hold_the_process(hermes, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "stuck-1.0.dist-info").mkdir(parents=True)
    (site / "stuck_tool.py").write_text(STUCK, encoding="utf-8")
    (site / "stuck-1.0.dist-info" / "METADATA").write_text("Name: stuck\nVersion: 1.0\n", encoding="utf-8")
    (site / "stuck-1.0.dist-info" / "entry_points.txt").write_text(
        "[hermes.tools]\nstuck=stuck_tool\n", encoding="utf-8"
    )
    hermes.settings(tools={"toolsets": ["stuck"], "deadline_s": 0.5})
    hermes.server.add(call("stick"), text("It did not come back."))
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "run", "do it"],
        cwd=hermes.work,
        env={**os.environ, "PYTHONPATH": str(site)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "It did not come back.\n"), done.stderr
    assert "new plugin stuck 1.0" in done.stderr
