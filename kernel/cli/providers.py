"""`hermes providers`: which there are and what each needs; and whether one answers."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import click

from hermes.kernel.cli.invocation import config_option
from hermes.kernel.cli.opening import open_targets
from hermes.kernel.cli.tables import print_table

if TYPE_CHECKING:
    from hermes.kernel.providers import Profile
    from hermes.kernel.targets import Targets

NEAR_S = 0.5
"""How long local servers may take to say that they are there; all are asked at once."""


@click.group("providers")
def command() -> None:
    """List providers, and try whether one answers."""


@dataclass(frozen=True, slots=True)
class Row:
    """One provider as it is shown. `answers` is of local servers; `given_by`: catalogue, settings or plugin."""

    name: str
    title: str
    api_mode: str
    key: str
    has_key: bool
    base_url: str
    default_model: str
    given_by: str
    answers: bool | None = None


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@config_option
@click.pass_context
def list_providers(ctx: click.Context, as_json: bool) -> None:
    """List every provider that `model` may name: its wire format, its key, its address.

    A star marks those that your settings add or change. Local servers are asked whether they are there; no key is
    ever printed.
    """
    targets = open_targets(ctx)
    rows = [_row(profile, targets) for profile in targets.profiles().values()]
    answering = _answering([row.base_url for row in rows if targets.profiles()[row.name].local])
    shown = [_told(row, answering[row.base_url]) if row.base_url in answering else row for row in rows]
    shown += [_of_plugin(name) for name in sorted(e.name for e in targets.catalogue.group("hermes.providers"))]
    if as_json:
        click.echo(json.dumps([asdict(row) for row in shown], ensure_ascii=False, indent=2))
        return
    heads = ("NAME", "KEY", "WIRE FORMAT", "ADDRESS", "TITLE")
    print_table(heads, [(_starred(r), r.key, r.api_mode, r.base_url, r.title) for r in shown])


@command.command("test")
@click.argument("name", metavar="[NAME|NAME:MODEL]", required=False)
@config_option
@click.pass_context
def test_provider(ctx: click.Context, name: str | None) -> None:
    """Try a provider, or the model of your settings: is there a key, is the server reached, does a model answer?

    The last step is one real request of a few words, which costs as much as it says. The exit code is that of a run
    which ends so: 4 for a key or an account that is refused, 5 for a server or a model that does not answer.
    """
    from hermes.kernel.cli.provider_test import try_provider

    ctx.exit(try_provider(open_targets(ctx), name, click.echo))


def _row(profile: Profile, targets: Targets) -> Row:
    from hermes.kernel.profiles import detect_api_mode

    given = targets.settings.providers.get(profile.name)
    key, has_key = key_told(profile, targets)
    return Row(
        profile.name,
        profile.title,
        detect_api_mode(profile, profile.base_url, profile.default_model, given.api_mode if given else None),
        key,
        has_key,
        profile.base_url,
        profile.default_model,
        "settings" if given else "catalogue",
    )


def key_told(profile: Profile, targets: Targets) -> tuple[str, bool]:
    """Where the key of a provider comes from, or what to set; and whether calls can be made so. Never the key."""
    given = targets.settings.providers.get(profile.name)
    if given and given.api_key:
        count = 1 if isinstance(given.api_key, str) else len(given.api_key)
        return ("in your settings" if count == 1 else f"{count} in your settings"), True
    for variable in profile.key_variables:
        if targets.environ.get(variable, "").strip():
            return f"{variable} is set", True
    if profile.local or not profile.key_variables:
        return "none needed", True
    if profile.quirks.get("key_optional"):
        return f"none, or {profile.key_variables[0]}", True
    return f"set {profile.key_variables[0]}", False


def _answering(base_urls: list[str]) -> dict[str, bool]:
    """Which servers answer at all."""
    from hermes.kernel.probing import Server, list_models

    answers: dict[str, bool] = {}

    def look(base_url: str) -> None:
        answer, _ = list_models(Server(base_url), "", NEAR_S)
        answers[base_url] = answer.status is not None

    threads = [threading.Thread(target=look, args=(url,), daemon=True) for url in base_urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _told(row: Row, answers: bool) -> Row:
    return replace(row, answers=answers, key="answers" if answers else "does not answer")


def _of_plugin(name: str) -> Row:
    return Row(name, "a plugin's own: hermes models list", "", "none needed", True, "", "", "plugin")


def _starred(row: Row) -> str:
    return f"{row.name}*" if row.given_by == "settings" else row.name
