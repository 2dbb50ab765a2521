"""`hermes sessions`: what is stored, to look at, to take away, to copy, to delete."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from hermes.kernel.cli.display import plain
from hermes.kernel.cli.invocation import config_option
from hermes.kernel.cli.opening import open_services, open_store
from hermes.kernel.cli.transcripts import FORMATS, info_to_json, readable, session_to_json
from hermes.kernel.errors import UsageError
from hermes.kernel.sessions import SessionInfo, SessionStore

_TABLE_ROWS = 20

_session = click.argument("session", metavar="ID")


@config_option
@click.group("sessions")
def command() -> None:
    """List, show, export, name, fork and delete stored sessions. ID is an id, the beginning of one, or a title."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@click.option("--here", is_flag=True, help="Only sessions of the working directory.")
@click.option("--children", is_flag=True, help="Delegated sessions too.")
@click.option("--limit", type=click.IntRange(min=0), help=f"At most so many; 0 for all. Default {_TABLE_ROWS}.")
@click.pass_context
def list_sessions(ctx: click.Context, as_json: bool, here: bool, children: bool, limit: int | None) -> None:
    """List sessions, newest activity first. With --json all of them, unless --limit says otherwise."""
    wanted = (0 if as_json else _TABLE_ROWS) if limit is None else limit
    directory = str(Path.cwd()) if here else None
    found = open_store(ctx).list(directory=directory, children=children, limit=wanted + 1 if wanted else None)
    shown = found[:wanted] if wanted else found
    if as_json:
        click.echo(json.dumps([info_to_json(info) for info in shown], ensure_ascii=False, indent=2))
    elif not shown:
        click.echo("no sessions yet" if not here else f"no sessions in {directory}", err=True)
    else:
        _print_table(shown)
        if len(found) > len(shown):
            click.echo("there are more: --limit 0 shows all", err=True)


@command.command()
@_session
@click.option("--json", "as_json", is_flag=True, help="Print an object with the messages.")
@click.option("--full", is_flag=True, help="Do not shorten long tool results.")
@click.pass_context
def show(ctx: click.Context, session: str, as_json: bool, full: bool) -> None:
    """Print the conversation of a session."""
    store = open_store(ctx)
    snapshot = store.open(store.find(session)).load()
    if as_json:
        click.echo(json.dumps(session_to_json(snapshot), ensure_ascii=False, indent=2))
    else:
        click.echo(readable(snapshot, result_max_lines=None if full else 12))


@command.command()
@_session
@click.option("--format", "kind", type=click.Choice(sorted(FORMATS)), default="jsonl", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.pass_context
def export(ctx: click.Context, session: str, kind: str, output: Path | None) -> None:
    """Write a session out.

    jsonl has everything, a message a line, superseded ones too; markdown is for people; openai is the body of a
    chat.completions request.
    """
    store = open_store(ctx)
    session_id = store.find(session)
    text = FORMATS[kind](store.open(session_id).load(), store.messages(session_id))
    if output is None:
        click.echo(text, nl=False)
        return
    _write(output, text)
    click.echo(f"{output}: session {session_id} as {kind}", err=True)


@command.command()
@_session
@click.pass_context
def fork(ctx: click.Context, session: str) -> None:
    """Copy a session and print the id of the copy: the original stays as it is."""
    store = open_store(ctx)
    click.echo(store.fork(store.find(session)))


@command.command()
@_session
@click.argument("text", required=False)
@click.option("--generate", is_flag=True, help="Ask the auxiliary model for one (a paid call where models cost).")
@click.pass_context
def title(ctx: click.Context, session: str, text: str | None, generate: bool) -> None:
    """Give a session a title, and print it."""
    if (text is not None) == generate:
        raise UsageError("give either a title or --generate")
    store = open_store(ctx)
    session_id = store.find(session)
    words = plain(text) if text is not None else _generated(ctx, store, session_id)
    if not words.strip():
        raise UsageError("the title is blank")
    store.open(session_id).set_title(words)
    click.echo(words)


def _generated(ctx: click.Context, store: SessionStore, session_id: str) -> str:
    from hermes.kernel.titles import suggested_title

    return plain(suggested_title(open_services(ctx), store, session_id))


@command.command()
@_session
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def delete(ctx: click.Context, session: str, yes: bool) -> None:
    """Delete a session, with the sessions that were delegated from it."""
    store = open_store(ctx)
    session_id = store.find(session)
    info = store.info(session_id)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"session {session_id} was not deleted: there is no one to ask; add --yes")
        what = f"{session_id} ({plain(info.title) or 'no title'}, {info.messages} messages)"
        if not click.confirm(f"Delete session {what}?", err=True):
            click.echo("nothing was deleted", err=True)
            return
    store.delete(session_id)
    click.echo(f"deleted {session_id}", err=True)


@command.command()
@click.pass_context
def path(ctx: click.Context) -> None:
    """Print where the sessions are stored."""
    click.echo(open_store(ctx).path())


def _print_table(infos: Sequence[SessionInfo]) -> None:
    click.echo(f"{'ID':24}{'LAST ACTIVITY':18}{'ENDED':20}TITLE")
    for info in infos:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.updated))
        click.echo(f"{info.id:24}{when:18}{info.end_reason or '-':20}{plain(info.title) or '-'}")


def _write(target: Path, text: str) -> None:
    """Whole or not at all: a full disk leaves an older file as it was."""
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{target} cannot be written: {error.strerror}; give another file with -o") from error
