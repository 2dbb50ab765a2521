"""What must hold for every conversation and target: no server refuses it, nothing is lost, nothing told to others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bodies import MARKS, Body, read
from conversations import Conversation
from targets import IDS, RESULT_IMAGES, TOOLS, WORDS_BESIDE_CALLS, Route

from hermes.kernel.messages import Image, Refusal, Replay, Text, Thinking, ToolCall
from hermes.kernel.providers import WireFormat
from hermes.plugins.wire.caching import MOST_MARKS, layout
from hermes.plugins.wire.toolnames import wire_name
from hermes.testing.formats import FORMATS

Json = Any

_ACCEPTED = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "")
_TWICE = 4
"""Every so many conversations are encoded twice: it costs as much as all other rules."""
_FORM_OF_ANSWER = {
    "chat_completions": "response_format",
    "codex_responses": "text",
    "anthropic_messages": "output_config",
    "bedrock_converse": "outputConfig",
}
_SEALS = ("signature", "thought_signature", "encrypted_content", "data", "redactedContent")


def violations(case: Conversation, route: Route, wire: WireFormat) -> tuple[list[str], int]:
    """Everything that is wrong with the request of a conversation to a target, and the size of its body in bytes."""
    target = route.target
    prefix = wire.prefix(case.system, case.tools, target)
    fragments = [wire.encode(message, target) for message in case.messages]
    pieces = wire.envelope(prefix, fragments, case.parameters, target)
    raw = b"".join(pieces)
    body = json.loads(raw)
    found = [
        *case.lost,
        *_refused(case, route, body),
        *_bytes(case, route, wire, prefix, fragments, raw),
        *_asked(case, route, body),
        *_said(case, route, read(target.api_mode, body)),
    ]
    return found, len(raw)


def _refused(case: Conversation, route: Route, body: Json) -> Iterator[str]:
    """What the strictest server of the format refuses; OpenAI itself takes a user's message behind those of tools."""
    target = route.target
    shows_after = target.api_mode == "chat_completions" and target.quirk("images_in_tool_results") == "user_message"
    for problem in FORMATS[target.api_mode].problems(body, case.issued.get(target.issuer, {})):
        if not (shows_after and problem.endswith("a user message after a tool message")):
            yield problem


# ---- Bytes ----------------------------------------------------------------------------------------------------------


def _bytes(
    case: Conversation, route: Route, wire: WireFormat, prefix: bytes, fragments: list[bytes], raw: bytes
) -> Iterator[str]:
    """Everything is pure, and marks change nothing but what they add to."""
    target = route.target
    if case.seed % _TWICE == 0:
        if wire.prefix(case.system, case.tools, target) != prefix:
            yield "the same prefix has other bytes the second time"
        if [wire.encode(message, target) for message in case.messages] != fragments:
            yield "a message has other bytes the second time"
    bare, marks = MARKS[target.api_mode].subn(b"", raw)
    if marks > MOST_MARKS:
        yield f"{marks} cache marks"
    if marks and not layout(target):
        yield f"{marks} cache marks for a target that takes none"
    if not marks and layout(target) and (case.system.strip() or any(message.text for message in case.messages)):
        yield f"no cache mark for the layout {layout(target)!r}"
    start = MARKS[target.api_mode].sub(b"", prefix)
    history = b",".join(filter(None, fragments))
    if not bare.startswith(start):
        yield "the body does not begin with the prefix"
    elif not _is_stripped(case) and not bare.startswith(history, len(start) + (not start.endswith(b"["))):
        yield "the history is not the bytes that are kept of it"


# ---- Parameters -----------------------------------------------------------------------------------------------------


def _asked(case: Conversation, route: Route, body: Json) -> Iterator[str]:
    """What was asked for besides: no calls, an answer of some form. Converse cannot forbid calls."""
    api_mode, parameters = route.target.api_mode, case.parameters
    may_call = parameters.may_call or "tool_choice" in parameters.leave_out
    if "tools" in body and not may_call and body.get("tool_choice") not in ("none", {"type": "none"}):
        yield "calls are not forbidden"
    form = body.get(_FORM_OF_ANSWER[api_mode], {})
    is_sent = route.target.quirk("schema_parameter", "json_schema") == "json_schema"
    is_sent = is_sent and bool(route.target.quirk("schema_beside_tools", True))
    if parameters.schema is not None and is_sent and "answer" not in json.dumps(form):
        yield "the schema of the answer is lost"


# ---- Contents -------------------------------------------------------------------------------------------------------


def _said(case: Conversation, route: Route, body: Body) -> Iterator[str]:
    everything = "\0".join(body.texts)
    if TOOLS in route.carries:
        yield from _calls(case, route, body)
        yield from _results(case, body)
    yield from _texts(case, route, everything)
    yield from _images(case, route, everything)
    yield from _sealed(case, route, everything)
    yield from _foreign(case, route, everything)


