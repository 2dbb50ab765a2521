"""Refuse what does not end by itself: servers, watchers, and commands that are sent to the background."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes.plugins.tools.terminal.shell_calls import Call, calls_of
from hermes.plugins.tools.terminal.shell_parts import Unparsable

ADVICE = (
    "This tool waits for its command, and ends what the command leaves running. Use one that ends by itself, or give "
    "it a bound such as `timeout 20 …`; processes in the background come with the process tool, which is not here yet."
)


@dataclass(frozen=True, slots=True)
class Server:
    """A program that serves or watches. `words` is matched against its arguments, joined by blanks."""

    names: frozenset[str]
    words: str = ""


def _server(names: str, words: str = "") -> Server:
    return Server(frozenset(names.split()), words)


# Specification of tools 1.1, foreground guard, with the like of each ecosystem.
SERVERS: tuple[Server, ...] = (
    _server("npm pnpm yarn bun", r"^(run )?(dev|start|serve|watch|preview)(:\S+)?( |$)"),
    _server("npx pnpx bunx", r"^(\S+ )?(vite|nodemon|next dev|serve|http-server|live-server)( |$)(?!build)"),
    _server("docker podman", r"^compose (\S+ )*up(?!.* (-d|--detach))( |$)"),
    _server("docker-compose", r"^(\S+ )*up(?!.* (-d|--detach))( |$)"),
    _server("next nuxt astro remix gatsby", r"^(dev|start|develop)( |$)"),
    _server("vite", r"^(?!build|optimize)"),
    _server("webpack", r"(^| )(serve|--watch|-w)( |$)"),
    _server("tsc jest vitest", r"(^| )(--watch|--watchAll|-w|watch)( |$)"),
    _server("nodemon uvicorn gunicorn hypercorn daphne http-server live-server webpack-dev-server browser-sync"),
    _server("flask", r"^(--\S+ (\S+ )?)*run( |$)"),
    _server("fastapi", r"^(dev|run)( |$)"),
    _server("rails", r"^(s|server)( |$)"),
    _server("ng hugo", r"^(serve|server)( |$)"),
    _server("jekyll mkdocs", r"^serve( |$)"),
    _server("python", r"(^| )-m (http\.server|uvicorn|gunicorn|flask run)( |$)|manage\.py runserver"),
    _server("php", r"(^| )-S "),
    _server("jupyter", r"^(lab|notebook|server)( |$)(?!list|stop)"),
    _server("jupyter-lab jupyter-notebook"),
    _server("tail", r"(^| )(-\w*[fF]|--follow\S*)( |$)"),
    _server("watch inotifywait", r"^(?!.*-t \d)"),
    _server("redis-server mongod", r"^(?!.*(--daemonize|--fork))"),
)

_DETACHING = frozenset({"nohup", "disown", "setsid"})
_ASKS_ONLY = re.compile(r"(^| )(--?help|-h|--?version|-V|help|version)( |$)")
_BOUNDED = frozenset({"timeout", "gtimeout"})


def refusal(command: str) -> str | None:
    """Why a command is not run in the foreground; None when nothing speaks against it.

    What is quoted, or stands in a here-document, is no call. A command that cannot be read is left to `assess`.
    """
    try:
        calls, _ = calls_of(command)
    except Unparsable:
        return None
    for call in calls:
        if call.name in _DETACHING and not _ASKS_ONLY.search(" ".join(call.texts[:1])):
            return f"{call.name} takes a process away from this tool. {ADVICE}"
        if server := _serves(call):
            return f"`{server}` does not end by itself. {ADVICE}"
    if calls and calls[-1].in_background:
        return f"A trailing & sends the command to the background. {ADVICE}"
    return None


def _serves(call: Call) -> str:
    if _BOUNDED & set(call.via) or call.in_background:  # a server in the background of a longer command ends with it
        return ""
    words = " ".join(call.texts[:12])[:400]
    if _ASKS_ONLY.search(words):
        return ""
    for server in SERVERS:
        if (call.name in server.names or call.family in server.names) and re.search(server.words, words):
            return f"{call.name} {words}".strip()[:60]
    return ""
