"""From the neutral conversation to the JSON of chat completions, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from hermes.kernel.messages import (
    Image,
    Json,
    Message,
    Refusal,
    Replay,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from hermes.kernel.providers import Parameters, Target, ToolSchema
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, is_own, joined, words
from hermes.plugins.wire.toolnames import wire_name

FIELDS = "fields"
"""Kind of a Replay whose payload is an object of fields to be put back where they came from."""
REASONING = "reasoning"
"""Kind of the Replay of a Thinking: it marks whose thinking it is and has no payload."""

_IMAGE_NOTE = "[an image was returned; this model cannot be shown images in tool results]"


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
    elif offered:
        head += b',"tools":[' + b",".join(dumps(_tool(tool)) for tool in offered) + b"]"
    message = dumps({"role": "system", "content": system}) if system.strip() else b""
    return head + b',"messages":[' + message


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


def _tool(tool: ToolSchema) -> Json:
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": wire_name(tool.name), "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


# ---- Messages -------------------------------------------------------------------------------------------------------


def encode_message(message: Message, target: Target) -> bytes:
    """The JSON objects of one message, joined by commas; a tool message is one object a result."""
    match message.role:
        case "assistant":
            return dumps(_assistant(message, target))
        case "tool":
            return b",".join(dumps(item) for item in _tool_results(message, target))
        case _:
            return dumps({"role": "user", "content": _content(message, target) or NO_OUTPUT})


def _content(message: Message, target: Target) -> str | list[Json]:
    parts = [p for p in message.parts if isinstance(p, (Text, Image))]
    if any(isinstance(p, Image) for p in parts):
        return _content_parts(parts)
    return "\n\n".join(words(p) for p in parts if isinstance(p, Text) and p.text.strip())


def _content_parts(parts: Sequence[Text | Image]) -> list[Json]:
    return [
        {"type": "text", "text": words(p)} if isinstance(p, Text) else _image(p)
        for p in parts
        if isinstance(p, Image) or p.text.strip()
    ]


def _image(part: Image) -> Json:
    url = part.url or f"data:{part.media_type or 'image/png'};base64,{part.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _assistant(message: Message, target: Target) -> Json:
    calls = [_call(call, target) for call in message.calls]
    out: dict[str, Json] = {"role": "assistant"}
    texts = (p.text for p in message.parts if isinstance(p, (Text, Refusal)))
    text = "".join(texts)
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


def _call(call: ToolCall, target: Target) -> Json:
    arguments = dumps(dict(call.arguments)).decode("utf-8")
    function = {"name": wire_name(call.name), "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function, **_replayed(call.replay, target)}


def _replayed(replay: Replay | None, target: Target) -> Mapping[str, Json]:
    if replay is None or replay.kind != FIELDS or not is_own(replay, target) or not isinstance(replay.payload, Mapping):
        return {}
    return replay.payload


def _tool_results(message: Message, target: Target) -> Iterator[Json]:
    results = message.results
    beside = [words(p) for p in message.parts if isinstance(p, Text) and p.text.strip()]
    for place, result in enumerate(results, 1):
        more = beside if place == len(results) else []
        yield {"role": "tool", "tool_call_id": result.call_id, "content": _result(result, more, target)}


def _result(result: ToolResult, beside: Sequence[str], target: Target) -> str | list[Json]:
    """A result as one text; as a list with its images only for servers that are known to take it."""
    has_image = any(isinstance(p, Image) for p in result.parts)
    if has_image and target.quirk("images_in_tool_results"):
        return [*_content_parts(result.parts), *({"type": "text", "text": text} for text in beside)]
    texts = [words(p) if isinstance(p, Text) else _IMAGE_NOTE for p in result.parts]
    return "\n\n".join([*(t for t in texts if t.strip()), *beside]) or NO_OUTPUT


# ---- The body -------------------------------------------------------------------------------------------------------


def envelope_pieces(prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target) -> list[bytes]:
    """The body as pieces: prefix, fragments with commas between, and what varies from call to call."""
    tail = dumps(_options(parameters, target, offers_tools(prefix, target)))
    return joined(prefix, fragments, b"]," + tail[1:] if len(tail) > 2 else b"]}")


def _options(parameters: Parameters, target: Target, has_tools: bool) -> dict[str, Json]:
    options: dict[str, Json] = {}
    if parameters.stream:
        options["stream"] = True
        if target.quirk("stream_usage", True):
            options["stream_options"] = {"include_usage": True}
    if parameters.temperature is not None:
        options["temperature"] = parameters.temperature
    if parameters.output_cap is not None:
        options[str(target.quirk("output_cap_parameter", "max_tokens"))] = parameters.output_cap
    if parameters.reasoning_effort is not None:
        _put(options, str(target.quirk("effort_parameter", "reasoning_effort")), parameters.reasoning_effort)
    if has_tools and not parameters.may_call:
        options.update(_no_calls(target))
    extra = target.quirk("extra_parameters", {})
    options.update(extra if isinstance(extra, Mapping) else {})
    left_out = {*parameters.leave_out, *target.quirk("drop_parameters", ())}
    return {name: value for name, value in options.items() if name not in left_out}


def _no_calls(target: Target) -> dict[str, Json]:
    """What forbids calls. The last of two equal names wins: this grammar, of text alone, replaces the first."""
    if not is_grammar(target):
        return {"tool_choice": "none"}
    from .grammar import grammar_for

    return {"grammar": grammar_for(())}


def _put(options: dict[str, Json], path: str, value: Json) -> None:
    """Set `a` or, for a nested parameter, `a.b`."""
    name, _, inner = path.partition(".")
    options[name] = {inner: value} if inner else value
