"""Perform AskModel: reserve the budget, stream the reply, commit what it cost; hooks around it, faults named."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from hermes.kernel.budget import Ledger
from hermes.kernel.config.settings import ModelOptions
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
from hermes.kernel.messages import ALL_IMAGES, ImageRule, Message, ModelReply, ModelRequest, Usage
from hermes.kernel.plugins import Plugins
from hermes.kernel.pricing import cost_usd
from hermes.kernel.providers import Parameters, Stream, Target, WireFault, WireFormat
from hermes.kernel.roles import ModelCallInfo
from hermes.kernel.sessions import Epoch
from hermes.kernel.sight import NOTHING_HIDDEN, as_seen, hidden_images
from hermes.kernel.structured import SCHEMA_KEYWORDS, for_target, plain_tool
from hermes.kernel.targets import Targets
from hermes.kernel.timeouts import timeouts_for


@dataclass(slots=True)
class Serialised:
    """The conversation as one wire format wrote it for one target, kept by the identity of the messages.

    The longest run of the same objects from the front is reused, so a rewrite needs no word to it. `is_plain`: the
    tools' schemas in the prefix are without the keywords that this target refused.
    """

    wire: WireFormat
    target: Target
    prefix: bytes
    epoch: int
    is_plain: bool = False
    _messages: list[Message] = field(default_factory=list)
    _pieces: list[bytes] = field(default_factory=list)
    _hidden: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def pieces(self, messages: Sequence[Message], note: str, rule: ImageRule = ALL_IMAGES) -> list[bytes]:
        """One fragment a message; the note is placed in a copy of the last one, which is not kept."""
        hidden = hidden_images(messages, rule)
        same = self._same(messages, hidden)
        self._hidden = hidden
        del self._messages[same:], self._pieces[same:]
        for place, message in enumerate(messages[same:], same):
            self._pieces.append(self.encoded(message, hidden.get(place, NOTHING_HIDDEN)))
            self._messages.append(message)  # last: a message that could not be encoded is still to be sent
        if not note:
            return self._pieces
        noted = with_note(messages[-1:], note)
        last = self.encoded(noted[-1], hidden.get(len(messages) - 1, NOTHING_HIDDEN))
        return [*(self._pieces if len(noted) > 1 else self._pieces[:-1]), last]

    def _same(self, messages: Sequence[Message], hidden: Mapping[int, frozenset[int]]) -> int:
        """How many messages from the front are the same objects, shown in the same way."""
        count = len(self._messages)
        if not hidden and not self._hidden and len(messages) >= count and all(map(is_, self._messages, messages)):
            return count
        for place, (kept, message) in enumerate(zip(self._messages, messages, strict=False)):
            if kept is not message or hidden.get(place) != self._hidden.get(place):
                return place
        return min(count, len(messages))

    def encoded(self, message: Message, hidden: frozenset[int]) -> bytes:
        return self.wire.encode(as_seen(message, self.target, hidden), self.target)


CLOSING_GRACE_S = 20.0
"""How long the closing request of a turn may take once its time is used up; without it, it could never answer."""


_LOG = logging.getLogger(__name__)


class Refused(Exception):
    """The budget would not pay for a call."""

    def __init__(self, budget: EndReason) -> None:
        self.budget = budget
        super().__init__(budget.value)


@dataclass(slots=True)
class ModelCalls:
    """The model calls of one conversation. `emit` takes events; `epoch` gives the prefix that holds now.

    `silent_s` is how long the server had sent nothing when the last call ended.
    """

    targets: Targets
    plugins: Plugins
    ledger: Ledger
    emit: Callable[[Event], None]
    epoch: Callable[[], Epoch]
    session: str
    silent_s: float = 0.0
    _heard: float = 0.0
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
        ended = time.monotonic()
        seconds, self.silent_s = ended - began, ended - max(began, self._heard)
        if isinstance(outcome, Fault) and not token():
            _log_fault(effect.target, outcome, seconds)
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
            stream = wire.open(body, parameters, keyed, timeouts_for(keyed, self.targets.settings.request))
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
            return wire.envelope(
                own.prefix, own.pieces(request.messages, request.note, request.images), parameters, target
            )
        epoch = self.epoch()
        is_plain = SCHEMA_KEYWORDS in request.leave_out
        kept = self._serialised.get(target.name)
        if kept is None or kept.epoch != epoch.number or kept.target is not target or kept.is_plain is not is_plain:
            tools = tuple(map(plain_tool, epoch.tools)) if is_plain else epoch.tools
            kept = Serialised(wire, target, wire.prefix(epoch.system, tools, target), epoch.number, is_plain)
            self._serialised[target.name] = kept
        return wire.envelope(
            kept.prefix, kept.pieces(request.messages, request.note, request.images), parameters, target
        )

    def _stream(self, stream: Stream, attempt: int, token: Token, grace_s: float) -> ModelReply:
        """Read a stream to its end; an interrupt, or the time budget after the grace, shuts its socket down."""
        self._partial.clear()
        forget = token.on_cancel(stream.abort)
        timer = self._timer(stream, grace_s)
        try:
            for delta in stream:
                self._heard = time.monotonic()
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
        options = self.targets.options_of(target.name) if request.system is None else ModelOptions()
        cap, most = request.output_cap, target.row.output_tokens if target.row else None
        if cap in (None, self.targets.settings.model_options.max_output_tokens):
            cap = options.max_output_tokens  # the turn asks for the primary's, and a fallback may have its own
        return Parameters(
            self.targets.settings.display.stream,
            request.may_call,
            options.temperature,
            min(cap, most) if cap and most else cap,  # more than a model can write is refused by some
            options.reasoning_effort,
            request.leave_out,
            request.schema,
        )

    def _report(self, what: str, share: float | None) -> None:
        self.emit(Progress(what=what, share=share))


def _log_fault(target: str, fault: Fault, seconds: float) -> None:
    """One line for whoever looks for the reason: provider and model, what it was taken for, and by which row."""
    provider, _, model = target.partition(":")
    status = "no status" if fault.status is None else f"status {fault.status}"
    _LOG.warning(
        "provider %s model %s: %s (row %s, %s) after %.1f s: %s",
        provider, model, fault.kind.value, fault.row or "none", status, seconds, fault.detail,
    )  # fmt: skip
