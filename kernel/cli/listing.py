"""The rows of `hermes models`: which models a provider has, and what is known of each."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hermes.kernel.cli.providers import key_told
from hermes.kernel.errors import ProviderError, UsageError
from hermes.kernel.facts import Known
from hermes.kernel.probing import list_models, server_of
from hermes.kernel.profiles import find_profile
from hermes.kernel.providers import Fetches, ModelRow, Profile, Provider
from hermes.kernel.targets import Targets

ABILITIES = ("tools", "images", "pdf", "audio", "reasoning", "caching", "schemas")
LIST_S = 5.0
"""How long a provider may take to list its models; all are asked at once."""
SOON_S = 0.5
"""The same for a local server that nobody has named."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model. `path` is the file of weights that are here; `fetchable`: they can be brought here."""

    provider: str
    known: Known
    path: str | None = None
    fetchable: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            **asdict(self.known.row),
            "sources": list(self.known.sources),
            "path": self.path,
        }

    def cells(self) -> tuple[str, ...]:
        row = self.known.row
        return (
            f"{self.provider}:{row.name}",
            "here" if self.path else "not fetched" if self.fetchable else "",
            _tokens(row.window_tokens),
            _tokens(row.output_tokens),
            _price(row.price_input),
            _price(row.price_output),
            _price(row.price_cache_read),
            " ".join(name for name in ABILITIES if getattr(row, name)),
            ", ".join(self.known.sources),
            row.note,
        )

    def details(self) -> Iterator[tuple[str, str]]:
        row = self.known.row
        yield "model", f"{self.provider}:{row.name}"
        if self.path:
            yield "weights", self.path
        yield "window", _told(row.window_tokens, "tokens")
        yield "longest reply", _told(row.output_tokens, "tokens")
        for label, price in (("input", row.price_input), ("output", row.price_output)):
            yield f"price {label}", _told(price, "USD a million tokens")
        for label, price in (("cached input", row.price_cache_read), ("cache writing", row.price_cache_write)):
            yield f"price {label}", _told(price, "USD a million tokens")
        if row.priced_to_tokens:
            yield "prices hold", f"for prompts of up to {row.priced_to_tokens:,} tokens; longer ones cost more"
        for name in ABILITIES:
            yield name, {True: "yes", False: "no", None: "unknown"}[getattr(row, name)]
        yield "known from", ", ".join(self.known.sources) or "nobody"
        if row.note:
            yield "note", row.note


class Listing:
    """Asks those providers that can be asked; `problems` says which gave no list. `ask_all`: also unnamed far ones."""

    def __init__(self, targets: Targets, *, ask_all: bool = False) -> None:
        self._targets, self._ask_all = targets, ask_all
        self.problems: list[str] = []

    def of(self, name: str) -> list[Row]:
        """The models of one provider. Raises ProviderError for one that there is not."""
        if provider := self._targets.provider(name):
            return self._of_plugin(provider)
        profile = find_profile(name, self._targets.profiles())
        return self._rows(profile, self._listed(profile, LIST_S, is_named=True))

    def usable(self) -> list[Row]:
        """The models of every provider with code of its own, with a key, or of a local server that answers."""
        rows = [row for provider in self._targets.plugin_providers() for row in self._of_plugin(provider)]
        profiles = [p for p in self._targets.profiles().values() if p.local or self._has_key(p)]
        asked = [p for p in profiles if p.local or self._ask_all]
        lists: dict[str, Sequence[ModelRow]] = {}

        def look(profile: Profile) -> None:
            seconds = SOON_S if profile.local else LIST_S
            lists[profile.name] = self._listed(profile, seconds, is_named=not profile.local)

        threads = [threading.Thread(target=look, args=(profile,), daemon=True) for profile in asked]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return rows + [row for p in profiles for row in self._rows(p, lists.get(p.name, ()))]

    def one(self, spec: str) -> Row:
        """One model. Raises SettingsError or UsageError for what is none."""
        if ":" not in spec:
            raise UsageError(f"{spec!r} is no PROVIDER:MODEL; `hermes models list PROVIDER` shows the names")
        name = self._targets.choose(spec).name
        provider, _, model = name.partition(":")
        if own := self._targets.provider(provider):
            for row in self._of_plugin(own):
                if row.known.row.name == model:
                    return row
        elif self._targets.profile_of(name).local:
            self._targets.get(name, lambda what, share: None, lambda: False)
        return Row(provider, self._targets.known_of(name))

    def _rows(self, profile: Profile, listed: Sequence[ModelRow]) -> list[Row]:
        said = {row.name: row for row in listed}
        stated = self._targets.settings.providers.get(profile.name)
        kept = (*self._targets.snapshot.models(profile), *profile.models)
        names = said or dict.fromkeys((*(row.name for row in kept), *(stated.models if stated else ())))
        known = (self._targets.known_of(f"{profile.name}:{name}", said.get(name)) for name in sorted(names))
        return [Row(profile.name, each) for each in known]

    def _listed(self, profile: Profile, within_s: float, *, is_named: bool) -> Sequence[ModelRow]:
        """What the provider lists; () where it cannot be asked, or says nothing in time."""
        try:
            target = self._targets.unprobed(f"{profile.name}:", needs_key=False)  # some lists are for everybody
        except ProviderError as error:
            if is_named:
                self.problems.append(str(error))
            return ()
        if not target.base_url:
            return ()
        answer, rows = list_models(server_of(target), target.api_mode, within_s)
        if is_named and not rows:
            key, has_key = key_told(profile, self._targets)
            why = (answer.problem or "it is empty") + ("" if has_key else f"; {key}")
            self.problems.append(f"{profile.name} gave no list of its models: {why}")
        return rows

    def _has_key(self, profile: Profile) -> bool:
        _, has_key = key_told(profile, self._targets)
        return has_key and bool(profile.key_variables) and not profile.quirks.get("key_optional")

    def _of_plugin(self, provider: Provider) -> list[Row]:
        is_fetcher, name = isinstance(provider, Fetches), provider.profile.name
        stored = provider.stored() if isinstance(provider, Fetches) else {}
        return [
            Row(
                name,
                self._targets.known_of(f"{name}:{row.name}"),
                str(stored[row.name]) if row.name in stored else None,
                is_fetcher,
            )
            for row in provider.models()
        ]


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _price(price: float | None) -> str:
    return "" if price is None else f"{price:g}"


def _told(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:,} {unit}" if isinstance(value, int) else f"{value:g} {unit}"
