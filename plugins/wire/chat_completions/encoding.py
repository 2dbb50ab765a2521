"""From the neutral conversation to the JSON of chat completions, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from hermes.kernel.messages import Image, Json, Message, Refusal, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Target, ToolSchema
from hermes.plugins.wire.caching import cache_control, layout
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, Fragment, is_own, words
from hermes.plugins.wire.pictures import address_of, note_of
from hermes.plugins.wire.schemas import parameters_of
from hermes.plugins.wire.toolnames import wire_name

from .callids import call_id

FIELDS = "fields"
"""Kind of a Replay whose payload is an object of fields to be put back where they came from."""
REASONING = "reasoning"
"""Kind of the Replay of a Thinking: it marks whose thinking it is and has no payload."""

_IMAGE_NOTE = "[an image was returned; this model cannot be shown images in tool results]"
_IMAGE_FOLLOWS = "[an image was returned; it is shown in the next message]"
_IMAGES_OF_RESULTS = "The images that the tools returned, in their order:"


def is_grammar(target: Target) -> bool:
    """True when tools are offered by a grammar over plain text."""
    return bool(target.quirk("offering") == "grammar")


# ---- The frozen prefix ----------------------------------------------------------------------------------------------


def encode_prefix(system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
    """`{"model":…,"tools":[…],"messages":[SYSTEM`: everything that stays the same for (epoch, target)."""
    head = b'{"model":' + dumps(target.model)
    offered = _distinct(tools)
    if offered and is_grammar(target):
        from .grammar import grammar_for, render_tools_prompt

        names = [tool.name for tool in offered]
        # A server ignores the field that it does not know; a resumed session reads the names back from it.
        head += b',"hermes_tools":' + dumps(names) + b',"grammar":' + dumps(grammar_for(offered))
        system = f"{system}\n\n{render_tools_prompt(offered)}".strip()
    elif offered_tools := [dumps(sent) for tool in offered if (sent := _tool(tool, target)) is not None]:
        head += b',"tools":[' + b",".join(offered_tools) + b"]"
    return head + b',"messages":[' + (_system(system, target) if system.strip() else b"")


def _system(text: str, target: Target) -> bytes:
    if layout(target) != "envelope":
        return dumps({"role": "system", "content": text})
    part = dumps({"type": "text", "text": text})[:-1] + cache_control(target) + b"}"
    return b'{"role":"system","content":[' + part + b"]}"


def offers_tools(prefix: bytes, target: Target) -> bool:
    return _after_model(prefix, target).startswith((b',"tools":', b',"hermes_tools":'))


def grammar_tool_names(prefix: bytes, target: Target) -> tuple[str, ...]:
    """The tools that a prefix offers by grammar."""
    rest = _after_model(prefix, target)
    mark = b',"hermes_tools":'
    if not rest.startswith(mark):
        return ()
    names, _ = json.JSONDecoder().raw_decode(rest[len(mark) :].decode("utf-8"))
    return tuple(names)


def _after_model(prefix: bytes, target: Target) -> bytes:
    return prefix[len(b'{"model":') + len(dumps(target.model)) :]


def _distinct(tools: Sequence[ToolSchema]) -> list[ToolSchema]:
    """One nameless or twice-named tool makes providers refuse the whole list."""
    seen: dict[str, ToolSchema] = {}
    for tool in tools:
        if tool.name.strip():
            seen.setdefault(wire_name(tool.name), tool)
    return list(seen.values())


def _tool(tool: ToolSchema, target: Target) -> Json:
    """None for a tool whose schema this target would refuse, and with it the whole list (B025)."""
    parameters = parameters_of(tool, target)
    if parameters is None:
        return None
    function = {"name": wire_name(tool.name), "description": tool.description}
    return {"type": "function", "function": function | ({"parameters": parameters} if parameters else {})}


# ---- Messages -------------------------------------------------------------------------------------------------------


def encode_message(message: Message, target: Target) -> Fragment:
    """The JSON objects of one message, joined by commas; a tool message is one object a result.

    Where cache marks may come, contents are lists of parts: the mark goes into the last text that is not empty. On
    an object other than a part it would make OpenRouter hang (specification 10.2).
    """
    in_parts = layout(target) == "envelope"
    match message.role:
        case "assistant":
            return _fragment([_assistant(message, target)], in_parts)
        case "tool":
            return _fragment(list(_tool_results(message, target)), in_parts)
        case _:
            content = _content([p for p in message.parts if isinstance(p, (Text, Image))]) or NO_OUTPUT
            return _fragment([{"role": "user", "content": content}], in_parts)


def _fragment(objects: Sequence[dict[str, Json]], in_parts: bool) -> Fragment:
    if not in_parts:
        return Fragment(b",".join(map(dumps, objects)))
    pieces: list[bytes] = []
    mark_at = after = 0
    for fields in reversed(objects):
        piece, within = _in_parts(fields)
        mark_at = mark_at or (within and after + within)
        after += len(piece) + 1
        pieces.append(piece)
    return Fragment.of(b",".join(reversed(pieces)), mark_at)


def _in_parts(fields: Mapping[str, Json]) -> tuple[bytes, int]:
    """One object with its content as parts, and where a mark may go, counted from its end; 0: nowhere."""
    content = fields["content"]
    if not content:
        return dumps(fields), 0
    listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = [dumps(part) for part in listed]
    head = dumps({key: value for key, value in fields.items() if key != "content"})
    last = max((place for place, part in enumerate(listed) if part["type"] == "text"), default=None)
    mark_at = 0 if last is None else len("}]}") + sum(len(part) + 1 for part in parts[last + 1 :])
    return head[:-1] + b',"content":[' + b",".join(parts) + b"]}", mark_at


def _content(parts: Sequence[Text | Image]) -> str | list[Json]:
    """One text, or a list of parts where there are images; blank texts are left out."""
    if any(isinstance(p, Image) for p in parts):
        return [
            {"type": "text", "text": words(p)} if isinstance(p, Text) else _image(p)
            for p in parts
            if isinstance(p, Image) or p.text.strip()
        ]
    return "\n\n".join(words(p) for p in parts if isinstance(p, Text) and p.text.strip())


def _image(part: Image) -> Json:
    if (url := address_of(part)) is None:
        return {"type": "text", "text": note_of(part)}
    return {"type": "image_url", "image_url": {"url": url}}


# ---- What the model said --------------------------------------------------------------------------------------------


def _assistant(message: Message, target: Target) -> dict[str, Json]:
    calls = [_call(call, target) for call in message.calls]
    if calls and not _replayed(message.calls[0].replay, target):
        calls[0] |= target.quirk("first_call_fields", {})
    out: dict[str, Json] = {"role": "assistant"}
    text = "".join(p.text for p in message.parts if isinstance(p, (Text, Refusal)))
    out["content"] = text if text.strip() else None if calls else ""
    out.update(_reasoning(message, target))
    if calls:
        out["tool_calls"] = calls
    out.update(_replayed(message.replay, target))
    return out


def _reasoning(message: Message, target: Target) -> Iterator[tuple[str, Json]]:
    """Thinking goes back only to who made it, and only where the provider names a field for it.

    With `reasoning_required` a message without any gets one blank: such servers refuse a missing or empty field.
    """
    name = target.quirk("reasoning_field")
    if not name:
        return
    own = "".join(p.text for p in message.parts if isinstance(p, Thinking) and is_own(p.replay, target))
    if own:
        yield str(name), own
    elif target.quirk("reasoning_required"):
        yield str(name), " "


def _call(call: ToolCall, target: Target) -> dict[str, Json]:
    arguments = dumps(dict(call.arguments)).decode("utf-8")
    function = {"name": wire_name(call.name), "arguments": arguments}
    return {"id": call_id(call.id, target), "type": "function", "function": function, **_replayed(call.replay, target)}


def _replayed(replay: Replay | None, target: Target) -> Mapping[str, Json]:
    if replay is None or replay.kind != FIELDS or not is_own(replay, target) or not isinstance(replay.payload, Mapping):
        return {}
    return replay.payload


# ---- What the tools gave --------------------------------------------------------------------------------------------


def _tool_results(message: Message, target: Target) -> Iterator[dict[str, Json]]:
    """One object a result, then, where the provider wants it so, the images of all in a message of the user.

    Nothing of a result is ever moved into a later message of the user: an encoded message never changes, and behind
    a tool message strict servers take the assistant's only.
    """
    results = message.results
    shown = target.quirk("images_in_tool_results")
    beside = [words(p) for p in message.parts if isinstance(p, Text) and p.text.strip()]
    for place, result in enumerate(results, 1):
        content = _result(result, beside if place == len(results) else [], shown)
        yield {"role": "tool", "tool_call_id": call_id(result.call_id, target), "content": content}
    images = [_image(part) for result in results for part in result.parts if isinstance(part, Image)]
    if images and shown == "user_message":
        yield {"role": "user", "content": [{"type": "text", "text": _IMAGES_OF_RESULTS}, *images]}


def _result(result: ToolResult, beside: Sequence[str], shown: Json) -> str | list[Json]:
    """A result as one text; as a list with its images only for servers that are known to take it (27344)."""
    has_image = any(isinstance(p, Image) for p in result.parts)
    if has_image and shown is True:
        return [*_content(result.parts), *({"type": "text", "text": text} for text in beside)]
    note = _IMAGE_FOLLOWS if shown == "user_message" else _IMAGE_NOTE
    texts = [words(p) if isinstance(p, Text) else note for p in result.parts]
    return "\n\n".join([*(t for t in texts if t.strip()), *beside]) or NO_OUTPUT
