"""The same operations on a store and on the reference, in random order, and what they left compared."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

from hermes.kernel.effects import Append, Change, Learn, Rewrite, TurnEnded
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import StoreError
from hermes.kernel.messages import Message, Text, ToolCall, ToolResult
from hermes.kernel.sessions import Epoch, SessionLog, SessionStore, Snapshot


class SetClock:
    """A clock that stands until it is moved; seconds since the epoch."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def said(text: str, *calls: ToolCall) -> Message:
    return Message("assistant", (Text(text), *calls))


def call(call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(call_id, "look", arguments)


def result(call_id: str, text: str = "done", **state: Any) -> ToolResult:
    return ToolResult(call_id, "ok", (Text(text),), state=state or None)


def _plain(snapshot: Snapshot, ids: dict[int, int] | None) -> Snapshot:
    """With what may differ made alike: the id, and the numbers of inbox rows."""
    inbox = tuple(replace(row, id=ids[row.id] if ids else row.id) for row in snapshot.inbox)
    return replace(snapshot, info=replace(snapshot.info, id=""), inbox=inbox, state=dict(snapshot.state))


class Both:
    """Does the same to the log that is tried and to the one that is trusted, and compares what they answer."""

    def __init__(self, rng: random.Random, clock: SetClock, trusted: SessionLog, tried: SessionLog) -> None:
        self.random, self.clock, self.trusted, self.tried = rng, clock, trusted, tried
        self.ids: dict[int, int] = {}
        self.started: list[str] = []
        self.turn = 0

    def differences(self) -> dict[str, tuple[object, object]]:
        found, wanted = _plain(self.tried.load(), self.ids), _plain(self.trusted.load(), None)
        pairs = {name: (getattr(found, name), getattr(wanted, name)) for name in Snapshot.__slots__}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def turns_that_differ(self) -> list[int]:
        """Turns whose beginning or outcomes are not the reference's."""
        return [
            turn
            for turn in range(1, self.turn + 1)
            if self.tried.beginning(turn) != self.trusted.beginning(turn)
            or list(self.tried.outcomes(turn)) != list(self.trusted.outcomes(turn))
        ]

    def reopened(self, store: SessionStore) -> None:
        self.tried = store.open(self.tried.id)

    def step(self) -> None:
        self.clock.now += self.random.choice([0, 0.5, 40])
        name = self.random.choice(["turn", "record", "record", "record", "inbox", "drop", "start", "finish", "finish"])
        getattr(self, f"_{name}")()

    def _turn(self) -> None:
        if self.turn == 0 or self.random.random() < 0.3:
            self.turn = self._alike(lambda log: log.begin_turn({"n": self.turn}))

    def _record(self) -> None:
        back = {mine: theirs for theirs, mine in self.ids.items()}
        changes = [self._change() for _ in range(self.random.randint(0, 3))]
        mirrored = [
            replace(change, taken=tuple(back[i] for i in change.taken))
            if isinstance(change, (Append, Rewrite))
            else change
            for change in changes
        ]
        epoch = Epoch(self.random.randint(1, 3), "système", (), "why") if self.random.random() < 0.1 else None
        turn = self.turn if self.random.random() < 0.95 else self.turn + 1
        iterations, attempts = self.random.randint(0, 9), self.random.randint(0, 9)
        outcomes = [{"o": attempts}]
        starting = [ToolCall(f"new_{self.random.randint(0, 20)}", "noop", {})] if self.random.random() < 0.2 else []
        answers = []
        for log, what in ((self.trusted, changes), (self.tried, mirrored)):
            try:
                log.record(
                    turn,
                    what,
                    iterations=iterations,
                    attempts=attempts,
                    epoch=epoch,
                    outcomes=outcomes,
                    starting=starting,
                )
                answers.append("written")
            except StoreError:
                answers.append("refused")
        assert answers[0] == answers[1], (changes, answers)

    def _change(self) -> Change:
        live, rng = len(self.trusted.load().messages), self.random
        messages = tuple(self._message() for _ in range(rng.choice([0, 1, 1, 2, 3])))
        taken = (
            tuple({rng.choice(list(self.ids.values())) for _ in range(1)}) if self.ids and rng.random() < 0.3 else ()
        )
        if rng.random() < 0.15:
            return Learn(rng.choice("ab"), rng.choice([None, 1, {"x": ["ü"]}]), rng.choice([None, 50]))
        if rng.random() < 0.08:
            return TurnEnded(rng.choice([EndReason.COMPLETED, EndReason.REFUSED]), "ä")
        if rng.random() < 0.5:
            start = rng.randint(0, live)
            stop = rng.randint(start, min(live + (rng.random() < 0.1), start + 4)) if start <= live else start
            return Rewrite(start, stop, messages, "why", taken=taken)
        return Append(messages, taken)

    def _message(self) -> Message:
        kind, n = self.random.choice(["user", "assistant", "call"]), self.random.randint(0, 99)
        if kind == "user":
            return user(f"question {n} 世界")
        return said(f"answer {n}", *([call(f"m{n}", n=n)] if kind == "call" else []))

    def _inbox(self) -> None:
        kind: Literal["input", "steer"] = self.random.choice(("input", "steer"))
        parts = (Text(f"note {self.random.randint(0, 99)}"),)
        mine = self.trusted.put_inbox(kind, parts)
        self.ids[self.tried.put_inbox(kind, parts)] = mine

    def _drop(self) -> None:
        if self.ids:
            theirs, mine = self.random.choice(list(self.ids.items()))
            self.trusted.drop_inbox([mine])
            self.tried.drop_inbox([theirs])

    def _start(self) -> None:
        new = call(f"s{self.random.randint(0, 30)}", n=1)
        self.started.append(new.id)
        self._alike(lambda log: log.start_calls(self.turn, [new]))

    def _finish(self) -> None:
        if self.started:
            call_id = self.random.choice(self.started)
            state = {"todo": self.random.choice([None, [1], [2]])}
            if self.random.random() < 0.3:
                self._alike(lambda log: log.link_child(call_id, "kid"))
            self._alike(lambda log: log.finish_call(ToolResult(call_id, "ok", (Text("r"),), state)))
            self._alike(lambda log: log.calls(self.started))

    def _alike(self, do: Any) -> Any:
        answers = []
        for log in (self.trusted, self.tried):
            try:
                answers.append(do(log))
            except StoreError:
                answers.append("refused")
        assert answers[0] == answers[1], answers
        return answers[0]
