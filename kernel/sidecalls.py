"""Auxiliary calls outside of the loop: of a tool in the middle of its call, of a command without a turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes.kernel.auxiliary import ask_auxiliary, auxiliary_request
from hermes.kernel.effects import Answered, AskModel, Consult, Effect, Fault, Notify, Record, Spent, Wait
from hermes.kernel.errors import ToolError
from hermes.kernel.events import Event, Waiting
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Image, Json, Usage
from hermes.kernel.modelcalls import ModelCalls
from hermes.kernel.services import Services
from hermes.kernel.sessions import Epoch
from hermes.kernel.state import Limits, TurnState
from hermes.kernel.structured import checked_schema

_NO_PREFIX = Epoch(0, "", (), "")


@dataclass(frozen=True, slots=True)
class SideCalls:
    """Asks models for one session beside its turn. Safe from any thread: each call has its own ModelCalls.

    `spent` is told what each call of a model cost.
    """

    services: Services
    session: str
    emit: Callable[[Event], None]
    spent: Callable[[Usage], None]

    def ask(
        self,
        token: Token,
        prompt: str,
        *,
        images: Sequence[Image] = (),
        schema: Mapping[str, Json] | None = None,
        system: str = "",
    ) -> str:
        """See `ModelAsker`."""
        if not prompt.strip() and not images:
            raise ToolError("the model was asked nothing: the prompt is blank")
        plain = None if schema is None else checked_schema(schema)
        request = auxiliary_request(prompt, system=system, images=tuple(images), schema=plain)
        answer = self._drive(ask_auxiliary(self._state(), request), token)
        if isinstance(answer, Fault):
            raise ToolError(f"the auxiliary model gave no answer: {answer.detail or answer.kind.value}")
        return str(answer)

    def _state(self) -> TurnState:
        """What an auxiliary call needs to know of a turn; nothing of it is stored."""
        services = self.services
        return TurnState(
            self.session,
            0,
            [],
            targets=(services.chain()[0].name,),
            limits=Limits(attempts=services.settings.request.attempts),
            auxiliary=services.auxiliary(),
            blind=services.blind(),
        )

    def _drive(self, steps: Any, token: Token) -> str | Fault:
        models = ModelCalls(
            self.services.targets,
            self.services.plugins,
            self.services.ledger,
            self.emit,
            lambda: _NO_PREFIX,
            self.session,
        )
        outcome: Any = None
        while True:
            try:
                effect: Effect = steps.send(outcome)
            except StopIteration as end:
                answer: str | Fault = end.value
                return answer
            outcome = self._perform(effect, models, token)
            if token():
                raise ToolError("the turn was stopped, or the call's time is over")

    def _perform(self, effect: Effect, models: ModelCalls, token: Token) -> Any:
        match effect:
            case AskModel():
                reply, usage = models.ask(effect, token)
                self.spent(usage)
                spent = Spent(usage, models.ledger.exhausted())
                return replace(reply, spent=spent) if isinstance(reply, Fault) else Answered(reply, spent)
            case Consult(facts=facts):
                plugins = self.services.plugins
                return plugins.choose("choose_recovery", fault=facts["fault"], attempts=facts["attempts"])
            case Wait(seconds=seconds, why=why):
                self.emit(Waiting(seconds=seconds, why=why))
                left = models.ledger.seconds_left()
                return token.wait(seconds if left is None else min(seconds, left))
            case Record():
                return None  # what is learned holds for this call
            case Notify(event=event):
                return self.emit(event)
            case _:
                raise TypeError(f"an auxiliary call asks for {type(effect).__name__}")
