"""The command line's frame: our commands in a table, plugins' by name; each is imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from hermes.kernel.cli.exits import run_click
from hermes.kernel.cli.invocation import Invocation
from hermes.kernel.cli.version import version_line
from hermes.kernel.discovery import EntryPoint, scan


class Command(NamedTuple):
    """A command of ours: `module` has it as `command`; `help` is its line in `hermes --help`."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "run": Command("hermes.kernel.cli.run", "Give the agent a task and print its answer."),
    "sessions": Command("hermes.kernel.cli.sessions", "List, show, export, fork and delete stored sessions."),
    "config": Command("hermes.kernel.cli.config", "Check, show and create settings."),
    "plugins": Command("hermes.kernel.cli.plugins", "List installed plugins, look at one, start a new one."),
    "providers": Command("hermes.kernel.cli.providers", "List providers, and try whether one answers."),
    "models": Command("hermes.kernel.cli.models", "List models and what is known of them; fetch local ones."),
}

COMMAND_GROUP = "hermes.commands"


class LazyGroup(click.Group):
    """Knows every command by name; imports the one that is called, and nothing for help and completion."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_plugin_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (known := COMMANDS.get(cmd_name)) is not None:
            from importlib import import_module

            command: click.Command = import_module(known.module).command
            return command
        if (entry_point := _plugin_commands().get(cmd_name)) is not None:
            from hermes.kernel.cli.plugincommand import load_command

            return load_command(entry_point, is_completion=ctx.resilient_parsing)
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(_help_lines())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if not ctx.resilient_parsing and word not in COMMANDS and word not in _plugin_commands():
            if word.startswith("-"):
                ctx.fail(f"there is no option {word}")
            ctx.fail(_unknown_command(word, args))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, text in _help_lines() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _plugin_commands() -> dict[str, EntryPoint]:
    """The commands of plugins by name; one of ours wins over a plugin's of the same name (`plugins list` shows it)."""
    return {e.name: e for e in scan().group(COMMAND_GROUP) if e.name not in COMMANDS}


def _help_lines() -> list[tuple[str, str]]:
    ours = [(name, command.help) for name, command in COMMANDS.items()]
    return ours + [(name, f"(plugin {entry_point.distribution})") for name, entry_point in _plugin_commands().items()]


def _unknown_command(word: str, args: Sequence[str]) -> str:
    if len(word.split()) == 1 and len(args) == 1:
        import difflib

        close = difflib.get_close_matches(word, [name for name, _ in _help_lines()], 1)
        if close:
            return f"there is no command {word}; did you mean `hermes {close[0]}`?"
    return f'there is no command {word!r}; did you mean `hermes run "{" ".join(args)}"`?'


def _print_version(ctx: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='--debug, anywhere, shows tracebacks. Start with: hermes run "what is in this directory?"',
)
@click.option(
    "--config",
    "config_files",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="Read settings from FILE too; repeatable, the last one is strongest.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
@click.pass_context
def app(ctx: click.Context, config_files: tuple[str, ...]) -> None:
    """Hermes: a small kernel that runs an agent, and plugins for everything else."""
    invocation = ctx.find_object(Invocation) or Invocation()
    ctx.obj = Invocation(files=config_files, debug=invocation.debug)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def run_app(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code. Never raises, never prints a traceback without --debug."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a terminal that cannot show a character must not end the run
            reconfigure(errors="backslashreplace")
    rest, debug = without_debug(arguments)
    # a command that has an option of that name gets it too, wherever it stood
    defaults = {name: {"debug": True} for name in COMMANDS} if debug else None
    return run_click(app, rest, debug=debug, obj=Invocation(debug=debug), default_map=defaults)


def without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Take `--debug` out of what stands before a `--`; was it there?"""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head = [word for word in arguments[:end] if word != "--debug"]
    return [*head, *arguments[end:]], len(head) < end
