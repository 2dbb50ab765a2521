"""From `provider:model` to a Target: profile, key, URL, wire format and window; and the choice that `auto` makes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hermes.kernel.config.settings import ProviderSettings, Settings
from hermes.kernel.discovery import Catalogue
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError, SettingsError
from hermes.kernel.profiles import detect_api_mode, find_model, find_profile, merge_profiles, read_profiles
from hermes.kernel.providers import ModelRow, Profile, Provider, Report, Target, WireFormat

if TYPE_CHECKING:  # `run --dry-run` resolves a model without loading a plugin
    from hermes.kernel.plugins import Plugins

AUTO = "auto"
PROBE_S = 0.150
"""How long all local servers together may take to answer when `model: auto` looks for one (issue 2)."""

FIRST_ASKED = ("anthropic", "openai", "openrouter")
"""The order in which `auto` looks for keys; the rest of the catalogue follows in name order."""

NOT_A_KEY = ("GITHUB_TOKEN", "GH_TOKEN", "AWS_*", "HF_TOKEN")
"""Variables that are there for other things; `auto` never takes one as a sign of a provider."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The model of a run, as `provider:model`, and why it was taken ("" when the settings name it)."""

    name: str
    why: str = ""


@dataclass(slots=True)
class Targets:
    """The providers and models of one process; each target is built at its first use.

    `environ` is the process's variables. Safe from any thread.
    """

    settings: Settings
    catalogue: Catalogue
    plugins: Plugins
    environ: Mapping[str, str]
    _profiles: dict[str, Profile] | None = None
    _providers: dict[str, Provider] = field(default_factory=dict)
    _targets: dict[str, Target] = field(default_factory=dict)
    _wires: dict[str, WireFormat] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def profiles(self) -> Mapping[str, Profile]:
        if self._profiles is None:
            self._profiles = merge_profiles(read_profiles(self.catalogue), self.settings.providers)
        return self._profiles

    def provider(self, name: str) -> Provider | None:
        """The provider with code of its own of that name, loaded when first asked for; None when there is none."""
        with self._lock:
            if name not in self._providers and self.catalogue.find("hermes.providers", name):
                self.plugins.load("hermes.providers", [name])
                for _, item in self.plugins.collect("register_providers", "hermes.providers"):
                    self._providers.setdefault(item.profile.name, item)
            return self._providers.get(name)

    def choose(self, spec: str | None = None) -> Choice:
        """Complete a model of the settings to `provider:model`. Raises SettingsError with what to do."""
        spec = self.settings.model if spec is None else spec
        if spec == AUTO:
            return choose_auto(self)
        name, _, model = spec.partition(":")
        provider = self.provider(name)
        if provider is None and name not in self.profiles():
            if self.catalogue.find("hermes.providers", name):
                why = self.plugins.problem("hermes.providers", name) or "its plugin was left out"
                raise SettingsError(f"model: {spec!r}: provider {name!r} is installed and does not work: {why}")
            hint = f"; did you mean ollama:{spec}?" if model else f"; a model is written provider:{spec}"
            raise SettingsError(f"model: {spec!r}: there is no provider {name!r}{hint}")
        if model and model != AUTO:
            return Choice(spec)
        found = provider.available() if provider is not None else self.profiles()[name].default_model
        if not found:
            raise SettingsError(f"model: {spec!r} names no model; write {name}:MODEL")
        return Choice(f"{name}:{found}")

    def get(self, name: str, report: Report, cancelled: Callable[[], bool]) -> Target:
        """The target of `provider:model`, reachable. Raises ProviderError with a fault kind and what to do."""
        with self._lock:
            if name not in self._targets:
                self._targets[name] = self._build(name, report, cancelled)
            return self._targets[name]

    def forget(self, name: str) -> None:
        """Reach a target anew at its next use: a server of a provider with code of its own may have died."""
        with self._lock:
            if self.provider(name.partition(":")[0]) is not None:
                self._targets.pop(name, None)

    def profile_of(self, name: str) -> Profile:
        """The profile of `provider:model`, without reaching anything."""
        provider_name = name.partition(":")[0]
        if provider := self.provider(provider_name):
            return provider.profile
        return find_profile(provider_name, self.profiles())

    def window_of(self, name: str) -> int | None:
        """Tokens that the model's context holds, as far as it is known without asking."""
        if target := self._targets.get(name):
            return target.window_tokens
        return self._window(self.profile_of(name), name.partition(":")[2])

    def has_price(self, name: str) -> bool:
        """Whether the cost of `provider:model` can be told."""
        row = find_model(self.profile_of(name), name.partition(":")[2])
        return row is not None and row.price_input is not None and row.price_output is not None

    def wire(self, target: Target) -> WireFormat:
        with self._lock:
            if target.api_mode not in self._wires:
                self.plugins.load("hermes.wire", [target.api_mode])
                for _, item in self.plugins.collect("register_wire_formats", "hermes.wire"):
                    self._wires.setdefault(item.name, item)
            if target.api_mode not in self._wires:
                raise ProviderError(
                    f"{target.name} speaks {target.api_mode}; no plugin for this wire format is installed and works",
                    kind="bad_request",
                )
            return self._wires[target.api_mode]

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        for provider in self._providers.values():
            provider.close()

    def _build(self, name: str, report: Report, cancelled: Callable[[], bool]) -> Target:
        provider_name, _, model = name.partition(":")
        profile = self.profile_of(name)
        given = self.settings.providers.get(provider_name, ProviderSettings())
        base_url, key, headers = profile.base_url, key_of(profile, given, self.environ), dict(profile.headers)
        window = self._window(profile, model)
        if provider := self.provider(provider_name):
            endpoint = provider.connect(model, report, cancelled)
            base_url, key, headers = endpoint.base_url, endpoint.api_key, {**headers, **endpoint.headers}
            window = self.settings.model_options.context_window or endpoint.window_tokens or window
        return Target(
            name,
            profile,
            model,
            base_url,
            detect_api_mode(profile, base_url, model, given.api_mode),
            key,
            headers,
            window,
            self.settings.model_options.max_output_tokens,
            find_model(profile, model),
        )

    def _window(self, profile: Profile, model: str) -> int | None:
        """What the user declared wins over every catalogue."""
        row = find_model(profile, model)
        stated = profile.defaults.get("window_tokens")
        return (
            self.settings.model_options.context_window
            or (row.window_tokens if row else None)
            or (stated if isinstance(stated, int) else None)
        )


