"""Tables for a terminal: columns as wide as they need to be, lines no longer than the screen."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

import click

from hermes.kernel.cli.display import plain


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads. On a terminal a line that is too long is cut; elsewhere it is whole."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table_lines(heads, rows, width):
        click.echo(line)


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """The lines of a table. A column in which nothing stands is left out; `width` None cuts nothing."""
    cells = [[plain(cell) for cell in row] for row in rows]
    shown = [place for place in range(len(heads)) if any(row[place] for row in cells)]
    widths = {place: max(len(row[place]) for row in [heads, *cells]) for place in shown}
    for row in [heads, *cells]:
        line = "  ".join(row[place].ljust(widths[place]) for place in shown).rstrip()
        yield line if width is None or len(line) <= width else line[: width - 1] + "…"
