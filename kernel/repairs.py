"""What to change in a request that a provider refused for one part of it, and what was learned of each target. Pure.

What was learned is session state, so that it holds for the session's life and survives a crash: `leave_out:T` names of
parameters, `images:T` fields of an ImageRule, `output_cap:T` and `window:T` tokens; T is the target's name. A repair
changes the next request, else it is none: that is what bounds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.kernel.effects import Fault, FaultKind, RepairKind
from hermes.kernel.messages import ImageRule, Json, Message, ModelRequest
from hermes.kernel.sight import shown_images

MOST_REPAIRS = 8
"""In one `ask`: each is a call that was refused and cost nothing, but takes its time."""

SUM_CAP_S = 300.0
"""How long an output cap holds that follows from this request's input, or from what is left on an account."""

OUTPUT_MARGIN_TOKENS = 64
"""Between input and output in a window: providers do not count alike (runtime behaviour specification 8.8.20)."""

OUTPUT = "output_cap"

NEEDED = frozenset(
    ("messages", "model", "input", "tools", "contents", "system", "instructions", "stream", "toolconfig")
)
"""Parameters without which a request is another one; one of them is never left out."""

_SCHEMA = frozenset(("response_format", "text", "output_config", "outputconfig", "output_format", "format", "schema"))
"""The parameters that carry the schema of an answer, in the wire formats' own names."""

_WITHOUT: Mapping[RepairKind, tuple[str, str]] = {
    RepairKind.THINKING: ("thinking_blocks", "without the thoughts of earlier replies"),
    RepairKind.GRAMMAR: ("schema_keywords", "without `pattern` and `format` in the tools' schemas"),
}
"""By kind: what `leave_out` calls it, and how a person is told of the next try."""


@dataclass(frozen=True, slots=True)
class Repair:
    """`subject` tells one from another; `key`, `value` and `ttl_s` are what is learned, `told` is for a person."""

    subject: str
    key: str
    value: Json
    told: str
    ttl_s: float | None = None


def as_learned(request: ModelRequest, known: Mapping[str, Json], target: str) -> ModelRequest:
    """The request as this target takes it, as far as it has refused one before."""
    caps = [cap for cap in (request.output_cap, known.get(f"output_cap:{target}")) if cap]
    return replace(
        request,
        leave_out=tuple(known.get(f"leave_out:{target}", ())),
        images=_rule(request, known, target),
        output_cap=min(caps, default=None),
    )


def _rule(request: ModelRequest, known: Mapping[str, Json], target: str) -> ImageRule:
    rule = ImageRule(**known.get(f"images:{target}", {}))
    return rule if request.system is None else replace(rule, start=0)  # a place in the conversation, not in others


def repair(fault: Fault, sent: ModelRequest, known: Mapping[str, Json], target: str) -> Repair | None:
    """How to change the request that was sent so that it may pass; None when nothing is left to change.

    `sent` is the request as `as_learned` gave it.
    """
    return next(_repairs(fault, sent, known, target), None)


def _repairs(fault: Fault, sent: ModelRequest, known: Mapping[str, Json], target: str) -> Iterator[Repair]:
    if fault.kind is FaultKind.OUTPUT_CAP:
        yield from _smaller_output(fault, sent, target)
    elif fault.kind is FaultKind.BODY_TOO_LARGE:
        yield from _fewer_bytes(sent, known, target)
    elif fault.kind is FaultKind.BAD_REQUEST and _is_of_schema(fault, sent):
        yield from _without(("schema",), "with the schema told in words", fault, sent, target)
    elif fault.repair is RepairKind.PARAMETER and _root(fault.subject) not in NEEDED:
        yield from _without(_spellings(fault.subject), f"without the parameter {fault.subject}", fault, sent, target)
    elif fault.repair is not None and fault.repair in _WITHOUT:
        name, told = _WITHOUT[fault.repair]
        yield from _without((name,), told, fault, sent, target)
    elif fault.repair is RepairKind.TOOL_IMAGES and any(image.in_result for image in shown_images(sent)):
        yield _images(known, target, fault, "the images in tool results", in_results=False)
    elif fault.repair is RepairKind.IMAGES and sent.system is None:  # else they are what is asked about
        yield from _fewer_images(fault, sent, known, target)


# ---- Parameters -----------------------------------------------------------------------------------------------------


def _without(names: Sequence[str], told: str, fault: Fault, sent: ModelRequest, target: str) -> Iterator[Repair]:
    left_out = [*sent.leave_out, *(name for name in names if name not in sent.leave_out)]
    if len(left_out) > len(sent.leave_out):
        text = f"{target} refused the request ({fault.detail}); trying {told}"
        yield Repair(names[0], f"leave_out:{target}", left_out, text)


