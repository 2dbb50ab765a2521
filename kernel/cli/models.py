"""`hermes models`: what providers with code of their own can run on this machine, and how to get it.

The rows come through the `register_providers` hook; a provider that can fetch weights has two methods more (`Fetches`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

import click

from hermes.kernel.cli.invocation import Invocation, config_option
from hermes.kernel.errors import UsageError
from hermes.kernel.providers import Provider, Report

GROUP = "hermes.providers"
LINE_EVERY_S = 5.0
"""Where stderr is no terminal, progress that only moves on is told so often."""
REDRAW_EVERY_S = 0.1


@runtime_checkable
class Fetches(Protocol):
    """What a provider offers besides `Provider` when it can bring weights onto this machine."""

    def fetch(self, what: str, report: Report) -> Path:
        """Fetch a model by name, GGUF path or URL; returns its file. Raises ProviderError or UsageError."""
        ...

    def stored(self) -> Mapping[str, Path]:
        """The models that are here: name and file."""
        ...


@click.group("models")
def command() -> None:
    """List and fetch models that run on this machine."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@config_option
@click.pass_context
def list_models(ctx: click.Context, as_json: bool) -> None:
    """List the models that can be fetched, and those that are here."""
    with _providers(ctx) as providers:
        rows = [row for provider in providers for row in _rows(provider)]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for row in rows:
        where = "here" if row["path"] else "not fetched"
        window = f"{row['window_tokens']:,} tokens" if row["window_tokens"] else ""
        parts = (f"{row['provider']}:{row['name']}", where, window, row["note"])
        click.echo("  ".join(part for part in parts if part))
    if not rows:
        click.echo("no provider in this environment runs models of its own", err=True)


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
    with _providers(ctx) as providers:
        provider = _fetcher(providers, model, provider_name)
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


@contextmanager
def _providers(ctx: click.Context) -> Iterator[list[Provider]]:
    """Load every provider with code of its own; a broken one is told on stderr and left out."""
    from hermes.kernel.config import load, read_boolean
    from hermes.kernel.discovery import scan
    from hermes.kernel.plugins import Plugins

    invocation = ctx.find_object(Invocation) or Invocation()
    settings = load({}, invocation.config_files, Path.cwd(), os.environ).settings
    catalogue = scan()
    plugins = Plugins(
        settings.plugins,
        catalogue,
        report=lambda notice: click.echo(notice.text, err=True),
        strict=read_boolean("HERMES_STRICT_PLUGINS", os.environ),
    )
    providers: list[Provider] = []
    try:
        plugins.load(GROUP, [entry_point.name for entry_point in catalogue.group(GROUP)])
        providers.extend(item for _, item in plugins.collect("register_providers", GROUP))
        yield providers
    finally:
        for provider in providers:
            provider.close()
        plugins.close()


def _rows(provider: Provider) -> list[dict[str, Any]]:
    stored = provider.stored() if isinstance(provider, Fetches) else {}
    return [
        {
            "provider": provider.profile.name,
            **asdict(row),
            "path": str(stored[row.name]) if row.name in stored else None,
        }
        for row in provider.models()
    ]


def _fetcher(providers: list[Provider], model: str, name: str | None) -> _FetchingProvider:
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
