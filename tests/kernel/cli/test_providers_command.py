"""`hermes providers` says what each provider needs and whether one answers, and never prints a key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hermes.kernel.cli.app import app
from hermes.kernel.cli.tables import table_lines
from hermes.testing import ScriptedServer, fault, text

Run = Callable[..., Result]
KEY, OTHER = "the-very-secret-key", "another-secret-key"
FORMATS = ("chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse")


@pytest.fixture
def run(hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("list", settings={…})`: the command with these settings as the user's own; local servers are nowhere."""
    monkeypatch.chdir(tmp_path)
    nowhere = {name: {"base_url": "http://127.0.0.1:9/v1"} for name in ("llamacpp", "lmstudio", "ollama", "vllm")}

    def invoke(*words: str, settings: Any = None, group: str = "providers") -> Result:
        given = {"providers": {}, **(settings or {})}
        given["providers"] = {**nowhere, **given["providers"]}
        (hermes_home / "hermes.yaml").write_text(json.dumps(given), encoding="utf-8")
        result = CliRunner().invoke(app, [group, *words])
        for key in (KEY, OTHER):
            assert key not in result.output
        return result

    return invoke


def rows_of(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return {row["name"]: row for row in json.loads(result.stdout)}


# ---- list -----------------------------------------------------------------------------------------------------------


def test_the_list_says_where_each_key_comes_from_or_what_to_set(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XAI_API_KEY", KEY)
    own = {
        "providers": {
            "groq": {"api_key": [KEY, OTHER]},
            "work": {"base_url": "https://llm.example.com/v1", "api_key": KEY},
            "open": {"base_url": "https://open.example.com/v1"},
        }
    }
    rows = rows_of(run("list", "--json", settings=own))
    told = {name: (rows[name]["key"], rows[name]["has_key"], rows[name]["given_by"]) for name in
            ("xai", "groq", "work", "open", "openai", "bedrock")}  # fmt: skip
    assert told == {
        "xai": ("XAI_API_KEY is set", True, "catalogue"),
        "groq": ("2 in your settings", True, "settings"),
        "work": ("in your settings", True, "settings"),
        "open": ("none needed", True, "settings"),
        "openai": ("set OPENAI_API_KEY", False, "catalogue"),
        "bedrock": ("none, or AWS_BEARER_TOKEN_BEDROCK", True, "catalogue"),
    }
    assert rows["anthropic"]["api_mode"] == "anthropic_messages"
    assert rows["local"]["given_by"] == "plugin"


def test_the_table_has_a_line_a_provider_and_a_star_for_the_users_own(run: Run) -> None:
    result = run("list", settings={"providers": {"work": {"base_url": "https://llm.example.com/v1"}}})
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["NAME", "KEY", "WIRE", "FORMAT", "ADDRESS", "TITLE"]
    assert any(
        re.match(r"work\* +none needed +chat_completions +https://llm\.example\.com/v1 +work$", x) for x in lines
    )
    assert any(line.startswith("openrouter ") for line in lines)


def test_local_servers_are_asked_whether_they_are_there(run: Run) -> None:
    with ScriptedServer() as server:
        rows = rows_of(run("list", "--json", settings={"providers": {"ollama": {"base_url": server.base_url}}}))
    assert (rows["ollama"]["answers"], rows["ollama"]["key"]) == (True, "answers")
    assert (rows["vllm"]["answers"], rows["vllm"]["key"]) == (False, "does not answer")
    assert rows["openai"]["answers"] is None


def test_a_table_fits_a_narrow_terminal_and_leaves_empty_columns_out() -> None:
    rows = [("a", "", "x" * 50), ("bb", "", "\x1b[31mred\n")]
    assert list(table_lines(("NAME", "NOTE", "WHAT"), rows, 20)) == [
        "NAME  WHAT", "a     " + "x" * 13 + "…", "bb    red"
    ]  # fmt: skip
    assert list(table_lines(("NAME", "NOTE", "WHAT"), rows, None))[1] == "a     " + "x" * 50


# ---- test -----------------------------------------------------------------------------------------------------------


def endpoint(server: ScriptedServer, api_mode: str = "chat_completions", **more: Any) -> dict[str, Any]:
    given = {"base_url": server.url_for(api_mode), "api_mode": api_mode, "api_key": KEY, **more}
    return {"providers": {"work": given}, "request": {"connect_timeout_s": 2, "first_token_timeout_s": 5}}


@pytest.mark.parametrize("api_mode", FORMATS)
def test_a_provider_of_the_users_own_is_tried_by_its_wire_format(
    run: Run, monkeypatch: pytest.MonkeyPatch, api_mode: str
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with ScriptedServer([text("ready")]) as server:
        result = run("test", "work:any", settings=endpoint(server, api_mode))
        assert result.exit_code == 0, result.output
        (request,) = server.requests
    assert (request.api_mode, server.problems) == (api_mode, [])
    lines = result.stdout.splitlines()
    assert lines[0] == "model     work:any"
    assert lines[1] == "key       in your settings"
    assert re.match(
        rf"address   {re.escape(server.url_for(api_mode))} \({api_mode}, ready after \d+\.\d\d s\)", lines[2]
    )
    assert re.match(r"answer    ready \(\d+\.\d\d s, 10 tokens in, 15 in all\)", lines[-1])


@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        (fault(401, f"bad key {KEY}"), 4, r"answer    auth: HTTP 401: .*the key is refused"),
        (fault(402, "no credits left"), 4, r"answer    billing: .*no credit"),
        (fault(404, "The model `any` does not exist", code="model_not_found"), 5, r"model_not_found: .*models list"),
        (fault(500, "boom"), 5, r"answer    server_error: HTTP 500"),
    ],
)
def test_a_fault_is_told_with_what_to_do_and_the_exit_code_of_a_run(run: Run, reply: Any, code: int, says: str) -> None:
    with ScriptedServer([reply]) as server:
        result = run("test", "work:any", settings=endpoint(server))
    assert result.exit_code == code
    assert re.search(says, result.stdout), result.stdout


def test_each_of_several_keys_is_tried(run: Run) -> None:
    with ScriptedServer([text("ready"), fault(401, "revoked")]) as server:
        result = run("test", "work:any", settings=endpoint(server, api_key=[KEY, OTHER]))
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [f"Bearer {KEY}", f"Bearer {OTHER}"]
    assert result.exit_code == 4
    assert "answer    key 1: ready" in result.stdout
    assert "answer    key 2: auth" in result.stdout


def test_a_missing_key_and_a_server_that_is_not_there_end_before_a_request(run: Run) -> None:
    missing = run("test", "openai")
    assert missing.exit_code == 4
    assert "set OPENAI_API_KEY" in missing.stdout
    gone = run("test", "work:m", settings={"providers": {"work": {"base_url": "http://127.0.0.1:9/v1"}}})
    assert gone.exit_code == 5
    assert "server    not reached" in gone.stdout
    assert "answer" not in gone.stdout


def test_a_provider_that_there_is_not_is_a_settings_error_with_a_hint(run: Run) -> None:
    result = run("test", "gpt-5")
    assert result.exit_code != 0
    assert "provider:gpt-5" in str(result.exception)


def test_without_a_name_the_model_of_the_settings_is_tried(run: Run) -> None:
    with ScriptedServer([text("ready")]) as server:
        result = run("test", settings={"model": "work:any", **endpoint(server)})
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("model     work:any\n")


# ---- In a process of its own ----------------------------------------------------------------------------------------

WATCH = """
import sys
read = []
sys.addaudithook(lambda event, args: event == "open" and str(args[0]).endswith("models.json") and read.append(args[0]))
from hermes.kernel.cli.app import run_app
code = run_app(sys.argv[1:])
sys.exit(f"read {read}" if read else code)
"""


def in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WATCH, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_run_whose_server_repeats_the_key_prints_none(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ScriptedServer([fault(401, f"Incorrect API key provided: {key}") for key in (KEY, OTHER)]) as server:
        given = endpoint(server, api_key=[KEY, OTHER])
        (hermes_home / "hermes.yaml").write_text(json.dumps(given), encoding="utf-8")
        done = in_a_process("run", "--debug", "-v", "--model", "work:any", "go")
        assert len(server.requests) == 2
    told = done.stdout + done.stderr
    assert "Incorrect API key" in told
    assert KEY not in told
    assert OTHER not in told


@pytest.mark.parametrize("words", ["--help", "--version", "plugins list", "config show", "providers list"])
def test_the_snapshot_is_not_read_where_no_model_is_asked_for(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_a_process(*words.split())
    assert (done.returncode, done.stderr) == (0, "")


def test_the_snapshot_is_read_where_one_is(hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "models.json" in in_a_process("models", "show", "openai:gpt-5").stderr


# ---- config show ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("show",), ("show", "--origin")])
def test_config_show_prints_no_key(run: Run, words: tuple[str, ...]) -> None:
    own = {"providers": {"work": {"base_url": "https://x.example", "api_key": [KEY, OTHER]}}}
    result = run(*words, settings=own, group="config")
    assert (result.exit_code, "x.example" in result.output) == (0, True)
