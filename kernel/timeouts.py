"""How long a model's server may be silent: by the settings, else by what is known of the target (case B016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes.kernel.config.settings import RequestSettings
from hermes.kernel.providers import Target, Timeouts

FIRST_TOKEN, STALL = "first_token_timeout_s", "stall_timeout_s"
"""Keys of `request` for all targets, and quirks of a provider or a model, which win over them."""


@dataclass(frozen=True, slots=True)
class Silence:
    """What is usual for targets of a kind: seconds before the first token, and between two of them."""

    fits: Callable[[Target], bool]
    first_token_s: float
    stall_s: float
    why: str


SILENCES = (
    Silence(lambda t: t.profile.local, 900, 900, "reads a long prompt for minutes; spec 3.7.6 has 900 s, 2026"),
    Silence(lambda t: bool(t.row and t.row.reasoning), 300, 300, "thinks unseen; spec 3.7.6 has 180 to 600 s (52217)"),
    Silence(lambda t: True, 120, 180, "all others; spec 3.7.6"),
)
"""The first that fits counts."""


def timeouts_for(target: Target, asked: RequestSettings) -> Timeouts:
    """The limits of one call to a target."""
    usual = next(silence for silence in SILENCES if silence.fits(target))
    first_s = _limit(target, FIRST_TOKEN, asked.first_token_timeout_s, usual.first_token_s)
    stall_s = _limit(target, STALL, asked.stall_timeout_s, usual.stall_s)
    return Timeouts(asked.connect_timeout_s, first_s, stall_s)


def _limit(target: Target, name: str, asked_s: float | None, usual_s: float) -> float:
    own_s = target.quirk(name)
    if isinstance(own_s, int | float) and own_s > 0:
        return float(own_s)
    return usual_s if asked_s is None else asked_s
