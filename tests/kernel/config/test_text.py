"""What is written can be read again, and means the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hermes.kernel.config import document, sources, text
from hermes.kernel.config.nodes import Problem


def again(written: str) -> Any:
    problems: list[Problem] = []
    node = document.parse(written.encode(), "f", problems)
    assert problems == [], written
    assert node is not None
    return node.plain()


WORDS = ["on", "off", "null", "true", "0123", "1e3", "12:30", "a: b", "x #y", "- a", "*", "&x", "@", "`", "%", "!t", ""]


@pytest.mark.parametrize(
    "word", [*WORDS, "a:b", "~", "~/x", ".inf", "模型", "a\nb", "'", '"', "\\", "{a}", "[", "\x85"]
)
def test_a_word_comes_back_as_it_was(word: str) -> None:
    assert again(f"k: {text.flow(word)}\n") == {"k": word}
    assert again(f"k: [{text.flow(word)}, x]\n") == {"k": [word, "x"]}
    assert again(f"k: {{{text.flow(word)}: 1}}\n") == {"k": {word: 1}}


def test_any_value_comes_back_as_it_was() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)

    def value(depth: int) -> Any:
        kind = rng.randrange(6 if depth else 4)
        if kind == 4:
            return [value(depth - 1) for _ in range(rng.randrange(3))]
        if kind == 5:
            return {value(0) if rng.randrange(2) else rng.choice(WORDS): value(depth - 1) for _ in range(2)}
        return rng.choice([None, True, 5, -1.5, *WORDS])

    for _ in range(300):
        found = {"k": value(3)}
        if all(isinstance(key, str) for key in _keys(found)):
            assert again(f"k: {text.flow(found['k'])}\n") == found, f"seed {seed}"


def _keys(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    return []


def test_the_file_for_beginners_says_nothing_but_the_model() -> None:
    written = text.commented_defaults(sources.shipped_defaults())
    assert again(written) == {"model": "auto"}


def test_the_file_for_beginners_is_the_shipped_one_with_one_sign_before_each_setting() -> None:
    shipped = sources.shipped_defaults()
    lines = zip(text.commented_defaults(shipped).splitlines(), shipped.splitlines(), strict=True)
    assert all(line in (old, f"#{old}") for line, old in lines)
