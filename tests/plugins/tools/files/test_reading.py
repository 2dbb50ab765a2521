"""read_file: what the model reads, in which portions, and what is never read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hermes import ToolError
from hermes.plugins.tools.files.patching import patch
from hermes.plugins.tools.files.reading import read_file
from hermes.plugins.tools.files.writing import write_file


def test_lines_come_numbered_without_padding(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\r\n\nfour")
    assert bench(read_file, path="a.txt") == "1|one\n2|two\n3|\n4|four"


def test_a_long_file_says_where_to_go_on_and_the_parts_make_the_whole(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 1201)))
    first = bench(read_file, path="a")
    assert first.endswith("500|line 500\n[lines 1 to 500 of 1200; go on with offset=501]")
    assert bench(read_file, path="a", offset=501).endswith("offset=1001]")
    assert bench(read_file, path="a", offset=1001).endswith("1200|line 1200")


def test_offset_and_limit_are_clamped_not_refused(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 3000)
    assert bench(read_file, path="a", offset=-5, limit=0).startswith("1|x\n[lines 1 to 1 of 3000")
    assert "[lines 1 to 2000 of 3000" in bench(read_file, path="a", limit=99999)
    assert bench(read_file, path="a", offset=4000) == "[the file has 3000 lines: nothing at offset 4000]"


def test_a_result_is_trimmed_to_whole_lines_of_its_budget(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(("y" * 1500 + "\n") * 200)
    text = bench(read_file, path="a")
    assert len(text) < 101_000
    assert "lines 1 to 66 of 200, as much as one result may hold; go on with offset=67" in text


def test_long_lines_are_cut_and_a_giant_line_is_read_in_bounded_memory(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"z" * 3_000_000 + b"\nnext\n")
    text = bench(read_file, path="a")
    assert text.startswith("1|" + "z" * 2000 + " … [line cut]\n2|next\n[1 lines are longer")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "[the file is empty]"),
        (b"\xef\xbb\xbfhi", "1|hi"),
        ("hü\nx".encode("utf-16"), "1|hü\n2|x"),
        (b"caf\xe9\n", "1|caf�\n[not UTF-8: bytes that cannot be decoded are shown as �]"),
        ("�".encode(), "1|�"),
    ],
)
def test_B022_encodings_and_marks_are_told_apart(bench: Any, tmp_path: Path, data: bytes, expected: str) -> None:
    (tmp_path / "a").write_bytes(data)
    assert bench(read_file, path="a") == expected


@pytest.mark.parametrize(
    ("data", "words"), [(b"\x89PNG\r\n\x1a\n", "PNG"), (b"abc\0def", "binary"), (b"%PDF-1.7", "PDF")]
)
def test_binaries_are_refused_by_kind(bench: Any, tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ToolError, match=words):
        bench(read_file, path="a")


def test_an_unchanged_file_is_not_given_twice_but_never_withheld_for_good(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    assert bench(read_file, path="a") == "1|one"
    assert "unchanged" in bench(read_file, path="./a")
    with pytest.raises(ToolError, match="already read"):
        bench(read_file, path="a")
    assert bench(read_file, path="a") == "1|one"


def test_9_2_13144_a_read_after_a_write_gives_the_new_text(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    bench(read_file, path="a")
    bench(write_file, path="a", content="two\n")
    assert bench(read_file, path="a") == "1|two"
    bench(patch, path="a", old_string="two", new_string="six")
    assert bench(read_file, path="a") == "1|six"


def test_repeats_are_counted_by_session_and_range(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    bench(read_file, path="a")
    assert bench(read_file, path="a", offset=2) == "2|two"
    assert bench.other_session()(read_file, path="a") == "1|one\n2|two"


def test_a_file_that_changed_outside_is_given_again(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    bench(read_file, path="a")
    (tmp_path / "b").write_text("two\n")
    os.replace(tmp_path / "b", tmp_path / "a")
    assert bench(read_file, path="a") == "1|two"


@pytest.mark.parametrize(
    "path",
    [
        "/dev/zero",
        "/dev/stdin",
        "/proc/self/environ",
        "/proc/1/cmdline",
        "/proc/self/fd/0",
        "/proc/self/mem",
        "/dev/fd/0",
    ],
)
def test_9_2_4427_devices_and_the_inside_of_processes_are_not_read(bench: Any, path: str) -> None:
    with pytest.raises(ToolError, match=r"device|process"):
        bench(read_file, path=path)


def test_9_2_4427_a_link_to_a_device_is_no_way_round(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("/dev/stdin")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "dir").symlink_to("/proc/self")
    os.mkfifo(tmp_path / "fifo")
    for name in ("one", "two", "dir/environ", "fifo"):
        with pytest.raises(ToolError):
            bench(read_file, path=name)


def test_protected_paths_are_not_read_under_any_name(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "key").write_text("secret")
    (tmp_path / "link").symlink_to("vault/key")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").write_text("K=1")
    for name in ("vault/key", "link", "sub/../vault/key", "sub/.env", "~/.ssh/id_rsa"):
        with pytest.raises(ToolError, match="protect_paths"):
            bench(read_file, path=name)


def test_a_missing_file_names_what_is_alike(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    with pytest.raises(ToolError, match=r"there is README\.md"):
        bench(read_file, path="readme.md")
    with pytest.raises(ToolError, match="nor does its directory"):
        bench(read_file, path="no/such/file")
    with pytest.raises(ToolError, match="directory"):
        bench(read_file, path=".")


def test_B062_a_file_name_that_is_not_utf8_does_not_break_the_message(bench: Any, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.txt")).write_text("x")
    with pytest.raises(ToolError, match="does not exist"):
        bench(read_file, path="a.txt")
