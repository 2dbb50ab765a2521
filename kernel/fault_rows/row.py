"""One row of the table of faults, and the small language in which its wording is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hermes.kernel.effects import FaultKind, RepairKind

Reset = Literal["any", "stated", "unstated"]


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One way to recognise a fault; everything that a row names must hold.

    `causes` are `WireFault.cause` words, () meaning "http". `statuses` () is any, None among them is "no status".
    `codes` are structured codes in lower case. `wording` is searched without regard to case. Its groups: `limit`
    (context window), `output` (largest output), `asked` and `input` in tokens, `chars` the input in characters;
    `bytes`, `megabytes` and `count` limits of images; `subject` a parameter. `reset` says whether the provider must
    have stated when to come back. `subject` stands where the wording has no such group; "param" is the error's own.
    """

    name: str
    kind: FaultKind
    source: str
    example: str = ""
    causes: tuple[str, ...] = ()
    statuses: tuple[int | None, ...] = ()
    codes: frozenset[str] = frozenset()
    wording: re.Pattern[str] | None = None
    reset: Reset = "any"
    repair: RepairKind | None = None
    subject: str = ""


def codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_N = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,15})"
"""A count, with or without separators of thousands."""

_PARAMETER = r"(?P<subject>[a-z_]\w*(?:\.\w+)*)"


def words(pattern: str) -> re.Pattern[str]:
    """Compile a phrase; `<subject>` stands for a parameter's name, `<limit>` and the like for a count in that group."""
    pattern = pattern.replace("<subject>", _PARAMETER)
    named = re.sub(r"(?<!P)<(\w+)>", lambda found: f"(?P<{found[1]}>{_N})", pattern)
    return re.compile(named.replace(" ?", r"\s*").replace(" ", r"\s+"), re.MULTILINE | re.IGNORECASE)


REFUSED = (400, 403, 404, 422, None)
SIZE = (400, 413, 422, 429, 500, 502, 503, 529, None)
"""Statuses under which servers and gateways report that a request does not fit."""

MALFORMED = (400, 404, 422, 500, 502, None)
"""Statuses of a request that is wrong in itself; some gateways answer 5xx for one."""
