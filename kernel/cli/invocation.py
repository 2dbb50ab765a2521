"""What was said on the command line beside the command itself, and the options that every command shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

Decorated = TypeVar("Decorated", bound="Callable[..., Any] | click.Command")


@dataclass(frozen=True, slots=True)
class Invocation:
    """`ctx.obj` of every command. `files` are the settings files as given, the last strongest.

    `debug`: `--debug` stood anywhere before a `--`. It is taken out before click sees it, and a command that declares
    the option gets it as its default.
    """

    files: tuple[str, ...] = ()
    debug: bool = False

    @property
    def config_files(self) -> tuple[Path, ...]:
        from pathlib import Path  # a tenth of the time of `--help`

        return tuple(map(Path, self.files))


def config_option(command: Decorated) -> Decorated:
    """Add `--config FILE` to a command: its files join those given before the command, in `ctx.obj.config_files`."""
    return click.option(
        "--config",
        "config_files",
        type=click.Path(),
        multiple=True,
        expose_value=False,
        callback=_add_config_files,
        help="Read settings from FILE too; repeatable, the last one is strongest.",
        metavar="FILE",
    )(command)


def _add_config_files(ctx: click.Context, _parameter: click.Parameter, files: tuple[str, ...]) -> None:
    invocation = ctx.find_object(Invocation) or Invocation()
    ctx.obj = replace(invocation, files=(*invocation.files, *files))
