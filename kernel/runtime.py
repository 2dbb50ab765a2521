"""Drive a turn: perform its effects against the world, and throw `Stopped` into it when its token is set."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

from hermes.kernel.durable import DurableLog
from hermes.kernel.effects import (
    Answered,
    AskModel,
    Consult,
    Effect,
    Fault,
    Notify,
    Ran,
    Record,
    RunTools,
    Spent,
    Stopped,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import HermesError, StopRun
from hermes.kernel.events import Event, Waiting
from hermes.kernel.history import result_text
from hermes.kernel.inbox import Inbox
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Usage, UserInput
from hermes.kernel.modelcalls import ModelCalls
from hermes.kernel.outcomes import Trail
from hermes.kernel.plugins import Plugins
from hermes.kernel.roles import CompressionInfo, ContextEngine, TurnInfo
from hermes.kernel.sessions import Epoch
from hermes.kernel.state import TurnResult, TurnState
from hermes.kernel.toolrunner import Surroundings, ToolRunner
from hermes.kernel.turn import turn

_LOG = logging.getLogger("hermes.runtime")


@dataclass(slots=True)
class Runtime:
    """The driver of one conversation's turns. One turn at a time; `token` is the running turn's.

    `trail` None: outcomes are not recorded (`sessions.outcomes`).
    """

    log: DurableLog
    models: ModelCalls
    tools: ToolRunner
    plugins: Plugins
    emit: Callable[[Event], None]
    surroundings: Callable[[TurnState, Token], Surroundings]
    engine: ContextEngine | None = None
    new_epoch: Callable[[str], Epoch] | None = None
    trail: Trail | None = None
    inbox: Inbox = field(init=False)
    child_usage: list[Usage] = field(default_factory=list)
    _around: Surroundings | None = None

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.log)

    def run(self, state: TurnState, text: UserInput | None, token: Token) -> TurnResult:
        """Drive one turn to its end. Never raises for what a provider, tool, plugin or store does."""
        self.models.begin_turn()
        self._around = self.surroundings(state, token)
        began = time.monotonic()
        result = self._drive(turn(state, text), state, token)
        seconds = time.monotonic() - began
        state.steering.extend(self.inbox.take())  # said after the last outcome: no message can take it any more
        return replace(result, seconds=seconds, stored=self.log.stored, model=state.target_name)

    def _drive(self, generator: Generator[Effect, Any, TurnResult], state: TurnState, token: Token) -> TurnResult:
        stopped = False
        step: Callable[[], Effect] = generator.__next__
        while True:
            try:
                effect = step()
            except StopIteration as end:
                result: TurnResult = end.value
                return result
            try:
                outcome = self._perform(effect, state, token, may_stop=not stopped)
            except Stopped as stop:
                stopped, outcome = True, stop
                step = _throwing(generator, stop)
            else:
                step = _sending(generator, outcome)
            if self.trail is not None:
                self.trail.add(effect, outcome)

    def _perform(self, effect: Effect, state: TurnState, token: Token, *, may_stop: bool) -> Any:
        """Perform one effect; raises Stopped at those that may be interrupted."""
        if isinstance(effect, Record):
            return self._record(effect, state)
        if isinstance(effect, Notify):
            return self.emit(effect.event)
        if may_stop and token():
            raise self._stop(token, self._known(effect, state))
        try:
            outcome = self._do(effect, state, token)
        except StopRun as stop:
            token.set(EndReason.INTERRUPTED, stop.why or "a plugin stopped the run")
            raise self._stop(token, self._known(effect, state)) from None
        except HermesError as error:  # such as any failure of a plugin where HERMES_STRICT_PLUGINS is set
            if not may_stop:
                raise
            token.set(error.reason, str(error))
            raise self._stop(token, self._known(effect, state)) from error
        except Exception as error:  # a fault of our own: the conversation is closed all the same, and the reason said
            _LOG.exception("%s failed", type(effect).__name__)
            if not may_stop:
                raise
            token.set(EndReason.INTERNAL, f"{type(error).__name__}: {error}")
            raise self._stop(token, self._known(effect, state)) from error
        if may_stop and token():
            raise self._stop(token, outcome)
        return outcome

    def _known(self, effect: Effect, state: TurnState) -> Ran | None:
        """What the journal has of the calls of a RunTools that is not run to its end: it wins over "cancelled"."""
        if not isinstance(effect, RunTools):
            return None
        try:
            return self._run_tools(replace(effect, may_start=False), state)
        except Exception:  # nobody can say any more; "was not run" would be a lie
            _LOG.exception("what became of the calls is not known")
            text = "The outcome of this call is unknown: hermes failed meanwhile, so it may have run."
            return Ran(tuple(result_text(call.id, "unknown", text) for call in effect.calls))

    def _do(self, effect: Effect, state: TurnState, token: Token) -> Any:
        match effect:
            case AskModel():
                return self._ask(effect, token)
            case RunTools():
                return self._run_tools(effect, state)
            case Consult():
                return self._consult(effect, state)
            case _:
                return self._wait(effect, token)

    # ---- The effects ------------------------------------------------------------------------------------------------

    def _ask(self, effect: AskModel, token: Token) -> Answered | Fault:
        outcome, usage = self.models.ask(effect, token)
        spent = Spent(usage, self.models.ledger.exhausted())
        if isinstance(outcome, Fault):
            return replace(outcome, spent=spent, steering=self.inbox.take())
        return Answered(outcome, spent, self.inbox.take())

    def _run_tools(self, effect: RunTools, state: TurnState) -> Ran:
        if self._around is None:
            raise RuntimeError("RunTools outside a turn")
        done = self.tools.run(effect, state.known, self._around)
        usage = sum(self.child_usage, Usage())
        self.child_usage.clear()
        return Ran(done.results, Spent(usage, self.models.ledger.exhausted()), self.inbox.take())

    def _record(self, effect: Record, state: TurnState) -> None:
        epoch = None
        if self.new_epoch is not None and any(getattr(c, "new_epoch", False) for c in effect.changes):
            epoch = self.new_epoch("compression")
        counters = {
            "iterations": state.iterations,
            "attempts": state.attempts,
            "epoch": epoch,
            "outcomes": self.trail.take(effect) if self.trail is not None else (),
        }
        if calls := state.messages[-1].calls:  # nothing happens before they start: one transaction for both
            self.log.record_later(state.turn, effect.changes, calls, **counters)
        else:
            self.log.record(state.turn, effect.changes, **counters)

    def _consult(self, effect: Consult, state: TurnState) -> Any:
        facts = effect.facts
        match effect.question:
            case "turn_end" if self.plugins.wants("choose_turn_end"):
                info = TurnInfo(
                    state.session_id, state.turn, "", answer=facts["answer"], messages=tuple(state.messages)
                )
                return self.plugins.choose("choose_turn_end", turn=info)
            case "recovery" if self.plugins.wants("choose_recovery"):
                return self.plugins.choose("choose_recovery", fault=facts["fault"], attempts=facts["attempts"])
            case "compression" if self.engine is not None:
                return self._compress(self.engine, effect, state)
            case _:
                return None

    def _compress(self, engine: ContextEngine, effect: Consult, state: TurnState) -> Any:
        messages = effect.facts["messages"]
        info = CompressionInfo(state.session_id, str(effect.facts["reason"]), len(messages), state.prompt_tokens)
        self.plugins.observe("before_compression", compression=info)
        try:
            shorter = engine.compress(messages, effect.facts["window_tokens"])
        except Exception as error:  # a plugin's engine: the conversation stays as it is
            _LOG.warning("context engine %s failed: %s", engine.name, error, exc_info=True)
            shorter = None
        self.plugins.observe("after_compression", compression=info)
        return shorter

    def _wait(self, effect: Any, token: Token) -> None:
        if effect.seconds > 0:
            self.emit(Waiting(seconds=effect.seconds, why=effect.why))
            left = self.models.ledger.seconds_left()
            token.wait(effect.seconds if left is None else min(effect.seconds, max(left, 0.0)))

    def _stop(self, token: Token, outcome: Any = None) -> Stopped:
        """What happened before the stop, as the turn is told of it."""
        reason = token.reason or EndReason.INTERRUPTED
        spent = getattr(outcome, "spent", None)
        steering = getattr(outcome, "steering", ()) or self.inbox.take()
        partial = ""
        if isinstance(outcome, Fault):
            partial = outcome.partial
        elif isinstance(outcome, Answered):
            partial = outcome.reply.text
        results = outcome.results if isinstance(outcome, Ran) else ()
        stop = Stopped(reason, partial=partial, results=results, spent=spent, steering=steering, detail=token.detail)
        stop.silent_s = self.models.silent_s if isinstance(outcome, Fault) else 0.0
        return stop


def _sending(generator: Generator[Effect, Any, TurnResult], outcome: Any) -> Callable[[], Effect]:
    return lambda: generator.send(outcome)


def _throwing(generator: Generator[Effect, Any, TurnResult], stop: Stopped) -> Callable[[], Effect]:
    return lambda: generator.throw(stop)
