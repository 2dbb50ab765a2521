"""Drive the real `turn()` and `batch()` through a seeded session that crashes before and after effects and acts."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from oracles import Oracles, Violation
from world import SCHEMA, TOOLS, Crash, Mood, World

from hermes.kernel.batch import BatchFacts, BatchResult, batch
from hermes.kernel.config.settings import ApprovalRule, ApprovalSettings
from hermes.kernel.effects import (
    Answered,
    AskModel,
    CallEnd,
    CallOpinion,
    Consult,
    Effect,
    Fault,
    Notify,
    Ran,
    Record,
    RunTools,
    Spent,
    Steer,
    Stopped,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.history import repair
from hermes.kernel.journal import MemoryStore
from hermes.kernel.messages import Image, Json, Message, Text, ToolCall, UserInput
from hermes.kernel.outcomes import Trail, state_to_json
from hermes.kernel.state import Limits, TurnResult, TurnState
from hermes.kernel.turn import turn

FACTS = BatchFacts(
    TOOLS,
    Path("/"),
    ApprovalSettings(rules=(ApprovalRule("deny", "shell", "forbidden*"),)),
    workers=3,
    result_max_chars=200,
)
STOPS = (EndReason.INTERRUPTED, EndReason.TERMINATED, EndReason.HANGUP)


class Session:
    """One session on one store that outlives every crash. `records`: keep what a replay needs, and each result."""

    def __init__(self, seed: int, turns: int, *, records: bool = False) -> None:
        self.rng = Random(seed)
        mood = Mood.draw(self.rng)
        self.world = World(self.rng, mood)
        self.clock = 1000.0
        self.store = MemoryStore(clock=lambda: self.clock)
        self.log = self.store.open(self.store.create(directory="/", model="m"))
        self.oracles = Oracles(self.world, self.log)
        self.handed: set[int] = set()
        self.turns = turns
        self.effects = 0
        self.wants_stop: EndReason | None = None
        self.schema: Json = None
        self.trail = Trail() if records else None
        self.results: dict[int, TurnResult] = {}

    def run(self) -> int:
        """All turns of the session; returns how many there were. Raises Violation."""
        for _ in range(self.turns):
            self.user_turn()
            self.clock += self.rng.choice((1.0, 50.0, 200.0))
        self.oracles.session_end()
        return self.turns

    def user_turn(self) -> None:
        """A user's message, until its turn has an end, through as many crashes as there are."""
        self.schema = SCHEMA if self.world.chance(self.world.mood.schema) else None
        self._says()
        while True:
            try:
                if self.one_life():
                    return
            except Crash:
                self.handed.clear()
                self.oracles.crashed()
                if self.world.chance(0.2):  # the user has something new instead of a resume
                    self._says()

    def _says(self) -> None:
        """The user's message, on disk; sometimes with an image."""
        image = (Image("image/png", "aGk="),) if self.world.chance(self.world.mood.image) else ()
        self.log.put_inbox("input", (Text(self.oracles.new_input()), *image))

    def one_life(self) -> bool:
        """What one process does of the turn; True when the turn has ended."""
        found = self.log.load()
        waiting = [row for row in found.inbox if row.kind == "input"]
        if not waiting and found.open_turn is None:
            return True
        state = self._state(found)
        given = None
        if waiting or found.open_turn is None:
            parts = tuple(p for row in waiting for p in row.parts)
            given = UserInput(parts, tuple(row.id for row in waiting))
            self._maybe_crash()
            state.turn = self.log.begin_turn(state_to_json(state) if self.trail else {})
        elif found.open_turn is not None:
            state.turn, state.iterations = found.open_turn.id, found.open_turn.iterations
            state.attempts = found.open_turn.attempts
        self.wants_stop = None
        self.oracles.turn_begins(state, given)
        if self.trail:
            self.trail.begin(state, given, resumed=given is None)
        result = self.results[state.turn] = self.drive(turn(state, given), state)
        self.oracles.turn_ended(state, result)
        dropped = [s.inbox_id for s in state.steering]
        self.log.drop_inbox(dropped)
        return True

    def _state(self, found: Any) -> TurnState:
        mood = self.world.mood
        return TurnState(
            found.info.id,
            0,
            self._loaded(found.messages),
            frozenset(TOOLS),
            frozenset(n for n, t in TOOLS.items() if t.idempotent),
            set(found.call_ids),
            dict(found.state),
            tuple(f"target{n}" for n in range(mood.targets)),
            8000,
            limits=Limits(mood.limit, (0.7, 0.9), 5, mood.attempts),
            auxiliary=mood.auxiliary,
            blind=mood.blind,
            schema=self.schema,
        )

    def _loaded(self, messages: tuple[Message, ...]) -> list[Message]:
        """Repair leaves a valid conversation as it is, object for object; looked at now and then."""
        if self.world.chance(0.1):
            repaired = repair(messages)
            if len(repaired) != len(messages) or any(a is not b for a, b in zip(repaired, messages, strict=True)):
                raise Violation("repair changed a valid conversation")
        return list(messages)

    # ---- Drive a turn -----------------------------------------------------------------------------------------------

    def drive(self, generator: Generator[Effect, Any, TurnResult], state: TurnState) -> TurnResult:
        stopped = False
        outcome: Any = None
        thrown: Stopped | None = None
        while True:
            try:
                effect = generator.throw(thrown) if thrown else generator.send(outcome)
            except StopIteration as end:
                result: TurnResult = end.value
                return result
            thrown = None
            self.effects += 1
            if self.effects > 200_000:
                raise Violation("the session does not end")
            self._maybe_crash()
            self.oracles.effect(state, effect, stopped=stopped)
            try:
                outcome = self.perform(effect, state, may_stop=not stopped)
            except Stopped as stop:
                stopped, thrown = True, stop
                self.oracles.stopped(stop, effect)
            if self.trail:
                self.trail.add(effect, thrown or outcome)
            self._maybe_crash()

    def perform(self, effect: Effect, state: TurnState, *, may_stop: bool) -> Any:
        if isinstance(effect, Record):
            outcomes = self.trail.take(effect) if self.trail else ()
            counters = {"iterations": state.iterations, "attempts": state.attempts}
            self.log.record(state.turn, effect.changes, **counters, outcomes=outcomes)
            self.oracles.recorded(state, effect)
            if self.world.chance(self.world.mood.interrupt):
                self.wants_stop = self.rng.choice(STOPS)  # set inside a Record: waits for the next of the four
            return None
        if isinstance(effect, Notify):
            return None
        if may_stop and self.world.chance(self.world.mood.interrupt):
            self.wants_stop = self.rng.choice(STOPS)
        if may_stop and self.wants_stop:
            raise self._stopped_instead(effect, state)
        outcome = self._do(effect, state)
        if may_stop and (self.wants_stop or self.world.chance(self.world.mood.interrupt)):
            self.wants_stop = self.wants_stop or self.rng.choice(STOPS)
            raise self._stopped_after(outcome)
        self.oracles.outcome(effect, outcome)
        return outcome

    def _do(self, effect: Effect, state: TurnState) -> Any:
        match effect:
            case AskModel():
                return self._ask(effect)
            case RunTools():
                done = self._batch(effect.calls, may_start=effect.may_start)
                return Ran(done.results, self._spent(), self._steering())
            case Consult(question="turn_end"):
                return self.world.objection()
            case Consult(question="recovery"):
                return self.world.recovery()
            case Consult(question="compression"):
                return self.world.compression(effect.facts["messages"], self.oracles.precious(state))
            case Wait(seconds=seconds):
                self.oracles.waited(seconds)
                return None
            case _:
                raise Violation(f"unknown effect {effect}")

    def _ask(self, effect: AskModel) -> Answered | Fault:
        outcome = self.world.answer(effect.request)
        if isinstance(outcome, Fault):
            return replace(outcome, spent=self._spent(), steering=self._steering())
        return Answered(outcome, self._spent(), self._steering())

    def _spent(self) -> Spent:
        exhausted = EndReason.BUDGET_TOKENS if self.world.chance(self.world.mood.budget) else None
        return Spent(exhausted=exhausted)

    def _steering(self) -> tuple[Steer, ...]:
        """Now and then the user says something; what waits is handed out once a life."""
        if self.world.chance(self.world.mood.steer):
            said = self.oracles.new_steer()
            self.log.put_inbox("steer", (Text(said),))
        waiting = [r for r in self.log.waiting("steer") if r.id not in self.handed]
        self.handed.update(r.id for r in waiting)
        return tuple(Steer(r.id, r.text) for r in waiting)

    def _stopped_instead(self, effect: Effect, state: TurnState) -> Stopped:
        """The stop came before the effect was performed: what the journal has of its calls goes with it."""
        reason = self.wants_stop or EndReason.INTERRUPTED
        results = self._batch(effect.calls, may_start=False).results if isinstance(effect, RunTools) else ()
        partial = self.oracles.new_partial() if isinstance(effect, AskModel) and self.world.chance(0.5) else ""
        return Stopped(reason, partial=partial, results=results, steering=self._steering())

    def _stopped_after(self, outcome: Any) -> Stopped:
        reason = self.wants_stop or EndReason.INTERRUPTED
        results = outcome.results if isinstance(outcome, Ran) else ()
        partial = ""
        if isinstance(outcome, Fault):
            partial = outcome.partial
        elif isinstance(outcome, Answered):
            partial = outcome.reply.text
        steering = getattr(outcome, "steering", ()) or self._steering()
        return Stopped(reason, partial=partial, results=results, steering=steering)

    # ---- Drive a batch ----------------------------------------------------------------------------------------------

    def _batch(self, calls: tuple[ToolCall, ...], *, may_start: bool) -> BatchResult:
        acts = batch(calls, FACTS, may_start=may_start)
        running: list[ToolCall] = []
        outcome: Any = None
        while True:
            try:
                act = acts.send(outcome)
            except StopIteration as end:
                result: BatchResult = end.value
                self.oracles.batch_done(calls, result)
                return result
            self._maybe_crash()
            outcome = self._act(act, running)
            self._maybe_crash()

    def _act(self, act: Any, running: list[ToolCall]) -> Any:
        match type(act).__name__:
            case "Recall":
                return self.log.calls(act.call_ids)
            case "JournalStarted":
                self.oracles.started(act.calls)
                return self.log.start_calls(self.oracles.turn, act.calls)
            case "JournalFinished":
                self.log.finish_call(act.result)
                self.oracles.call_finished(act.result)
                return None
            case "ConsultCall":
                verdict = self.rng.choice(("allow",) * 18 + ("block", "ask"))
                return CallOpinion(verdict, "a plugin says so" if verdict != "allow" else ""), None
            case "Ask":
                if self.wants_stop is None and self.world.chance(self.world.mood.interrupt):
                    self.wants_stop = self.rng.choice(STOPS)
                if self.wants_stop:
                    return "stopped"
                return self.rng.choice(("once", "session", "always", "deny", "nobody"))
            case "Execute":
                if self.wants_stop:
                    return False
                running.extend(act.calls)
                return True
            case "Collect":
                return self._collect(running)
            case "Spill":
                return self.rng.choice((None, f"/spill/{act.call_id}"))
            case _:
                return None

    def _collect(self, running: list[ToolCall]) -> CallEnd | None:
        """One of the running calls acts and ends; a crash may come between the act and the end, or a stop."""
        if self.wants_stop is None and self.world.chance(self.world.mood.interrupt):
            self.wants_stop = self.rng.choice(STOPS)
        if self.wants_stop and self.world.chance(0.5):
            for call in running:
                if self.world.chance(0.5):
                    self.world.run(call)  # it acts, but nobody waits for it any more
            running.clear()
            return None
        call = running.pop(self.rng.randrange(len(running)))
        status, text, state = self.world.run(call)
        self._maybe_crash()
        self.world.returned[call.id] = text
        return CallEnd(call.id, status, (Text(text),), state)  # type: ignore[arg-type]

    def _maybe_crash(self) -> None:
        if self.world.chance(self.world.mood.crash):
            raise Crash


def run_session(seed: int, turns: int = 6) -> int:
    return Session(seed, turns).run()
