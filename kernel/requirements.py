"""Does a version meet what a distribution requires of it? PEP 440 as far as release numbers go.

`packaging` knows the rest, and is not on the start path: pre-releases count as the release that they precede.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable

_RELEASE = re.compile(r"\s*v?(?:\d+!)?(\d+(?:\.\d+)*)")
_CLAUSE = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s,]+)\s*")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$")

_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}


def normalised(distribution: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def requirement_on(distribution: str, requirements: Iterable[str]) -> tuple[str, ...]:
    """The version clauses of `Requires-Dist` values that name `distribution`; those for an extra are left out."""
    found: list[str] = []
    for requirement in requirements:
        if (match := _REQUIREMENT.match(requirement)) is None or normalised(match[1]) != normalised(distribution):
            continue
        if "extra" in (match[3] or ""):
            continue
        found.append(match[2].strip())
    return tuple(clauses for clauses in found if clauses)


def meets(version: str, clauses: str) -> bool:
    """True when `version` meets every clause of `clauses`, such as ">=1,<2"; a clause that cannot be read is met."""
    return all(_meets_one(version, *match.groups()) for match in _CLAUSE.finditer(clauses))


def _meets_one(version: str, sign: str, wanted: str) -> bool:
    if sign == "===":
        return version.strip() == wanted
    have, want = _release(version), _release(wanted)
    if have is None or want is None:
        return True
    if wanted.endswith(".*"):
        starts_so = _padded(have, len(want))[: len(want)] == want
        return starts_so if sign == "==" else not starts_so
    width = max(len(have), len(want))
    have_padded, want_padded = _padded(have, width), _padded(want, width)
    if sign == "~=":
        return have_padded >= want_padded and have_padded[: len(want) - 1] == want[:-1]
    if sign in ("==", "!="):
        return (have_padded == want_padded) == (sign == "==")
    return _COMPARE[sign](have_padded, want_padded)


def _release(version: str) -> tuple[int, ...] | None:
    match = _RELEASE.match(version)
    return tuple(int(piece) for piece in match[1].split(".")) if match else None


def _padded(release: tuple[int, ...], width: int) -> tuple[int, ...]:
    return release + (0,) * (width - len(release))
