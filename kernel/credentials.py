"""Several keys for one provider: which is next, and which rest because the provider refused them.

What is known of keys is shared by the agents of a process and kept for the next in one file, by a salted hash of each
key, never the key. Keys of providers that have only one are used as they are: there is nothing to choose.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hermes.kernel.config.settings import PoolSettings, ProviderSettings
from hermes.kernel.effects import Fault, FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ProviderError
from hermes.kernel.keystate import KeyState, KeyStates, states_in
from hermes.kernel.providers import Profile
from hermes.kernel.redact import remember

RATE_LIMIT_COOLS_S = 60.0
"""For a key with too many requests whose provider does not say when it may come again: most count by the minute."""

REFUSED_RESTS_S = 60.0
"""The least for a key that was refused for good, whatever the server states with it: 402 with `Retry-After: 0` is no
reason to be refused once more in the same turn (31273)."""

COOLING_KINDS = (FaultKind.RATE_LIMIT, FaultKind.BILLING, FaultKind.AUTH)
"""What another key may get past. `overloaded` is the server's trouble (14038, 15297), `permission` the account's."""

STATE_FILE = "key-states.json"


def keys_of(profile: Profile, given: ProviderSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of a provider, each once: the settings', else the first variable that is set; () where none is needed.

    Raises ProviderError that says which variable to set.
    """
    listed = (given.api_key,) if isinstance(given.api_key, str) else given.api_key or ()
    found = tuple(dict.fromkeys(key for key in map(_sendable, listed) if key))
    if found:
        return found
    for name in profile.key_variables:
        if value := _sendable(environ.get(name, "")):
            return (value,)
    if profile.local or profile.quirks.get("key_optional") or not profile.key_variables:
        return ()
    raise ProviderError(
        f"no key for {profile.name}: set {profile.key_variables[0]}, "
        f"or providers.{profile.name}.api_key in hermes.yaml",
        kind="auth",
        reason=EndReason.AUTH,
    )


def _sendable(key: str) -> str:
    """A key without what no header can carry: a copied key may bring blanks, an odd letter or a mark (6843)."""
    return "".join(character for character in key if "!" <= character <= "~")


@dataclass(slots=True)
class Pool:
    """The keys of one provider. `states` is what is known of them; `clock` gives seconds since 1970."""

    keys: tuple[str, ...] = field(repr=False)
    settings: PoolSettings
    states: KeyStates
    _chance: random.Random = field(default_factory=random.Random, repr=False)

    def next_key(self) -> str:
        """The key for the next call, counted as used; of keys that all rest, the one that is ready first."""
        if len(self.keys) == 1:
            return self.keys[0]
        if self.settings.strategy in _UNCOUNTED:
            return self._choose(self.states.read(self.keys))
        return self.states.change(self.keys, self._take)

    def _take(self, states: Mapping[str, KeyState]) -> str:
        key = self._choose(states)
        states[key].uses += 1
        states[key].last_use = 1 + max(state.last_use for state in states.values())
        return key

    def _choose(self, states: Mapping[str, KeyState]) -> str:
        now = self.states.clock()
        ready = [key for key in self.keys if states[key].rests_until <= now]
        if not ready:  # one with too many requests before one that nobody pays for
            return min(self.keys, key=lambda key: (states[key].why == FaultKind.BILLING, states[key].rests_until))
        return _STRATEGIES[self.settings.strategy](ready, states, self._chance)

    def refused(self, key: str, fault: Fault) -> int:
        """Let a key rest that the provider refused; how many others are ready now. 0 for other kinds of faults."""
        if fault.kind not in COOLING_KINDS or key not in self.keys:
            return 0
        self.cool(key, self._rest_s(fault), fault.kind.value)
        now = self.states.clock()
        states = self.states.read(self.keys)
        return sum(other != key and states[other].rests_until <= now for other in self.keys)

    def cool(self, key: str, seconds: float, why: str) -> None:
        """Leave a key out for so long; a rest that it has already is not made shorter."""

        def rest(states: Mapping[str, KeyState]) -> None:
            until = self.states.clock() + seconds
            if until > states[key].rests_until:
                states[key].rests_until, states[key].why = until, why

        self.states.change((key,), rest)

    def _rest_s(self, fault: Fault) -> float:
        if fault.kind is FaultKind.RATE_LIMIT:
            return RATE_LIMIT_COOLS_S if fault.retry_after_s is None else fault.retry_after_s
        if fault.retry_after_s is None:
            return self.settings.cooldown_s
        return max(fault.retry_after_s, REFUSED_RESTS_S)


# ---- Strategies -----------------------------------------------------------------------------------------------------

Strategy = Callable[[Sequence[str], Mapping[str, KeyState], random.Random], str]


def _first(ready: Sequence[str], states: Mapping[str, KeyState], chance: random.Random) -> str:
    return ready[0]


def _longest_unused(ready: Sequence[str], states: Mapping[str, KeyState], chance: random.Random) -> str:
    return min(ready, key=lambda key: states[key].last_use)


def _least_used(ready: Sequence[str], states: Mapping[str, KeyState], chance: random.Random) -> str:
    return min(ready, key=lambda key: states[key].uses)


def _any(ready: Sequence[str], states: Mapping[str, KeyState], chance: random.Random) -> str:
    return chance.choice(ready)


_STRATEGIES: Mapping[str, Strategy] = {
    "fill_first": _first,
    "round_robin": _longest_unused,
    "least_used": _least_used,
    "random": _any,
}
_UNCOUNTED = ("fill_first", "random")
"""They need not know what was used before, so a call writes nothing."""


class Pools:
    """The pools of one run, by provider. Safe from any thread."""

    def __init__(self, settings: PoolSettings, home: Path) -> None:
        self._settings, self._home = settings, home
        self._pools: dict[str, Pool] = {}
        self._lock = threading.Lock()

    def add(self, provider: str, keys: Sequence[str]) -> None:
        """Say which keys a provider has; a provider without any has no pool. Their texts are hidden from now on."""
        if keys:
            remember(keys)
            with self._lock:
                self._pools.setdefault(provider, Pool(tuple(keys), self._settings, states_in(self._home / STATE_FILE)))

    def of(self, provider: str) -> Pool | None:
        return self._pools.get(provider)
