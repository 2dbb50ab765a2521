"""What a replay needs of a turn: its state at the start, and each outcome with the digest of the effect it answered.

The runtime keeps a `Trail` when `sessions.outcomes` is on and writes it with each Record. An entry is
`{"effect": digest, "outcome": JSON}`, or, where a process takes the turn up, a mark `{"life": {"input", "state"}}`.
What follows the last Record of a life is lost in a crash, and is not missed: the next mark stands in its place.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.kernel.effects import (
    Answered,
    Append,
    AskModel,
    Change,
    Consult,
    Effect,
    Fault,
    FaultKind,
    Learn,
    Notify,
    Objection,
    Outcome,
    Ran,
    Record,
    RecoveryChoice,
    RepairKind,
    Rewrite,
    RunTools,
    Spent,
    Steer,
    Stopped,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import (
    Image,
    Json,
    Message,
    ModelReply,
    StopReason,
    Text,
    ToolResult,
    Usage,
    UserInput,
    message_from_json,
    message_to_json,
    part_from_json,
    part_to_json,
)
from hermes.kernel.state import Limits, TurnState


class Trail:
    """The outcomes since the last Record of one turn, as JSON."""

    def __init__(self) -> None:
        self._waiting: list[Json] = []

    def begin(self, state: TurnState, text: UserInput | None, *, resumed: bool) -> None:
        """Mark the start of a life. A resumed one brings its own state; a turn's first is in the turn row."""
        life = {"input": _input_to_json(text), "state": state_to_json(state) if resumed else None}
        self._waiting = [{"life": life}]

    def add(self, effect: Effect, outcome: Outcome | Stopped) -> None:
        """Note an outcome; those of Record (see `take`) and Notify are none."""
        if not isinstance(effect, (Record, Notify)):
            self._waiting.append({"effect": digest(effect), "outcome": outcome_to_json(outcome)})

    def take(self, effect: Record) -> list[Json]:
        """What has to be written with this Record, its own digest last."""
        taken, self._waiting = [*self._waiting, {"effect": digest(effect), "outcome": None}], []
        return taken


# ---- Digests --------------------------------------------------------------------------------------------------------


def digest(effect: Effect) -> str:
    """One line that tells an effect from another in the same place; costs nothing that grows with the conversation.

    What it leaves out follows from the Records before it. "" for Notify, on which nothing depends.
    """
    match effect:
        case AskModel(request=request):
            head = f"ask {effect.target} attempt {effect.attempt} {request.purpose} {len(request.messages)} messages"
            if request.system is not None:  # messages of its own, which no Record before it has
                head += f" own {zlib.crc32(repr((request.system, request.messages)).encode()):08x}"
            return f"{head} note {request.note}" if request.note else head
        case RunTools():
            return f"run {' '.join(c.id for c in effect.calls)}{'' if effect.may_start else ' (may not start)'}"
        case Record():
            return f"record {', '.join(map(_digest_of_change, effect.changes))}"
        case Consult():
            return f"consult {effect.question}"
        case Notify():
            return ""
        case _:
            return "wait"


def _digest_of_change(change: Change) -> str:
    match change:
        case Append():
            return f"append {len(change.messages)} taken {len(change.taken)}"
        case Rewrite():
            return f"rewrite {change.start}-{change.stop} {len(change.messages)} taken {len(change.taken)}"
        case Learn():
            return f"learn {change.key}"
        case _:
            return f"end {change.reason.value}"


# ---- The state at the start of a life -------------------------------------------------------------------------------


def state_to_json(state: TurnState) -> Json:
    """What a turn knows at its start; of messages only the count, and no call ids: the journal has them."""
    return {
        "messages": len(state.messages),
        "tools": sorted(state.tool_names),
        "idempotent": sorted(state.idempotent),
        "known": dict(state.known),
        "targets": list(state.targets),
        "window_tokens": state.window_tokens,
        "iterations": state.iterations,
        "attempts": state.attempts,
        "limits": {f.name: getattr(state.limits, f.name) for f in dataclasses.fields(Limits)},
        "auxiliary": list(state.auxiliary),
        "blind": sorted(state.blind),
        "schema": state.schema,
        "windows": dict(state.windows),
        "only_read": sorted(state.only_read),
    }


def state_from_json(
    data: Json, session_id: str, turn: int, messages: Sequence[Message], call_ids: frozenset[str]
) -> TurnState:
    """Undo `state_to_json`, with what the journal has; raises KeyError, TypeError or ValueError for anything else."""
    if data["messages"] != len(messages):
        raise ValueError(f"the turn began with {data['messages']} messages, the journal has {len(messages)}")
    limits = {**data["limits"], "warn_model_at": tuple(data["limits"]["warn_model_at"])}
    return TurnState(
        session_id,
        turn,
        list(messages),
        frozenset(data["tools"]),
        frozenset(data["idempotent"]),
        set(call_ids),
        dict(data["known"]),
        tuple(data["targets"]),
        data["window_tokens"],
        data["iterations"],
        data["attempts"],
        Limits(**limits),
        tuple(data["auxiliary"]),
        frozenset(data["blind"]),
        data["schema"],
        data["windows"],
        frozenset(data["only_read"]),
    )


def _input_to_json(text: UserInput | None) -> Json:
    return text and {"parts": [part_to_json(p) for p in text.parts], "taken": list(text.taken)}


