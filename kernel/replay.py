"""The replayer: the third driver of `turn()`, which feeds it the outcomes of a recorded turn.

It calls no hook, tool, provider or clock. A turn whose process died is replayed life by life, each from the mark where
a process took it up: what a life did after its last Record is gone, and the next one starts from that Record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hermes.kernel.effects import Append, Change, Effect, Notify, Record, Rewrite, Stopped
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import ReplayDiverged, StoreError, UsageError
from hermes.kernel.history import repair
from hermes.kernel.messages import Json, Message
from hermes.kernel.outcomes import digest, input_from_json, outcome_from_json, state_from_json
from hermes.kernel.sessions import SessionLog
from hermes.kernel.state import TurnResult, TurnState
from hermes.kernel.turn import turn

CRASHED = "The process died during this turn, and nobody went on with it."
AT_ITS_END = "the end of the turn"


@dataclass(slots=True)
class _Life:
    """What one process did of the turn: its mark, and its entries up to its last Record."""

    text: Json
    state: Json
    entries: list[Json] = field(default_factory=list)


def replay(log: SessionLog, number: int) -> TurnResult:
    """Drive a recorded turn again, from the state at its start; what it gave as its result, without the seconds.

    The reason of a turn that died and was not resumed is `crashed`, and its messages are those of its last Record.
    Raises ReplayDiverged where the turn asks for another effect than the recorded one; UsageError when nothing was
    recorded (`sessions.outcomes` was off, or the process died before the turn's first Record); StoreError when what
    was recorded cannot be read.
    """
    first, *later = _lives(log.outcomes(number), number)
    begins = log.beginning(number)
    first.state = begins.state
    replayer = _Replayer(log.id, number, repair(begins.messages), begins.call_ids)
    result = replayer.play(first)
    for life in later:
        if result.reason is not EndReason.CRASHED:
            raise replayer.diverged("a process takes the turn up again", AT_ITS_END)
        result = replayer.play(life)
    return result


def _lives(entries: Sequence[Json], number: int) -> list[_Life]:
    lives: list[_Life] = []
    with _readable(number):
        for entry in entries:
            if mark := entry.get("life"):
                lives.append(_Life(mark["input"], mark["state"]))
            elif lives:
                lives[-1].entries.append(entry)
    if not lives or lives[0].state is not None:
        raise UsageError(
            f"turn {number} was not recorded from its start, so it cannot be replayed: sessions.outcomes was off then, "
            "or the process died before it had written anything of the turn"
        )
    return lives


@dataclass(slots=True)
class _Replayer:
    """`messages` and `call_ids` are what the journal holds as the turn goes on; `step` counts over all its lives."""

    session_id: str
    number: int
    messages: list[Message]
    call_ids: frozenset[str]
    step: int = 0

    def play(self, life: _Life) -> TurnResult:
        """Feed one life to the turn; the reason is `crashed` when it was cut off."""
        with _readable(self.number):
            state = state_from_json(life.state, self.session_id, self.number, self.messages, self.call_ids)
            generator = turn(state, input_from_json(life.text))
        entries = iter(life.entries)
        resume: Callable[[], Effect] = generator.__next__
        while True:
            try:
                effect = resume()
            except StopIteration as end:
                if (more := next(entries, None)) is not None:
                    raise self.diverged(more["effect"], AT_ITS_END) from None
                result: TurnResult = end.value
                return replace(result, model=state.target_name)
            if isinstance(effect, Notify):
                resume = generator.__next__
            elif (entry := next(entries, None)) is None:  # what the crash took
                generator.close()
                return self._crashed(state)
            else:
                with _readable(self.number):
                    resume = _resuming(generator, self._outcome(effect, entry))

    def _outcome(self, effect: Effect, entry: Json) -> Any:
        """What was recorded of this effect, once it is known to be the same."""
        if (found := digest(effect)) != entry["effect"]:
            raise self.diverged(entry["effect"], found)
        self.step += 1
        if isinstance(effect, Record):
            self._apply(effect.changes)
        return outcome_from_json(entry["outcome"])

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, (Append, Rewrite)):
                end = len(self.messages)
                start, stop = (change.start, change.stop) if isinstance(change, Rewrite) else (end, end)
                self.messages[start:stop] = change.messages
                self.call_ids |= {c.id for m in change.messages for c in m.calls}

    def _crashed(self, state: TurnState) -> TurnResult:
        return TurnResult(
            self.session_id,
            self.number,
            EndReason.CRASHED,
            None,
            CRASHED,
            iterations=state.iterations,
            usage=state.usage,
            model=state.target_name,
            messages=tuple(self.messages),
        )

    def diverged(self, expected: str, found: str) -> ReplayDiverged:
        """The error for the next step."""
        return ReplayDiverged(self.number, self.step + 1, expected, found)


def _resuming(generator: Generator[Effect, Any, TurnResult], outcome: Any) -> Callable[[], Effect]:
    if isinstance(outcome, Stopped):
        return lambda: generator.throw(outcome)
    return lambda: generator.send(outcome)


@contextmanager
def _readable(number: int) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"what was recorded of turn {number} cannot be read ({type(error).__name__}: {error}): it was written by "
            "another version of hermes, or is damaged"
        ) from error
