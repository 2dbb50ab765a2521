"""What commands need of the settings: the session store, or the providers; only their plugins are imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.kernel.cli.invocation import Invocation
from hermes.kernel.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from hermes.kernel.config.settings import Settings
    from hermes.kernel.events import Notice
    from hermes.kernel.services import Services
    from hermes.kernel.sessions import SessionStore, StoreFactory
    from hermes.kernel.targets import Targets


def open_store(ctx: click.Context) -> SessionStore:
    """Open it until the command ends.

    Raises SettingsError for a store that no plugin brings, StoreError when it cannot be opened, UsageError when the
    settings say that nothing is stored.
    """
    from hermes.kernel.config import load
    from hermes.kernel.paths import home

    invocation = ctx.find_object(Invocation) or Invocation()
    settings = load({}, invocation.config_files, Path.cwd(), os.environ).settings
    if settings.sessions.store in ("memory", "none"):
        raise UsageError(f"sessions.store is {settings.sessions.store!r}: there are no stored sessions")
    store = _factory(ctx, settings).open_store(settings.sessions, home())
    ctx.call_on_close(store.close)
    return store


def open_services(ctx: click.Context) -> Services:
    """What an agent stands on, until the command ends; its notices go to stderr."""
    from hermes.kernel.config import load
    from hermes.kernel.events import Notice
    from hermes.kernel.services import build

    invocation = ctx.find_object(Invocation) or Invocation()
    settings = load({}, invocation.config_files, Path.cwd(), os.environ).settings
    services = build(settings, lambda event: click.echo(event.text, err=True) if isinstance(event, Notice) else None)
    ctx.call_on_close(services.close)
    return services


def open_targets(ctx: click.Context) -> Targets:
    """The providers and models of the settings, until the command ends; a broken plugin is told on stderr."""
    from hermes.kernel.config import load, read_boolean
    from hermes.kernel.discovery import scan
    from hermes.kernel.plugins import Plugins
    from hermes.kernel.targets import Targets

    invocation = ctx.find_object(Invocation) or Invocation()
    settings = load({}, invocation.config_files, Path.cwd(), os.environ).settings
    catalogue = scan()
    plugins = Plugins(
        settings.plugins,
        catalogue,
        report=lambda notice: click.echo(notice.text, err=True),
        strict=read_boolean("HERMES_STRICT_PLUGINS", os.environ),
    )
    ctx.call_on_close(plugins.close)
    targets = Targets(settings, catalogue, plugins, os.environ)
    ctx.call_on_close(targets.close)
    return targets


def _factory(ctx: click.Context, settings: Settings) -> StoreFactory:
    from hermes.kernel.discovery import scan
    from hermes.kernel.plugins import Plugins

    name = settings.sessions.store
    notices: list[Notice] = []
    plugins = Plugins(settings.plugins, scan(), report=notices.append)
    ctx.call_on_close(plugins.close)
    plugins.load("hermes.stores", [name])
    collected = plugins.collect("register_session_stores", "hermes.stores", settings=settings.sessions)
    for _, factory in collected:
        if factory.name == name:
            for notice in notices:
                click.echo(f"hermes: {notice.text}", err=True)
            found: StoreFactory = factory
            return found
    why = plugins.problem("hermes.stores", name) or "no plugin of that name is installed"
    raise SettingsError(f"sessions.store: the session store {name!r} cannot be used: {why}; see `hermes plugins list`")
