"""Read every source, check each, and merge them by precedence into typed settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.kernel.config import sources
from hermes.kernel.config.build import build
from hermes.kernel.config.check import adapt, check, check_bare_variables
from hermes.kernel.config.nodes import DEFAULT, Node, Origin, Problem, key_of, leaves, merge, texts
from hermes.kernel.config.schema import SCHEMA, leaf_schemas
from hermes.kernel.config.settings import Settings
from hermes.kernel.errors import SettingsError

if TYPE_CHECKING:
    from dataclasses import dataclass

    from hermes.kernel.discovery import Catalogue
else:
    from hermes.kernel.config.record import dataclass


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where each came from.

    `origins` has every key, dotted (`limits.iterations`, `providers.work.base_url`). `files` are those read, strongest
    first; `project_file` is the one found from the working directory. `warnings` are lines that stop nothing.
    `tree` is what was set, without defaults, for `config show`.
    """

    settings: Settings
    origins: Mapping[str, Origin]
    project_file: Path | None = None
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    tree: Node = field(default_factory=lambda: Node({}, DEFAULT, DEFAULT), repr=False)


def load(
    flags: Mapping[str, Any],
    config_files: Sequence[Path],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    catalogue: Catalogue | None = None,
) -> Loaded:
    """Merge flags > HERMES_* > `config_files` (the last is strongest) > project > user > defaults.

    `flags` are by dotted key, None for one that was not given. `catalogue` brings the schemas of plugins' settings; it
    is scanned when there are such settings and none is given. Raises SettingsError with every mistake of every source.
    """
    problems: list[Problem] = []
    warnings: list[str] = []
    project = sources.project_file(cwd)
    if any(project and sources.is_same(project, path) for path in config_files):
        project = None  # named by hand, so trusted, and as strong as that
    user = sources.user_file()
    merged = Node({}, DEFAULT, DEFAULT)
    files: list[Path] = []
    for path, is_project in _files(user, project, config_files):
        files.insert(0, path)
        if tree := read_file(path, environ, problems, is_project=is_project):
            merged = merge(merged, tree)
    for tree in (sources.from_environment(environ), sources.from_flags(flags)):
        _check(tree, problems)
        merged = merge(merged, tree)
    if not problems:
        _check_plugins(merged, catalogue, problems, warnings)
    if problems:
        raise SettingsError([str(problem) for problem in problems])
    return Loaded(build(Settings, merged.plain()), _origins(merged), project, tuple(files), tuple(warnings), merged)


def read_file(
    path: Path, environ: Mapping[str, str], problems: list[Problem], *, is_project: bool = False
) -> Node | None:
    """Parse, fill in and check one file; None, with problems, when it cannot be used."""
    found: list[Problem] = []
    content = sources.read_bytes(path, found)
    tree = None if content is None else _parsed(content, path, environ, found, is_project)
    if tree is not None:
        _check(tree, found)
    problems += sorted(found, key=_by_place)
    return tree


def _parsed(
    content: bytes, path: Path, environ: Mapping[str, str], problems: list[Problem], is_project: bool
) -> Node | None:
    from hermes.kernel.config import document, references

    tree = document.parse(content, str(path), problems)
    if tree is None:
        return None
    refused = _refused(tree, path, content) if is_project else []
    problems += refused or references.fill_in(tree, path.parent, environ)
    return tree


def _files(user: Path | None, project: Path | None, given: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """The files to read, weakest first, and whether each is a project's."""
    if user is not None and sources.is_there(user):
        yield user, False
    if project is not None:
        yield project, True
    for path in given:
        yield path, False


def _refused(tree: Node, path: Path, content: bytes) -> list[Problem]:
    from hermes.kernel.config import references, trust

    found = list(trust.needs_trust(tree, path.parent))
    if not found or trust.is_trusted(path, content):
        return []
    for _, node in texts(tree):
        node.broken = references.has_reference(node.value)
    why = "the project's file has changed since you trusted it" if trust.was_trusted(path) else (
        "this project's file is not trusted"
    )  # fmt: skip
    remedy = f"{why}: read it, then run `hermes config trust`, or move the key to your own file"
    return [Problem(one.origin, one.path, f"{one.text}, {remedy}") for one in found]


def _check(tree: Node, problems: list[Problem]) -> None:
    adapt(tree, SCHEMA)
    problems += check(tree, SCHEMA)
    problems += check_bare_variables(tree, SCHEMA)


def _check_plugins(merged: Node, catalogue: Catalogue | None, problems: list[Problem], warnings: list[str]) -> None:
    """Check `plugins.settings.NAME` by each plugin's own schema, on the merged tree: a schema may require keys."""
    plugins = merged.value.get("plugins")
    given = plugins.value.get("settings") if plugins else None
    if given is None or not given.value:
        return
    from hermes.kernel.config.plugin_schemas import plugin_schemas

    schemas = plugin_schemas(catalogue, warnings)
    for name, node in given.value.items():
        if name in schemas:
            path = ("plugins", "settings", name)
            adapt(node, schemas[name])
            found = [*check(node, schemas[name], path), *check_bare_variables(node, schemas[name], path)]
            problems += sorted(found, key=_by_place)


def _by_place(problem: Problem) -> tuple[str, int, int]:
    return problem.origin.name, problem.origin.line, problem.origin.column


def _origins(merged: Node) -> dict[str, Origin]:
    origins = {key_of(path): DEFAULT for path, _ in leaf_schemas()}
    for path, node in leaves(merged):
        origins[key_of(path)] = node.origin
    return origins