def _calls(case: Conversation, route: Route, body: Body) -> Iterator[str]:
    calls = [call for message in case.messages for call in message.calls]
    wanted = [(call.id if IDS in route.carries else "", wire_name(call.name), dict(call.arguments)) for call in calls]
    found = [(call_id if IDS in route.carries else "", *rest) for call_id, *rest in body.calls]
    if found != wanted:
        yield f"calls {found} in place of {wanted}"


def _results(case: Conversation, body: Body) -> Iterator[str]:
    """In the order of their calls, in the ids that those went out with, each with its own text."""
    results = [result for message in case.messages for result in message.results]
    ids, wanted = [call_id for call_id, _ in body.results], [call_id for call_id, *_ in body.calls]
    if ids != wanted or len(ids) != len(results):
        yield f"results of {ids} in place of {wanted}"
        return
    for (call_id, texts), result in zip(body.results, results, strict=True):
        inside = "\0".join(texts)
        yield from _in_order(f"result of {call_id}", inside, [p.text for p in result.parts if isinstance(p, Text)])


def _texts(case: Conversation, route: Route, everything: str) -> Iterator[str]:
    """Every visible text, message after message; in a message calls may be told after the words."""
    place = 0
    for number, message in enumerate(case.messages):
        if message.calls and WORDS_BESIDE_CALLS not in route.carries:
            continue
        texts = [part.text for part in message.parts if isinstance(part, (Text, Refusal))]
        yield from _in_order(f"message {number}", everything[place:], texts)
        place = max([place, *(everything.find(text.strip(), place) for text in texts)])


def _in_order(where: str, everything: str, texts: list[str]) -> Iterator[str]:
    place = 0
    for text in texts:
        found = everything.find(text.strip(), place)
        if found < 0:
            yield f"{where}: {'out of order' if text.strip() in everything else 'lost'}: {text[:60]!r}"
        place = max(place, found)


def _images(case: Conversation, route: Route, everything: str) -> Iterator[str]:
    for number, message in enumerate(case.messages):
        for part in message.parts:
            if isinstance(part, Image):
                yield from _image(f"message {number}", part, everything)
        for result in message.results if RESULT_IMAGES in route.carries else ():
            for inner in result.parts:
                if isinstance(inner, Image):
                    yield from _image(f"result of {result.call_id}", inner, everything)


def _image(where: str, image: Image, everything: str) -> Iterator[str]:
    if image.url and not image.url.startswith("data:"):
        if image.url not in everything:  # where no address is taken, at least a note tells of it
            yield f"{where}: lost: the picture at {image.url}"
        return
    kind = image.url.removeprefix("data:").partition(";")[0] if image.url else image.media_type
    data = image.url.partition(",")[2] if image.url else image.data
    if kind in _ACCEPTED and data not in everything:
        yield f"{where}: lost: a picture of {kind!r}"


def _sealed(case: Conversation, route: Route, everything: str) -> Iterator[str]:
    """What the target itself issued comes back, but for thinking that nothing follows."""
    if _is_stripped(case):
        return
    for number, message in enumerate(case.messages):
        last = max((n for n, p in enumerate(message.parts, 1) if isinstance(p, (Text, Refusal, ToolCall))), default=0)
        for owner in (message, *message.parts[:last]):
            replay = getattr(owner, "replay", None)
            if replay is None or not _is_own(replay, route):
                continue
            if any(seal not in everything for seal in _seals(replay.payload)):
                yield f"message {number}: lost: what the target issued with {type(owner).__name__}"
            if isinstance(owner, Thinking) and route.target.quirk("reasoning_field") and owner.text not in everything:
                yield f"message {number}: lost: the target's own thinking"


def _foreign(case: Conversation, route: Route, everything: str) -> Iterator[str]:
    """Nothing that another issued, and no thinking of another as anybody's words."""
    for number, message in enumerate(case.messages):
        for owner in (message, *message.parts):
            replay = getattr(owner, "replay", None)
            if replay is not None and not _is_own(replay, route):
                for seal in _seals(replay.payload):
                    if seal in everything:
                        yield f"message {number}: what {replay.issuer} issued is sent to {route.target.issuer}"
            if isinstance(owner, Thinking) and not _is_own(replay, route):
                text = owner.text.strip()
                if text and text in everything:
                    yield f"message {number}: thinking of another is told: {text[:60]!r}"


def _is_stripped(case: Conversation) -> bool:
    """Whether thinking is to be left out, after the server refused a signature."""
    return "thinking_blocks" in case.parameters.leave_out


def _is_own(replay: Replay | None, route: Route) -> bool:
    return replay is not None and replay.issuer == route.target.issuer


def _seals(payload: Json) -> Iterator[str]:
    """The opaque texts of a replay, however deep."""
    if isinstance(payload, Mapping):
        for name, value in payload.items():
            if name in _SEALS and isinstance(value, str):
                yield value
            else:
                yield from _seals(value)
    elif isinstance(payload, list):
        for value in payload:
            yield from _seals(value)
