"""The command line's frame: names without imports, every exception one line and a code, nothing of a plugin's runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from hermes.kernel.cli.app import COMMANDS, run_app, without_debug
from hermes.kernel.cli.exits import exit_code_of, run_click
from hermes.kernel.cli.invocation import Invocation, config_option
from hermes.kernel.endings import EXIT_CODES
from hermes.kernel.errors import PluginError, SettingsError, StopRun, UsageError

Site = Any
Capture = pytest.CaptureFixture[str]


def _hermes(*arguments: str, cwd: Path | None = None, site: Site = None, **environment: str) -> Any:
    extra = {"PYTHONPATH": str(site.directory)} if site is not None else {}
    return subprocess.run(
        [sys.executable, "-m", "hermes", *arguments],
        cwd=cwd or "/",
        env={**os.environ, **extra, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_has_one_text_on_every_path(capsys: Capture) -> None:
    assert run_app(["--version"]) == 0
    by_click = capsys.readouterr().out
    assert by_click.startswith("hermes ")
    fast = _hermes("--version")
    assert (fast.returncode, fast.stdout, fast.stderr) == (0, by_click, "")


def test_help_names_every_command_and_imports_none(capsys: Capture) -> None:
    assert run_app(["--help"]) == 0
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name} " in out
        assert command.help[:20] in out


def test_without_an_argument_the_help_goes_to_stderr_and_the_code_is_2(capsys: Capture) -> None:
    assert run_app([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["what is this"], 'hermes run "what is this"'),
        (["what", "is", "this"], 'hermes run "what is this"'),
        (["rnu"], "hermes run"),
        (["plugin"], "hermes plugins"),
        (["--colour"], "--colour"),
    ],
)
def test_what_is_no_command_is_answered_with_what_was_meant(arguments: list[str], meant: str, capsys: Capture) -> None:
    assert run_app(arguments) == 2
    assert meant in capsys.readouterr().err


def test_debug_is_found_anywhere_but_behind_a_double_dash() -> None:
    assert without_debug(["run", "--debug", "x"]) == (["run", "x"], True)
    assert without_debug(["--debug", "run", "--", "--debug"]) == (["run", "--", "--debug"], True)
    assert without_debug(["run", "--", "--debug"]) == (["run", "--", "--debug"], False)


def test_config_files_before_and_after_the_command_are_joined_the_last_strongest() -> None:
    seen: list[Invocation] = []

    @click.group()
    @click.pass_context
    def outer(ctx: click.Context) -> None:
        ctx.obj = Invocation(("a",), debug=True)

    @outer.command()
    @config_option
    @click.pass_obj
    def inner(invocation: Invocation) -> None:
        seen.append(invocation)

    assert run_click(outer, ["inner", "--config", "b", "--config", "c"]) == 0
    assert seen == [Invocation(("a", "b", "c"), debug=True)]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (click.UsageError("bad"), 2, "bad"),
        (click.exceptions.Exit(9), 9, ""),
        (click.Abort(), 130, "interrupted"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(4), 4, ""),
        (SystemExit(), 0, ""),
        (SystemExit("a text"), 1, "hermes: a text"),
        (StopRun("quota"), 130, "quota"),
        (UsageError("no such session"), 2, "hermes: no such session"),
        (SettingsError(["f:1:2: a", "f:3:4: b"]), 3, "hermes: f:3:4: b"),
        (PluginError("plugin x"), 11, "hermes: plugin x"),
        (ValueError("odd"), 1, "hermes: internal: ValueError: odd; --debug shows the traceback"),
    ],
)
def test_every_exception_becomes_one_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: Capture
) -> None:
    assert exit_code_of(error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert line in captured.err
    assert "Traceback" not in captured.err
    assert code in {*EXIT_CODES.values(), 9, 4}


def test_the_traceback_comes_with_debug_only(capsys: Capture) -> None:
    @click.command()
    def broken() -> None:
        raise ValueError("odd")

    assert run_click(broken, []) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert run_click(broken, [], debug=True) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_closed_the_pipe_is_met_with_silence() -> None:
    code = "import sys; from hermes.kernel.cli.app import run_app; sys.exit(run_app(['plugins', 'list']))"
    # the pipe's reading end is closed before hermes writes
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_python_m_hermes_takes_the_working_directory_off_the_path(tmp_path: Path) -> None:
    (tmp_path / "click").mkdir()
    (tmp_path / "click" / "__init__.py").write_text("raise SystemExit('the repository ran its code')", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit('the repository ran its code')", encoding="utf-8")
    evil = tmp_path / "evil.egg-info"
    evil.mkdir()
    (evil / "entry_points.txt").write_text("[hermes.tools]\nevil = evil\n", encoding="utf-8")
    done = _hermes("plugins", "list", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "evil" not in {row["name"] for row in json.loads(done.stdout)}


# ---- Plugins --------------------------------------------------------------------------------------------------------


def test_listing_help_and_version_import_no_plugin_and_nothing_heavy(site: Site) -> None:
    for number in range(200):
        site.distribution(f"dummy-{number}", {"hermes.plugins": {f"d{number}": f"no_such_module_{number}"}})
    site.plugin("sub", "raise SystemExit('imported')", group="hermes.commands")
    code = (
        "import sys; from hermes.kernel.cli.app import run_app\n"
        "for line in sys.argv[1:]: assert run_app(line.split()) == 0\n"
        "heavy = {'yaml', 'pluggy', 'importlib.metadata', 'email', 'sqlite3', 'asyncio', 'logging.handlers'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    lines = ("--help", "plugins list", "plugins list --json", "plugins info d7")
    done = subprocess.run(
        [sys.executable, "-c", code, *lines],
        env={**os.environ, "PYTHONPATH": str(site.directory)},
        cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_plugins_list_shows_everything_and_what_keeps_it_from_loading(site: Site, capsys: Capture) -> None:
    site.distribution("acme-one", {"hermes.tools": {"twice": "a"}})
    site.distribution("acme-two", {"hermes.tools": {"twice": "b"}, "hermes.commands": {"run": "c"}})
    assert run_app(["plugins", "list", "--json"]) == 0
    rows = {(row["group"], row["name"], row["distribution"]): row for row in json.loads(capsys.readouterr().out)}
    assert rows["hermes.tools", "files", "hermes-kernel"]["problem"] == ""
    assert "acme-one" in rows["hermes.tools", "twice", "acme-two"]["problem"]
    assert "command run of its own" in rows["hermes.commands", "run", "acme-two"]["problem"]
    assert run_app(["plugins", "list"]) == 0
    captured = capsys.readouterr()
    assert "twice" in captured.out
    assert "PROBLEM" in captured.out
    assert "acme-one" in captured.err


def test_plugins_info_tells_what_is_known_without_an_import(site: Site, capsys: Capture) -> None:
    site.plugin("shout", "raise RuntimeError", group="hermes.tools", requires=["hermes-kernel>=1,<2"])
    assert run_app(["plugins", "info", "shout"]) == 0
    out = capsys.readouterr().out
    for word in ("shout", "acme-shout 1.0", "toolset", "register_tools", "hermes-kernel>=1,<2", "tools.toolsets"):
        assert word in out
    assert run_app(["plugins", "info", "nothing-like-it"]) == 2
    assert "shout" in capsys.readouterr().err


COMMAND = "import click\n@click.command()\n@click.argument('word')\ndef command(word): click.echo(word.upper())\n"


def test_a_command_of_a_plugin_is_shown_by_name_and_runs(site: Site, capsys: Capture) -> None:
    site.plugin("loud", COMMAND, group="hermes.commands", attribute="command")
    assert run_app(["--help"]) == 0
    assert "(plugin acme-loud)" in capsys.readouterr().out
    assert run_app(["loud", "hello"]) == 0
    assert capsys.readouterr().out == "HELLO\n"


@pytest.mark.parametrize("source", ["raise SystemExit(3)", "command = 7", "1 / 0"])
def test_a_broken_command_of_a_plugin_is_named_with_code_11(source: str, site: Site, capsys: Capture) -> None:
    site.plugin("broken", source, group="hermes.commands", attribute="command")
    assert run_app(["broken", "x"]) == 11
    err = capsys.readouterr().err
    assert "acme-broken" in err
    assert "Traceback" not in err


def test_a_command_of_a_plugin_called_like_ours_never_runs(site: Site, capsys: Capture) -> None:
    site.plugin("plugins", "raise SystemExit('imported')", group="hermes.commands")
    assert run_app(["plugins", "list"]) == 0
    assert "never called" not in capsys.readouterr().err


def _completions(words: str, index: int, site: Site) -> tuple[list[str], str]:
    done = _hermes(site=site, _HERMES_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(index))
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line], done.stderr


def test_completion_offers_names_without_an_import_and_no_traceback_inside_a_broken_command(site: Site) -> None:
    site.plugin("sloppy", "raise SystemExit('imported')", group="hermes.commands", attribute="command")
    offered, err = _completions("hermes s", 1, site)
    assert offered == ["sessions", "sloppy"]
    assert err == ""
    assert _completions("hermes sloppy ", 2, site) == ([], "")
    assert "list" in _completions("hermes plugins l", 2, site)[0]