def key_of(profile: Profile, given: ProviderSettings, environ: Mapping[str, str]) -> str:
    """The key of a provider: the settings', else the first variable that is set; "" where none is needed."""
    if given.api_key:
        return given.api_key if isinstance(given.api_key, str) else given.api_key[0]
    for name in profile.key_variables:
        if value := environ.get(name, "").strip():
            return value
    if profile.local or not profile.key_variables:
        return ""
    raise ProviderError(
        f"no key for {profile.name}: set {profile.key_variables[0]}, "
        f"or providers.{profile.name}.api_key in hermes.yaml",
        kind="auth",
        reason=EndReason.AUTH,
    )


def cost_usd(row: ModelRow | None, usage: Any) -> float | None:
    """What a call cost by the model's row; None when a price is unknown. Cache writes count as input."""
    if row is None or row.price_input is None or row.price_output is None:
        return None
    read = row.price_cache_read if row.price_cache_read is not None else row.price_input
    million = (
        (usage.input_tokens + usage.cache_write_tokens) * row.price_input
        + usage.cache_read_tokens * read
        + (usage.output_tokens + usage.reasoning_tokens) * row.price_output
    )
    return float(million / 1_000_000)


# ---- model: auto ----------------------------------------------------------------------------------------------------


def choose_auto(targets: Targets) -> Choice:
    """The first of: a known key in the environment, a local server that answers, the embedded model."""
    profiles = targets.profiles()
    order = [*FIRST_ASKED, *(n for n in profiles if n not in FIRST_ASKED)]
    for profile in (profiles[n] for n in order if n in profiles):
        for variable in () if profile.local else profile.key_variables:
            known = not any(fnmatchcase(variable, pattern) for pattern in NOT_A_KEY)
            if known and profile.default_model and targets.environ.get(variable, "").strip():
                return Choice(f"{profile.name}:{profile.default_model}", f"{variable} is set")
    if found := probe([p for p in profiles.values() if p.local]):
        profile, model = found
        return Choice(f"{profile.name}:{model}", f"{profile.title or profile.name} answers at {profile.base_url}")
    for entry_point in targets.catalogue.group("hermes.providers"):
        provider = targets.provider(entry_point.name)
        embedded = provider.available() if provider is not None else None
        if embedded:
            return Choice(
                f"{entry_point.name}:{embedded}", "no key and no local server was found; it is on this machine"
            )
    raise SettingsError(
        "no model: nothing was found that `model: auto` could take. The shortest ways to get one:\n"
        "  export OPENAI_API_KEY=…                            a key of a provider (or OPENROUTER_API_KEY)\n"
        "  ollama serve                                       a local server (Ollama, LM Studio, llama.cpp)\n"
        '  pip install "hermes-kernel[local]" && hermes models fetch qwen2.5-coder-1.5b-instruct    no key, no server'
    )


def probe(profiles: Sequence[Profile]) -> tuple[Profile, str] | None:
    """The first local server, in the given order, that lists a model within `PROBE_S`; all are asked at once."""
    answers: dict[str, str] = {}
    threads = [threading.Thread(target=_first_model, args=(p, answers), daemon=True) for p in profiles]
    for thread in threads:
        thread.start()
    end = time.monotonic() + PROBE_S
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    return next(((p, answers[p.name]) for p in profiles if p.name in answers), None)


def _first_model(profile: Profile, answers: dict[str, str]) -> None:
    import http.client  # with ssl and email it costs as much as the rest of the start

    url = urlsplit(profile.base_url)
    connection = http.client.HTTPConnection(url.hostname or "127.0.0.1", url.port or 80, timeout=PROBE_S)
    try:
        connection.request("GET", f"{url.path.rstrip('/')}/models")
        response = connection.getresponse()
        listed = json.loads(response.read()) if response.status == 200 else {}
        answers[profile.name] = str(listed["data"][0]["id"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError):
        return  # not there, or not a model server
    finally:
        connection.close()
