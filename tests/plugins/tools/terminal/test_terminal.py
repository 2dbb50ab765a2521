"""The tool terminal: output and exit code, the working directory, what it refuses, what a command sees of us."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes import ToolError
from hermes.kernel.arguments import coerce
from hermes.plugins.tools.terminal import register_tools
from hermes.plugins.tools.terminal.environment import MARK, is_hidden
from hermes.plugins.tools.terminal.guard import refusal
from hermes.plugins.tools.terminal.meanings import meaning
from hermes.plugins.tools.terminal.tool import terminal


def test_the_toolset_is_one_exclusive_tool_whose_own_timeout_comes_first() -> None:
    (only,) = register_tools()
    assert only is terminal
    assert only.exclusive
    assert only.deadline_s == 0
    assert not only.idempotent
    assert list(only.parameters["properties"]) == ["command", "timeout", "workdir", "background"]
    assert only.parameters["required"] == ["command"]


def test_output_and_errors_come_in_their_order_with_the_exit_code(run: Any) -> None:
    assert run("echo one; echo two >&2; echo three") == "one\ntwo\nthree\n[exit code 0]"
    assert run("true") == "[exit code 0]"


def test_a_command_that_fails_is_no_failure_of_the_tool(run: Any) -> None:
    returned = run.returned("echo before; exit 3")
    assert not returned.failed
    assert returned.parts[0].text == "before\n[exit code 3]"
    assert run("kill -TERM $$") == "[exit code 143: ended by SIGTERM]"
    assert run("no-such-program-here").endswith("[exit code 127: command not found]")
    assert "syntax error" in run("if")


def test_several_lines_here_documents_and_quotes_are_kept(run: Any) -> None:
    assert run("x='a  b'\ncat <<EOF\n$x \"y\"\nEOF\nprintf '%s' \"$#$1\"") == 'a  b "y"\n0\n[exit code 0]'


def test_there_is_no_input_and_no_terminal(run: Any) -> None:
    assert run("cat; read x; test -t 1 || echo none").startswith("none")


def test_text_beyond_ascii_goes_in_and_comes_out(run: Any) -> None:
    assert run("echo 'Grüße 🐈‍⬛ 漢字'") == "Grüße 🐈‍⬛ 漢字\n[exit code 0]"


# ---- The working directory ------------------------------------------------------------------------------------------


def test_the_directory_stays_for_the_next_command_and_is_told(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a b" / "ü").mkdir(parents=True)
    assert run("cd 'a b' && cd ü") == f"[exit code 0]\n[now in {tmp_path}/a b/ü]"
    assert run("pwd") == f"{tmp_path}/a b/ü\n[exit code 0]"
    assert run.bench.context.state == {"cwd": f"{tmp_path}/a b/ü"}
    assert run.returned("true").state is None


def test_the_directory_is_told_by_a_command_that_exits_or_fails(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert run("cd a; exit 2") == f"[exit code 2]\n[now in {tmp_path}/a]"
    assert run("set -e; cd ..; false") == f"[exit code 1]\n[now in {tmp_path}]"
    assert run("(cd a; pwd)") == f"{tmp_path}/a\n[exit code 0]"


def test_the_directory_of_a_link_is_the_one_that_was_asked_for(run: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    run("cd link")
    assert run("pwd").startswith(f"{tmp_path}/link\n")


def test_calls_of_one_batch_follow_each_other_though_the_state_is_that_before_it(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = run.bench.context
    run("cd a")
    run.bench.context = before
    assert run("pwd").startswith(f"{tmp_path}/a\n")


def test_a_resumed_session_goes_on_where_it_was(bench: Any, run: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    bench.context = replace(bench.context, session_id="resumed", state={"cwd": str(tmp_path / "a")})
    assert run("pwd").startswith(f"{tmp_path}/a\n")


def test_sessions_do_not_share_a_directory(run: Any, bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    run("cd a")
    run.bench = bench.other_session()
    assert run("pwd") == f"{tmp_path}\n[exit code 0]"


def test_a_directory_that_is_gone_is_replaced_by_the_nearest_above(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    run("cd a/b/c")
    (tmp_path / "a" / "b" / "c").rmdir()
    (tmp_path / "a" / "b").rmdir()
    assert run("pwd") == f"{tmp_path}/a\n[exit code 0]\n[{tmp_path}/a/b/c is gone: this ran in {tmp_path}/a]"
    assert run("pwd") == f"{tmp_path}/a\n[exit code 0]"


def test_workdir_holds_for_one_command_only(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert run("pwd", workdir="a") == f"{tmp_path}/a\n[exit code 0]"
    assert run("pwd") == f"{tmp_path}\n[exit code 0]"
    assert run("cd b", workdir="a").endswith(f"[now in {tmp_path}/a/b]")
    with pytest.raises(ToolError, match="workdir 'nowhere' is no directory; the session is in"):
        run("pwd", workdir="nowhere")


def test_the_commands_own_exit_trap_works_and_leaves_the_directory_alone(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert run("trap 'echo bye' EXIT; cd a") == "bye\n[exit code 0]"
    assert run("exec echo replaced") == "replaced\n[exit code 0]"
    assert run("pwd") == f"{tmp_path}\n[exit code 0]"


# ---- The environment ------------------------------------------------------------------------------------------------


def test_secrets_and_what_is_ours_are_not_seen_by_a_command(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = ["OPENAI_API_KEY", "GH_TOKEN", "my_token", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "X_SECRET",
              "DB_PASSWORD", "HERMES_HOME", "HERMES_MODEL", "GOOGLE_APPLICATION_CREDENTIALS",
              "VIRTUAL_ENV"]  # fmt: skip
    for name in hidden:
        monkeypatch.setenv(name, "s3cret-value")
    monkeypatch.setenv("PLAIN_VARIABLE", "seen")
    text = run("env")
    assert "s3cret-value" not in text
    assert "PLAIN_VARIABLE=seen" in text
    assert "PATH=" in text
    assert all(is_hidden(name) for name in hidden)
    assert not any(map(is_hidden, ["PATH", "HOME", "LANG", "TOKENIZERS_PARALLELISM", "KEYBOARD", "SSH_AUTH_SOCK"]))


def test_a_person_may_let_a_variable_through(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "wanted")
    assert "GH_TOKEN=wanted" in run.settings(keep_environment=["GH_TOKEN"])("env")


def test_no_program_waits_for_a_pager_or_a_prompt(run: Any) -> None:
    text = run('echo "$TERM $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT"')
    assert text.startswith("dumb cat cat 0\n")
    assert MARK in run("env")


def test_descriptors_of_ours_are_not_open_in_a_command(run: Any) -> None:
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), False)
        assert run(f"test -e /dev/fd/{file.fileno()} || echo closed").startswith("closed")


# ---- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"command": "echo x", "background": True}, "comes with the process tool"),
        ({"command": "echo x", "timeout": 601}, "timeout is 601: a command gets at most 600 seconds"),
        ({"command": "echo x", "timeout": 0}, "at least 1 second"),
        ({"command": "  \n "}, "command is empty"),
        ({"command": "echo \0"}, "NUL character"),
        ({"command": "echo " + "ü" * 70_000}, "longer than 128000 bytes: write the text into a file with write_file"),
    ],
)
def test_a_call_that_cannot_be_run_says_what_to_do(run: Any, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        run(**arguments)


def test_wrong_types_are_told_before_anything_runs() -> None:
    assert coerce({"command": ["echo", "x"]}, terminal.parameters)[1]
    assert coerce({"command": "echo", "timeout": "90"}, terminal.parameters) == (
        {"command": "echo", "timeout": 90},
        None,
    )


@pytest.mark.parametrize(
    "command",
    [
        "npm run dev", "cd web && pnpm dev", "yarn start", "bun run watch", "npm run dev:web", "npx vite",
        "npx next dev",
        "docker compose up", "docker-compose -f x.yml up", "next dev", "vite", "vite --port 3", "nodemon app.js",
        "uvicorn app:app --reload", "python3 -m http.server 8080", "python manage.py runserver", "flask run",
        "flask --app x run", "rails s", "php -S localhost:1", "tail -f x.log", "tail -n 5 -F x", "watch ls",
        "tsc --watch",
        "hugo serve", "A=1 npm start", "bash -c 'npm run dev'", "jupyter lab", "env PORT=1 uvicorn x:y",
        "nohup make", "setsid sleep 5", "sleep 5 & disown", "sleep 5 &", "sleep 5 &  \n", "(sleep 5 &)",
        "true && sleep 5 &",
        "python3 -m http.server 8080 &", "sleep 5 & # later",
    ],
)  # fmt: skip
def test_what_does_not_end_by_itself_is_refused_with_advice(command: str) -> None:
    assert "process tool" in (refusal(command) or "")


@pytest.mark.parametrize(
    "command",
    [
        "npm test", "npm run build", "npm install", "npm run dev -- --help", "npx vite build", "vite build",
        "uvicorn --help",
        "docker compose up -d", "docker compose ps", "next build", "echo 'npm run dev'", 'grep -r "npm start" .',
        "cat <<'EOF' > run.sh\nnohup npm run dev &\nEOF", "git commit -m 'add tail -f &'", "timeout 5 npm run dev",
        "tail -n 5 x.log", "sleep 1 & wait", "for x in a b; do sleep 0 & done; wait", "echo a && echo b", "echo a 2>&1",
        "echo '&'", "echo a &> x", "python3 -m http.server 8080 & sleep 1; curl localhost:8080",
        "jupyter nbconvert x", "man nohup",
        "python3 -m pytest", "nodemon --version", "tsc", "jest", "echo 'open",
    ],
)  # fmt: skip
def test_what_ends_or_only_speaks_of_a_server_is_run(command: str) -> None:
    assert refusal(command) is None


def test_a_refused_command_is_an_error_for_the_model(run: Any) -> None:
    with pytest.raises(ToolError, match=r"not run: A trailing & sends the command to the background"):
        run("sleep 5 &")


def test_the_tool_judges_its_own_call_where_it_would_run(run: Any, tmp_path: Path) -> None:
    assert terminal.assess is not None
    assert terminal.assess({"command": "ls"}, run.bench.context) is None
    assert terminal.assess({"command": 7}, run.bench.context) is None
    finding = terminal.assess({"command": "git reset --hard"}, run.bench.context)
    assert finding is not None
    assert (finding.subject, finding.hard_line) == ("git reset --hard", False)


# ---- What an exit code means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "expected"),
    [
        ("grep x f", 1, "no match"), ("cat f | grep x", 1, "no match"), ("sudo grep x f", 1, "no match"),
        ("grep x f", 2, ""),
        ("rg x", 1, "no match"), ("diff a b", 1, "the files differ"), ("git diff --exit-code", 1, "the files differ"),
        ("git status", 1, ""), ("[ -f x ]", 1, "the condition is false"),
        ("curl -f http://h", 22, "an HTTP status of 400 or more"),
        ("timeout 1 sleep 5", 124, "its time was over"), ("make", 2, "a target failed"),
        ("x", 126, "found, but it cannot be run"),
        ("x", 137, "ended by SIGKILL"), ("x", 255, ""), ("echo 'open", 1, ""), ("", 1, ""), ("python3 x.py", 1, ""),
    ],
)  # fmt: skip
def test_exit_codes_that_are_no_failures_are_explained(command: str, code: int, expected: str) -> None:
    assert meaning(command, code) == expected


def test_the_meaning_is_in_the_result(run: Any, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    assert run("grep x f") == "[exit code 1: no match]"


def test_the_shell_of_the_settings_is_taken_and_a_missing_one_replaced(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert run.settings(shell="sh")("echo ok; cd a") == f"ok\n[exit code 0]\n[now in {tmp_path}/a]"
    assert run.settings(shell="no-such-shell")("echo ${BASH_VERSION:+bash}").startswith("bash")


def test_python_finds_the_interpreter_of_the_path(run: Any) -> None:
    assert run(f"{sys.executable} -c 'print(6 * 7)'") == "42\n[exit code 0]"
