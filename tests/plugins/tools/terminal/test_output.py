"""What the model reads of an output: bounded, plain, its beginning and its end."""

from __future__ import annotations

import itertools
import random
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.plugins.tools.terminal.output import Output


def shown(*pieces: bytes, most: int = 1000) -> str:
    output = Output(most)
    for piece in pieces:
        output.feed(piece)
    output.close()
    return output.text()


def test_B104_a_flood_is_kept_as_head_and_tail_in_bounded_memory(run: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = run("echo first; yes | head -c 200M; echo last")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    assert len(text) <= 50_000
    assert text.startswith("first\ny\ny\n")
    assert text.endswith("y\nlast\n[exit code 0]")
    assert " characters left out of 209715211 bytes; the first 20000000 bytes at most are in " in text


def test_B104_what_was_left_out_is_in_a_file(run: Any) -> None:
    text = run("seq 1 20000")
    path = Path(text.partition("are in ")[2].partition(" …]")[0])
    assert path.read_text() == "".join(f"{n}\n" for n in range(1, 20001))
    assert path.name == "call-output.txt"
    head, tail = text.split("\n[… ")
    assert len(head) == int(48_000 * 0.4)
    assert tail.endswith("19999\n20000\n[exit code 0]")


def test_a_short_output_leaves_no_file(run: Any, tmp_path: Path) -> None:
    run("echo x")
    assert not (tmp_path / ".hermes-home").exists()


def test_an_output_whose_file_cannot_be_written_is_shown_without_it(run: Any, tmp_path: Path) -> None:
    (tmp_path / ".hermes-home").write_text("in the way")
    text = run("seq 1 20000")
    assert "characters left out" in text
    assert "are in" not in text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x1b[31mred\x1b[0m \x1b[1;38;5;200mx\x1b[K", "red x"),
        (b"\x1b]0;title\x07a\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "alink"),
        (b"\x1b]11;rgb:0c0c/0c0c/0c0c\x07hi", "hi"),
        (b"\x1b(Ba\x1b7b\x1b=c\x1bMd", "abcd"),
        (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        (b"10%\r50%\r", "50%"),
        (b"a\r\nb\r\r\n", "a\nb\n"),
        (b"b\bbo\bol\bld\bd", "bold"),
        (b"a\0b\0", "a b "),
        (b"bell\x07\x0c\x7f", "bell"),
        ("\x9b31mc1\x85".encode(), "c1"),
        ("é漢🐈".encode(), "é漢🐈"),
        (b"\xff\xfe\x00a", "�� a"),
        (b"caf\xe9", "caf�"),
        (b"\x1b[", ""),
        (b"open \x1b]0;never ends", "open "),
        (b"", ""),
    ],
)
def test_B104_B113_control_sequences_and_odd_bytes(data: bytes, expected: str) -> None:
    whole = shown(data)
    assert whole == expected or (b"never ends" in data and whole.startswith(expected))
    assert shown(*(data[n : n + 1] for n in range(len(data)))) == whole


def test_B113_bytes_that_are_no_text_never_break_a_call(run: Any) -> None:
    assert run(r"printf '\377\376\000a'") == "�� a\n[exit code 0]"
    assert run(r"printf '\252\n'") == "�\n[exit code 0]"


def test_B104_a_binary_file_is_told_not_shown(run: Any) -> None:
    text = run("cat /bin/ls")
    assert text.startswith("[binary output, ")
    assert "begins with 7f 45 4c 46" in text
    assert text.endswith("[exit code 0]")
    assert len(text) < 500


def test_B104_one_line_of_a_megabyte(run: Any) -> None:
    text = run("head -c 1000000 /dev/zero | tr '\\0' x; echo end")
    assert len(text) <= 50_000
    assert text.endswith("xend\n[exit code 0]")


def test_B104_colours_do_not_count() -> None:
    text = shown(*[b"\x1b[32mok\x1b[0m\n"] * 200)
    assert text == "ok\n" * 200


def test_B104_a_progress_bar_of_megabytes_is_its_last_state() -> None:
    output = Output(1000)
    for n in range(20_000):
        output.feed(b"\r%5d of 20000 files copied" % n)
    output.feed(b"\nready\n")
    output.close()
    assert output.text() == "19999 of 20000 files copied\nready\n"


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5))
def test_how_an_output_is_divided_changes_nothing_and_no_control_is_left(data: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(c for c in cuts if c < len(data)), len(data)]
    text = shown(*(data[a:b] for a, b in itertools.pairwise(bounds)))
    assert text == shown(data)
    if not text.startswith("[binary output"):
        assert not [c for c in text if (ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160]


@given(st.lists(st.text("ab\n", max_size=300), max_size=20), st.integers(10, 200))
def test_head_and_tail_are_those_of_the_whole(pieces: list[str], most: int) -> None:
    whole = "".join(pieces)
    text = shown(*(p.encode() for p in pieces), most=most)
    if len(whole) <= most:
        assert text == whole
    else:
        head, tail = text.split("\n[… ")[0], text.rpartition(" …]\n")[2]
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) == most


def test_ten_megabytes_of_anything_are_taken_in_seconds() -> None:
    chosen = random.Random(7)
    for line in (
        b"plain text\n",
        b"\x1b[31mred\x1b[0m\n",
        b"\x1b]",
        b"\r",
        b"\x1b[0",
        b"\b",
        b"x",
        chosen.randbytes(4096),
    ):
        output = Output(50_000)
        data = line * (65_536 // len(line))
        began = time.process_time()
        for _ in range(40):
            output.feed(data)
        output.close()
        output.text()
        assert time.process_time() - began < 5, line[:20]
