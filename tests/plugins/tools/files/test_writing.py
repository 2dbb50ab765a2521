"""write_file: what is kept of the old file, what is refused, and that nobody ever sees half of a write."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes import ToolError
from hermes.plugins.tools.files.reading import read_file
from hermes.plugins.tools.files.writing import write_file


def test_a_new_file_gets_its_directories_and_ordinary_mode(bench: Any, tmp_path: Path) -> None:
    assert (
        bench(write_file, path="a/b/c.txt", content="x\ny") == "wrote a/b/c.txt (2 lines, 3 bytes), made 2 directories"
    )
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"x\ny"
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "a/b/c.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert [p.name for p in (tmp_path / "a/b").iterdir()] == ["c.txt"]


def test_mode_mark_line_ends_and_links_are_kept(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    (tmp_path / "real").chmod(0o755)
    (tmp_path / "link").symlink_to("real")
    bench(write_file, path="link", content="c\nd\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"\xef\xbb\xbfc\r\nd\r\n"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o755


def test_mixed_line_ends_are_written_as_given(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\r\nb\n")
    bench(write_file, path="a", content="c\r\nd\n")
    assert (tmp_path / "a").read_bytes() == b"c\r\nd\n"


def test_utf16_stays_utf16(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("old".encode("utf-16"))
    bench(write_file, path="a", content="neü")
    assert (tmp_path / "a").read_bytes().decode("utf-16") == "neü"


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("a.json", '{"a": 1,}', '{"a": 1}'),
        ("a.yaml", "a: [1\nb: 2", "a: !tag [1]\n---\nb: 2"),
        ("a.toml", "a = ", "a = 1"),
    ],
)
def test_data_files_that_would_not_be_well_formed_are_refused_before_the_disk_is_touched(
    bench: Any, tmp_path: Path, name: str, bad: str, good: str
) -> None:
    bench(write_file, path=name, content=good)
    with pytest.raises(ToolError, match="not valid"):
        bench(write_file, path=name, content=bad)
    assert (tmp_path / name).read_text() == good
    with pytest.raises(ToolError, match="at "):
        bench(write_file, path=f"new/{name}", content=bad)
    assert not (tmp_path / "new").exists()


def test_dialects_and_templates_are_not_refused(bench: Any, tmp_path: Path) -> None:
    bench(write_file, path="tsconfig.json", content="{ // why\n}")
    bench(write_file, path="chart.yaml", content="a: {{ .Values.x }}\n{{- if .y }}\nb: 1\n{{ end }}")
    (tmp_path / "odd.json").write_text("{a: 1}")
    bench(write_file, path="odd.json", content="{a: 2}")
    assert (tmp_path / "odd.json").read_text() == "{a: 2}"


def test_python_is_written_and_warned_about_only_when_the_mistake_is_new(bench: Any, tmp_path: Path) -> None:
    assert "[warning: Python syntax error at line 1" in bench(write_file, path="a.py", content="def f(:\n")
    assert (tmp_path / "a.py").read_text() == "def f(:\n"
    assert "warning" not in bench(write_file, path="a.py", content="def g(:\n")
    assert "warning" not in bench(write_file, path="b.py", content="x = '\\d'\n")


def test_what_read_file_shows_is_not_taken_for_the_text(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(ToolError, match="line numbers"):
        bench(write_file, path="a", content=bench(read_file, path="a"))
    with pytest.raises(ToolError, match="unchanged"):
        bench(write_file, path="a", content=bench(read_file, path="a"))
    bench(write_file, path="t.md", content="1|x\n5|y\n2|z\n")
    assert (tmp_path / "a").read_text() == "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "~/.ssh/config", "~/.netrc", "~/.config/gh/hosts.yml", ".hermes-home/hermes.yaml"]
)
def test_credentials_and_system_files_are_not_written(bench: Any, path: str) -> None:
    with pytest.raises(ToolError):
        bench(write_file, path=path, content="x")


def test_a_link_is_no_way_to_a_system_file(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "etc").symlink_to("/etc")
    with pytest.raises(ToolError, match="not written"):
        bench(write_file, path="etc/hostname", content="x")


def test_write_roots_confine_all_writes(tmp_path: Path, bench: Any) -> None:
    inside = type(bench)(tmp_path, write_roots=[str(tmp_path / "in")])
    inside(write_file, path="in/a", content="x")
    with pytest.raises(ToolError, match="outside"):
        inside(write_file, path="out/a", content="x")


def test_a_directory_and_a_nul_in_the_name_are_refused_clearly(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for path, words in (("d", "directory"), ("a\0b", "NUL"), (" ", "empty")):
        with pytest.raises(ToolError, match=words):
            bench(write_file, path=path, content="x")


def test_the_same_text_is_not_written_again(bench: Any, tmp_path: Path) -> None:
    bench(write_file, path="a", content="x\n")
    before = (tmp_path / "a").stat().st_ino
    assert "already" in bench(write_file, path="a", content="x\n")
    assert (tmp_path / "a").stat().st_ino == before


def test_a_change_by_another_agent_since_the_last_read_is_told(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    bench(read_file, path="a")
    other = bench.other_session()
    other(write_file, path="a", content="by the other\n")
    assert "[warning: another agent changed" in bench(write_file, path="a", content="mine\n")
    (tmp_path / "a").write_text("by hand, outside\n")
    assert "[warning: another agent" not in bench(write_file, path="a", content="again\n")
    assert "warning" not in bench(write_file, path="a", content="and again\n")


def test_B032_readers_see_the_old_or_the_new_text_and_never_half(bench: Any, tmp_path: Path) -> None:
    texts = ["a" * 200_000, "b" * 200_000]
    path = tmp_path / "f"
    path.write_text(texts[0])
    done = threading.Event()
    seen: set[str] = set()

    def watch() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for n in range(40):
        bench(write_file, path="f", content=texts[n % 2 - 1])
    done.set()
    watcher.join()
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["f"]
