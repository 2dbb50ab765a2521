"""`hermes plugins`: what is installed, from metadata alone. None is imported, so broken ones are shown too."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from hermes.kernel.cli.app import COMMAND_GROUP, COMMANDS
from hermes.kernel.contract import GROUPS
from hermes.kernel.discovery import Catalogue, EntryPoint, scan
from hermes.kernel.errors import UsageError

Row = Mapping[str, str]


@click.group("plugins")
def command() -> None:
    """List installed plugins, look at one, start a new one."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def list_plugins(as_json: bool) -> None:
    """List every plugin in this environment, and what keeps it from being loaded."""
    catalogue = scan()
    rows = [_row(entry_point, catalogue) for entry_point in catalogue.entry_points]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    _table(rows)
    for claim in catalogue.claims:
        click.echo(f"problem: {claim}", err=True)


@command.command()
@click.argument("name")
def info(name: str) -> None:
    """Show what is known of the plugin NAME (or KIND:NAME, or a distribution) without importing it."""
    catalogue = scan()
    found = [e for e in catalogue.entry_points if name in (e.name, e.label, e.distribution)]
    if not found:
        known = ", ".join(sorted({e.name for e in catalogue.entry_points})) or "none"
        raise UsageError(f"no plugin is called {name!r}; there are: {known}")
    for number, entry_point in enumerate(found):
        if number:
            click.echo()
        for label, text in _details(entry_point, catalogue):
            click.echo(f"{label + ':':14}{text}")


@command.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    help="Write it here; a new directory hermes-plugin-NAME when left out.",
)
def new(name: str, directory: str | None) -> None:
    """Write a complete small project for a tool plugin called NAME."""
    from pathlib import Path

    from hermes.kernel.cli.newplugin import write_project

    written = write_project(name, None if directory is None else Path(directory))
    click.echo(f"{written}: a tool plugin with its tests; next: cd {written} && pip install -e '.[test]' && pytest")


def _row(entry_point: EntryPoint, catalogue: Catalogue) -> Row:
    group = GROUPS.get(entry_point.group)
    return {
        "name": entry_point.name,
        "kind": entry_point.kind,
        "group": entry_point.group,
        "distribution": entry_point.distribution,
        "version": entry_point.version,
        "value": entry_point.value,
        "problem": _problem(entry_point, catalogue) if group else f"there is no group {entry_point.group}",
    }


def _problem(entry_point: EntryPoint, catalogue: Catalogue) -> str:
    """What metadata alone says against it; "" for nothing."""
    if (claim := catalogue.claim_on(entry_point)) is not None:
        return claim.text
    if entry_point.group == COMMAND_GROUP and entry_point.name in COMMANDS:
        return f"never called: hermes has a command {entry_point.name} of its own"
    return ""


def _table(rows: list[Row]) -> None:
    columns = ("name", "kind", "distribution", "version")
    widths = {column: max([len(column), *(len(row[column]) for row in rows)]) for column in columns}
    click.echo("  ".join(column.ljust(widths[column]) for column in columns).rstrip())
    for row in rows:
        line = "  ".join(row[column].ljust(widths[column]) for column in columns).rstrip()
        click.echo(f"{line}  PROBLEM" if row["problem"] else line)


def _details(entry_point: EntryPoint, catalogue: Catalogue) -> list[tuple[str, str]]:
    row = _row(entry_point, catalogue)
    group = GROUPS.get(entry_point.group)
    metadata = entry_point.source.metadata
    details = [
        ("name", entry_point.name),
        ("kind", group.kind if group else "unknown"),
        ("group", entry_point.group),
        ("distribution", f"{entry_point.distribution} {entry_point.version}"),
        ("summary", " ".join(metadata.get("summary", []))),
        ("value", entry_point.value),
        ("requires", ", ".join(each for each in entry_point.requires if "extra ==" not in each)),
        ("may have", ", ".join(group.hooks) if group else ""),
        ("loaded when", group.loaded_when if group else ""),
        ("installed in", entry_point.source.where),
        ("problem", row["problem"]),
    ]
    return [(label, text) for label, text in details if text]
