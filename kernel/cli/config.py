"""`hermes config`: look at settings, check them, begin a file, trust a project's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes.kernel.config import load, sources
from hermes.kernel.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from hermes.kernel.config.nodes import Problem

_CONFIG = click.option(
    "--config", "config_files", multiple=True, type=click.Path(path_type=Path), help="Read this file too; repeatable."
)


@click.group("config")
def command() -> None:
    """Look at settings, check them, begin a file, trust a project's."""


@command.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@_CONFIG
@click.pass_context
def validate(context: click.Context, files: tuple[Path, ...], config_files: tuple[Path, ...]) -> None:
    """Name every mistake as file:line:column.

    Checks FILES, or all settings that apply here.
    """
    from hermes.kernel.config.validating import validate as validate_all

    given = _given(context, config_files)
    checked, warnings = validate_all(files, given, _cwd(), os.environ)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"no mistakes in {', '.join(map(str, checked))}" if checked else "no settings files; defaults apply")


@command.command()
@click.option("--origin", "with_origin", is_flag=True, help="Say where each value comes from.")
@_CONFIG
@click.pass_context
def show(context: click.Context, with_origin: bool, config_files: tuple[Path, ...]) -> None:
    """Print the settings in effect as YAML; secrets as ***."""
    from hermes.kernel.config import document, text
    from hermes.kernel.config.plugin_schemas import merged_schema

    loaded = load({}, _given(context, config_files), _cwd(), os.environ)
    problems: list[Problem] = []
    defaults = document.parse(sources.shipped_defaults().encode(), "hermes.yaml", problems)
    if defaults is None:
        raise SettingsError([str(problem) for problem in problems])
    warnings = list(loaded.warnings)
    schema = merged_schema(None, warnings) if _has_plugin_settings(loaded.tree.value) else merged_schema({}, warnings)
    for warning in dict.fromkeys(warnings):
        click.echo(f"warning: {warning}", err=True)
    click.echo(text.show(loaded, defaults, schema, with_origin=with_origin), nl=False)


@command.command()
def schema() -> None:
    """Print the JSON Schema for your editor.

    The settings of installed plugins are in it.
    """
    from hermes.kernel.config.plugin_schemas import editor_schema

    warnings: list[str] = []
    text = json.dumps(editor_schema(warnings), indent=2, ensure_ascii=False)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(text)


@command.command()
@click.option("--user", is_flag=True, help="Your own file, whether it exists or not.")
@_CONFIG
@click.pass_context
def path(context: click.Context, user: bool, config_files: tuple[Path, ...]) -> None:
    """Print the files that are read here.

    Strongest first.
    """
    own = sources.user_file()
    if user:
        if own is None:
            raise UsageError("no home directory is known for this user; set HERMES_HOME")
        click.echo(own)
        return
    project = sources.project_file(_cwd())
    found = [*reversed(_given(context, config_files)), *([project] if project else [])]
    for file in found + ([own] if own and sources.is_there(own) else []):
        click.echo(file)


@command.command()
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(force: bool) -> None:
    """Write a hermes.yaml to begin with.

    Every setting is explained in it, and all but `model` are commented out.
    """
    from hermes.kernel.config import text, writing

    target = _cwd() / sources.FILE_NAME
    content = text.commented_defaults(sources.shipped_defaults()).encode()
    try:
        if force:
            writing.replace(target, content)
        else:
            writing.create(target, content)
    except FileExistsError:
        raise UsageError(f"{target} is there already; --force writes over it") from None
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from None
    click.echo(f"wrote {target}")


@command.command()
@click.option("--remove", is_flag=True, help="Trust it no longer.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def trust(file: Path | None, remove: bool) -> None:
    """Trust this project's hermes.yaml.

    It may then touch approval, providers and plugins and use ${...}, until it changes. Read it first.
    """
    from hermes.kernel.config import document
    from hermes.kernel.config import trust as trusting

    target = file or sources.project_file(_cwd())
    if target is None:
        raise UsageError("no hermes.yaml from here upward to the root of the repository; name the file")
    problems: list[Problem] = []
    content = sources.read_bytes(target, problems)
    try:
        if remove:
            trusting.distrust(target)
            click.echo(f"{target} is not trusted")
            return
        tree = document.parse(content, str(target), problems) if content is not None else None
        if content is None or tree is None or problems:
            raise SettingsError([str(problem) for problem in problems])
        trusting.trust(target, content)
    except OSError as error:
        raise UsageError(f"cannot note it in the home of hermes: {error.strerror or error}") from None
    for one in trusting.needs_trust(tree, target.parent):
        click.echo(f"allowed: {one.origin}: {_key(one)}")
    click.echo(f"{target} is trusted until it changes")


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("the working directory does not exist any more; go to another") from None


def _key(problem: Problem) -> str:
    from hermes.kernel.config.nodes import key_of

    return key_of(problem.path)


def _given(context: click.Context, own: Sequence[Path]) -> list[Path]:
    """The files of --config before the command, then those after it."""
    return [*getattr(context.obj, "config_files", ()), *own]


def _has_plugin_settings(tree: Mapping[str, Any]) -> bool:
    return "plugins" in tree and "settings" in tree["plugins"].value
