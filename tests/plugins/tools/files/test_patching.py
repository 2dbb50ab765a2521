"""patch: the nine ways to find a place, what keeps fuzzy finds from doing harm, and patches that are all or nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes import ToolError
from hermes.kernel.arguments import coerce
from hermes.kernel.schedule import conflict, resources_of
from hermes.plugins.tools.files.matching import MATCHERS, find
from hermes.plugins.tools.files.patching import patch
from hermes.plugins.tools.files.replacing import replace

CODE = "def f(x):\n    if x:\n        return  1\n    return 2\n"

FOUND: list[tuple[str, str, str, str, str]] = [
    ("exact", "a=1\nb=2\n", "b=2", "b=3", "a=1\nb=3\n"),
    ("blanks at line ends ignored", "a = 1  \nb = 2\n", "a = 1\nb = 2", "a = 9\nb = 2", "a = 9\nb = 2\n"),
    (
        "runs of blanks taken as one",
        CODE,
        "        return 1\n    return 2",
        "        return 3\n    return 2",
        CODE.replace("return  1", "return 3"),
    ),
    (
        "indentation ignored",
        CODE,
        "if x:\n    return  1",
        "if x:\n    y()\n    return  1",
        CODE.replace("        return  1", "        y()\n        return  1"),
    ),
    (
        "escapes decoded",
        'print("a")\nprint("b")\n',
        'print(\\"a\\")\\nprint(\\"b\\")',
        'print(\\"c\\")',
        'print("c")\n',
    ),
    ("blanks around ignored", "x = [1, 2]; y = 3\n", "\nx = [1, 2];\n", "\nx = [1];\n", "x = [1]; y = 3\n"),
    (
        "punctuation made plain",
        "say “hello” – now…\n",
        'say "hello" - now...',
        'say "goodbye" - now...',
        "say “goodbye” – now…\n",
    ),
    (
        "first and last line",
        "begin\n  middle one\nend\n",
        "begin\n  middle two\nend",
        "begin\n  other\nend",
        "begin\n  other\nend\n",
    ),
    (
        "similar lines",
        "a\nb\nc\nsomething\nelse\n",
        "a\nb\nc\nentirely",
        "a\nb\nX\nentirely",
        "a\nb\nX\nsomething\nelse\n",
    ),
]


@pytest.mark.parametrize(("matcher", "text", "old", "new", "expected"), FOUND)
def test_each_matcher_finds_what_those_before_it_do_not(
    matcher: str, text: str, old: str, new: str, expected: str
) -> None:
    replaced = replace(text, old, new)
    assert replaced.matcher == matcher
    assert replaced.text == expected


def test_there_are_nine_matchers_and_each_has_a_row() -> None:
    assert [row[0] for row in FOUND] == list(MATCHERS)
    assert len(MATCHERS) == 9


def test_a_text_that_is_there_more_than_once_is_refused_with_count_and_lines() -> None:
    with pytest.raises(ToolError, match=r"2 times \(lines 1, 3\)"):
        replace("a\nb\na\n", "a", "c")
    assert replace("a\nb\na\n", "a", "c", replace_all=True).text == "c\nb\nc\n"


def test_a_text_that_is_not_there_names_the_closest_lines() -> None:
    with pytest.raises(ToolError, match=r"(?s)closest lines.*2\|    return x \+ 1"):
        replace("def f(x):\n    return x + 1\n", "return x + 2", "return 3")


def test_one_wrong_line_is_never_taken_for_a_similar_one() -> None:
    with pytest.raises(ToolError, match="not found"):
        replace("A=0\nB=0\n", "A=1", "A=2")


def test_a_backslash_that_the_file_does_not_have_is_refused() -> None:
    with pytest.raises(ToolError, match="without the backslash"):
        replace('if y:\nx = "a" + 1\nend\n', 'if y:\nx = \\"a\\" + 2\nend', 'if y:\nx = \\"b\\" + 2\nend')


def test_tabs_are_decoded_only_where_the_file_has_them() -> None:
    assert replace("a\tb\n", "a\\tb", "c\\td").text == "c\td\n"
    assert replace('a "b"\n', 'a \\"b\\"', 'a \\"c\\t\\"').text == 'a "c\\t"\n'


def test_lines_that_the_model_left_alone_stay_as_the_file_has_them() -> None:
    text = "\tif a:\n\t\tb()   \n\t\tc()\n"
    assert replace(
        text, "if a:\n    b()\n    c()", "if a:\n    b()\n    d()"
    ).text == "\tif a:\n\t\tb()   \n\td()\n".replace("\td()", "\t    d()")


@settings(max_examples=200)
@given(st.text('ab \n\t“…\\"', max_size=30), st.text('ab \n\t“…\\"', min_size=1, max_size=8))
def test_spans_are_in_order_inside_the_text_and_do_not_overlap(text: str, wanted: str) -> None:
    for matcher in MATCHERS.values():
        end = 0
        for span in matcher(text, wanted):
            assert end <= span[0] <= span[1] <= len(text)
            end = span[1]


@settings(max_examples=200)
@given(st.text("ab \n", max_size=20), st.text("ab \n", min_size=1, max_size=5), st.text("ab \n", max_size=20))
def test_what_is_there_word_for_word_is_found_exactly_and_nothing_else_changes(head: str, old: str, tail: str) -> None:
    text = head + old + tail
    assert find(text, old)[0] == "exact"
    if text.find(old) == text.rfind(old):
        assert replace(text, old, "NEW").text == head + "NEW" + tail


# ---- the tool -------------------------------------------------------------------------------------------------------


def test_a_replacement_shows_the_change_and_keeps_form_and_mode(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (tmp_path / "a.sh").chmod(0o700)
    text = bench(patch, path="a.sh", old_string="one\ntwo", new_string="one\nthree")
    assert text.startswith("changed 1 place in a.sh\n@@")
    assert "-two\n+three" in text
    assert (tmp_path / "a.sh").read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"
    assert (tmp_path / "a.sh").stat().st_mode & 0o777 == 0o700


def test_bytes_that_are_not_utf8_survive_an_edit_beside_them(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xe9\nx=1\n")
    bench(patch, path="a", old_string="x=1", new_string="x=2")
    assert (tmp_path / "a").read_bytes() == b"caf\xe9\nx=2\n"


def test_a_fuzzy_find_is_told(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("  x = 1\n  y = 2\n")
    assert "found with: indentation ignored" in bench(
        patch, path="a", old_string="x = 1\ny = 2", new_string="x = 1\ny = 3"
    )
    assert (tmp_path / "a").read_text() == "  x = 1\n  y = 3\n"


def test_after_three_failures_the_model_is_told_to_read(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    for n in range(3):
        with pytest.raises(ToolError) as failed:
            bench(patch, path="a", old_string=f"nothing like it {n}", new_string="y")
    assert "read the file again" in str(failed.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs the arguments path"),
        ({"mode": "patch"}, "needs the argument patch"),
        ({"path": "a", "old_string": "", "new_string": "x"}, "empty"),
        ({"path": "a", "old_string": "x", "new_string": "x"}, "same"),
        ({"path": "missing", "old_string": "x", "new_string": "y"}, "does not exist"),
        ({"path": "a.json", "old_string": "1", "new_string": "1,"}, "not valid JSON"),
    ],
)
def test_calls_that_cannot_be_say_what_is_missing(
    bench: Any, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    (tmp_path / "a").write_text("x\n")
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(ToolError, match=words):
        bench(patch, **arguments)
    assert (tmp_path / "a.json").read_text() == "[1]"


def test_B032_parallel_edits_of_one_file_both_stay_under_any_spelling(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    rounds = 20
    (tmp_path / "state.txt").write_text("".join(f"A{n}=0\nB{n}=0\n" for n in range(rounds)))
    other = bench.other_session()

    def edit(who: Any, letter: str, path: str) -> None:
        for n in range(rounds):
            who(patch, path=path, old_string=f"{letter}{n}=0", new_string=f"{letter}{n}=1")

    threads = [
        threading.Thread(target=edit, args=(bench, "A", "state.txt")),
        threading.Thread(target=edit, args=(other, "B", "./x/../state.txt")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "=0" not in (tmp_path / "state.txt").read_text()


# ---- V4A ------------------------------------------------------------------------------------------------------------

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def g():
-    return 1
+    return 10
*** Add File: new/b.txt
+hello
+
+world
*** Delete File: gone.txt
*** Update File: c.txt
*** Move to: d.txt
 keep
-old
+new
*** Move File: e.txt -> f.txt
*** End Patch
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n\ndef g():\n    return 1\n")
    (tmp_path / "gone.txt").write_text("x")
    (tmp_path / "c.txt").write_text("keep\nold\nlast\n")
    (tmp_path / "c.txt").chmod(0o755)
    (tmp_path / "e.txt").write_text("e")
    return tmp_path


def test_a_patch_changes_adds_deletes_and_moves(bench: Any, tree: Path) -> None:
    text = bench(patch, mode="patch", patch=PATCH)
    assert (tree / "a.py").read_text() == "def f():\n    return 1\n\ndef g():\n    return 10\n"
    assert (tree / "new/b.txt").read_text() == "hello\n\nworld\n"
    assert (tree / "d.txt").read_text() == "keep\nnew\nlast\n"
    assert (tree / "d.txt").stat().st_mode & 0o777 == 0o755
    assert (tree / "f.txt").read_text() == "e"
    assert not any((tree / gone).exists() for gone in ("gone.txt", "c.txt", "e.txt"))
    assert "changed a.py" in text
    assert "deleted gone.txt" in text


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (PATCH.replace("-old", "-nothing like it\n-at all"), "hunk 1 of c.txt does not fit"),
        (PATCH.replace("@@ def g():\n", ""), "fits 2 places"),
        (PATCH.replace("new/b.txt", "a.py"), "there already"),
        (PATCH.replace("gone.txt", "missing.txt"), "does not exist"),
        (PATCH.replace("e.txt -> f.txt", "e.txt -> a.py"), "there already"),
        (PATCH.replace("new/b.txt", "../b.txt"), "refused"),
        (PATCH.replace("new/b.txt", "b.json"), "not valid JSON"),
        (PATCH.replace("*** Update File: a.py", "*** Update File: ~/.ssh/x"), "protect"),
        ("just text", "before any"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        (PATCH.replace("+hello", "hello"), "begins with \\+"),
    ],
)
def test_a_patch_with_any_mistake_changes_nothing(bench: Any, tree: Path, broken: str, words: str) -> None:
    before = {p: p.read_bytes() for p in tree.rglob("*") if p.is_file()}
    with pytest.raises(ToolError, match=words):
        bench(patch, mode="patch", patch=broken)
    assert {p: p.read_bytes() for p in tree.rglob("*") if p.is_file()} == before


def test_a_patch_whose_last_file_cannot_be_written_puts_the_others_back(bench: Any, tree: Path) -> None:
    (tree / "file").write_text("")
    before = {p: p.read_bytes() for p in tree.rglob("*") if p.is_file()}
    broken = PATCH.replace("*** Move File: e.txt -> f.txt", "*** Add File: file/below\n+x")
    with pytest.raises(ToolError, match="put back"):
        bench(patch, mode="patch", patch=broken)
    assert {p: p.read_bytes() for p in tree.rglob("*") if p.is_file()} == before


def test_a_patch_without_frame_and_with_unified_line_numbers_is_understood(bench: Any, tree: Path) -> None:
    bench(patch, patch="*** Update File: c.txt\n@@ -1,2 +1,2 @@\n keep\n-old\n+new\n")
    assert (tree / "c.txt").read_text() == "keep\nnew\nlast\n"


def test_a_hunk_is_whole_lines_never_the_middle_of_one(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("aa = 10\na = 1\n")
    bench(patch, patch="*** Update File: a\n-a = 1\n+a = 2\n")
    assert (tmp_path / "a").read_text() == "aa = 10\na = 2\n"


def test_hunks_may_insert_delete_and_append(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    bench(patch, patch="*** Update File: a\n@@ 1\n+1b\n@@ 2\n-3\n@@\n+end\n")
    assert (tmp_path / "a").read_text() == "1\n1b\n2\nend\n"


def test_B032_every_file_of_a_patch_is_declared(tmp_path: Path) -> None:
    touched = resources_of(patch, {"mode": "patch", "patch": PATCH}, tmp_path)
    names = {Path(p).name for p in touched.writes}
    assert names == {"a.py", "b.txt", "gone.txt", "c.txt", "d.txt", "e.txt", "f.txt"}
    assert conflict(touched, resources_of(patch, {"path": "x/../a.py"}, tmp_path))
    assert resources_of(patch, {}, tmp_path).exclusive


def test_the_schema_takes_what_models_send() -> None:
    assert coerce({"path": "a", "old_string": "1", "new_string": "2", "replace_all": "true"}, patch.parameters) == (
        {"path": "a", "old_string": "1", "new_string": "2", "replace_all": True},
        None,
    )
