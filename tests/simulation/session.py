"""Drive the real `turn()` and `batch()` through a seeded session that crashes before and after effects and acts."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from asking import OURS
from oracles import Oracles
from servers import Violation
from world import BUDGETS, IMAGES, SCHEMA, TOOLS, Crash, Mood, World

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
    FaultKind,
    Notify,
    Ran,
    Record,
    RepairKind,
    RunTools,
    Spent,
    Steer,
    Stopped,
    Wait,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.history import repair
from hermes.kernel.inbox import Input, next_input, said
from hermes.kernel.journal import MemoryStore
from hermes.kernel.messages import Image, Json, Message, Text, ToolCall
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
NOTHING = Spent()
NOT_THE_LOOPS = {
    EndReason.INTERNAL,
    EndReason.USAGE,
    EndReason.SETTINGS,
    EndReason.STORE_FAILED,
    EndReason.CRASHED,
}
"""Endings that the turn itself never has: what goes wrong around it, or what a later process says of it."""

SESSION_KINDS = (
    *(f"end {reason.value}" for reason in EndReason if reason not in NOT_THE_LOOPS),
    *(f"fault {kind.value}" for kind in FaultKind),
    *(f"repair {kind.value}" for kind in RepairKind),
    *(f"stop at {name}" for name in ("AskModel", "RunTools", "Wait", "Consult")),
    *(f"effect {name}" for name in ("AskModel", "RunTools", "Wait", "Consult", "Record", "Notify")),
    *(f"learned {name}" for name in OURS),
    "crash",
    "resume",
    "steering",
    "steering kept",
    "queued",
    "compression",
    "primary restored",
    "last resort",
)
"""All that a session may reach; a long run must reach each of them."""


_EFFECTS = {kind: f"effect {kind.__name__}" for kind in (AskModel, RunTools, Wait, Consult, Record, Notify)}


class Session:
    """One session on one store that outlives every crash.

    `records`: keep what a replay needs, and each result. `rough`: faults abound.
    """

    def __init__(self, seed: int, turns: int, *, records: bool = False, rough: bool = False) -> None:
        self.rng = Random(seed)
        self.clock = 1000.0
        self.world = World(self.rng, Mood.draw(self.rng, rough=rough), self._now)
        self.store = MemoryStore(clock=self._now)
        self.log = self.store.open(self.store.create(directory="/", model="m"))
        self.oracles = Oracles(self.world, self.log, self._now)
        self.handed: set[int] = set()
        self.kept: set[int] = set()
        self.turns = turns
        self.effects = 0
        self.wants_stop: EndReason | None = None
        self.schema: Json = None
        self.trail = Trail() if records else None
        self.results: dict[int, TurnResult] = {}
        self.reached = self.oracles.reached
        self.waited_s = 0.0

    def _now(self) -> float:
        return self.clock

    def run(self) -> int:
        """All turns of the session; returns how many there were. Raises Violation."""
        for _ in range(self.turns):
            self.user_turn()
            self.clock += self.rng.choice((1.0, 50.0, 200.0))
        self.oracles.session_end()
        return self.turns

    def user_turn(self) -> None:
        """A user's message and whatever waits behind it, each until its turn ends, through as many crashes as come."""
        self.schema = SCHEMA if self.world.chance(self.world.mood.schema) else None
        begun: Input | None = self._says()
        while begun is not None:
            try:
                self.one_life(begun)
            except Crash:
                self.reached["crash"] += 1
                self.handed.clear()
                self.kept.clear()
                self.oracles.crashed()
                if self.world.chance(0.2):  # the user has something new instead of a resume
                    begun = self._says()
                    continue
            begun = next_input(self.log, self.log.load(), together=self.world.mood.together)

    def _says(self) -> Input:
        """The user's message, on disk; sometimes with images. It takes with it what was said before and waits."""
        shown = self.rng.randint(1, 3) if self.world.chance(self.world.mood.image) else 0
        images = [Image("image/png", self.rng.choice(IMAGES)) for _ in range(shown)]
        return said(self.log, self.log.load(), self.oracles.words.new_input(), images)

    def one_life(self, begun: Input) -> None:
        """What one process does of a turn, to its end."""
        found = self.log.load()
        state, given = self._state(found), begun.given
        if given is not None:
            self._maybe_crash()
            state.turn = self.log.begin_turn(state_to_json(state) if self.trail else {})
            self.handed.update(given.taken)
        elif found.open_turn is not None:
            self.reached["resume"] += 1
            state.turn, state.iterations = found.open_turn.id, found.open_turn.iterations
            state.attempts = found.open_turn.attempts
        self.wants_stop = None
        self.oracles.turn_begins(state, given)
        if self.trail:
            self.trail.begin(state, given, resumed=given is None)
        result = self.results[state.turn] = self.drive(turn(state, given), state)
        kept = {steer.text for steer in state.steering if steer.inbox_id in self.kept}
        self.oracles.turn_ended(state, result, kept)
        self.reached[f"end {result.reason.value}"] += 1
        self.log.drop_inbox([s.inbox_id for s in state.steering if s.inbox_id not in self.kept])

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
            mood.windows["target0"],
            limits=Limits(mood.limit, (0.7, 0.9), 5, mood.attempts, mood.output_cap),
            auxiliary=mood.auxiliary,
            blind=mood.blind,
            schema=self.schema,
            windows=mood.windows,
        )

    def _loaded(self, messages: tuple[Message, ...]) -> list[Message]:
        """Repair leaves a valid conversation as it is, object for object; looked at now and then."""
        if self.world.chance(0.02):
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
            self.reached[_EFFECTS[type(effect)]] += 1
            if self.effects > 200_000:
                raise Violation("the session does not end")
            self._maybe_crash()
            self.oracles.effect(state, effect, stopped=stopped)
            try:
                outcome = self.perform(effect, state, may_stop=not stopped)
            except Stopped as stop:
                stopped, thrown = True, stop
                self.oracles.stopped(stop, effect)
                self.reached[f"stop at {type(effect).__name__}"] += 1
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
                return self.world.compression(effect.facts["messages"], self.oracles.words.standing())
            case Wait(seconds=seconds):
                self.clock += seconds
                self.waited_s += seconds
                return None
            case _:
                raise Violation(f"unknown effect {effect}")

    def _ask(self, effect: AskModel) -> Answered | Fault:
        outcome = self.world.answer(effect)
        self.clock += 1.0
        if isinstance(outcome, Fault):
            self.reached[f"fault {outcome.kind.value}"] += 1
            if outcome.repair is not None:
                self.reached[f"repair {outcome.repair.value}"] += 1
            return replace(outcome, spent=self._spent(), steering=self._steering())
        return Answered(outcome, self._spent(), self._steering())

    def _spent(self) -> Spent:
        return Spent(exhausted=self.rng.choice(BUDGETS)) if self.world.chance(self.world.mood.budget) else NOTHING

    def _steering(self) -> tuple[Steer, ...]:
        """Now and then the user says something while the turn runs; what steers is handed out once a life."""
        if self.world.chance(self.world.mood.steer):
            self._says_meanwhile()
        waiting = [r for r in self.log.waiting("steer") if r.id not in self.handed]
        self.handed.update(r.id for r in waiting)
        return tuple(Steer(r.id, r.text) for r in waiting)

    def _says_meanwhile(self) -> None:
        """Said to the running turn: given back when no message takes it, or kept for a turn of its own, or queued."""
        how = self.rng.choice(("steering", "steering", "steering kept", "queued"))
        self.reached[how] += 1
        if how == "queued":
            self.log.put_inbox("input", (Text(self.oracles.words.new_input()),))
            return
        row = self.log.put_inbox("steer", (Text(self.oracles.words.new_steer()),))
        if how == "steering kept":
            self.kept.add(row)

    def _stopped_instead(self, effect: Effect, state: TurnState) -> Stopped:
        """The stop came before the effect was performed: what the journal has of its calls goes with it."""
        reason = self.wants_stop or EndReason.INTERRUPTED
        results = self._batch(effect.calls, may_start=False).results if isinstance(effect, RunTools) else ()
        partial, silent_s = "", 0.0
        if isinstance(effect, AskModel):
            partial = self.world.word("streamed") if self.world.chance(0.5) else ""
            silent_s = 0.0 if partial else self.rng.choice((1.0, 45.0))
        stop = Stopped(reason, partial=partial, results=results, steering=self._steering())
        stop.silent_s = silent_s
        return stop

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
        image = (Image("image/png", IMAGES[0]),) if self.world.chance(self.world.mood.image / 5) else ()
        return CallEnd(call.id, status, (Text(text), *image), state)  # type: ignore[arg-type]

    def _maybe_crash(self) -> None:
        if self.world.chance(self.world.mood.crash):
            raise Crash
