"""Seeded mutations of the loop: each plants one fault that the simulator must catch.

A mutation replaces one piece of a module's source before the module is imported, so it needs a process of its own:
`python tests/simulation/simulate.py --mutation NAME`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from mutant import Mutation
from mutants_loop import LOOP
from mutants_recovery import RECOVERY

MUTATIONS: dict[str, Mutation] = {**LOOP, **RECOVERY}


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self.mutation = mutation

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != f"hermes.kernel.{self.mutation.module}":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise RuntimeError(f"{name} was not found")
        spec.loader = _Loader(name, spec.origin, self.mutation)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, mutation: Mutation) -> None:
        super().__init__(name, path)
        self.mutation = mutation

    def get_code(self, fullname: str):  # type: ignore[no-untyped-def]
        source = self.get_data(self.path).decode()
        if source.count(self.mutation.old) != 1:
            raise RuntimeError(f"the mutation's text stands {source.count(self.mutation.old)} times in {self.path}")
        return compile(source.replace(self.mutation.old, self.mutation.new), self.path, "exec")


def apply(name: str) -> None:
    """Plant one fault; call it before anything of hermes.kernel is imported."""
    mutation = MUTATIONS[name]
    if f"hermes.kernel.{mutation.module}" in sys.modules:
        raise RuntimeError(f"hermes.kernel.{mutation.module} is imported already")
    sys.meta_path.insert(0, _Finder(mutation))
