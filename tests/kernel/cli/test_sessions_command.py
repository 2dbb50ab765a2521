from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hermes.kernel.cli.app import run_app
from hermes.kernel.config.settings import SessionSettings
from hermes.kernel.effects import Append, Rewrite, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import ToolSchema
from hermes.kernel.sessions import Epoch, SessionStore
from hermes.plugins.stores.sqlite import SqliteStores

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("HERMES_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
def session(home: Path) -> str:
    store = SqliteStores().open_store(SessionSettings(), home)
    session = write_session(store)
    store.close()
    return session


def write_session(store: SessionStore, title: str = "") -> str:
    log = store.open(store.create(directory=str(Path.cwd()), model="openai:gpt-x", title=title))
    turn = log.begin_turn(None)
    call = ToolCall("c1", "read_file", {"path": "é.txt"})
    image = Image("image/png", data="aGk=")
    log.record(turn, [Append((Message("user", (Text("What is in é.txt?"), image)),))], iterations=0, attempts=0)
    tools = (ToolSchema("read_file", "Reads.", {"type": "object"}),)
    log.record(
        turn,
        [
            Append((Message("assistant", (Thinking("hm"), Text("draft"))),)),
            Rewrite(1, 2, (Message("assistant", (Text("I look"), call)),), "joined"),
            Append((Message("tool", (ToolResult("c1", "ok", (Text("\n".join(f"line {n}" for n in range(40))),)),)),)),
            Append((Message("assistant", (Text("It holds \x1b[31mlines."),)),)),
            TurnEnded(EndReason.COMPLETED, "It holds lines."),
        ],
        iterations=2,
        attempts=2,
        epoch=Epoch(1, "You are Hermes.", tools, "start"),
    )
    return log.id


def run(capsys: Captured, *words: str) -> tuple[int, str, str]:
    code = run_app(["sessions", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_list_shows_id_time_reason_and_title(session: str, capsys: Captured) -> None:
    code, out, err = run(capsys, "list")
    assert (code, err) == (0, "")
    row = out.splitlines()[1]
    assert row.startswith(session)
    assert "completed" in row
    assert row.endswith("What is in é.txt?")


def test_list_json_is_an_array_of_objects(session: str, capsys: Captured) -> None:
    code, out, _ = run(capsys, "list", "--json")
    (only,) = json.loads(out)
    assert code == 0
    assert (only["id"], only["title"], only["end_reason"]) == (session, "What is in é.txt?", "completed")
    assert abs(time.mktime(time.strptime(only["created"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone - time.time()) < 3700
    assert (only["turns"], only["messages"], only["model"]) == (1, 4, "openai:gpt-x")


def test_an_empty_list_is_said_on_stderr_and_is_an_empty_array(capsys: Captured) -> None:
    assert run(capsys, "list") == (0, "", "no sessions yet\n")
    assert run(capsys, "list", "--json") == (0, "[]\n", "")


def test_the_table_is_cut_and_says_so(home: Path, capsys: Captured) -> None:
    store = SqliteStores().open_store(SessionSettings(), home)
    for _ in range(3):
        store.create(directory="/elsewhere", model="m")
    here = store.create(directory=str(Path.cwd()), model="m")
    store.close()
    code, out, err = run(capsys, "list", "--limit", "2")
    assert (code, len(out.splitlines()), "more" in err) == (0, 3, True)
    assert [row["id"] for row in json.loads(run(capsys, "list", "--here", "--json")[1])] == [here]
    assert len(json.loads(run(capsys, "list", "--json", "--limit", "3")[1])) == 3


def test_show_prints_the_conversation_without_control_characters(session: str, capsys: Captured) -> None:
    code, out, _ = run(capsys, "show", session)
    assert code == 0
    assert "What is in é.txt?" in out
    assert '-> read_file {"path": "é.txt"}' in out
    assert "line 11" in out
    assert "line 12" not in out
    assert "28 more lines" in out
    assert "draft" not in out
    assert "\x1b" not in out
    assert "line 39" in run(capsys, "show", session, "--full")[1]


def test_show_json_has_the_messages_as_they_are_stored(session: str, capsys: Captured) -> None:
    shown = json.loads(run(capsys, "show", session[:20], "--json")[1])
    assert [m["role"] for m in shown["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert (shown["id"], shown["system"], shown["open"]) == (session, "You are Hermes.", False)


def test_export_jsonl_has_every_message_superseded_ones_too(session: str, capsys: Captured) -> None:
    code, out, _ = run(capsys, "export", session)
    head, *rows = [json.loads(line) for line in out.splitlines()]
    assert (code, head["type"], head["id"]) == (0, "session", session)
    assert [row["superseded"] for row in rows] == [False, True, False, False, False]
    assert rows[1]["message"]["parts"][1]["text"] == "draft"


def test_export_openai_is_a_request_body(session: str, capsys: Captured) -> None:
    body = json.loads(run(capsys, "export", session, "--format", "openai")[1])
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert body["model"] == "gpt-x"
    assert body["tools"][0]["function"]["name"] == "read_file"
    assert body["messages"][1]["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
    (call,) = body["messages"][2]["tool_calls"]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("c1", {"path": "é.txt"})
    assert body["messages"][3]["tool_call_id"] == "c1"


def test_export_markdown_goes_to_a_file(session: str, capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    code, out, err = run(capsys, "export", session, "--format", "markdown", "-o", str(target))
    assert (code, out) == (0, "")
    assert str(target) in err
    text = target.read_text(encoding="utf-8")
    assert text.startswith("# What is in é.txt?\n")
    assert "Call of `read_file`" in text
    assert "line 39" in text
    assert [p.name for p in tmp_path.iterdir() if "out" in p.name] == ["out.md"]


def test_export_to_a_place_that_cannot_be_written_is_a_usage_error(session: str, capsys: Captured) -> None:
    code, _, err = run(capsys, "export", session, "-o", "/proc/nope/out.md")
    assert code == 2
    assert "/proc/nope/out.md cannot be written" in err


def test_fork_prints_the_id_of_the_copy(session: str, capsys: Captured) -> None:
    code, out, _ = run(capsys, "fork", session)
    copy = out.strip()
    assert (code, copy != session) == (0, True)
    listed = {row["id"]: row["messages"] for row in json.loads(run(capsys, "list", "--json")[1])}
    assert listed == {session: 4, copy: 4}


def test_delete_needs_a_yes_where_there_is_no_one_to_ask(session: str, capsys: Captured) -> None:
    command = [sys.executable, "-m", "hermes", "sessions", "delete", session]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert run(capsys, "delete", session, "--yes")[0] == 0
    assert run(capsys, "list", "--json")[1] == "[]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_delete_asks_on_a_terminal_and_takes_no_for_an_answer(session: str, capsys: Captured) -> None:
    import pty

    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [sys.executable, "-m", "hermes", "sessions", "delete", session]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60)
    os.close(ours)
    os.close(theirs)
    assert "Delete session" in done.stderr
    assert "nothing was deleted" in done.stderr
    assert len(json.loads(run(capsys, "list", "--json")[1])) == 1


def test_a_title_names_a_session_and_an_ambiguous_one_is_refused_with_candidates(home: Path, capsys: Captured) -> None:
    store = SqliteStores().open_store(SessionSettings(), home)
    one, two, three = (write_session(store, title) for title in ("mine", "twice", "twice"))
    store.close()
    assert json.loads(run(capsys, "show", "mine", "--json")[1])["id"] == one
    code, _, err = run(capsys, "show", "twice")
    assert code == 2
    assert two in err
    assert three in err
    code, _, err = run(capsys, "show", "nothing")
    assert (code, "hermes sessions list" in err) == (2, True)


def test_path_is_where_the_file_is(home: Path, capsys: Captured, tmp_path: Path) -> None:
    assert run(capsys, "path")[1].strip() == str(home / "sessions.db")
    settings = tmp_path / "other.yaml"
    settings.write_text(f"sessions: {{path: '{tmp_path}/x.db'}}\n", encoding="utf-8")
    assert run(capsys, "--config", str(settings), "path")[1].strip() == f"{tmp_path}/x.db"


def test_a_damaged_store_ends_with_its_code_and_one_line(home: Path, capsys: Captured) -> None:
    home.mkdir()
    (home / "sessions.db").write_bytes(b"rubbish " * 1000)
    code, _, err = run(capsys, "list")
    assert code == EndReason.STORE_FAILED.exit_code
    assert len(err.splitlines()) == 1
    assert "sessions.db" in err


def test_a_store_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("HERMES_SESSIONS_STORE", "postgres")
    code, _, err = run(capsys, "list")
    assert code == EndReason.SETTINGS.exit_code
    assert "'postgres'" in err
    monkeypatch.setenv("HERMES_SESSIONS_STORE", "memory")
    assert run(capsys, "list")[0] == 2
