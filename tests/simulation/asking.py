"""The rules of asking a model: retries, keys, waits, repairs, the chain of targets and its breaker.

The limits are written here a second time on purpose: the tables of the kernel may themselves be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from reasons import Evidence, taken_for
from servers import Violation
from silence import Silence
from tried import Tried, sent_as, unusable
from world import World

from hermes.kernel.effects import (
    Answered,
    AskModel,
    Consult,
    Fault,
    FaultKind,
    Learn,
    RecoveryChoice,
    RepairKind,
    Stopped,
    Wait,
)
from hermes.kernel.history import with_note
from hermes.kernel.messages import ALL_IMAGES, ImageRule, Json, Message, ModelRequest
from hermes.kernel.state import TurnState

NEVER_RETRIED = {
    FaultKind.AUTH,
    FaultKind.PERMISSION,
    FaultKind.BILLING,
    FaultKind.BAD_REQUEST,
    FaultKind.MODEL_NOT_FOUND,
    FaultKind.CONTENT_POLICY,
    FaultKind.CONTEXT_OVERFLOW,
    FaultKind.BODY_TOO_LARGE,
    FaultKind.OUTPUT_CAP,
    FaultKind.IMAGE_REFUSED,
    FaultKind.TLS,
}
MOST_EVER = {FaultKind.UNKNOWN: 2, FaultKind.PLUGIN: 2}
MOST_WITH_NEXT = {
    FaultKind.RATE_LIMIT: 1,
    FaultKind.INVALID_REPLY: 1,
    FaultKind.OVERLOADED: 2,
    FaultKind.TIMEOUT: 2,
    FaultKind.STALL: 2,
}
"""How often a target is asked while another one is ready."""

STAYS = {FaultKind.PLUGIN, FaultKind.CONTEXT_OVERFLOW, FaultKind.BODY_TOO_LARGE, FaultKind.BUDGET}
"""What another target would not mend."""

LONGEST_WAIT_S = 600.0
LONGEST_WAIT_WITH_NEXT_S = 120.0
COOLS_S = 60.0
LONGEST_COOLS_S = 86_400.0


class Asking:
    """Fed by the oracles with requests, their outcomes, waits, and what is learned."""

    def __init__(self, world: World, clock: Callable[[], float], reached: Counter[str]) -> None:
        self.world, self.clock, self.reached = world, clock, reached
        self.known: dict[str, tuple[Json, float | None]] = {}
        self.expiring: set[str] = set()
        self.silence = Silence(clock)
        self.chain: tuple[str, ...] = ()
        self.were_left: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self.main, self.aside = Tried(), Tried()
        self.now = self.main
        self.left: set[str] = set()
        self.used = self.answered = self.summaries = 0
        self.stale: set[str] = set()

    # ---- A life of a turn -------------------------------------------------------------------------------------------

    def turn_begins(self, state: TurnState) -> None:
        self._reset()
        self.chain, self.used = state.targets, state.iterations
        self.windows = dict(state.windows)
        for server in self.world.servers.values():
            server.billed.clear()
        now = self.clock()
        self.known = {k: (v, e) for k, (v, e) in self.known.items() if e is None or e > now}
        for key, (left, _) in self.known.items():
            if key.startswith("left:") and left["turn"] == state.turn:
                self.left.add(key.removeprefix("left:"))
        if {k: v for k, (v, _) in self.known.items()} != {k: v for k, v in state.known.items() if _is_ours(k)}:
            raise Violation(f"what was learned is not known: {state.known}, not {self.known}")

    def get(self, key: str) -> Json:
        return self.known[key][0] if key in self.known else None

    def is_ready(self, target: str) -> bool:
        return f"left:{target}" not in self.known and f"open:{target}" not in self.known

    def has_next(self, target: str) -> bool:
        """Whether a target after this one is ready; one of last resort does not count."""
        return any(map(self.is_ready, self.chain[self.chain.index(target) + 1 :]))

    # ---- Requests ---------------------------------------------------------------------------------------------------

    def asks(self, state: TurnState, effect: AskModel, disk: list[Message], seen: Evidence) -> None:
        request, target = effect.request, effect.target
        if seen.budget is not None and request.purpose != "summary":
            raise Violation(f"the budget was exhausted and the turn asked for {request.purpose} as if it were not")
        may_try_once = request.purpose == "auxiliary" and target not in self.aside.asked
        if self.silence.must_not_be_asked(target) and not may_try_once:
            raise Violation(f"{target} fell silent {self.silence.of(target)} times and is asked again")
        if request.purpose == "auxiliary":
            self._asks_aside(state, effect, disk)
        else:
            self._asks_the_conversation(state, effect, disk)
        self._holds_what_was_learned(target, request)
        self._may_follow(state, target)
        if self.now.cured and self.now.request is not None and sent_as(request) == sent_as(self.now.request):
            raise Violation(f"the request was mended after {self.now.fault} and is the same as before")
        self.now.request = request

    def _asks_the_conversation(self, state: TurnState, effect: AskModel, disk: list[Message]) -> None:
        request, target = effect.request, effect.target
        if request.purpose == "summary" and not self.summaries:
            self.main = Tried(target)  # the closing request has tries of its own
        self.now, tried = self.main, self.main
        if list(request.messages) != disk:
            raise Violation("the request's messages are not those on disk")
        sent = with_note(request.messages[-1:], request.note)
        if sent[-1].role == "assistant" or request.messages[-1].calls:
            raise Violation("the request cannot be sent: it ends with an assistant message or open calls")
        if target != tried.target:
            self._moves(target)
            tried.moves_to(target)
        if state.window_tokens != self._window(target):
            raise Violation(f"the window of {target} is {self._window(target)} and the turn has {state.window_tokens}")
        if request.purpose == "summary":
            self.summaries += 1
            if request.may_call:
                raise Violation("a summary request may call tools")
        elif (limit := state.limits.iterations) is not None and self.used + self.answered >= limit:
            raise Violation("more iterations than the limit")

    def _moves(self, target: str) -> None:
        """The first target of a turn, or the next of the chain: the first one that is ready."""
        old = self.main.target
        after = self.chain[self.chain.index(old) + 1 :] if old else self.chain
        ready = [name for name in after if self.is_ready(name)]
        elsewhere = any(name not in self.left and f"open:{name}" not in self.known for name in self.chain)
        if target in self.left and (old or elsewhere):
            raise Violation(f"{target} was left and is asked again")
        if f"open:{target}" in self.known:
            raise Violation(f"the breaker of {target} is open and it is asked")
        if ready and target != ready[0]:
            raise Violation(f"{target} is asked, and {ready[0]} is ready before it")
        if not ready and old:
            self.reached["last resort"] += 1
            if fault := self._last_resort(target):
                raise Violation(f"{target} is asked as a last resort, and {fault}")
        if not old and target == self.chain[0] and target in self.were_left:
            self.reached["primary restored"] += 1
            self.were_left.discard(target)

    def _last_resort(self, target: str) -> str:
        left = self.get(f"left:{target}")
        if not isinstance(left, dict):
            return "was not left"
        if "chain_spent" in self.known:
            return "the chain was spent a moment ago"
        passing = {kind.value for kind in FaultKind} - {kind.value for kind in NEVER_RETRIED}
        return "" if left["kind"] in passing else f"was left for {left['kind']}"

    def _window(self, target: str) -> int | None:
        adopted = self.get(f"window:{target}")
        return adopted if adopted is not None else self.windows.get(target)

    def _asks_aside(self, state: TurnState, effect: AskModel, disk: list[Message]) -> None:
        """An auxiliary call: messages of its own, the auxiliary target first, and then the main one once."""
        request, target = effect.request, effect.target
        self.now, tried = self.aside, self.aside
        on_disk = {id(m) for m in disk}
        if request.system is None or any(id(m) in on_disk for m in request.messages):
            raise Violation("an auxiliary call is sent the conversation")
        if target in state.blind:
            raise Violation(f"{target} is shown an image that it cannot be shown")
        if target != tried.target:
            if target in tried.asked:
                raise Violation(f"{target} was given up for an auxiliary call and is asked again")
            tried.moves_to(target)

    def _holds_what_was_learned(self, target: str, request: ModelRequest) -> None:
        if sorted(request.leave_out) != sorted(self.get(f"leave_out:{target}") or ()):
            raise Violation(
                f"{target} refuses {self.get(f'leave_out:{target}')} and is sent without {request.leave_out}"
            )
        cap = self.get(f"output_cap:{target}")
        if cap is not None and (request.output_cap is None or request.output_cap > cap):
            raise Violation(f"{target} can write {cap} tokens and is asked for {request.output_cap}")
        rule, has = self.get(f"images:{target}"), request.images
        if request.purpose != "auxiliary" and has != (ImageRule(**rule) if rule else ALL_IMAGES):
            raise Violation(f"{target} takes images by {rule} and is sent them by {has}")

    def _may_follow(self, state: TurnState, target: str) -> None:
        """Whether a request may follow the fault before it."""
        tried, fault = self.now, self.now.fault
        if fault is None or not tried.asked:
            return
        if needed := tried.needs_repair() or self._unadopted(tried):
            raise Violation(f"{fault.detail} ({needed}) was not mended, and the turn went on")
        if tried.attempts == 0 and tried.counted and not tried.cured:
            return  # another target than the one that failed
        if tried.cured or not tried.counted:
            return
        self._retries(state, target, tried, fault)

    def _unadopted(self, tried: Tried) -> str:
        """A window that was stated and not taken over, though it is smaller than what was known."""
        fault = tried.fault
        if fault is None or fault.kind is not FaultKind.CONTEXT_OVERFLOW or tried is not self.main or tried.choice:
            return ""
        known = self._window(tried.failed_at)
        return "window" if fault.limit_tokens and (known is None or fault.limit_tokens < known) else ""

    def _retries(self, state: TurnState, target: str, tried: Tried, fault: Fault) -> None:
        aside = tried is self.aside
        has_next = not aside and self.has_next(target)
        limit = max(state.limits.attempts, 1) if not aside or len(tried.asked) == 1 else 1
        chosen = tried.choice is not None and tried.choice.action == "retry"
        if fault.kind is FaultKind.BUDGET:
            return
        if tried.attempts >= limit:
            raise Violation(f"{target} is asked a time more than its attempts allow")
        if tried.waited_s is None:
            raise Violation(f"{target} is asked again without a wait")
        if chosen and fault.kind is not FaultKind.BILLING:
            return
        if fault.kind in NEVER_RETRIED:
            raise Violation(f"{fault.kind} was retried against its policy")
        most = min(
            limit, MOST_EVER.get(fault.kind, limit), MOST_WITH_NEXT.get(fault.kind, limit) if has_next else limit
        )
        if tried.attempts >= most:
            raise Violation(f"{fault.kind} was retried {tried.attempts} times, and {most - 1} are allowed")
        longest = LONGEST_WAIT_WITH_NEXT_S if has_next else LONGEST_WAIT_S
        if (fault.retry_after_s or 0.0) > longest:
            raise Violation(f"asked again in spite of a Retry-After of {fault.retry_after_s} s")
        if tried.waited_s < (fault.retry_after_s or 0.0):
            raise Violation(f"asked again after {tried.waited_s} s, before the Retry-After of {fault.retry_after_s} s")

    # ---- Outcomes ---------------------------------------------------------------------------------------------------

    def outcome(self, effect: AskModel, outcome: Answered | Fault) -> None:
        if effect.request.purpose == "turn" and isinstance(outcome, Answered):
            self.answered += 1
        self.silence.heard(effect.target, outcome)
        if isinstance(outcome, Fault):
            self.now.failed(outcome)
        elif effect.request.purpose != "auxiliary":
            self.main = Tried(effect.target, asked=[effect.target])
            self.now = self.main
        elif fault := unusable(outcome.reply):
            self.aside.failed(fault)
        else:
            self.aside, self.now = Tried(), self.main

    def stopped(self, stop: Stopped, effect: AskModel) -> None:
        self.silence.stopped(effect.target, stop)

    def consulted(self, effect: Consult, outcome: Any) -> None:
        self.now.choice = outcome if isinstance(outcome, RecoveryChoice) else None

    def waits(self, effect: Wait) -> None:
        longest = LONGEST_WAIT_S
        if not 0 <= effect.seconds <= longest:
            raise Violation(f"a wait of {effect.seconds} s")
        if self.now.fault is None or self.now.cured:
            raise Violation("a wait after no fault")
        self.now.waited_s = (self.now.waited_s or 0.0) + effect.seconds

    def compressed(self) -> None:
        self.reached["compression"] += 1
        self.stale = {key for key, (value, _) in self.known.items() if key.startswith("images:") and "start" in value}
        self.main.is_cured()

    # ---- What is learned --------------------------------------------------------------------------------------------

    def recorded(self) -> None:
        self.silence.recorded()
        if self.stale:
            raise Violation(f"{self.stale} name places in a conversation that was compressed")

    def learned(self, change: Learn) -> None:
        if not _is_ours(change.key):
            return
        what, _, target = change.key.partition(":")
        self.reached[f"learned {what}"] += 1
        before = self.get(change.key)
        if what == "left":
            self._leaves(target, change.ttl_s)
        elif what == "leave_out":
            self._leaves_out(target, set(before or ()), set(change.value))
        elif what == "images" and change.value != before:
            self._drops_images(change.value)
        elif what == "output_cap":
            self._lowers(change.value)
        elif what == "window" and self._window(target) is not None and change.value > self._window(target):
            raise Violation(f"the window of {target} was adopted and is larger than before")
        elif what == "open" and change.value and not self.silence.is_out(target):
            raise Violation(f"the breaker of {target} opened after {self.silence.of(target)} stalls")
        elif what == "stalls" and (change.value or 0) != self.silence.of(target):
            raise Violation(f"{target} fell silent {self.silence.of(target)} times and {change.value} is kept")
        self.stale.discard(change.key)
        if change.ttl_s is not None:
            self.expiring.add(change.key)
        if change.value is None:
            self.known.pop(change.key, None)
        else:
            self.known[change.key] = (change.value, None if change.ttl_s is None else self.clock() + change.ttl_s)

    def _leaves(self, target: str, ttl_s: float | None) -> None:
        asked_s = self.main.fault.retry_after_s if self.main.fault else None
        if ttl_s != min(max(COOLS_S, asked_s or 0.0), LONGEST_COOLS_S):
            raise Violation(f"{target} was left for {ttl_s} s, and asked for {asked_s}")
        self.left.add(target)
        self.were_left.add(target)

    def _leaves_out(self, target: str, before: set[str], after: set[str]) -> None:
        tried, fault, new = self.now, self.now.fault, after - before
        if fault is None or tried.target != target or not new or before - after:
            raise Violation(f"{before} and then {after} is left out for {target} after {fault}")
        if tried.needed_name() not in new:
            raise Violation(f"{new} is left out after {fault}")
        tried.repaired()

    def _drops_images(self, rule: Json) -> None:
        tried, fault = self.now, self.now.fault
        if fault is None or tried.cured:
            if rule is not None and "start" in rule:
                raise Violation(f"images are dropped after {fault}")
            return  # a compression forgets where the old ones were
        if fault.repair in (RepairKind.IMAGES, RepairKind.TOOL_IMAGES) or fault.kind is FaultKind.BODY_TOO_LARGE:
            tried.repaired()
        elif fault.kind is not FaultKind.CONTEXT_OVERFLOW:
            raise Violation(f"images are dropped after {fault}")

    def _lowers(self, cap: Json) -> None:
        tried, fault = self.now, self.now.fault
        if fault is None or fault.kind is not FaultKind.OUTPUT_CAP or tried.request is None:
            raise Violation(f"the output cap is lowered after {fault}")
        sent = tried.request.output_cap
        if cap <= 0 or (sent is not None and cap >= sent):
            raise Violation(f"the output cap goes from {sent} to {cap}")
        tried.repaired()

    def is_silent(self) -> bool:
        """Whether the target in use may not be asked because it fell silent, and no other is ready."""
        first = next(iter(self.chain)) if not self.main.target else self.main.target
        return f"open:{first}" in self.known and not self.has_next(first)

    # ---- The end ----------------------------------------------------------------------------------------------------

    def gave_up_early(self, state: TurnState) -> str:
        """What was left to try when a turn ended by a fault; "" when nothing was."""
        tried, fault = self.main, self.main.fault
        if fault is None or tried.cured or (tried.choice is not None and tried.choice.action == "give_up"):
            return ""
        if needed := tried.needs_repair() or self._unadopted(tried):
            return f"the turn ended by {fault.detail}, and {needed} was not mended"
        if not tried.counted:
            return f"the turn ended by {fault.detail}, and {fault.other_keys} other keys are ready"
        kind = taken_for(fault)
        if kind not in STAYS and self.has_next(tried.target):
            return f"the turn ended by {kind}, and the chain has another target that is ready"
        most = min(max(state.limits.attempts, 1), MOST_EVER.get(fault.kind, 99))
        wall = (fault.retry_after_s or 0.0) > LONGEST_WAIT_S or self.silence.is_out(tried.target)
        if fault.kind not in NEVER_RETRIED | {FaultKind.BUDGET} and tried.attempts < most and not wall:
            return f"the turn ended by {fault.kind} after {tried.attempts} attempts of {most}"
        return ""


OURS = ("leave_out", "images", "output_cap", "window", "left", "stalls", "open", "chain_spent")


def _is_ours(key: str) -> bool:
    return key.partition(":")[0] in OURS
