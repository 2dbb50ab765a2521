"""What was said on the command line beside the command itself, and the options that every command shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound="Callable[..., Any] | click.Command")


@dataclass(frozen=True, slots=True)
class Invocation:
    """`ctx.obj` of every command. `config_files` as given, the last strongest.

    `debug`: `--debug` stood anywhere before a `--`. It is taken out before click sees it, and a command that declares
    the option gets it as its default.
    """

    config_files: tuple[Path, ...] = ()
    debug: bool = False


def config_option(command: Decorated) -> Decorated:
    """Add `--config FILE` to a command: its files join those given before the command, in `ctx.obj.config_files`."""
    return click.option(
        "--config",
        "config_files",
        type=click.Path(path_type=Path),
        multiple=True,
        expose_value=False,
        callback=_add_config_files,
        help="Read settings from FILE too; repeatable, the last one is strongest.",
        metavar="FILE",
    )(command)


def _add_config_files(ctx: click.Context, _parameter: click.Parameter, files: tuple[Path, ...]) -> None:
    invocation = ctx.find_object(Invocation) or Invocation()
    ctx.obj = replace(invocation, config_files=(*invocation.config_files, *files))
