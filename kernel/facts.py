"""What is known of a model, from all who know something of it: field by field, the nearest first.

Catalogues of providers may name a file of model facts beside them (`models_file`), which is read when a model is first
asked for: `{source, licence, date, models: {provider: {model: {field of ModelRow: value}}}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from hermes.kernel.discovery import Catalogue, EntryPoint, read_data
from hermes.kernel.errors import PluginError
from hermes.kernel.messages import Json
from hermes.kernel.profiles import GROUP, MODEL_FIELDS, checked
from hermes.kernel.providers import ModelRow, Profile

_NAMES = tuple(f.name for f in fields(ModelRow) if f.name != "name")
_OF_THE_HOST: Mapping[str, Any] = dict.fromkeys((*(n for n in _NAMES if n.startswith("price")), "caching"))
"""What another host of the same model decides for itself: prices, and the cache."""


@dataclass(frozen=True, slots=True)
class Known:
    """The facts of one model, and who gave any of them, the nearest first."""

    row: ModelRow
    sources: tuple[str, ...] = ()


def merged(model: str, rows: Iterable[tuple[str, ModelRow | None]]) -> Known:
    """Put rows together, each under the name of its source; the first that knows a field is believed."""
    values: dict[str, Any] = {}
    sources = []
    for source, row in rows:
        news = {n: v for n in _NAMES if n not in values and (v := getattr(row, n, None)) not in (None, "")}
        values |= news
        if news:
            sources.append(source)
    return Known(ModelRow(model, **values), tuple(sources))


# ---- The normal form of a model's name ------------------------------------------------------------------------------

VENDORS: Mapping[str, str] = {
    "anthropic": "anthropic", "openai": "openai", "google": "gemini", "perplexity": "perplexity",
    "x-ai": "xai", "xai": "xai", "deepseek": "deepseek", "deepseek-ai": "deepseek", "mistralai": "mistral",
    "moonshotai": "moonshot", "qwen": "qwen", "z-ai": "zai", "zai-org": "zai", "minimax": "minimax",
    "minimaxai": "minimax",
}  # fmt: skip
"""Prefixes that routers give to models (`anthropic/claude-…`) and the provider whose models they are: the vendors'
names at OpenRouter and Hugging Face, November 2026."""

_PLACES = re.compile(r"^(us|us-gov|eu|apac|au|ca|in|jp|sa|global)\.")
"""Bedrock's inference profiles: the same model, somewhere, at a price of its own."""
_DATES = re.compile(r"(@.*|-20\d{6}|-20\d\d-\d\d-\d\d)$")
_VERSION = re.compile(r"-v\d+(:\d+)?$")


def normal(model: str) -> str:
    """The form in which names are compared when no row has the name itself.

    The last part of a path, in lower case, without the version (`-v1:0`) and the date at the end, with hyphens for
    dots: `models/Claude-Sonnet-4.5-20250929` is `claude-sonnet-4-5`.
    """
    tail = _VERSION.sub("", model.lower().rpartition("/")[2])
    return _DATES.sub("", tail).replace(".", "-")


def elsewhere(model: str) -> str:
    """The model of which this name is a variant at another price: without place (`us.`) and variant (`:free`)."""
    name = _PLACES.sub("", model.lower())
    return name if _VERSION.search(name) else name.partition(":")[0]


# ---- The snapshot ---------------------------------------------------------------------------------------------------


