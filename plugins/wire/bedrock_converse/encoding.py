"""From the neutral conversation to the JSON of Converse, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hermes.kernel.messages import Image, Json, Message, Part, Refusal, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Target, ToolSchema
from hermes.plugins.wire.caching import layout
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, Fragment, is_own, words
from hermes.plugins.wire.schemas import parameters_of
from hermes.plugins.wire.toolnames import wire_name

from .families import family_of, takes_tools
from .images import image_block

REASONING = "reasoning"
"""Kind of a Replay that holds what belongs to a reasoning text: `{"signature": …}`, or `{"redactedContent": …}`."""

_IMAGE_NOTE = "[an image was returned; this model cannot be shown images in tool results]"
_CALL_NOTE = "[called {name} as {id} with {arguments}]"
_RESULT_NOTE = "[result of {id}]"
"""How calls and results of another model are told to one that takes no tools."""


# ---- The frozen prefix ----------------------------------------------------------------------------------------------


def encode_prefix(system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
    """`{"toolConfig":…,"system":[…],"messages":[`: everything that stays the same for (epoch, target).

    It carries one cache point, after the system prompt, else after the tools: the service reads tools first, so that
    the one covers both, and takes no more than four in all.
    """
    offered = [*_tools(tools, target)] if takes_tools(target) else []
    said: list[Json] = [{"text": system}] if system.strip() else []
    if layout(target) == "points":
        if said:
            said.append(cache_point(target))
        elif offered and family_of(target).marks_tools:
            offered.append(cache_point(target))
    head = b"{"
    if offered:
        head += b'"toolConfig":' + dumps({"tools": offered}) + b","
    if said:
        head += b'"system":' + dumps(said) + b","
    return head + b'"messages":['


def cache_point(target: Target) -> Json:
    """What ends the part of a prompt that is to be kept; five minutes is what no `ttl` means."""
    point = {"type": "default"}
    if target.cache_ttl == "1h" and family_of(target).long_cache:
        point["ttl"] = "1h"
    return {"cachePoint": point}


def _tools(tools: Sequence[ToolSchema], target: Target) -> Iterator[Json]:
    """Of two tools with one name the first; none without a name, and none whose schema cannot be made acceptable."""
    seen = set()
    for tool in tools:
        name = wire_name(tool.name)
        if not tool.name.strip() or name in seen or (schema := parameters_of(tool, target)) is None:
            continue
        seen.add(name)
        spec: dict[str, Json] = {"name": name}
        if tool.description.strip():
            spec["description"] = tool.description
        spec["inputSchema"] = {"json": schema}
        yield {"toolSpec": spec}


# ---- Messages -------------------------------------------------------------------------------------------------------


def encode_message(message: Message, target: Target) -> bytes:
    """The JSON object of one message; what tools gave is a user's message.

    Only messages of the user can carry a cache point: none may follow a reasoning block, and the service was seen to
    look at the whole of an assistant's message for it (rig#1673).
    """
    if message.role == "assistant":
        return dumps({"role": "assistant", "content": _said(message.parts, target) or [{"text": NO_OUTPUT}]})
    if message.role == "user":
        blocks = _shown(message.parts)
    elif takes_tools(target):
        blocks = [*_results(message, target)]
    else:
        blocks = [*_told_results(message)]
    return Fragment.of(dumps({"role": "user", "content": blocks or [{"text": NO_OUTPUT}]}), len(b"]}"))


def _shown(parts: Sequence[Part]) -> list[Json]:
    """Texts and pictures in their order; blank text is refused, be it a single space (9486)."""
    blocks: list[Json] = []
    for part in parts:
        if isinstance(part, Image):
            blocks.append(image_block(part))
        elif isinstance(part, Text) and part.text.strip():
            blocks.append({"text": words(part)})
    return blocks


def _said(parts: Sequence[Part], target: Target) -> list[Json]:
    """What the model said, thought and called, in its order; reasoning at the very end is refused."""
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    keeps_words = family_of(target).words_beside_calls or not has_calls
    blocks: list[Json] = []
    for part in parts:
        match part:
            case Text(text) | Refusal(text):
                if text.strip() and keeps_words:
                    blocks.append({"text": text})
            case Thinking():
                blocks.extend(_thought(part, target))
            case ToolCall():
                blocks.append(_call(part, target))
    while blocks and "reasoningContent" in blocks[-1]:
        blocks.pop()
    return blocks


def _thought(part: Thinking, target: Target) -> Iterator[Json]:
    """Reasoning goes back only to who made it, and only signed or redacted: no model wants any other back."""
    replay = part.replay
    if replay is None or replay.kind != REASONING or not is_own(replay, target):
        return
    if "redactedContent" in replay.payload:
        yield {"reasoningContent": {"redactedContent": replay.payload["redactedContent"]}}
    else:
        yield {"reasoningContent": {"reasoningText": {"text": part.text, **replay.payload}}}


def _call(call: ToolCall, target: Target) -> Json:
    arguments = dict(call.arguments)
    if not takes_tools(target):
        told = dumps(arguments).decode("utf-8")
        return {"text": _CALL_NOTE.format(name=call.name, id=call.id, arguments=told)}
    return {"toolUse": {"toolUseId": call.id, "name": wire_name(call.name), "input": arguments}}


# ---- Results of tools -----------------------------------------------------------------------------------------------


def _results(message: Message, target: Target) -> Iterator[Json]:
    """One block a result. What is said beside them goes into the last: many models refuse other blocks in the turn."""
    beside = _shown([part for part in message.parts if isinstance(part, Text)])
    results = message.results
    for place, result in enumerate(results, 1):
        content = [*_content(result, target), *(beside if place == len(results) else ())]
        block: dict[str, Json] = {"toolUseId": result.call_id, "content": content or [{"text": NO_OUTPUT}]}
        if family_of(target).result_status and (status := _status(result, content)):
            block["status"] = status
        yield {"toolResult": block}


def _status(result: ToolResult, content: Sequence[Json]) -> str:
    """An error may only have texts: one with a picture goes without a status, and the picture stays."""
    if result.status == "ok":
        return "success"
    return "" if any("image" in block for block in content) else "error"


def _content(result: ToolResult, target: Target) -> list[Json]:
    """Always as text, JSON too: a `json` block must be an object (B112), and what is in it may be refused (B140)."""
    family = family_of(target)
    parts = result.parts
    if not family.result_images:
        parts = tuple(part if isinstance(part, Text) else Text(_IMAGE_NOTE) for part in parts)
    blocks = _shown(parts)
    return [_as_object(block) for block in blocks] if family.result_json else blocks


def _as_object(block: Mapping[str, Json]) -> Json:
    return {"json": {"output": block["text"]}}


def _told_results(message: Message) -> Iterator[Json]:
    for result in message.results:
        yield {"text": _RESULT_NOTE.format(id=result.call_id)}
        yield from _shown(result.parts) or [{"text": NO_OUTPUT}]
    yield from _shown([part for part in message.parts if isinstance(part, Text)])
