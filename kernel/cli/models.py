"""`hermes models`: which models there are, what is known of each, and how to get those that run on this machine.

The rows come through the `register_providers` hook; a provider that can fetch weights has two methods more (`Fetches`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Protocol, TextIO

import click

from hermes.kernel.cli.invocation import config_option
from hermes.kernel.cli.opening import open_targets
from hermes.kernel.cli.tables import print_table
from hermes.kernel.errors import UsageError
from hermes.kernel.providers import Fetches, Provider

HEADS = ("MODEL", "HERE", "WINDOW", "OUTPUT", "IN", "OUT", "CACHED", "CAN", "KNOWN FROM", "NOTE")
LINE_EVERY_S = 5.0
"""Where stderr is no terminal, progress that only moves on is told so often."""
REDRAW_EVERY_S = 0.1


@click.group("models")
def command() -> None:
    """List models and what is known of them; fetch those that run on this machine."""


@command.command("list")
@click.argument("provider", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@click.option("--refresh", is_flag=True, help="Ask every provider whose key is there, not only PROVIDER.")
@config_option
@click.pass_context
def list_models(ctx: click.Context, provider: str | None, as_json: bool, refresh: bool) -> None:
    """List the models of PROVIDER, else of every provider that can be used now: those with a key, and local ones.

    PROVIDER and local servers are asked for what they have; of the others it is what the snapshot says that comes
    with hermes. Prices are in USD a million tokens.
    """
    from hermes.kernel.cli.listing import Listing

    listing = Listing(open_targets(ctx), ask_all=refresh)
    rows = listing.of(provider) if provider else listing.usable()
    for problem in listing.problems:
        click.echo(f"hermes: {problem}", err=True)
    if as_json:
        click.echo(json.dumps([row.as_json() for row in rows], ensure_ascii=False, indent=2))
    elif rows:
        print_table(HEADS, [row.cells() for row in rows])
    elif not listing.problems:
        click.echo("no models: no key is set and no local server answers; see `hermes providers list`", err=True)


@command.command()
@click.argument("model", metavar="PROVIDER:MODEL")
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
@config_option
@click.pass_context
def show(ctx: click.Context, model: str, as_json: bool) -> None:
    """Show what is known of one model, and who says so; a local server is asked."""
    from hermes.kernel.cli.listing import Listing

    row = Listing(open_targets(ctx)).one(model)
    if as_json:
        click.echo(json.dumps(row.as_json(), ensure_ascii=False, indent=2))
        return
    for label, text in row.details():
        click.echo(f"{label + ':':21}{text}")


@command.command()
@click.argument("model", metavar="NAME|PATH.gguf|URL")
@click.option("--provider", "provider_name", metavar="NAME", help="Where several providers can fetch.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@config_option
@click.pass_context
def fetch(ctx: click.Context, model: str, provider_name: str | None, quiet: bool) -> None:
    """Bring a model onto this machine: a name of `models list`, a GGUF file, or the URL of one.

    The sum of a known model is checked. Nothing that is fetched is installed or run. An interrupted fetch goes on
    where it was.
    """
    provider = _fetcher(open_targets(ctx).plugin_providers(), model, provider_name)
    if not quiet:
        for row in provider.models():
            if row.name == model and row.note:
                click.echo(f"{model}: {row.note}", err=True)
    progress = ProgressLines(sys.stderr, quiet=quiet)
    try:
        path = provider.fetch(model, progress.report)
    finally:
        progress.end()
    click.echo(str(path))
    if not quiet:
        click.echo(f'next: hermes run --model {provider.profile.name}:{path.stem} "…"', err=True)


class _FetchingProvider(Provider, Fetches, Protocol):
    pass


def _fetcher(providers: Sequence[Provider], model: str, name: str | None) -> _FetchingProvider:
    """The provider to fetch with: the one named, else one that lists the model, else the first that can fetch."""
    able: list[_FetchingProvider] = [p for p in providers if isinstance(p, Fetches)]
    if name is not None:
        able = [provider for provider in able if provider.profile.name == name]
    if not able:
        what = f"provider {name!r}" if name else "installed provider"
        raise UsageError(f"no {what} can fetch models; `hermes plugins list` shows what is installed")
    return next((p for p in able if any(row.name == model for row in p.models())), able[0])


class ProgressLines:
    """Progress on stderr: one line that is redrawn on a terminal, else a line for each step and every few seconds."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream, self._quiet, self._live = stream, quiet, stream.isatty()
        self._what, self._told, self._width = "", 0.0, 0

    def report(self, what: str, share: float | None) -> None:
        """See `providers.Report`."""
        now = time.monotonic()
        pause = REDRAW_EVERY_S if self._live else LINE_EVERY_S
        if self._quiet or (what == self._what and now - self._told < pause):
            return
        self._what, self._told = what, now
        line = what if share is None else f"{what} ({share:.0%})"
        if self._live:
            self._stream.write(f"\r{line.ljust(self._width)}")
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def end(self) -> None:
        if self._live and self._width:
            self._stream.write("\n")
            self._stream.flush()
