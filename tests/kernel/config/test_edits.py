"""One line more in a file that a person wrote; everything else stays byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config import document, edits, sources, text
from hermes.kernel.errors import SettingsError

RULE = {"tool": "terminal", "match": 'git push* # "x"', "decide": "allow"}
LINE = text.flow(RULE)


def added(path: Path, before: str, item: Any = RULE) -> str:
    path.write_bytes(before.encode())
    edits.append(path, "approval.rules", item)
    after = path.read_bytes().decode()
    problems: list[Any] = []
    node = document.parse(after.encode(), "f", problems)
    assert node is not None
    assert problems == []
    assert node.plain()["approval"]["rules"][-1] == item
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"approval:\n  rules:\n    - {LINE}\n"),
        ("# mine\n", f"# mine\napproval:\n  rules:\n    - {LINE}\n"),
        ("model: x", f"model: x\napproval:\n  rules:\n    - {LINE}\n"),
        ("model: x\r\n", f"model: x\r\napproval:\r\n  rules:\r\n    - {LINE}\r\n"),
        (
            "approval:\n    mode: ask  # so\n\n# next\nmodel: x\n",
            f"approval:\n    mode: ask  # so\n    rules:\n      - {LINE}\n\n# next\nmodel: x\n",
        ),
        ("approval: {mode: ask}\n", f"approval: {{mode: ask, rules: [{LINE}]}}\n"),
        ("approval: {}\n", f"approval: {{rules: [{LINE}]}}\n"),
        ("approval:\n  rules: [] # none\n", f"approval:\n  rules: [{LINE}] # none\n"),
        ("approval:\n  rules: [{decide: ask},]\n", f"approval:\n  rules: [{{decide: ask}}, {LINE}]\n"),
        (
            "approval:\n  rules:\n  - decide: ask\n    tool: x   # c\n\n  # end\nmodel: x\n",
            f"approval:\n  rules:\n  - decide: ask\n    tool: x   # c\n  - {LINE}\n\n  # end\nmodel: x\n",
        ),
        (
            "approval:\n  rules:\n    - {decide: ask}\n  mode: ask\n",
            f"approval:\n  rules:\n    - {{decide: ask}}\n    - {LINE}\n  mode: ask\n",
        ),
    ],
)
def test_the_line_goes_where_a_person_would_put_it(tmp_path: Path, before: str, after: str) -> None:
    assert added(tmp_path / "hermes.yaml", before) == after


def test_the_shipped_file_and_the_one_for_beginners_can_be_added_to(tmp_path: Path) -> None:
    for before in (sources.shipped_defaults(), text.commented_defaults(sources.shipped_defaults())):
        after = added(tmp_path / "hermes.yaml", before)
        assert len(after.splitlines()) - len(before.splitlines()) in (0, 3)


def test_the_same_rule_twice_is_there_once(tmp_path: Path) -> None:
    once = added(tmp_path / "hermes.yaml", "")
    assert added(tmp_path / "hermes.yaml", once) == once


@pytest.mark.parametrize(
    "before",
    ["approval: 5\n", "approval: {rules: x}\n", "approval: {mode: ask\n", "approval: &a {rules: *b}\n", "approval:\n"],
)
def test_what_cannot_be_edited_stays_as_it_is(tmp_path: Path, before: str) -> None:
    path = tmp_path / "hermes.yaml"
    path.write_text(before)
    with pytest.raises(SettingsError, match=r"hermes\.yaml"):
        edits.append(path, "approval.rules", RULE)
    assert path.read_text() == before


def test_an_alias_is_never_edited_through(tmp_path: Path) -> None:
    path = tmp_path / "hermes.yaml"
    path.write_text("fallback: &x [a]\napproval: {rules: *x}\n")
    with pytest.raises(SettingsError, match="by hand"):
        edits.append(path, "approval.rules", RULE)


WRITER = """
import sys
from pathlib import Path
from hermes.kernel.config import edits
print("ready", flush=True)
sys.stdin.readline()
for index in range(5):
    edits.append(Path(sys.argv[1]), "fallback", f"p{sys.argv[2]}:{index}")
"""


def test_B138_two_writers_of_one_settings_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hermes.yaml"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WRITER, str(path)]
    with (
        subprocess.Popen([*command, "a"], stdin=pipe, stdout=pipe, text=True) as one,
        subprocess.Popen([*command, "b"], stdin=pipe, stdout=pipe, text=True) as two,
    ):
        for writer in (one, two):
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in (one, two):
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
    assert (one.returncode, two.returncode) == (0, 0)
    problems: list[Any] = []
    node = document.parse(path.read_bytes(), "f", problems)
    assert node is not None
    assert sorted(node.plain()["fallback"]) == sorted(f"p{who}:{index}" for who in "ab" for index in range(5))
