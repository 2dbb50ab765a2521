"""Perform AskModel: reserve the budget, stream the reply, commit what it cost; hooks around it, faults named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hermes.kernel.budget import Ledger
from hermes.kernel.config.settings import ModelOptions, RequestSettings
from hermes.kernel.effects import AskModel, Fault, FaultKind
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import PluginError, ProviderError, StopRun
from hermes.kernel.events import (
    AttemptDropped,
    Event,
    ModelCallEnded,
    ModelCallStarted,
    Progress,
    TextDelta,
    ThinkingDelta,
)
from hermes.kernel.faults import classify
from hermes.kernel.history import with_note
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Message, ModelReply, ModelRequest, Usage
from hermes.kernel.plugins import Plugins
from hermes.kernel.pricing import cost_usd
from hermes.kernel.providers import Parameters, Stream, Target, Timeouts, WireFault, WireFormat
from hermes.kernel.roles import ModelCallInfo
from hermes.kernel.sessions import Epoch
from hermes.kernel.sight import as_seen
from hermes.kernel.structured import for_target
from hermes.kernel.targets import Targets


@dataclass(slots=True)
class Serialised:
    """The conversation as one wire format wrote it for one target, kept by the identity of the messages.

    The longest run of the same objects from the front is reused, so a rewrite needs no word to it.
    """

    wire: WireFormat
    target: Target
    prefix: bytes
    epoch: int
    _messages: list[Message] = field(default_factory=list)
    _pieces: list[bytes] = field(default_factory=list)

    def pieces(self, messages: Sequence[Message], note: str) -> list[bytes]:
        """One fragment a message; the note is placed in a copy of the last one, which is not kept."""
        same = 0
        for kept, message in zip(self._messages, messages, strict=False):
            if kept is not message:
                break
            same += 1
        del self._messages[same:], self._pieces[same:]
        for message in messages[same:]:
            self._messages.append(message)
            self._pieces.append(self.encoded(message))
        if not note:
            return self._pieces
        noted = with_note(messages[-1:], note)
        last = self.encoded(noted[-1])
        return [*(self._pieces if len(noted) > 1 else self._pieces[:-1]), last]

    def encoded(self, message: Message) -> bytes:
        return self.wire.encode(as_seen(message, self.target), self.target)


CLOSING_GRACE_S = 20.0
"""How long the closing request of a turn may take once its time is used up; without it, it could never answer."""


class Refused(Exception):
    """The budget would not pay for a call."""

    def __init__(self, budget: EndReason) -> None:
        self.budget = budget
        super().__init__(budget.value)


@dataclass(slots=True)
class ModelCalls:
    """The model calls of one conversation. `emit` takes events; `epoch` gives the prefix that holds now."""

    targets: Targets
    plugins: Plugins
    ledger: Ledger
    emit: Callable[[Event], None]
    epoch: Callable[[], Epoch]
    session: str
    _serialised: dict[str, Serialised] = field(default_factory=dict)
    _partial: list[str] = field(default_factory=list)
    _spent: Usage = field(default_factory=Usage)
    _expected_tokens: int = 0
    _asked: Target | None = None
    _overdrawn: bool = False
    _is_shown: bool = True

    def begin_turn(self) -> None:
        self._overdrawn = False

    def ask(self, effect: AskModel, token: Token) -> tuple[ModelReply | Fault, Usage]:
        """The reply or the fault, and what all real calls inside the wrappers cost."""
        request = effect.request
        self._spent, self._partial, self._is_shown = Usage(), [], request.system is None
        self._asked = None
        info = ModelCallInfo(self.session, effect.target, effect.attempt, len(request.messages), request.purpose)
        self.plugins.observe("before_model_call", call=info)
        self.emit(ModelCallStarted(attempt=effect.attempt, target=effect.target, purpose=request.purpose))
        began = time.monotonic()
        outcome = self._outcome(effect, token)
        seconds = time.monotonic() - began
        fault = outcome.kind.value if isinstance(outcome, Fault) else ""
        stop = "" if isinstance(outcome, Fault) else outcome.stop_reason.value
        if fault and self._partial and not token():
            self.emit(AttemptDropped(attempt=effect.attempt, why=fault))
        self.emit(
            ModelCallEnded(
                attempt=effect.attempt,
                seconds=seconds,
                stop_reason=stop,
                fault=fault,
                usage=self._spent,
                target=effect.target,
                purpose=request.purpose,
            )
        )
        if self.plugins.wants("after_model_call"):
            after = replace(info, seconds=seconds, stop_reason=stop, fault=fault, usage=self._spent)
            self.plugins.observe("after_model_call", call=after)
        return outcome, self._spent

    @property
    def partial(self) -> str:
        """The text that the last call streamed."""
        return "".join(self._partial)

    def _outcome(self, effect: AskModel, token: Token) -> ModelReply | Fault:
        try:
            target = self.targets.get(effect.target, self._report, token)
            wire = self.targets.wire(target)
            reply = self.plugins.around(
                "around_model_call", effect.request, lambda request: self._call(wire, target, effect, request, token)
            )
        except WireFault as fault:
            if fault.cause == "connection":
                self.targets.forget(effect.target)
            named = replace(classify(fault), partial=self.partial)
            return named if self._asked is None else self.targets.refused(self._asked, named)
        except Refused as refused:
            return Fault(FaultKind.BUDGET, refused.budget.value, partial=self.partial, budget=refused.budget)
        except StopRun as stop:  # the runtime looks at the token: what was paid and streamed till then is kept
            token.set(EndReason.INTERRUPTED, stop.why or "a plugin stopped the run")
            return Fault(FaultKind.PLUGIN, stop.why, partial=self.partial)
        except ProviderError as error:
            known = error.kind in {kind.value for kind in FaultKind}
            return Fault(FaultKind(error.kind) if known else FaultKind.UNKNOWN, str(error))
        except PluginError as error:
            return Fault(FaultKind.PLUGIN, str(error), partial=self.partial)
        if not isinstance(reply, ModelReply):
            return Fault(FaultKind.PLUGIN, f"a plugin around the model call gave {type(reply).__name__}, not a reply")
        return reply

    def _call(
        self, wire: WireFormat, target: Target, effect: AskModel, request: ModelRequest, token: Token
    ) -> ModelReply:
        """One real call: reserve, stream, commit."""
        reserved, overdraws = self._expected_tokens, self._may_overdraw(request)
        if refused := self.ledger.reserve(reserved, overdraw=overdraws):
            raise Refused(refused)
        usage = Usage()
        try:
            keyed = self._asked = self.targets.with_key(target)
            request = for_target(request, target, has_tools=request.system is None and bool(self.epoch().tools))
            parameters = self._parameters(request, target)
            body = self._body(wire, target, request, parameters)
            stream = wire.open(body, parameters, keyed, self._timeouts())
            reply = self._stream(stream, effect.attempt, token, CLOSING_GRACE_S if overdraws else 0.0)
            usage = reply.usage
            if usage.cost_usd is None:
                usage = replace(usage, cost_usd=cost_usd(target, usage))
            self._expected_tokens = usage.total_tokens
            return replace(reply, usage=usage)
        finally:
            self.ledger.commit(reserved, usage)
            self._spent = self._spent + usage

    def _may_overdraw(self, request: ModelRequest) -> bool:
        if request.purpose != "summary" or self._overdrawn:
            return False
        self._overdrawn = True
        return True

    def _body(self, wire: WireFormat, target: Target, request: ModelRequest, parameters: Parameters) -> Sequence[bytes]:
        if request.system is not None:  # apart, so that neither prefix nor fragments of the conversation change
            own = Serialised(wire, target, wire.prefix(request.system, (), target), epoch=0)
            return wire.envelope(own.prefix, own.pieces(request.messages, request.note), parameters, target)
        epoch = self.epoch()
        kept = self._serialised.get(target.name)
        if kept is None or kept.epoch != epoch.number or kept.target is not target:
            kept = Serialised(wire, target, wire.prefix(epoch.system, epoch.tools, target), epoch.number)
            self._serialised[target.name] = kept
        return wire.envelope(kept.prefix, kept.pieces(request.messages, request.note), parameters, target)

    def _stream(self, stream: Stream, attempt: int, token: Token, grace_s: float) -> ModelReply:
        """Read a stream to its end; an interrupt, or the time budget after the grace, shuts its socket down."""
        self._partial.clear()
        forget = token.on_cancel(stream.abort)
        timer = self._timer(stream, grace_s)
        try:
            for delta in stream:
                if not self._is_shown:
                    continue
                if delta.kind == "text":
                    self._partial.append(delta.text)
                    self.emit(TextDelta(attempt=attempt, text=delta.text))
                elif delta.kind == "thinking":
                    self.emit(ThinkingDelta(attempt=attempt, text=delta.text))
            return stream.reply()
        except WireFault:
            if not token() and (over := self.ledger.exhausted()) is EndReason.BUDGET_TIME:
                raise Refused(over) from None
            raise
        finally:
            forget()
            if timer is not None:
                timer.cancel()

    def _timer(self, stream: Stream, grace_s: float) -> threading.Timer | None:
        left = self.ledger.seconds_left()
        if left is None:
            return None
        timer = threading.Timer(max(left, grace_s), stream.abort)
        timer.daemon = True
        timer.start()
        return timer

    def _parameters(self, request: ModelRequest, target: Target) -> Parameters:
        """`model_options` are the conversation's: an auxiliary model may not know them."""
        options: ModelOptions = self.targets.settings.model_options if request.system is None else ModelOptions()
        cap, most = request.output_cap or options.max_output_tokens, target.row.output_tokens if target.row else None
        return Parameters(
            self.targets.settings.display.stream,
            request.may_call,
            options.temperature,
            min(cap, most) if cap and most else cap,  # more than a model can write is refused by some
            options.reasoning_effort,
            request.leave_out,
            request.schema,
        )

    def _timeouts(self) -> Timeouts:
        asked: RequestSettings = self.targets.settings.request
        return Timeouts(asked.connect_timeout_s, asked.first_token_timeout_s, asked.stall_timeout_s)

    def _report(self, what: str, share: float | None) -> None:
        self.emit(Progress(what=what, share=share))
