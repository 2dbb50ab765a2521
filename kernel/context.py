"""Context pressure, and compression as a part of the turn.

Ground floor: an overflow is taken note of (the stated window is kept), a context engine of a plugin is asked, and when
there is none the turn ends `context_full`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes.kernel.effects import Consult, Fault, Learn, Notify, Record
from hermes.kernel.events import Notice
from hermes.kernel.history import Checker, InvalidConversation
from hermes.kernel.messages import Message
from hermes.kernel.repairs import forgotten_places
from hermes.kernel.state import Effects, TurnState

CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English text and code; only ever used where no provider has counted."""

MOST_COMPRESSIONS = 3
"""In one turn: an engine that does not shrink the conversation must not keep a turn alive."""


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Roughly how many tokens these messages are."""
    chars = 0
    for message in messages:
        for part in message.parts:
            chars += len(getattr(part, "text", "") or "")
            if arguments := getattr(part, "arguments", None):
                chars += len(str(arguments))
    return chars // CHARS_PER_TOKEN


def pressure(state: TurnState) -> float | None:
    """Share of the window that the last request filled, as the provider counted it; None when unknown."""
    if not state.window_tokens or not state.prompt_tokens:
        return None
    return state.prompt_tokens / state.window_tokens


def shrink(state: TurnState, fault: Fault, done: int) -> Effects:
    """Make the conversation shorter after an overflow; gives True when it is worth asking again."""
    if adopted := adopt(state, fault):
        yield Record((adopted,))
    if done >= MOST_COMPRESSIONS:
        return False
    facts = {"reason": fault.detail, "messages": tuple(state.messages), "window_tokens": state.window_tokens}
    shorter: Any = yield Consult("compression", facts)
    if not shorter or not _is_shorter(shorter, state):
        return False
    state.call_ids.update(c.id for m in shorter for c in m.calls)
    moved = [state.learn(key, value) for key, value in list(forgotten_places(state.known))]
    yield Record((state.rewrite(0, tuple(shorter), "compression", new_epoch=True), *moved))
    yield Notify(Notice(kind="context", text="the conversation was compressed to fit the context window"))
    return True


def adopt(state: TurnState, fault: Fault) -> Learn | None:
    """Take over the window that the provider states, where it is smaller than what was known (B069); else None."""
    stated, known = fault.limit_tokens, state.window_tokens
    if not stated or (known is not None and stated >= known):
        return None
    state.window_tokens = stated
    return state.learn(f"window:{state.target_name}", stated)


def _is_shorter(messages: Sequence[Message], state: TurnState) -> bool:
    tail = state.messages[-1]
    try:
        checker = Checker(messages)
        if tail.origin != "partial":
            checker.check_sendable()
    except InvalidConversation:
        return False
    if tail.origin == "partial" and messages[-1] != tail:
        return False  # the answer would lose what was already said of it
    if [r.call_id for r in messages[-1].results] != [r.call_id for r in tail.results]:
        return False  # calls have run whose results the model has not seen: it would make them again (B041)
    return estimate_tokens(messages) < estimate_tokens(state.messages)