def input_from_json(data: Json) -> UserInput | None:
    if data is None:
        return None
    parts = (part_from_json(p) for p in data["parts"])
    return UserInput(tuple(p for p in parts if isinstance(p, (Text, Image))), tuple(data["taken"]))


# ---- Outcomes -------------------------------------------------------------------------------------------------------


_FAULT = (
    "detail", "retry_after_s", "limit_tokens", "partial", "row", "status", "input_tokens", "output_limit_tokens",
    "subject", "subject_limit",
)  # fmt: skip
"""Fields of a Fault that are JSON as they are."""


def outcome_to_json(outcome: Outcome | Stopped) -> Json:
    """`{type, …}`, empty fields left out; None for no answer, and for an answer that a turn does not take."""
    match outcome:
        case Answered():
            return {"type": "answered", **_reply_to_json(outcome.reply), **_carried(outcome)}
        case Fault():
            keys = {"other_keys": outcome.other_keys} if outcome.other_keys else {}
            return {"type": "fault", **_told(outcome, "kind", "budget", "repair", *_FAULT), **keys, **_carried(outcome)}
        case Ran():
            return {"type": "ran", "results": [part_to_json(r) for r in outcome.results], **_carried(outcome)}
        case Stopped():
            results = [part_to_json(r) for r in outcome.results]
            told = _told(outcome, "reason", "partial", "detail")
            silent = {"silent_s": outcome.silent_s} if outcome.silent_s else {}
            return {"type": "stopped", "results": results, **told, **silent, **_carried(outcome)}
        case Objection():
            return {"type": "objection", "message": outcome.message}
        case RecoveryChoice():
            return {"type": "recovery", "action": outcome.action, "wait_s": outcome.wait_s}
        case [*messages] if messages and all(isinstance(m, Message) for m in messages):
            return {"type": "messages", "messages": [message_to_json(m) for m in messages]}
        case _:
            return None


def outcome_from_json(data: Json) -> Outcome | Stopped:
    """Undo `outcome_to_json`; raises KeyError, TypeError or ValueError for anything else."""
    if data is None:
        return None
    match data["type"]:
        case "answered":
            return Answered(_reply_from_json(data), **_carried_from(data))
        case "fault":
            told = {name: data[name] for name in ("other_keys", *_FAULT) if name in data}
            repair = RepairKind(data["repair"]) if "repair" in data else None
            budget = _reason(data.get("budget"))
            return Fault(FaultKind(data["kind"]), budget=budget, repair=repair, **told, **_carried_from(data))
        case "ran":
            return Ran(_results(data), **_carried_from(data))
        case "stopped":
            told = {name: data[name] for name in ("partial", "detail") if name in data}
            stop = Stopped(EndReason(data["reason"]), results=_results(data), **told, **_carried_from(data))
            stop.silent_s = data.get("silent_s", 0.0)
            return stop
        case "objection":
            return Objection(data["message"])
        case "recovery":
            return RecoveryChoice(data["action"], data["wait_s"])
        case "messages":
            return [message_from_json(m) for m in data["messages"]]
        case other:
            raise ValueError(f"unknown type {other!r} of a recorded outcome")


def _reply_to_json(reply: ModelReply) -> dict[str, Json]:
    message = message_to_json(Message("assistant", reply.parts, replay=reply.replay))
    return {"message": message, "stop_reason": reply.stop_reason.value, **_told(reply, "model"), **_usage(reply.usage)}


def _reply_from_json(data: Json) -> ModelReply:
    message = message_from_json(data["message"])
    usage = Usage(**data.get("usage", {}))
    return ModelReply(message.parts, StopReason(data["stop_reason"]), usage, data.get("model", ""), message.replay)


def _carried(outcome: Answered | Fault | Ran | Stopped) -> dict[str, Json]:
    """What comes with every outcome."""
    carried = _told(outcome.spent, "exhausted")
    if usage := _usage(outcome.spent.usage):
        carried["spent"] = usage["usage"]
    if outcome.steering:
        carried["steering"] = [[s.inbox_id, s.text] for s in outcome.steering]
    return carried


def _carried_from(data: Mapping[str, Json]) -> dict[str, Any]:
    spent = Spent(Usage(**data.get("spent", {})), _reason(data.get("exhausted")))
    return {"spent": spent, "steering": tuple(Steer(*s) for s in data.get("steering", ()))}


def _usage(usage: Usage) -> dict[str, Json]:
    """`{"usage": …}` with what is not 0; an unknown price is left out, a known one of 0 is not."""
    found = {f.name: value for f in dataclasses.fields(Usage) if (value := getattr(usage, f.name)) != f.default}
    return {"usage": found} if found else {}


def _told(value: object, *names: str) -> dict[str, Json]:
    """These fields, without None and ""; of an enum member its plain word."""
    found = ((name, getattr(value, name)) for name in names)
    return {name: getattr(held, "value", held) for name, held in found if held is not None and held != ""}


def _results(data: Mapping[str, Json]) -> tuple[ToolResult, ...]:
    return tuple(p for p in map(part_from_json, data["results"]) if isinstance(p, ToolResult))


def _reason(word: str | None) -> EndReason | None:
    return None if word is None else EndReason(word)
