"""Which target of the chain is asked: those that cool down, and those that fell silent, are passed over. Pure.

All of it is session state, so that it holds for the next turn and after a crash: `left:T` says why and in which turn a
target was left, `stalls:T` counts calls in a row that ended in silence, `open:T` keeps such a target from being asked,
`chain_spent` says that all of them failed a moment ago; T is the target's name.
"""

from __future__ import annotations

from hermes.kernel.effects import Fault, Learn
from hermes.kernel.recovery import COOLS_S, STALLS_OPEN, cools_s, passes
from hermes.kernel.state import TurnState

CHAIN_SPENT_S = 5.0
"""For so long after all targets failed, none is asked before its time: a client that sends the same again at once would
drive a long conversation through all of them each time (24996)."""


def first_target(state: TurnState) -> int:
    """The first that may be asked now; when all were left a short while ago, the first that did not fall silent.

    A turn that goes on after a crash comes back to none that it has left, unless it has left all of them.
    """
    ready = (i for i, name in enumerate(state.targets) if not _cools(state, name))
    audible = [i for i, name in enumerate(state.targets) if not is_open(state, name)]
    earlier = (i for i in audible if not _left_now(state, state.targets[i]))
    return next(ready, next(earlier, next(iter(audible), 0)))


def next_target(state: TurnState) -> int | None:
    """The next of the chain that may be asked now, else one of earlier turns that may serve again; None without one."""
    after = (i for i, n in enumerate(state.targets) if i > state.target and not _cools(state, n))
    return next(after, _last_resort(state))


def _last_resort(state: TurnState) -> int | None:
    """Better a target whose time is not over than none (B088), but never one that was left in this turn."""
    if "chain_spent" in state.known:
        return None
    return next((i for i, n in enumerate(state.targets) if i != state.target and _may_serve_again(state, n)), None)


def _may_serve_again(state: TurnState, target: str) -> bool:
    left = state.known.get(f"left:{target}")
    if left is None or _left_now(state, target):
        return False
    return passes(left["kind"]) and not is_open(state, target)


def _left_now(state: TurnState, target: str) -> bool:
    """Whether it was left in this turn."""
    return bool(state.known.get(f"left:{target}", {}).get("turn") == state.turn)


def _cools(state: TurnState, target: str) -> bool:
    return f"left:{target}" in state.known or is_open(state, target)


def go_to(state: TurnState, index: int) -> None:
    """Ask this target from now on; its window is its own (22387)."""
    state.target = index
    name = state.target_name
    state.window_tokens = state.known.get(f"window:{name}") or state.windows.get(name, state.window_tokens)


def is_wider(state: TurnState, index: int) -> bool:
    """Whether another target is known to hold more than the one in use."""
    window = state.windows.get(state.targets[index])
    return window is not None and state.window_tokens is not None and window > state.window_tokens


def leave(state: TurnState, fault: Fault) -> Learn:
    """What is learned of the target in use when it is left."""
    why = {"kind": fault.kind.value, "turn": state.turn}
    return state.learn(f"left:{state.target_name}", why, cools_s(fault))


# ---- Targets that fell silent ---------------------------------------------------------------------------------------


def is_open(state: TurnState, target: str) -> bool:
    """Whether it fell silent so often that nobody waits for it now (a circuit breaker)."""
    return f"open:{target}" in state.known


def most_attempts(state: TurnState, target: str) -> int:
    """One for a target that fell silent often: it is tried, and not waited for again."""
    return 1 if silences(state, target) >= STALLS_OPEN else state.limits.attempts


def silences(state: TurnState, target: str) -> int:
    return int(state.known.get(f"stalls:{target}", 0))


def fell_silent(state: TurnState, target: str) -> tuple[Learn, ...]:
    """Count a call that ended in silence, in whichever turn the others were (58962)."""
    count = silences(state, target) + 1
    counted = state.learn(f"stalls:{target}", count)
    if count < STALLS_OPEN:
        return (counted,)
    return counted, state.learn(f"open:{target}", True, COOLS_S)


def spoke(state: TurnState, target: str) -> tuple[Learn, ...]:
    """Any reply ends the count; () when there was none."""
    return tuple(state.learn(key, None) for key in (f"stalls:{target}", f"open:{target}") if key in state.known)
