"""hookspecs.py, the table of kinds and docs/hooks.md are one contract."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path

import pytest

from hermes import hookspecs
from hermes.kernel.contract import ALL_HOOKS, GROUPS, PREFIXES, kind_of
from hermes.kernel.items import ANSWERS, ROLES
from hermes.kernel.loading import HOOK_ARGUMENTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "hooks.md"


def _page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", HOOK_ARGUMENTS)
def test_every_hook_is_documented_with_its_kind_and_has_few_arguments(hook: str) -> None:
    function = getattr(hookspecs, hook)
    text = inspect.getdoc(function) or ""
    assert len(HOOK_ARGUMENTS[hook]) <= 4
    assert re.search(rf"\bkind {kind_of(hook)}\b", text, re.IGNORECASE), text
    assert len(text) > 40


def test_the_page_names_every_hook_and_no_other() -> None:
    listed = _page().partition("## The hooks")[2].partition("## One table")[0]
    named = set(re.findall(rf"`((?:{'|'.join(PREFIXES)})\w+)", listed))
    named |= set(re.findall(r"/\s*`(after_\w+)`", listed))
    assert named == set(HOOK_ARGUMENTS)


def test_the_page_shows_the_arguments_of_every_hook() -> None:
    for hook, arguments in re.findall(r"`((?:provide|decide|choose|around)_\w+)\(([^)]*)\)`", _page()):
        assert tuple(re.findall(r"\w+", arguments)) == HOOK_ARGUMENTS[hook]


def test_the_table_of_the_page_is_the_table_of_the_kernel() -> None:
    rows = re.findall(r"^\| (.+?) \| `(hermes\.\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", _page(), re.MULTILINE)
    assert [group for _, group, *_ in rows] == list(GROUPS)
    for kind, name, noun, hooks, loaded_when in rows:
        group = GROUPS[name]
        assert (kind, noun, loaded_when) == (group.kind, group.noun, group.loaded_when)
        shown = ALL_HOOKS if hooks == "all" else tuple(re.findall(r"`(\w+_\w+)`", hooks))
        assert shown == group.hooks, name
        assert group.is_data == ("package:file.json" in hooks)


def test_every_group_of_pyproject_is_in_the_table() -> None:
    file = ROOT / "pyproject.toml"
    groups = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert {group for group in groups if group.startswith("hermes.")} <= set(GROUPS)


def test_what_a_hook_may_answer_is_checked_for_every_hook_whose_answer_counts() -> None:
    collect = {hook for hook in HOOK_ARGUMENTS if kind_of(hook) == "collect"}
    asked = {hook for hook in HOOK_ARGUMENTS if kind_of(hook) in ("gather", "decide", "choose")}
    assert set(ROLES) == collect
    assert set(ANSWERS) == asked


def test_a_hook_with_a_group_of_its_own_is_in_no_other() -> None:
    named = [hook for group in GROUPS.values() for hook in group.hooks if hook != "all"]
    assert len(named) == len(set(named))
    assert set(named) <= set(HOOK_ARGUMENTS)


def test_the_file_imports_nothing_but_pluggy_when_it_runs() -> None:
    tree = ast.parse(Path(hookspecs.__file__).read_text(encoding="utf-8"))
    imported = [
        alias.name if isinstance(node, ast.Import) else node.module
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    assert set(imported) <= {"__future__", "typing", "pluggy"}
