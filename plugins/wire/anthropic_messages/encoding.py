"""From the neutral conversation to the JSON of the Messages API, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes.kernel.messages import Image, Json, Message, Part, Refusal, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Target, ToolSchema
from hermes.plugins.wire.caching import cache_control, layout
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, Fragment, words
from hermes.plugins.wire.schemas import parameters_of
from hermes.plugins.wire.toolnames import wire_name

from .families import model_id
from .images import image_block
from .thoughts import REDACTED, THINKING, Rule, rule_of, thinking_block, with_required

_MARK_AT = len(b"}]}")
"""Every fragment ends with its last block, which is never blank and never thinking: a mark goes inside that block."""


def cache_mark(target: Target) -> bytes:
    """What is put into a block to mark it; "" for a target whose prompt is not cached by marks."""
    return cache_control(target) if layout(target) == "native" else b""


# ---- The frozen prefix ----------------------------------------------------------------------------------------------


def encode_prefix(system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
    """`{"model":…,"tools":[…],"system":…,"messages":[`: everything that stays the same for (epoch, target).

    Its end is marked where the target caches by marks: the system prompt, else the last tool.
    """
    mark = cache_mark(target)
    offered = [dumps(tool) for tool in _tools(tools, target)]
    if mark and offered and not system.strip():
        offered[-1] = offered[-1][:-1] + mark + b"}"
    head = _model(target)
    if offered:
        head += b',"tools":[' + b",".join(offered) + b"]"
    if system.strip():
        text = dumps(system)
        head += b',"system":' + (b'[{"type":"text","text":' + text + mark + b"}]" if mark else text)
    return head + b',"messages":['


def offers_tools(prefix: bytes, target: Target) -> bool:
    return prefix.startswith(b',"tools":', len(_model(target)))


def _model(target: Target) -> bytes:
    return b'{"model":' + dumps(model_id(target))


def _tools(tools: Sequence[ToolSchema], target: Target) -> Iterator[Json]:
    """One nameless or twice-named tool makes the server refuse the whole list."""
    seen: set[str] = set()
    for tool in tools:
        name = wire_name(tool.name)
        if not tool.name.strip() or name in seen or (schema := parameters_of(tool, target)) is None:
            continue
        seen.add(name)
        yield {"name": name, "description": tool.description, "input_schema": schema}


# ---- Messages -------------------------------------------------------------------------------------------------------


def encode_message(message: Message, target: Target) -> Fragment:
    """One message. Results stand in a message of the user, in their order, before the texts beside them."""
    if message.role == "assistant":
        return _fragment("assistant", _said(message.parts, target))
    results = [_result(result) for result in message.results]
    return _fragment("user", [*results, *_content(message.parts)])


def _fragment(role: str, blocks: Sequence[Json]) -> Fragment:
    content = blocks or [{"type": "text", "text": NO_OUTPUT}]
    return Fragment.of(dumps({"role": role, "content": content}), _MARK_AT)


def _content(parts: Sequence[Part]) -> list[Json]:
    """Texts that are not blank, and pictures."""
    blocks: list[Json] = []
    for part in parts:
        if isinstance(part, Text) and part.text.strip():
            blocks.append({"type": "text", "text": words(part)})
        elif isinstance(part, Image):
            blocks.append(image_block(part))
    return blocks


def _result(result: ToolResult) -> Json:
    """A result that failed is marked as such, unless it shows a picture: the server takes only texts in errors."""
    content = _content(result.parts) or [{"type": "text", "text": NO_OUTPUT}]
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    if result.status != "ok" and all(inner["type"] == "text" for inner in content):
        block["is_error"] = True
    return block


def _said(parts: Sequence[Part], target: Target) -> list[Json]:
    """The blocks in the model's order: signatures hold only there. Thinking at the very end is refused."""
    rule = rule_of(target)
    blocks = with_required([block for part in parts if (block := _block(part, rule, target)) is not None], rule)
    while blocks and blocks[-1]["type"] in (THINKING, REDACTED):
        blocks.pop()
    return blocks


def _block(part: Part, rule: Rule, target: Target) -> Json | None:
    match part:
        case Text() | Refusal():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Thinking():
            return thinking_block(part, rule, target)
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": wire_name(part.name), "input": dict(part.arguments)}
        case _:
            return None
