"""`hermes run [PROMPT]`: the command and its options; what it does stands in `front.py`."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click

from hermes.kernel.cli.invocation import Invocation, config_option
from hermes.kernel.cli.run_settings import RunOptions

_EPILOG = (
    "The answer goes to stdout, everything else to stderr. The exit code says how the run ended: 0 completed, 2 usage, "
    "3 settings, 4 key or credit, 5 provider, 6 budget, 7 needs a person, 8 incomplete, 9 refused, 10 context full, "
    "11 plugin, 12 store, 130 interrupted."
)


@click.command("run", epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", metavar="[PROMPT]...", nargs=-1)
@click.option("-f", "--file", metavar="FILE", help="Read the prompt from FILE (- is standard input).")
@click.option("-m", "--model", metavar="PROVIDER:MODEL", help="The model for this run; auto chooses one.")
@click.option(
    "-o",
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="The answer as text, one JSON object, or one JSON event a line.",
)
@click.option("--schema", metavar="FILE", help="Answer with JSON that fits the JSON Schema in FILE (JSON or YAML).")
@click.option("--image", "images", metavar="FILE", multiple=True, help="Show an image; may be given several times.")
@click.option("--session", metavar="NAME", help="Go on with the session of this title, or begin it.")
@click.option("-c", "--continue", "newest", is_flag=True, help="Go on with the newest session of this directory.")
@click.option("-r", "--resume", metavar="ID", help="Go on with a session; without a prompt, finish its open turn.")
@click.option("--fork", is_flag=True, help="Go on in a copy; the session itself stays as it is.")
@click.option("--max-iterations", "--max-turns", type=click.IntRange(min=1), help="Most calls of the model.")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), help="Most time for the turn.")
@click.option("-t", "--toolsets", metavar="LIST", help="Toolsets, divided by commas; none for none.")
@click.option("--system-prompt", metavar="TEXT", help="Text added to the system prompt of a new session.")
@click.option("--dry-run", is_flag=True, help="Show what would run, and start nothing.")
@click.option("-i", "--interactive", is_flag=True, help="Ask at the terminal where a person is needed.")
@click.option("-q", "--quiet", is_flag=True, help="No notices, no tool lines, no spinner.")
@click.option("-v", "--verbose", count=True, help="Show more; twice shows most.")
@config_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Give PROMPT to the model and let it work until it has an answer.

    A pipe beside a prompt is context: `git diff | hermes run "review this"`.
    """
    invocation = ctx.find_object(Invocation) or Invocation()
    options = RunOptions(**given, debug=invocation.debug)
    if options.dry_run:  # apart, since it must be quick: it needs neither display nor events
        from hermes.kernel.cli.dry_run import show

        click.echo(show(options, invocation.config_files))
        return
    from hermes.kernel.cli.front import run

    leave(ctx, run(options, invocation.config_files))


def leave(ctx: click.Context, code: int) -> None:
    """Exit with the code; at once where a thread was left behind, since the interpreter would wait for it."""
    import threading

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):  # told before, where it could be told
                stream.flush()
    if any(thread is not threading.current_thread() and thread.is_alive() for thread in threading.enumerate()):
        import logging

        logging.shutdown()
        os._exit(code)
    ctx.exit(code)
