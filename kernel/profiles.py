"""Named providers: read from catalogues, laid over with what hermes.yaml says, and which wire format they speak."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from hermes.kernel.config.settings import ProviderSettings
from hermes.kernel.discovery import Catalogue, EntryPoint, read_data
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import PluginError, ProviderError, SettingsError
from hermes.kernel.messages import Json
from hermes.kernel.providers import ModelRow, Profile

GROUP = "hermes.profiles"
DEFAULT_API_MODE = "chat_completions"
BY_MODEL = "api_mode_by_model"

# ---- Catalogues -----------------------------------------------------------------------------------------------------

_ROW_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str, "title": str, "base_url": str, "api_mode": str, "default_model": str, "local": bool,
    "key_variables": list, "models": list, "headers": dict, "quirks": dict, "defaults": dict,
}  # fmt: skip
MODEL_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str, "note": str,
    **dict.fromkeys(("window_tokens", "output_tokens", "priced_to_tokens"), int),
    **dict.fromkeys(("price_input", "price_output", "price_cache_read", "price_cache_write"), (int, float)),
    **dict.fromkeys(("images", "pdf", "audio", "reasoning", "caching", "tools", "schemas"), bool),
}  # fmt: skip


def read_profiles(catalogue: Catalogue, report: Callable[[str], None] = lambda text: None) -> tuple[Profile, ...]:
    """Every provider of every catalogue, in name order.

    A catalogue or a row that cannot be read is named to `report` and left out; of two rows with one name the one of
    the first catalogue stays.
    """
    found: dict[str, Profile] = {}
    for entry_point in catalogue.group(GROUP):
        if claim := catalogue.claim_on(entry_point):
            report(str(claim))
            continue
        for profile in _catalogue_rows(entry_point, report):
            if profile.name in found:
                report(f"{entry_point}: the provider {profile.name!r} is already in another catalogue: left out")
            else:
                found[profile.name] = profile
    return tuple(found[name] for name in sorted(found))


def _catalogue_rows(entry_point: EntryPoint, report: Callable[[str], None]) -> Iterator[Profile]:
    try:
        data = json.loads(read_data(entry_point))
    except PluginError as error:
        report(str(error))
        return
    except ValueError as error:
        report(f"{entry_point}: {entry_point.value} is not JSON: {error}; tell its author")
        return
    rows = data.get("providers") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        report(f"{entry_point}: {entry_point.value} has no list under the key providers; tell its author")
        return
    for place, row in enumerate(rows):
        try:
            yield profile_from_json(row)
        except ValueError as error:
            report(f"{entry_point}: providers[{place}]: {error}: left out; tell its author")


def profile_from_json(row: Json) -> Profile:
    """One row of a catalogue. Raises ValueError that names the key."""
    values = checked(row, _ROW_FIELDS)
    models = tuple(ModelRow(**checked(model, MODEL_FIELDS)) for model in values.pop("models", ()))
    variables = tuple(values.pop("key_variables", ()))
    if not all(isinstance(v, str) for v in (*variables, *values.get("headers", {}).values())):
        raise ValueError("key_variables and headers must hold texts")
    return Profile(**values, key_variables=variables, models=models)


def checked(row: Json, known: Mapping[str, type | tuple[type, ...]]) -> dict[str, Json]:
    if not isinstance(row, dict) or not row.get("name") or not isinstance(row["name"], str):
        raise ValueError("not an object with a name")
    for key, value in row.items():
        if key not in known:
            raise ValueError(f"{row['name']}: unknown key {key!r}")
        expected = known[key]
        is_number_as_bool = isinstance(value, bool) and expected is not bool
        if value is not None and (is_number_as_bool or not isinstance(value, expected)):
            raise ValueError(f"{row['name']}: {key} has the wrong type ({type(value).__name__})")
    return {key: value for key, value in row.items() if value is not None}


# ---- hermes.yaml over the catalogue ---------------------------------------------------------------------------------


def merge_profile(name: str, row: Profile | None, settings: ProviderSettings) -> Profile:
    """Lay the user's `providers.NAME` over a catalogue's row, or make a new row; mappings are merged key by key.

    A new `base_url` takes the row's key variables away unless the host stays: a key must not go to another host. It
    takes away too what the row knows of wire formats: a proxy speaks its own. Raises SettingsError for a new row
    without a base_url.
    """
    if row is None:
        if not settings.base_url:
            raise SettingsError(f"providers.{name}: base_url is missing, and no catalogue has a provider {name!r}")
        row = Profile(name, title=name, local=is_local(settings.base_url))
    base_url = settings.base_url or row.base_url
    moved = not _is_there(base_url, row)
    quirks = {name: value for name, value in row.quirks.items() if not (moved and name == BY_MODEL)}
    return replace(
        row,
        base_url=base_url,
        api_mode=settings.api_mode or ("" if moved else row.api_mode),
        key_variables=() if moved else row.key_variables,
        default_model=settings.default_model or row.default_model,
        local=is_local(base_url) if settings.base_url else row.local,
        headers={**row.headers, **settings.headers},
        quirks={**quirks, **settings.quirks},
        defaults={**row.defaults, **settings.defaults},
    )


def merge_profiles(rows: Iterable[Profile], providers: Mapping[str, ProviderSettings]) -> dict[str, Profile]:
    """Every provider that can be named, by name, in name order: the catalogues' and the user's own."""
    known = {row.name: row for row in rows}
    for name, settings in providers.items():
        known[name] = merge_profile(name, known.get(name), settings)
    return dict(sorted(known.items()))


def find_profile(name: str, known: Mapping[str, Profile]) -> Profile:
    """The provider of that name; raises ProviderError that names near ones."""
    if found := known.get(name):
        return found
    near = get_close_matches(name, known, 2)
    hint = f"did you mean {' or '.join(near)}?" if near else "`hermes providers list` shows those there are"
    raise ProviderError(f"no provider {name!r}: {hint}; your own endpoint goes under providers.{name} in hermes.yaml")


# ---- Addresses with parts that the user fills ------------------------------------------------------------------------

_PART = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")


def filled_url(profile: Profile, environ: Mapping[str, str]) -> str:
    """The base URL with each `{NAME}` taken from the environment. Raises ProviderError that says what to set."""
    missing = [name for name in _PART.findall(profile.base_url) if not environ.get(name, "").strip()]
    if missing:
        raise ProviderError(
            f"{profile.name} is reached at {profile.base_url}: set {' and '.join(missing)}, "
            f"or providers.{profile.name}.base_url in hermes.yaml",
            kind="bad_request",
            reason=EndReason.SETTINGS,
        )
    return _PART.sub(lambda part: environ[part[1]].strip(), profile.base_url)


def _is_there(base_url: str, row: Profile) -> bool:
    """Whether an address is on a host of a catalogue's row, any of them where the user fills a part of it.

    The quirk `key_hosts` lists patterns of more hosts, such as where the row has no address of its own.
    """
    known = [_PART.sub("*", _host_as_written(row.base_url)), *map(str, row.quirks.get("key_hosts", ()))]
    hosts = [host.lower() for host in known if host]
    return base_url == row.base_url or not hosts or any(fnmatchcase(_host(base_url), host) for host in hosts)


def _host_as_written(base_url: str) -> str:
    return base_url.partition("://")[2].partition("/")[0].partition(":")[0]


# ---- Which wire format ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModeRow:
    """One way to recognise a wire format; everything that a row names must hold. Hosts and paths are patterns."""

    api_mode: str
    provider: str = "*"
    host: str = "*"
    path: str = "*"


MODE_ROWS: tuple[ModeRow, ...] = (
    ModeRow("bedrock_converse", provider="bedrock"),
    ModeRow("bedrock_converse", host="bedrock-runtime.*.amazonaws.com"),
    ModeRow("bedrock_converse", host="bedrock-runtime-fips.*.amazonaws.com"),
    ModeRow("bedrock_converse", host="bedrock-runtime.*.amazonaws.com.cn"),
    ModeRow("anthropic_messages", provider="anthropic"),
    ModeRow("anthropic_messages", host="api.anthropic.com"),
    ModeRow("anthropic_messages", path="*/anthropic"),
    ModeRow("codex_responses", provider="openai-codex"),
    ModeRow("codex_responses", host="chatgpt.com"),
    ModeRow("codex_responses", provider="xai"),
    ModeRow("codex_responses", host="api.x.ai"),
)
"""Read from the top, first fit wins (architecture, section 5). Claude on Bedrock is Converse too; xAI counts its chat
completions as the old way (runtime behaviour specification 3.1)."""


def detect_api_mode(profile: Profile, base_url: str, model: str, explicit: str | None = None) -> str:
    """Which wire format to speak. Order: the user's word, the profile's row, the table, the model's row, the default.

    The model's row is the profile's quirk `api_mode_by_model`: {pattern of model names: api_mode}.
    """
    if explicit or profile.api_mode:
        return explicit or profile.api_mode
    host, path = _host(base_url), urlsplit(base_url).path.rstrip("/").lower()
    for row in MODE_ROWS:
        if all(map(fnmatchcase, (profile.name, host, path), (row.provider, row.host, row.path))):
            return row.api_mode
    by_model = profile.quirks.get(BY_MODEL)
    if isinstance(by_model, Mapping):
        for pattern, api_mode in by_model.items():
            if fnmatchcase(model.lower(), str(pattern).lower()):
                return str(api_mode)
    return DEFAULT_API_MODE


def is_local(base_url: str) -> bool:
    """True for an address of this machine."""
    host = _host(base_url)
    return host in ("localhost", "::1", "0.0.0.0") or host.endswith(".localhost") or host.startswith("127.")


def _host(base_url: str) -> str:
    return (urlsplit(base_url).hostname or "").lower()
