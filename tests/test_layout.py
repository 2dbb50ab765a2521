"""The plan of the house holds: floors, no circle, no import upward, packages, names, sizes."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hermes.kernel.discovery import scan

ROOT = Path(__file__).parents[1]
PARTS = ("kernel", "plugins", "testing")

# docs/architecture.md section 2: a room imports from floors below it, or from its own floor without a circle
FLOORS: dict[str, int] = {
    name: floor
    for floor, names in {
        0: "messages effects events endings errors providers sessions roles paths config.settings config.record",
        1: "history state arguments coercion lenient faults fault_rows retry_after budget schedule approval toolspec "
        "typeschema journal memorylog storing outcomes interrupts redact untrusted textcalls pricing structured sight "
        "toolnames timeouts",
        2: "recovery chain repairs context prompt",
        3: "turn asking auxiliary replies progress unanswered resting batch",
        4: "discovery registry plugins loading hookcalls observers onion items contract quiet greeting requirements "
        "config profiles credentials keystate facts probing choosing wireguard targets",
        5: "runtime modelcalls toolrunner turncontext running durable inbox replay",
        6: "tools",
        7: "services sidecalls titles conversation children crashed agent",
        8: "cli logs",
    }.items()
    for name in names.split()
}
LONG_FUNCTIONS_ALLOWED = 5
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}


def _files(*parts: str) -> list[Path]:
    return sorted(
        file
        for part in parts
        for file in (ROOT / part).rglob("*.py")
        if "__pycache__" not in file.parts and not any(piece.startswith(".") for piece in file.relative_to(ROOT).parts)
    )


def _module(file: Path) -> str:
    pieces = list(file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(["hermes", *(pieces[:-1] if pieces[-1] == "__init__" else pieces)])


FILES = {_module(file): file for file in _files(*PARTS)}
FILES |= {
    "hermes": ROOT / "__init__.py",
    "hermes.__main__": ROOT / "__main__.py",
    "hermes.hookspecs": ROOT / "hookspecs.py",
}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


@cache
def _imports(module: str) -> tuple[tuple[str, bool], ...]:
    """(name, is it imported when the module is) for each import in a module, those for type checking left out.

    A name is a module of ours, or the top-level package of somebody else's.
    """
    tree = _tree(module)
    found: list[tuple[str, bool]] = []
    type_checking = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    lazy = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in type_checking:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(module, node)
            whole = [f"{source}.{alias.name}" for alias in node.names]
            names = [name if name in FILES else source for name in whole]
        else:
            continue
        for name in names:
            known = name if name in FILES or name == "importlib.metadata" else name.partition(".")[0]
            found.append((known, id(node) not in lazy))
    return tuple(found)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    """The module that an import names; a dot counts from the package that the importing module is in."""
    if not node.level:
        return str(node.module)
    package = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]
    start = package[: len(package) - node.level + 1]
    return ".".join([*start, node.module] if node.module else start)


def _room(module: str) -> str:
    """The room of a kernel module: `cli` for hermes.kernel.cli.app, `turn` for hermes.kernel.turn."""
    inside = module.removeprefix("hermes.kernel.")
    return inside if inside in FLOORS else inside.partition(".")[0]


KERNEL = [name for name in FILES if name.startswith("hermes.kernel.")]


def _floor(module: str, seen: tuple[str, ...] = ()) -> int:
    """Its floor; a piece of a room that is not in the table stands just above what it imports."""
    room = _room(module)
    if room in FLOORS:
        return FLOORS[room]
    below = [name for name, _ in _imports(module) if name.startswith("hermes.kernel.") and name not in seen]
    return max((_floor(name, (*seen, module)) for name in below), default=0)


@pytest.mark.parametrize("module", KERNEL)
def test_a_room_imports_only_from_its_own_floor_and_below(module: str) -> None:
    here = _floor(module)
    upward = [
        name
        for name, _ in _imports(module)
        if name.startswith("hermes.kernel.") and _room(name) != _room(module) and _floor(name) > here
    ]
    assert not upward, f"{module} (floor {here}) imports {upward}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: _at_import(name) - {name} for name in FILES}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " → ".join((*way[way.index(name) :], name))
        if name in done:
            return
        for to in sorted(graph[name]):
            visit(to, (*way, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_the_kernel_knows_no_plugin_by_name_and_ships_no_test_code() -> None:
    for module in KERNEL:
        for name, _ in _imports(module):
            assert not name.startswith(("hermes.plugins", "hermes.testing")), f"{module} imports {name}"


PLUGINS = {e.value for e in scan().entry_points if e.is_own and e.value in FILES}


def _plugin_of(module: str) -> str:
    """The plugin that a module belongs to: itself or its folder; "" for one that several plugins may share."""
    return next((plugin for plugin in PLUGINS if module == plugin or module.startswith(f"{plugin}.")), "")


def test_no_plugin_imports_another_and_nothing_imports_testing() -> None:
    for module in FILES:
        for name, _ in _imports(module):
            if module.startswith("hermes.plugins."):
                assert _plugin_of(name) in ("", _plugin_of(module)), f"{module} imports {name}"
            if not module.startswith("hermes.testing"):
                assert not name.startswith("hermes.testing"), f"{module} imports {name}"


SDKS = {"openai", "anthropic", "boto3", "httpx2", "xllamacpp", "jsonschema", "json_repair", "importlib.metadata"}


def _at_import(module: str) -> set[str]:
    """The modules of ours that importing this one imports."""
    return {name for name, at_import in _imports(module) if at_import and name in FILES}


@pytest.mark.parametrize("start", ["hermes", "hermes.hookspecs", *KERNEL, *sorted(PLUGINS)])
def test_no_sdk_is_imported_before_the_call_that_needs_it(start: str) -> None:
    reached, todo = {start}, [start]
    while todo:
        for name in _at_import(todo.pop()) - reached:
            reached.add(name)
            todo.append(name)
    for module in reached:
        early = {name for name, at_import in _imports(module) if at_import} & SDKS
        assert not early, f"importing {start} imports {module}, and so {early}"


def test_the_packages_of_pyproject_are_those_of_the_tree() -> None:
    file = ROOT / "pyproject.toml"
    listed = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    there = {_module(each) for each in _files(*PARTS) if each.name == "__init__.py"} | {"hermes"}
    assert sorted(listed) == sorted(there)
    for each in _files(*PARTS):
        assert (each.parent / "__init__.py").exists(), f"{each.parent} has modules and no __init__.py"


def test_no_module_at_the_root_bears_the_name_of_a_standard_one() -> None:
    at_root = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert not (at_root - {"__init__", "__main__"}) & set(sys.stdlib_module_names)


def test_no_module_is_called_by_a_name_that_says_nothing() -> None:
    assert not [module for module in FILES if module.rpartition(".")[2] in BANNED_NAMES]


@pytest.mark.parametrize("module", FILES)
def test_no_module_is_longer_than_400_lines(module: str) -> None:
    assert len(FILES[module].read_text(encoding="utf-8").splitlines()) <= 400


def _functions(module: str) -> Iterator[tuple[str, int, str]]:
    """(name, lines, first line) of each function."""
    lines = FILES[module].read_text(encoding="utf-8").splitlines()
    for node in ast.walk(_tree(module)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1, lines[node.lineno - 1]


def test_no_function_is_longer_than_60_lines_without_a_reason() -> None:
    long = [
        (module, name, length, "# long:" in first)
        for module in FILES
        for name, length, first in _functions(module)
        if length > 60
    ]
    assert not [each for each in long if not each[3]]
    assert len(long) <= LONG_FUNCTIONS_ALLOWED


def test_no_constructor_takes_more_than_6_arguments() -> None:
    for module in FILES:
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                count = len(node.args.args) + len(node.args.kwonlyargs) - 1
                assert count <= 6 or module in EXCEPTIONS_AS_DATA, f"{module}:{node.lineno} takes {count}"


EXCEPTIONS_AS_DATA = {"hermes.kernel.providers"}
"""WireFault carries what a transport saw: data with a class that can be raised."""