class Snapshot:
    """The files of facts that catalogues name, read at the first question; of two with one row the first is believed.

    `report` is told of a file that cannot be read.
    """

    def __init__(self, catalogue: Catalogue, report: Callable[[str], None] = lambda text: None) -> None:
        self._catalogue, self._report = catalogue, report
        self._tables: dict[str, dict[str, Mapping[str, Json]]] | None = None
        self._indices: dict[str, dict[str, str]] = {}
        self._date = ""

    @property
    def date(self) -> str:
        """When the first of the files was made."""
        self._table("")
        return self._date

    def find(self, profile: Profile, model: str) -> ModelRow | None:
        """The row of a model; its window and abilities as its vendor has them where the provider's own row has none.

        A name that only fits in another place or variant gives no prices, nor does a vendor's.
        """
        own = self._of(table_of(profile), model)
        if (own and own.window_tokens) or profile.local:
            return own
        vendor, slash, rest = model.partition("/")
        theirs = self._of(VENDORS.get(vendor.lower(), ""), rest) if slash else None
        if theirs is None:
            return own
        return merged(model, (("", own), ("", _without_what_hosts_decide(theirs)))).row

    def models(self, profile: Profile) -> tuple[ModelRow, ...]:
        """Every model of a provider, by name."""
        rows = (self._row(name, facts) for name, facts in sorted(self._table(table_of(profile)).items()))
        return tuple(row for row in rows if row)

    def _of(self, provider: str, model: str) -> ModelRow | None:
        table = self._table(provider)
        if model in table:
            return self._row(model, table[model])
        index = self._index(provider)
        if found := index.get(normal(model)):
            return self._row(model, table[found])
        if found := index.get(normal(elsewhere(model))):
            row = self._row(model, table[found])
            return row and _without_what_hosts_decide(row)
        return None

    def _row(self, name: str, facts: Mapping[str, Json]) -> ModelRow | None:
        try:
            return ModelRow(**checked({"name": name, **facts}, MODEL_FIELDS))
        except ValueError as error:
            self._report(f"facts of models: {error}: left out; tell their author")
            return None

    def _index(self, provider: str) -> Mapping[str, str]:
        """Normal form → name. Of several the shortest is meant, which has no date; of those the newest."""
        if provider not in self._indices:
            names = sorted(self._table(provider), key=lambda name: (-len(name), name))
            self._indices[provider] = {normal(name): name for name in names}
        return self._indices[provider]

    def _table(self, provider: str) -> Mapping[str, Mapping[str, Json]]:
        if self._tables is None:
            tables: dict[str, dict[str, Mapping[str, Json]]] = {}
            for entry_point in self._catalogue.group(GROUP):
                for name, rows in self._read(entry_point).items():
                    tables[name] = {**rows, **tables.get(name, {})}
            self._tables = tables
        return self._tables.get(provider, {})

    def _read(self, entry_point: EntryPoint) -> Mapping[str, Mapping[str, Mapping[str, Json]]]:
        try:
            file = json.loads(read_data(entry_point)).get("models_file")
            if not file or self._catalogue.claim_on(entry_point):
                return {}
            data = _parsed(read_data(beside(entry_point, file)))
        except PluginError as error:
            self._report(str(error))
            return {}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self._report(f"{entry_point}: its models_file is not a table of facts: {error}; tell its author")
            return {}
        self._date = self._date or str(data.get("date", ""))
        found: Mapping[str, Mapping[str, Mapping[str, Json]]] = data["models"]
        return found


@lru_cache(maxsize=4)
def _parsed(text: bytes) -> Mapping[str, Any]:
    """Raises ValueError or TypeError for what is not of the shape. Agents of one process share it."""
    data = json.loads(text)
    if not all(isinstance(row, dict) for rows in data["models"].values() for row in rows.values()):
        raise TypeError("a row is not an object")
    return dict(data)


def beside(entry_point: EntryPoint, file: str) -> EntryPoint:
    """The data entry point of another file in the same folder."""
    package, _, resource = entry_point.value.partition(":")
    folders = resource.strip().split(".")[:-2]
    return entry_point._replace(value=f"{package}:{'.'.join((*folders, file))}")


def table_of(profile: Profile) -> str:
    """Whose rows are a provider's: the quirk `facts_of`, else its own name."""
    return str(profile.quirks.get("facts_of") or profile.name)


def _without_what_hosts_decide(row: ModelRow) -> ModelRow:
    return replace(row, note="", **_OF_THE_HOST)
