"""YAML without surprises: what plain words mean, what is refused, and where each mistake is said to be."""

from __future__ import annotations

import pytest
import yaml

from hermes.kernel.config import document
from hermes.kernel.config.nodes import Problem


def parsed(text: str | bytes) -> object:
    problems: list[Problem] = []
    node = document.parse(text if isinstance(text, bytes) else text.encode(), "f", problems)
    assert problems == []
    assert node is not None
    return node.plain()


def refused(text: str | bytes) -> list[str]:
    problems: list[Problem] = []
    document.parse(text if isinstance(text, bytes) else text.encode(), "f", problems)
    return [str(problem) for problem in problems]


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "OFF", "y", "n", "2026-11-30", "1:30", "12:30", "0123"])
def test_B153_words_that_yaml_1_1_turns_into_something_else_stay_text(word: str) -> None:
    assert parsed(f"x: {word}") == {"x": word}


@pytest.mark.parametrize("word", ["08080", "0x1F", "0o17", "1_000", "1e999", ".inf", ".nan", "9" * 5000])
def test_B153_numbers_that_surprise_stay_text_for_the_schema_to_refuse(word: str) -> None:
    assert parsed(f"x: {word}") == {"x": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [("true", True), ("false", False), ("null", None), ("~", None), ("", None), ("-5", -5), ("1.5", 1.5), ("1e3", 1e3)],
)
def test_the_core_schema_reads_these(word: str, value: object) -> None:
    assert parsed(f"x: {word}") == {"x": value}


def test_quotes_and_the_text_tag_always_make_text() -> None:
    assert parsed("a: 'true'\nb: \"1\"\nc: !!str 5\nd: |\n  off\n") == {"a": "true", "b": "1", "c": "5", "d": "off\n"}


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n", "---\n", "\ufeff"])
def test_B124_an_empty_file_is_fine(text: str) -> None:
    assert parsed(text) == {}


def test_B153_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    assert parsed("\ufeffmodel: abc\r\nlimits:\r\n  iterations: 5\r\n") == {"model": "abc", "limits": {"iterations": 5}}


def test_B124_a_repeated_key_is_refused_with_both_lines() -> None:
    assert refused("model: a\nx: 1\nmodel: b\n") == [
        "f:3:1: model: this key is already on line 1; remove one of the two"
    ]


@pytest.mark.parametrize(
    ("text", "kind"), [("- a\n", "a list"), ("words\n", "a single value"), ("5", "a single value")]
)
def test_B124_a_file_that_is_no_mapping_is_refused(text: str, kind: str) -> None:
    assert refused(text) == [f"f:1:1: the file is {kind}; settings are a mapping such as 'model: auto'"]


def test_B124_a_tab_is_named() -> None:
    assert refused("limits:\n\titerations: 5\n")[0].startswith("f:2:1: ")
    assert "with blanks, not with tabs" in refused("limits:\n\titerations: 5\n")[0]


def test_B124_a_value_with_items_below_it_is_refused_with_its_line() -> None:
    assert refused("enabled: '[]'\n  - x\n")[0].startswith("f:2:3: ")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("fallback: [${env:X}]\n", "inside [ ] or { } needs"),
        ("p: {a: {api_key: ${env:X}}}\n", "inside [ ] or { } needs"),
        ("x: ${env:X:?set it: now}\n", "it has ': ' inside"),
        ("x:\n  - *.env\n", "begins with a character that means something"),
        ("x: @a\n", "begins with a character that means something"),
        ("x: `a`\n", "begins with a character that means something"),
        ('x: "C:\\dir"\n', "use single quotes"),
        ("model: openai: gpt-5\n", "put the value in quotes"),
        ("a: 1\n---\nb: 2\n", "one document"),
    ],
)
def test_a_syntax_error_says_what_to_do(text: str, hint: str) -> None:
    (line,) = refused(text)
    assert hint in line


@pytest.mark.parametrize(
    "data", ["model: 模型".encode("gbk"), "model: ä".encode("cp1252"), "model: a".encode("utf-16")]
)
def test_B022_another_encoding_is_a_visible_error_with_its_place(data: bytes) -> None:
    (line,) = refused(data)
    assert line.startswith("f:1:")
    assert "not UTF-8" in line


def test_B022_utf_8_is_read_whatever_the_system_says() -> None:
    assert parsed("model: ◕‿◕ 模型\n") == {"model": "◕‿◕ 模型"}


def test_columns_count_characters_not_bytes() -> None:
    assert refused("模型: {a: 1, a: 2}\n")[0].startswith("f:1:12: ")


def test_aliases_work_and_are_bounded() -> None:
    assert parsed("a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    for name, before in zip("bcdef", "abcde", strict=True):
        bomb += f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    (line,) = refused(bomb)
    assert "more than 10,000 values" in line


def test_an_alias_inside_itself_is_refused() -> None:
    assert "an alias (*name) inside itself" in refused("x: &a [*a]\n")[0]
    assert "an alias (*name) inside itself" in refused("x: &a {b: *a}\n")[0]


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "- " * 100_000, "a: " + "[" * 60 + "]" * 60])
def test_deep_nesting_is_an_error_not_a_crash(text: str) -> None:
    assert "deep" in refused(text)[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x: {<<: {a: 1}}", "<< is not supported"),
        ("1: x", "the key 1 is not text"),
        ("true: x", "the key true is not text"),
        ("[a]: x", "a key must be text"),
        ("x: !python/object:os.system y", "tags such as !name"),
        ("'${env:X}': y", "only in values"),
        ("x: a\x07b", "U+0007"),
        ("x: a\x00b", "U+0000"),
    ],
)
def test_what_is_not_settings_is_refused(text: str, what: str) -> None:
    (line,) = refused(text)
    assert what in line


def test_all_duplicate_keys_are_named_at_once() -> None:
    assert len(refused("a: 1\na: 2\nb: {c: 1, c: 2}\nb: 3\n")) == 3


def test_a_huge_file_is_refused_before_it_is_parsed() -> None:
    assert "not a settings file" in refused(b"#" * 1_000_001)[0]


def test_a_syntax_message_never_quotes_the_file() -> None:
    for text in ("k: 'sk-verysecret\n", "k: *sk-verysecret\n", "k: sk-verysecret: x\n", "k: {sk-verysecret\n"):
        assert all("verysecret" not in line for line in refused(text))


def test_the_pure_loader_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: on\nb: 0123\nc: '1'\nd: {e: [true, 1.5, ]}\nf:\n"
    fast = parsed(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert parsed(text) == fast
    assert "U+0007" in refused("x: a\x07b")[0]
    assert all("verysecret" not in line for line in refused("k: *sk-verysecret\n"))
    assert "deep" in refused("a: " + "[" * 5000)[0]