def _is_of_schema(fault: Fault, sent: ModelRequest) -> bool:
    """Whether it may be the schema that was refused; which ones a provider takes is known to nobody beforehand.

    Where the schema is told in words already, the same words mean something else, such as the schemas of tools.
    """
    if sent.schema is None or "schema" in sent.leave_out:
        return False
    return fault.repair in (None, RepairKind.GRAMMAR) or _root(fault.subject) in _SCHEMA


def _root(name: str) -> str:
    return name.partition(".")[0].lower()


def _spellings(name: str) -> tuple[str, ...]:
    """xAI names a parameter as its own code does (`reasoningEffort`), not as it is sent."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return tuple(dict.fromkeys((name, snake))) if name else ()


# ---- Output ---------------------------------------------------------------------------------------------------------


def _smaller_output(fault: Fault, sent: ModelRequest, target: str) -> Iterator[Repair]:
    room = fault.output_limit_tokens
    is_model_limit = fault.limit_tokens is None and fault.status != _PAYMENT
    if room is not None and fault.limit_tokens is not None:
        room -= OUTPUT_MARGIN_TOKENS
    if room is not None and room > 0 and (sent.output_cap is None or room < sent.output_cap):
        text = f"{target} refused the size of the output ({fault.detail}); trying with at most {room} tokens"
        yield Repair(OUTPUT, f"output_cap:{target}", room, text, None if is_model_limit else SUM_CAP_S)


_PAYMENT = 402


def unrepaired(fault: Fault) -> Fault:
    """An output that is too large and cannot be made smaller, as what it then is: no credit, or a full context."""
    if fault.kind is not FaultKind.OUTPUT_CAP:
        return fault
    if fault.status == _PAYMENT:
        return replace(fault, kind=FaultKind.BILLING)
    return fault if fault.limit_tokens is None else replace(fault, kind=FaultKind.CONTEXT_OVERFLOW)


# ---- Images ---------------------------------------------------------------------------------------------------------


def _fewer_images(fault: Fault, sent: ModelRequest, known: Mapping[str, Json], target: str) -> Iterator[Repair]:
    """What is wrong with them says which are left out; where that does not, all that there are till now."""
    images, limit = shown_images(sent), fault.subject_limit
    if not images:
        return
    if fault.subject == "unsupported":
        yield _images(known, target, fault, "images", most=0)
    elif fault.subject == "too_many" and (limit is None or limit < len(images)):
        most = len(images) // 2 if limit is None else limit
        yield _images(known, target, fault, f"all but the newest {most} images", most=most)
    elif fault.subject == "too_large" and limit and any(image.size_bytes > limit for image in images):
        yield _images(known, target, fault, f"images of more than {limit} bytes", max_bytes=limit)
    else:
        yield _images(known, target, fault, "the images till here", start=_end(sent.messages))


def _fewer_bytes(sent: ModelRequest, known: Mapping[str, Json], target: str) -> Iterator[Repair]:
    """A body that is too large in bytes: the oldest images first, then all; never remembered as "cannot see" (B077)."""
    places = [image.message for image in shown_images(sent)]
    if not places or sent.system is not None:
        return
    start = places[-1] if places[0] < places[-1] else _end(sent.messages)
    told = "the older images" if places[0] < places[-1] else "the images till here"
    text = f"{target} refused the size of the request in bytes; trying without {told}"
    yield Repair("images", f"images:{target}", {**known.get(f"images:{target}", {}), "start": start}, text)


def _images(known: Mapping[str, Json], target: str, fault: Fault, told: str, **rule: Json) -> Repair:
    text = f"{target} refused the images ({fault.detail}); trying without {told}"
    return Repair("images", f"images:{target}", {**known.get(f"images:{target}", {}), **rule}, text)


def _end(messages: Sequence[Message]) -> int:
    return len(messages)


def found_blind(known: Mapping[str, Json]) -> frozenset[str]:
    """The targets that have refused to be shown any image."""
    return frozenset(
        k.removeprefix("images:") for k, v in known.items() if k.startswith("images:") and v.get("most") == 0
    )


def forgotten_places(known: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """What is learned anew when the conversation becomes shorter: places in it mean nothing any more."""
    for key, value in known.items():
        if key.startswith("images:") and "start" in value:
            yield key, {name: kept for name, kept in value.items() if name != "start"} or None
