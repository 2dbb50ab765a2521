"""`config validate`: the run's own check, and jsonschema's second opinion on the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.kernel.config.loading import load, read_file
from hermes.kernel.config.nodes import Node, Problem, key_of
from hermes.kernel.config.plugin_schemas import merged_schema, plugin_schemas
from hermes.kernel.config.schema import unsupported
from hermes.kernel.errors import SettingsError


def validate(
    files: Sequence[Path], config_files: Sequence[Path], cwd: Path, environ: Mapping[str, str]
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Check `files`, or everything that applies in `cwd`; returns what was checked, and warnings.

    Raises SettingsError with every mistake.
    """
    warnings: list[str] = []
    schemas = plugin_schemas(None, warnings)
    for name, schema in schemas.items():
        if words := unsupported(schema):
            warnings.append(f"the settings schema of plugin {name} uses {', '.join(words)}, which hermes run ignores")
    if files:
        problems: list[Problem] = []
        trees = [tree for path in files if (tree := read_file(path, environ, problems))]
        lines = [str(problem) for problem in problems]
    else:
        loaded = load({}, config_files, cwd, environ)
        trees, lines, files = [loaded.tree], [], loaded.files
    for tree in trees:
        lines += [] if lines else list(_second_opinion(tree, merged_schema(schemas, warnings)))
        warnings += _unknown_plugins(tree, schemas)
    if lines:
        raise SettingsError(lines)
    return tuple(files), tuple(dict.fromkeys(warnings))


def _second_opinion(tree: Node, schema: Mapping[str, Any]) -> Iterator[str]:
    """What jsonschema finds; its own words quote values, so only the place and the rule are told."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(schema)
    for error in validator.iter_errors(tree.plain()):
        node = tree
        for part in error.absolute_path:
            node = node.value[part]
        yield str(Problem(node.origin, tuple(error.absolute_path), f"does not fit its schema ({error.validator})"))


def _unknown_plugins(tree: Node, schemas: Mapping[str, Any]) -> list[str]:
    plugins = tree.value.get("plugins")
    settings = plugins.value.get("settings") if plugins else None
    return [
        f"{node.key}: {key_of(('plugins', 'settings', name))}: no installed plugin brings a schema for it: not checked"
        for name, node in (settings.value.items() if settings else ())
        if name not in schemas
    ]
