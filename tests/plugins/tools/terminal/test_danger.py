"""Which commands need a person and which are never run. The examples stand in danger_cases.json and are only read."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.plugins.tools.terminal.danger import assess
from hermes.plugins.tools.terminal.danger_rows import ASKED, HARD_LINE
from hermes.plugins.tools.terminal.shell_paths import expand_braces

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("danger_cases.json").read_text(encoding="utf-8"))
CWD = "/home/u/project"
LIMIT_S = 3.0  # the goal is one second for 100 kB, half of it is usual; a quadratic reader needs minutes


@pytest.fixture(autouse=True)
def _home_of_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")


def _pairs(part: str) -> list[Any]:
    return [
        pytest.param(reason, command, id=f"{reason} {number}")
        for reason, commands in CASES[part].items()
        for number, command in enumerate(commands)
    ]


@pytest.mark.parametrize(("reason", "command"), _pairs("hard_line"))
def test_the_hard_line_holds_in_every_form(reason: str, command: str) -> None:
    finding = assess(command, CWD)
    assert finding is not None
    assert finding.hard_line, finding.reason
    assert finding.reason == reason
    assert finding.subject == command


@pytest.mark.parametrize(("reason", "command"), _pairs("asked"))
def test_a_dangerous_command_is_asked_about_with_its_reason(reason: str, command: str) -> None:
    finding = assess(command, CWD)
    assert finding is not None
    assert not finding.hard_line, finding.reason
    assert reason in finding.reason
    assert finding.subject == command


@pytest.mark.parametrize("command", CASES["B024_must_be_caught"], ids=range(len(CASES["B024_must_be_caught"])))
def test_B024_ordinary_shell_syntax_hides_nothing(command: str) -> None:
    assert assess(command, CWD) is not None
    assert assess(command) is not None


@pytest.mark.parametrize("command", CASES["B024_must_pass"], ids=range(len(CASES["B024_must_pass"])))
def test_B024_ordinary_commands_are_not_blocked(command: str) -> None:
    assert assess(command, CWD) is None


@pytest.mark.parametrize("command", CASES["harmless"], ids=range(len(CASES["harmless"])))
def test_a_command_that_only_mentions_one_is_no_question(command: str) -> None:
    assert assess(command, CWD) is None


def test_every_row_has_an_example() -> None:
    assert {row.reason for row in HARD_LINE} <= CASES["hard_line"].keys()
    assert {row.reason for row in ASKED} <= CASES["asked"].keys()


@pytest.mark.parametrize(
    "wrapped", ["cd /srv && {}", "A=1 {}", "if true; then {}; fi", "( {} )", "true\n{}", "x=$( {} )"]
)
def test_hiding_a_command_in_another_never_makes_it_harmless(wrapped: str) -> None:
    for command in (c for part in ("hard_line", "asked") for commands in CASES[part].values() for c in commands):
        if "<<" not in command and "#" not in command:
            assert assess(wrapped.replace("{}", command), CWD) is not None, command


def test_where_the_command_is_decides_what_a_relative_path_means() -> None:
    (dangerous,) = (
        c for c in CASES["hard_line"]["deletes a system directory or a home directory"] if c.startswith("cd; ")
    )
    relative = dangerous.removeprefix("cd; ")
    here, there = assess(relative, CWD), assess(relative, "/etc")
    assert here is not None
    assert not here.hard_line
    assert there is not None
    assert there.hard_line


# ---- Total, and fast enough -----------------------------------------------------------------------------------------

_PIECES = [
    *"abrm -/~.*?#%;&|()<>{}[]!$`'\"\\\n\t =,:", "$(", "${", "$((", "))", "<(", "<<EOF\n", "EOF\n", "<<<",
    "case x in ", "esac", ";;",
    " do ", "done", "sudo ", "bash -c '", "find . -exec ", "xargs ", "$'", '$"', "\x1b[", "\0", "é", "ｒ", "\ud83d",
]  # fmt: skip

_SHAPES = [
    "a ", "rm a ", ";a", "a;", "a|", "$(a)", "`a`", "${a}", '"$a"', "a=b ", "{a,b}", "x{a,b}/", "(a)", "a() { ",
    "f(){f|f&", "cd a;", "chmod +x a;", "a>b ", "<<A\n", "'a' ", "\\a", "DELETE FROM ", "a/", "/../", "rm -r {a,b}",
    "sudo -u a ", "${a$(b", "$((1) )", "<(a) ",
]  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(_PIECES), max_size=60).map("".join)))
@settings(max_examples=250, deadline=None)
def test_any_text_gets_an_answer(command: str) -> None:
    finding = assess(command, CWD)
    assert finding is None or finding.reason


def _large() -> Iterator[Any]:
    """Texts of 100 kB in shapes that make a careless reader quadratic or worse."""
    size = 100_000
    for piece in [*_PIECES, *_SHAPES]:
        yield pytest.param(piece * (size // len(piece)), id=repr(piece))
    yield pytest.param("psql -c '" + "DELETE FROM a " * 7000 + " WHERE 1'", id="sql")
    yield pytest.param("cat <<EOF\n" + "line $(a)\n" * 10_000 + "EOF\n", id="heredoc")
    yield pytest.param("rm -r " + "a/b " * 25_000, id="many operands")
    yield pytest.param("a " * 9_999 + ";b" * 9_000, id="words and commands")


@pytest.mark.parametrize("command", list(_large()))
def test_100_kB_of_anything_are_judged_within_a_second(command: str) -> None:
    began = time.process_time()
    assess(command, CWD)
    assert time.process_time() - began < LIMIT_S


def test_random_long_texts_are_judged_within_a_second_each() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    for _ in range(4):
        command = "".join(chosen.choices([*_PIECES, "word ", "a"], k=60_000))[:100_000]
        began = time.process_time()
        assess(command, CWD)
        assert time.process_time() - began < LIMIT_S


def test_a_longer_command_than_is_looked_through_is_asked_about() -> None:
    finding = assess("a" * 200_000, CWD)
    assert finding is not None
    assert "longer than" in finding.reason


def test_braces_are_expanded_within_bounds() -> None:
    assert sorted(expand_braces("a{b,c}d")) == ["abd", "acd"]
    assert set(expand_braces("{a,{b,c}}")) == {"a", "b", "c"}
    assert len(list(expand_braces("{a,b}" * 6))) == 64
    assert list(expand_braces("{a,b}" * 1000)) == ["{a,b}" * 1000]
