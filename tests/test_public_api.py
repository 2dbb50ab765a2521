"""`hermes` exports what a plugin author may import, on first use, and costs nothing to import."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import hermes

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(set(hermes.__all__) - {"__version__"}))
def test_every_name_is_there(name: str) -> None:
    home = hermes._HOME.get(name) or hermes._MODULES[name]
    module = import_module(home)
    assert getattr(hermes, name) is (getattr(module, name) if name in hermes._HOME else module)


def test_importing_hermes_imports_nothing_beyond_the_package() -> None:
    code = (
        "import sys; before = set(sys.modules); import hermes\n"
        "new = set(sys.modules) - before\n"
        "assert not [m for m in new if m.startswith('hermes.')], new\n"
        "assert not {'typing_extensions', 'pluggy', 'click', 'yaml', 'dataclasses'} & new, new\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)


def test_importing_hookimpl_imports_pluggy_and_no_room_of_the_kernel() -> None:
    code = (
        "import sys; from hermes import hookimpl; assert not [m for m in sys.modules if m.startswith('hermes.kernel')]"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)


def test_a_name_that_is_not_public_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hermes.nothing  # noqa: B018
    assert not hasattr(hermes, "Registry")
    assert set(dir(hermes)) == set(hermes.__all__)


def test_the_block_for_type_checkers_names_the_same_things() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    named = {
        (alias.name, node.module if alias.name not in hermes._MODULES else f"{node.module}.{alias.name}")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert named == {*hermes._HOME.items(), *hermes._MODULES.items()}


def test_the_version_is_that_of_the_distribution() -> None:
    file = ROOT / "pyproject.toml"
    assert tomllib.loads(file.read_text(encoding="utf-8"))["project"]["version"] == hermes.__version__
