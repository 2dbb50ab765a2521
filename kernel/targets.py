"""From `provider:model` to a Target: profile, key, URL, wire format and what is known of the model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hermes.kernel.choosing import Choice, choose_auto
from hermes.kernel.config.settings import ContextSettings, FallbackModel, ModelOptions, ProviderSettings, Settings
from hermes.kernel.credentials import Pools, keys_of
from hermes.kernel.discovery import Catalogue
from hermes.kernel.effects import Fault
from hermes.kernel.errors import ProviderError, SettingsError
from hermes.kernel.facts import Known, Snapshot, merged
from hermes.kernel.paths import home
from hermes.kernel.probing import probe
from hermes.kernel.profiles import detect_api_mode, filled_url, find_profile, merge_profiles, read_profiles
from hermes.kernel.providers import CacheLife, Endpoint, ModelRow, Profile, Provider, Report, Target, WireFormat
from hermes.kernel.wireguard import GuardedWire

if TYPE_CHECKING:  # `run --dry-run` resolves a model without loading a plugin
    from hermes.kernel.plugins import Plugins

AUTO = "auto"
_log = logging.getLogger(__name__)


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
    _snapshot: Snapshot | None = None
    _pools: Pools | None = None
    _said: dict[str, ModelRow | None] = field(default_factory=dict)
    _options: dict[str, ModelOptions] = field(default_factory=dict)

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

    def plugin_providers(self) -> tuple[Provider, ...]:
        """Every provider with code of its own that works, in name order."""
        found = (self.provider(e.name) for e in self.catalogue.group("hermes.providers"))
        return tuple(provider for provider in found if provider is not None)

    def choose(self, spec: str | None = None) -> Choice:
        """Complete a model of the settings to `provider:model`. Raises SettingsError with what to do."""
        spec = self.settings.model if spec is None else spec
        if spec == AUTO:
            return choose_auto(self.profiles(), self.environ, self.plugin_providers)
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

    def chain(self) -> tuple[Choice, ...]:
        """The model of the settings and its fallbacks, each once: a target cannot stand in for itself (22548)."""
        found = {(primary := self.choose()).name: primary}
        for entry in self.settings.fallback:
            choice = self.choose(entry if isinstance(entry, str) else entry.model)
            if found.setdefault(choice.name, choice) is choice:
                self._options[choice.name] = _own_options(self.settings.model_options, entry)
        return tuple(found.values())

    def options_of(self, name: str) -> ModelOptions:
        """What is sent to `provider:model`; a fallback has its own window, and its own effort where it says so."""
        return self._options.get(name, self.settings.model_options)

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

    # ---- What is known of a model -----------------------------------------------------------------------------------

    def window_of(self, name: str) -> int | None:
        """Tokens that the model's context holds, as far as it is known without asking."""
        if target := self._targets.get(name):
            return target.window_tokens
        return self._window(name, self.known_of(name).row)

    def has_price(self, name: str) -> bool:
        """Whether the cost of `provider:model` can be told."""
        if self.profile_of(name).quirks.get("states_cost"):
            return True
        row = self.known_of(name).row
        return row.price_input is not None and row.price_output is not None

    def known_of(self, name: str, said: ModelRow | None = None) -> Known:
        """The facts of `provider:model` without asking anybody.

        `said` is what its server says; left out, what it told when the target was reached.
        """
        provider_name, _, model = name.partition(":")
        profile, provider = self.profile_of(name), self.provider(provider_name)
        given = self.settings.providers.get(provider_name, ProviderSettings()).models.get(model)
        return merged(
            model,
            (
                ("settings", ModelRow(model, **given) if given else None),
                ("its server", said or self._said.get(name)),
                ("its plugin", _named(model, provider.models()) if provider else None),
                ("its catalogue", _named(model, profile.models)),
                (f"snapshot {self.snapshot.date}", self.snapshot.find(profile, model)),
            ),
        )

    @property
    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = Snapshot(self.catalogue, lambda text: _log.warning("%s", text))
        return self._snapshot

    def _window(self, name: str, row: ModelRow) -> int | None:
        """What the user declared wins over everything."""
        stated = self.profile_of(name).defaults.get("window_tokens")
        declared = self.options_of(name).context_window
        return declared or row.window_tokens or (stated if isinstance(stated, int) else None)

    # ---- Keys -------------------------------------------------------------------------------------------------------

    def with_key(self, target: Target) -> Target:
        """The target with the key for its next call; the same object where there is no choice."""
        pool = self.pools.of(target.profile.name)
        key = pool.next_key() if pool else target.api_key
        return target if key == target.api_key else replace(target, api_key=key)

    def refused(self, target: Target, fault: Fault) -> Fault:
        """Let the key of a failed call rest where the fault is the key's; the fault with how many others are left."""
        pool = self.pools.of(target.profile.name)
        left = pool.refused(target.api_key, fault) if pool else 0
        return replace(fault, other_keys=left) if left else fault

    @property
    def pools(self) -> Pools:
        with self._lock:
            if self._pools is None:
                self._pools = Pools(self.settings.pool, home())
            return self._pools

    # ---- Wire formats and targets -----------------------------------------------------------------------------------

    def wire(self, target: Target) -> WireFormat:
        with self._lock:
            if target.api_mode not in self._wires:
                self.plugins.load("hermes.wire", [target.api_mode])
                for plugin, item in self.plugins.collect("register_wire_formats", "hermes.wire"):
                    self._wires.setdefault(item.name, GuardedWire(item, plugin))
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

    def unprobed(self, name: str, *, needs_key: bool = True) -> Target:
        """A target with its key and address, of which nobody was asked. Raises ProviderError that says what to set."""
        profile = self.profile_of(name)
        given = self.settings.providers.get(profile.name, ProviderSettings())
        try:
            keys = keys_of(profile, given, self.environ)
        except ProviderError:
            if needs_key:
                raise
            keys = ()
        self.pools.add(profile.name, keys)
        return self._target(name, Endpoint(filled_url(profile, self.environ), keys[0] if keys else ""))

    def _target(self, name: str, endpoint: Endpoint) -> Target:
        provider_name, _, model = name.partition(":")
        profile = self.profile_of(name)
        explicit = self.settings.providers.get(provider_name, ProviderSettings()).api_mode
        return Target(
            name,
            profile,
            model,
            endpoint.base_url,
            detect_api_mode(profile, endpoint.base_url, model, explicit),
            endpoint.api_key,
            {**profile.headers, **endpoint.headers},
            output_cap=self.options_of(name).max_output_tokens,
            cache_ttl=cache_life(self.settings.context),
        )

    def _build(self, name: str, report: Report, cancelled: Callable[[], bool]) -> Target:
        provider_name, _, model = name.partition(":")
        if provider := self.provider(provider_name):
            endpoint = provider.connect(model, report, cancelled)
            target = self._target(name, endpoint)
            said: ModelRow | None = ModelRow(model, endpoint.window_tokens)
        else:
            target = self.unprobed(name)
            said = probe(target)
        self._said[name] = said
        row = self.known_of(name).row
        return replace(target, row=row, window_tokens=self._window(name, row))


def _own_options(options: ModelOptions, entry: str | FallbackModel) -> ModelOptions:
    """What a fallback is sent: as the primary, but for what was said of the primary's window (22387, 21256)."""
    if isinstance(entry, str):
        return replace(options, context_window=None)
    return replace(
        options,
        max_output_tokens=entry.max_output_tokens or options.max_output_tokens,
        reasoning_effort=entry.reasoning_effort or options.reasoning_effort,
        context_window=entry.context_window,
    )


def cache_life(settings: ContextSettings) -> CacheLife:
    """How long prompts are asked to be cached; "" where the settings want no marks."""
    if settings.prompt_cache == "never":
        return ""
    return "1h" if settings.prompt_cache_ttl == "1h" else "5m"


def _named(model: str, rows: Iterable[ModelRow]) -> ModelRow | None:
    return next((row for row in rows if row.name == model), None)
