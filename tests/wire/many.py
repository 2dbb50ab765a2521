"""Send many generated conversations to every wire format and its strict validator:
`python tests/wire/many.py --count 100000 [--seed N] [--workers 2] [--origin WIRE] [--catalogue] [--mutations]`.

Prints what it did. A violation is printed with the command that shows it again, and the exit code is 1; with
`--mutations` it is 1 when a planted fault was not caught.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent))

from conversations import conversation
from mutations import MUTATIONS
from rules import violations
from targets import WIRES, Route, catalogue_routes, routes_of

from hermes.kernel.providers import WireFormat

T = TypeVar("T")
U = TypeVar("U")

_BATCH = 250
_MOST_TOLD = 20
_MOST_TRIED = 2000
"""Conversations in which a planted fault must be caught."""


@dataclass(frozen=True, slots=True)
class Done:
    conversations: int
    bodies: int
    size_bytes: int
    violations: tuple[str, ...] = ()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many conversations")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first one; the next ones count up")
    parser.add_argument("--workers", type=int, default=2, help="how many processes")
    parser.add_argument("--origin", choices=tuple(WIRES), default="", help="the wire format of every reply in them")
    parser.add_argument("--catalogue", action="store_true", help="to the providers of the catalogue, four at a time")
    parser.add_argument("--mutations", action="store_true", help="show that each planted fault is caught")
    options = parser.parse_args()
    if options.mutations:
        return _try_mutations(options.seed, options.workers)
    began = time.perf_counter()
    end = options.seed + options.count
    batches = [range(start, min(start + _BATCH, end)) for start in range(options.seed, end, _BATCH)]
    done: list[Done] = []
    run = partial(_batch, origin=options.origin, catalogue=catalogue_routes() if options.catalogue else ())
    for each in _mapped(run, batches, options.workers):
        done.append(each)
        if each.violations:
            break
    return _tell(done, options, time.perf_counter() - began)


def _mapped(run: Callable[[T], U], items: list[T], workers: int) -> Iterator[U]:
    if min(workers, len(items)) < 2:
        yield from map(run, items)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run, items)


def _batch(seeds: Iterable[int], *, origin: str, catalogue: Sequence[Route]) -> Done:
    """A run of seeds; stops at the first conversation that breaks a rule."""
    conversations = bodies = size_bytes = 0
    for seed in seeds:
        found: list[str] = []
        routes = [catalogue[(4 * seed + n) % len(catalogue)] for n in range(4)] if catalogue else routes_of(seed)
        for wrong, size in _sent(seed, routes, WIRES, origin):
            found += wrong
            bodies, size_bytes = bodies + 1, size_bytes + size
        conversations += 1
        if found:
            return Done(conversations, bodies, size_bytes, tuple(found))
    return Done(conversations, bodies, size_bytes)


def _sent(
    seed: int, routes: Sequence[Route], wires: Mapping[str, WireFormat], origin: str = ""
) -> Iterator[tuple[list[str], int]]:
    """The conversation of a seed by those routes whose wire format is in `wires`: what is wrong with its body, and the
    body's size."""
    try:
        case = conversation(seed, routes, origin)
        for route in routes:
            api_mode = route.target.api_mode
            if api_mode in wires:
                wrong, size = violations(case, route, wires[api_mode])
                yield [f"seed {seed}, {route.target.name} by {api_mode}: {text}" for text in wrong], size
    except Exception as error:
        error.add_note(f"in the conversation of seed {seed}")
        raise


def _tell(done: list[Done], options: argparse.Namespace, seconds: float) -> int:
    found = [text for each in done for text in each.violations]
    for text in found[:_MOST_TOLD]:
        print(text)
    if found:
        seed = found[0].removeprefix("seed ").partition(",")[0]
        more = f" --origin {options.origin}" * bool(options.origin) + " --catalogue" * options.catalogue
        print(f"again: python tests/wire/many.py --seed {seed} --count 1{more}")
    print(
        f"{sum(each.conversations for each in done)} conversations from seed {options.seed}, "
        f"{sum(each.bodies for each in done)} bodies, {sum(each.size_bytes for each in done)} bytes, "
        f"{seconds:.1f} seconds, {len(found)} violations"
    )
    return 1 if found else 0


# ---- Mutations ------------------------------------------------------------------------------------------------------


def _try_mutations(seed: int, workers: int) -> int:
    planted = [(name, api_mode) for name, mutation in MUTATIONS.items() for api_mode in mutation.wires]
    survived = [
        f"{name} by {api_mode}"
        for (name, api_mode), caught in zip(planted, _mapped(partial(_is_caught, seed), planted, workers), strict=True)
        if not caught
    ]
    print(
        f"{len(planted)} planted faults from seed {seed}, {len(survived)} not caught: {', '.join(survived) or 'none'}"
    )
    return 1 if survived else 0


def _is_caught(seed: int, planted: tuple[str, str]) -> bool:
    """Whether the fault is seen in some conversation where nothing of the kind is said without it."""
    name, api_mode = planted
    said = re.compile(MUTATIONS[name].said)
    for number in range(seed, seed + _MOST_TRIED):
        routes = routes_of(number)
        (with_it, _), *_ = _sent(number, routes, {api_mode: MUTATIONS[name].wires[api_mode]})
        if any(map(said.search, with_it)):
            (without, _), *_ = _sent(number, routes, {api_mode: WIRES[api_mode]})
            if not any(map(said.search, without)):
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())
