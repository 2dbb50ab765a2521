"""A subcommand of a plugin: imported when it is called, and named when it is broken."""

from __future__ import annotations

import click

from hermes.kernel.discovery import EntryPoint, scan
from hermes.kernel.errors import PluginError


def load_command(entry_point: EntryPoint, *, is_completion: bool) -> click.Command:
    """Import the click command that an entry point in `hermes.commands` names.

    Raises PluginError when it is broken; while a shell completes, an empty command instead, which offers nothing.
    """
    from hermes.kernel.hookcalls import ON_PURPOSE
    from hermes.kernel.loading import Refused, find, load_object
    from hermes.kernel.registry import IMPORT_DEADLINE_S

    try:
        command = load_object(find(scan(), entry_point.group, entry_point.name), IMPORT_DEADLINE_S)
        if not isinstance(command, click.Command):
            raise Refused(f"{entry_point.value} is a {type(command).__name__}, where a click command is meant")
    except ON_PURPOSE:
        raise
    except Refused as refusal:
        if is_completion:
            return click.Command(entry_point.name, add_help_option=False)
        raise PluginError(
            f"{entry_point}: {refusal}", plugin=entry_point.name, distribution=entry_point.distribution
        ) from None
    return command
