"""What to do about a reply that holds neither answer nor call: a refusal, thoughts alone, nothing at all.

Nothing of such a reply is stored, so the conversation stands as it was after the last whole message.
"""

from __future__ import annotations

from hermes.kernel.asking import act
from hermes.kernel.chain import next_target
from hermes.kernel.effects import Fault, FaultKind, Record
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import Message, ModelReply, StopReason, Text, clean
from hermes.kernel.progress import Progress
from hermes.kernel.recovery import NextTarget, Tries
from hermes.kernel.replies import DETAILS, EMPTY, MOST_EMPTY, THOUGHT_ONLY, Kind, larger_cap
from hermes.kernel.state import Effects, Ended, TurnState

NOTE_TOOLS = frozenset({"memory", "todo"})
"""The kernel tools whose results tell a model nothing that it would have to answer to."""


def no_answer(state: TurnState, progress: Progress, reply: ModelReply, kind: Kind) -> Effects:
    """An empty reply is asked about again, a few times; a refusal, and a model that stays silent, are left.

    Where there is no other target the turn ends. A model whose thoughts took all of its output would do so again.
    """
    if kind is Kind.THINKING_CUT:
        raise Ended(EndReason.THINKING_EXHAUSTED, DETAILS[EndReason.THINKING_EXHAUSTED])
    if kind is Kind.REFUSED:
        why = f"the model refused: {clean(reply.text).strip() or 'it gave no reason'}"
        yield from leave_or_end(state, FaultKind.CONTENT_POLICY, EndReason.REFUSED, why)
        progress.empties = 0
        return
    progress.empties += 1
    if reply.stop_reason is StopReason.LENGTH:
        progress.cap = larger_cap(progress.cap, reply)
    if progress.empties >= MOST_EMPTY and (said := said_beside_notes(state)):
        yield Record((state.place(Message("assistant", (Text(said),))),))
        return
    if progress.empties >= MOST_EMPTY:
        yield from leave_or_end(state, FaultKind.INVALID_REPLY, EndReason.EMPTY_ANSWER, DETAILS[EndReason.EMPTY_ANSWER])
        progress.empties = 0
    progress.note = THOUGHT_ONLY if kind is Kind.THOUGHT_ONLY else EMPTY


def said_beside_notes(state: TurnState) -> str:
    """What a model that is silent now said beside calls that only keep notes: it gave its answer, then saved a note
    (runtime behaviour specification 9.6.2); "" when there is none."""
    before = state.messages[-2:-1]
    has_only_notes = all(call.name in NOTE_TOOLS for message in before for call in message.calls)
    return before[0].text.strip() if state.messages[-1].role == "tool" and has_only_notes else ""


def leave_or_end(state: TurnState, kind: FaultKind, ends: EndReason, why: str) -> Effects:
    """Go on with the next target of the chain, else end the turn (runtime behaviour specification 9.2 and 9.6.6)."""
    if next_target(state) is None:
        raise Ended(ends, why)
    yield from act(state, Fault(kind, why), Tries(), NextTarget())
