"""docs/cases.md and the tests agree: what it calls tested bears its id, and no test bears an id that is not there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "cases.md"

CASE = re.compile(r"(?<![A-Za-z0-9])B\d{3}(?!\d)")
NUMBER = re.compile(r"(?<![A-Za-z0-9])\d{3,5}b?(?![A-Za-z0-9])")
SPEC_NAME = re.compile(r"test_(?:B\d{3}_)*spec_((?:\d+b?_|B\d{3}_|spec_)+)")
"""Names of tests as `test_spec_9486_33317_…`; numbers of one or two digits are sections: `test_spec_3_2_9_…`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the page. `files`: where it is tested; `otherwise`: why it is not, or what of it is left out."""

    ids: tuple[str, ...]
    what: str
    files: tuple[str, ...]
    otherwise: str


@cache
def page() -> tuple[Row, ...]:
    rows: list[Row] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        ids = (*CASE.findall(cells[0]), *NUMBER.findall(cells[0]))
        if line.startswith("|") and ids:
            rows.append(Row(ids, cells[1], tuple(re.findall(r"`([^`]+)`", cells[2])), cells[3]))
    return tuple(rows)


def ids_of(name: str) -> Iterator[str]:
    """The ids that the name of a test function, or the id of a parameter, bears."""
    yield from CASE.findall(name.replace("_", " "))
    if found := SPEC_NAME.match(name):
        yield from NUMBER.findall(found[1].replace("_", " "))


def names_in(tree: ast.Module) -> Iterator[str]:
    """The names of the test functions of a file, and the texts in their decorators.

    A text at the head of a row of a test of section 13 is a number of it: `("58446", 404, …)`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name
            for inner in (inner for decorator in node.decorator_list for inner in ast.walk(decorator)):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.value
                elif isinstance(inner, ast.Tuple) and node.name.startswith("test_spec_13_"):
                    yield f"test_spec_{getattr(inner.elts[0], 'value', '')}_"


@cache
def borne() -> Mapping[str, frozenset[str]]:
    """The files whose tests bear an id, by id."""
    files: dict[str, set[str]] = defaultdict(set)
    for file in TESTS.rglob("test_*.py"):
        for name in names_in(ast.parse(file.read_text(encoding="utf-8"))):
            for id in ids_of(name):
                files[id].add(file.relative_to(TESTS).as_posix())
    return {id: frozenset(names) for id, names in files.items()}


@pytest.mark.parametrize("row", page(), ids=lambda row: " ".join(row.ids))
def test_what_the_page_says_is_tested_is_in_the_name_of_a_test_there(row: Row) -> None:
    bearing = {file for id in row.ids for file in borne().get(id, ())}
    missing = [file for file in row.files if file not in bearing]
    assert not missing, f"no test in {missing} bears one of {row.ids}"
    assert row.files or row.otherwise, "neither a test nor a reason"
    assert row.files or not bearing, f"the page says that it is not tested, and {sorted(bearing)} say so"


def test_every_id_stands_on_the_page_once() -> None:
    listed = [id for row in page() for id in row.ids]
    assert sorted(listed) == sorted(set(listed))
    unlisted = {id: sorted(files) for id, files in borne().items() if id not in listed}
    assert not unlisted, f"tests bear ids that docs/cases.md does not list: {unlisted}"


def test_ids_are_read_from_names_and_sections_are_no_ids() -> None:
    assert [*ids_of("test_spec_3_2_9_B046_null_and_404")] == ["B046"]
    assert [*ids_of("test_B008_spec_28490b_15812_own_4096_tokens")] == ["B008", "28490b", "15812"]
    assert [*ids_of("B024 in a here document")] == ["B024"]
    assert [*ids_of("test_4096_tokens")] == []
