"""search_files: the same results with ripgrep and without."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes import ToolError
from hermes.plugins.tools.files.searching import search_files


@pytest.fixture(params=["python", "ripgrep"])
def bench(request: pytest.FixtureRequest, bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "python":
        monkeypatch.setenv("PATH", "")
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    return bench


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("one\nneedle = 1\nthree\nfour\nfive\nneedle = 2\n")
    (tmp_path / "src/b.txt").write_text("a needle in hay\r\n")
    (tmp_path / "bin").write_bytes(b"needle\0needle")
    (tmp_path / ".hidden").write_text("needle")
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/k.txt").write_text("needle")
    for n, name in enumerate(("src/b.txt", "src/a.py")):
        os.utime(tmp_path / name, (1000 + n, 1000 + n))
    return tmp_path


def test_lines_stand_under_their_file_and_what_is_protected_is_left_out(bench: Any, tree: Path) -> None:
    assert bench(search_files, pattern=r"needle\b") == (
        "src/a.py\n2:needle = 1\n6:needle = 2\nsrc/b.txt\n1:a needle in hay\n"
        "[1 files are protected by approval.protect_paths and were left out]"
    )


def test_lines_around_are_shown_and_marked(bench: Any, tree: Path) -> None:
    text = bench(search_files, pattern="needle", path="src/a.py", context=1)
    assert text == "src/a.py\n1-one\n2:needle = 1\n3-three\n--\n5-five\n6:needle = 2"


def test_output_modes(bench: Any, tree: Path) -> None:
    assert bench(search_files, pattern="needle", path="src", output_mode="count") == "src/a.py: 2\nsrc/b.txt: 1"
    assert bench(search_files, pattern="needle", path="src", output_mode="files_only") == "src/a.py\nsrc/b.txt"
    assert bench(search_files, pattern="needle", file_glob="*.txt", path="src", output_mode="count") == "src/b.txt: 1"


def test_pages_make_the_whole(bench: Any, tree: Path) -> None:
    (tree / "many").write_text("".join(f"hit {n}\n" for n in range(120)))
    first = bench(search_files, pattern="hit", path="many")
    assert first.endswith("50:hit 49\n[matches 1 to 50 of 120; go on with offset=50]")
    assert bench(search_files, pattern="hit", path="many", offset=100).endswith(
        "120:hit 119\n[matches 101 to 120 of 120]"
    )
    assert bench(search_files, pattern="hit", path="many", offset=120) == "no matches at offset 120: there are 120"


def test_files_by_name_come_newest_first(bench: Any, tree: Path) -> None:
    assert bench(search_files, pattern="*", target="files", path="src") == "src/a.py\nsrc/b.txt"
    assert bench(search_files, pattern="b", target="files", path="src") == "src/b.txt"
    assert bench(search_files, pattern="src/*.py", target="files") == "src/a.py"
    assert bench(search_files, pattern="**/*.py", target="files") == "src/a.py"
    assert bench(search_files, pattern="*.rs", target="files") == "no files found"


def test_nothing_found_says_so_and_explains_a_pattern_over_lines(bench: Any, tree: Path) -> None:
    assert bench(search_files, pattern="absent", path="src") == "no matches found"
    assert "line by line" in bench(search_files, pattern=r"one\nneedle", path="src")


def test_a_bad_expression_is_explained_and_look_around_works(bench: Any, tree: Path) -> None:
    with pytest.raises(ToolError, match="not a regular expression"):
        bench(search_files, pattern="f(", path="src")
    assert "2:needle = 1" in bench(search_files, pattern=r"needle(?= = 1)", path="src")


def test_a_missing_path_and_a_protected_one_are_refused(bench: Any, tree: Path) -> None:
    for path, words in (("nowhere", "does not exist"), ("vault", "protect_paths")):
        with pytest.raises(ToolError, match=words):
            bench(search_files, pattern="x", path=path)


def test_the_same_search_with_the_same_result_is_warned_about_then_refused(bench: Any, tree: Path) -> None:
    texts = [bench(search_files, pattern="needle", path="src") for _ in range(3)]
    assert texts[0] == texts[1]
    assert "third time" in texts[2]
    with pytest.raises(ToolError, match="already searched"):
        bench(search_files, pattern="needle", path="src")
    (tree / "src/c.txt").write_text("needle")
    assert "src/c.txt" in bench(search_files, pattern="needle", path="src")


def test_a_stopped_turn_ends_the_search(bench: Any, tree: Path) -> None:
    bench.turn.stop()
    assert "cut off" in bench(search_files, pattern="needle", path="src")


def test_long_lines_are_cut(bench: Any, tree: Path) -> None:
    (tree / "long").write_text("needle" + "x" * 100_000)
    assert len(bench(search_files, pattern="needle", path="long")) < 700


def test_odd_bytes_in_files_and_names_do_not_end_the_search(bench: Any, tree: Path) -> None:
    (tree / "src" / os.fsdecode(b"z\xff.txt")).write_bytes(b"needle \xff\n")
    text = bench(search_files, pattern="needle", path="src")
    assert "needle �" in text
    text.encode()
