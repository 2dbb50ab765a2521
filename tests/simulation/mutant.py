"""One fault that is planted in the source of a module."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old` must stand in the module exactly once. `fault` says what is wrong with `new`."""

    module: str
    old: str
    new: str
    fault: str
