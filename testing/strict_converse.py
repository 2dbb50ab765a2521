"""A validator of Amazon Bedrock Converse requests that is as strict as the strictest model behind that API.

`problems(body)` names everything that Bedrock or a model behind it refuses. Rules from the service model of botocore
(bedrock-runtime 2023-09-30, as of 1.44), the Bedrock user guide (Converse, tool use, prompt caching), the wordings of
its refusals in public reports, and the project's cases B005, B026, B112 and spec facts 9486 and 33317. The model's id
is in the path, not in the body. Blocks that this project never sends (documents, video, guardrails) are not known here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .strict_thinking import Said, thinking_problems
from .strict_values import (
    Check,
    as_object,
    fields,
    id_problems,
    is_count,
    is_list,
    is_object,
    is_object_text,
    is_share,
    is_text,
    is_texts,
    items_at,
    lifetime_problems,
    name_problems,
    object_at,
    picture_problems,
    root_problems,
    surrogate_problems,
)

Json = Any

MOST_IMAGES = 20
"""In one message (Message in the API reference)."""
MOST_IMAGE_BYTES = 3_750_000 * 4 // 3
"""3.75 MB, counted here in base64."""


def _is_base64(value: Json) -> bool:
    try:
        return is_text(value) and bool(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False


_TOP_LEVEL: Mapping[str, Check] = {
    "messages": is_list,
    "system": is_list,
    "inferenceConfig": is_object,
    "toolConfig": is_object,
    "additionalModelRequestFields": is_object,
    "additionalModelResponseFieldPaths": is_texts,
    "outputConfig": is_object,
    "guardrailConfig": is_object,
    "performanceConfig": lambda v: v in ({"latency": "standard"}, {"latency": "optimized"}),
    "serviceTier": lambda v: is_object(v) and v.get("type") in ("priority", "default", "flex", "reserved"),
    "requestMetadata": is_object,
}
_INFERENCE: Mapping[str, Check] = {
    "maxTokens": is_count,
    "temperature": is_share,
    "topP": is_share,
    "stopSequences": lambda v: is_texts(v) and len(v) <= 2500,
}
_TOOL_SPEC: Mapping[str, Check] = {
    "name": lambda v: isinstance(v, str),
    "description": lambda v: isinstance(v, str) and bool(v),
    "inputSchema": lambda v: is_object(v) and set(v) == {"json"},
    "strict": lambda v: isinstance(v, bool),
}
_SCHEMA: Mapping[str, Check] = {
    "schema": is_object_text,
    "name": is_text,
    "description": lambda v: isinstance(v, str),
}
_TOOL_USE: Mapping[str, Check] = {"toolUseId": is_text, "name": is_text, "input": is_object}
_TOOL_RESULT: Mapping[str, Check] = {
    "toolUseId": is_text,
    "content": is_list,
    "status": lambda v: v in ("success", "error"),
}
_CACHE_POINT: Mapping[str, Check] = {"type": lambda v: v == "default", "ttl": lambda v: v in ("5m", "1h")}
_IMAGE: Mapping[str, Check] = {
    "format": lambda v: isinstance(v, str),
    "source": lambda v: is_object(v) and set(v) == {"bytes"},
}
_REASONING_TEXT: Mapping[str, Check] = {"text": lambda v: isinstance(v, str), "signature": is_text}
_OF_ROLE = {
    "user": {"text", "image", "toolResult", "cachePoint"},
    "assistant": {"text", "toolUse", "reasoningContent", "cachePoint"},
}


def problems(body: Json, *, issued: Collection[str] | None = None) -> list[str]:
    """Everything that is wrong with a request, each with its place; empty when it is right.

    `issued` holds the signatures and the redacted contents that this server has given out; None takes any.
    """
    if not isinstance(body, dict):
        return ["the body is not an object"]
    return [
        *fields("", body, _TOP_LEVEL, ("messages",)),
        *fields("inferenceConfig", body.get("inferenceConfig", {}), _INFERENCE),
        *_system(items_at(body, "system")),
        *_tools(body),
        *_output(object_at(body, "outputConfig")),
        *_thinking(body),
        *_messages(items_at(body, "messages"), issued),
        *_needs_tools(body),
        *lifetime_problems([*_marks(body)]),
        *surrogate_problems(body),
    ]


# ---- What stands beside the messages --------------------------------------------------------------------------------


def _system(blocks: Collection[Json]) -> Iterator[str]:
    for place, block in enumerate(blocks):
        yield from _union(f"system[{place}]", block, ("text", "cachePoint"))
    yield from _cache_points("system", list(blocks))


def _tools(body: Mapping[str, Json]) -> Iterator[str]:
    config = object_at(body, "toolConfig")
    tools = items_at(config, "tools")
    names: set[str] = set()
    for place, tool in enumerate(tools):
        where = f"toolConfig.tools[{place}]"
        yield from _union(where, tool, ("toolSpec", "cachePoint"))
        if spec := object_at(tool, "toolSpec"):
            yield from fields(f"{where}.toolSpec", spec, _TOOL_SPEC, ("name", "inputSchema"))
            yield from name_problems(f"{where}.toolSpec", spec.get("name"), names)
            schema = object_at(spec, "inputSchema").get("json")
            yield from root_problems(f"{where}.toolSpec.inputSchema.json", schema)
    yield from _cache_points("toolConfig.tools", list(tools))
    yield from (f"toolConfig.{name} is not known" for name in set(config) - {"tools", "toolChoice"})
    if "toolConfig" in body and not names:
        yield "toolConfig.tools: there is no tool"
    choice = object_at(config, "toolChoice")
    if "toolChoice" in config and (len(choice) != 1 or not set(choice) <= {"auto", "any", "tool"}):
        yield f"toolConfig.toolChoice: one of auto, any, tool, not {config['toolChoice']!r}"
    if "tool" in choice and str(object_at(choice, "tool").get("name")) not in names:
        yield f"toolConfig.toolChoice: no tool {object_at(choice, 'tool').get('name')!r}"


def _needs_tools(body: Mapping[str, Json]) -> Iterator[str]:
    for place, message in enumerate(items_at(body, "messages")):
        for block in items_at(message, "content"):
            if {"toolUse", "toolResult"} & set(as_object(block)) and "toolConfig" not in body:
                yield f"messages[{place}]: the toolConfig field must be defined when toolUse or toolResult is used"
                return


def _output(config: Mapping[str, Json]) -> Iterator[str]:
    yield from (f"outputConfig.{name} is not known" for name in set(config) - {"textFormat", "effort"})
    if "textFormat" not in config:
        return
    where = "outputConfig.textFormat"
    known: Mapping[str, Check] = {"type": lambda v: v == "json_schema", "structure": is_object}
    yield from fields(where, config["textFormat"], known, ("type", "structure"))
    structure = object_at(config["textFormat"], "structure")
    if set(structure) != {"jsonSchema"}:
        yield f"{where}.structure: one of jsonSchema"
    yield from fields(f"{where}.structure.jsonSchema", structure.get("jsonSchema", {}), _SCHEMA, ("schema",))


def _thinking(body: Mapping[str, Json]) -> Iterator[str]:
    """What only Claude takes is passed on to it as it is."""
    extra, inference = object_at(body, "additionalModelRequestFields"), object_at(body, "inferenceConfig")
    if "thinking" not in extra:
        return
    said = []
    for place, message in enumerate(items_at(body, "messages")):
        blocks = [as_object(block) for block in items_at(message, "content")] or [{}]
        role = str(as_object(message).get("role"))
        said.append(Said(f"messages[{place}]", role, "reasoningContent" in blocks[0], "toolResult" in blocks[0]))
    yield from thinking_problems(
        object_at(extra, "thinking"),
        most=inference.get("maxTokens"),
        temperature=inference.get("temperature"),
        is_forced=bool({"any", "tool"} & set(object_at(body.get("toolConfig"), "toolChoice"))),
        said=said,
    )


# ---- Messages -------------------------------------------------------------------------------------------------------


def _messages(messages: Collection[Json], issued: Collection[str] | None) -> Iterator[str]:
    used: set[str] = set()
    open_ids: list[str] = []
    before = "assistant"
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = as_object(message).get("role")
        if not isinstance(role, str) or role not in _OF_ROLE:
            yield f"{where}: bad role {role!r}"
            continue
        yield from (f"{where}.{name} is not known" for name in set(message) - {"role", "content"})
        if role == before:
            yield (
                f"{where}: a conversation must alternate between user and assistant roles"
                if place
                else f"{where}: a conversation must start with a user message"
            )
        before = role
        blocks = list(items_at(message, "content"))
        if not blocks:
            yield f"{where}.content: the content is empty"
        for number, block in enumerate(blocks):
            yield from _union(f"{where}.content[{number}]", block, _OF_ROLE[role])
        yield from _cache_points(f"{where}.content", blocks)
        yield from _pairs(where, blocks, open_ids) if role == "user" else _said(where, blocks, used, issued)
        uses = [
            object_at(block, "toolUse") for block in blocks if role == "assistant" and "toolUse" in as_object(block)
        ]
        open_ids = [str(use.get("toolUseId")) for use in uses]
    if before != "user":
        yield "messages: the last must be of the user (a prefilled reply is refused)"


def _pairs(where: str, blocks: Collection[Json], open_ids: list[str]) -> Iterator[str]:
    """Results come first, one for each call of the message before, and for nothing else."""
    answered: list[str] = []
    is_past = False
    for block in blocks:
        if "toolResult" not in as_object(block):
            is_past = True
            continue
        call_id = str(object_at(block, "toolResult").get("toolUseId"))
        if is_past:
            yield f"{where}.content: the result of {call_id} stands after other blocks"
        if call_id not in open_ids:
            yield f"{where}.content: the toolResult {call_id!r} answers no toolUse of the previous turn"
        elif call_id in answered:
            yield f"{where}.content: the toolResult blocks contain duplicate Ids: {call_id}"
        answered.append(call_id)
    if missing := [call_id for call_id in open_ids if call_id not in answered]:
        yield f"{where}.content: expected toolResult blocks for the following Ids: {', '.join(missing)}"
    if sum("image" in as_object(block) for block in blocks) > MOST_IMAGES:
        yield f"{where}.content: more than {MOST_IMAGES} images"


def _said(where: str, blocks: list[Json], used: set[str], issued: Collection[str] | None) -> Iterator[str]:
    for number, block in enumerate(blocks):
        here = f"{where}.content[{number}]"
        if "toolUse" in as_object(block):
            use = object_at(block, "toolUse")
            yield from id_problems(here, use.get("toolUseId"), used)
            yield from name_problems(here, use.get("name"))
        elif issued is not None and (thought := object_at(block, "reasoningContent")):
            sign = object_at(thought, "reasoningText").get("signature", thought.get("redactedContent"))
            if str(sign) not in issued:
                yield f"{here}: invalid signature in a reasoningContent block"
    if blocks and "reasoningContent" in as_object(blocks[-1]):
        yield f"{where}.content: the final block cannot be reasoningContent"


def _union(where: str, block: Json, taken: Collection[str]) -> Iterator[str]:
    """A block has exactly one member, and it is one that may stand here."""
    if not isinstance(block, dict) or len(block) != 1:
        yield f"{where}: exactly one of {', '.join(sorted(taken))}"
        return
    kind, value = next(iter(block.items()))
    if kind not in taken:
        yield f"{where}: a {kind} block may not stand here"
    elif kind == "text":
        if not is_text(value):
            yield f"{where}: the text field is blank"
    elif kind == "json":
        if not isinstance(value, dict):
            yield f"{where}: the value of json is invalid, provide a json object"
    elif kind != "toolSpec":
        yield from _MEMBERS[kind](f"{where}.{kind}", value)


def _tool_use(where: str, use: Json) -> Iterator[str]:
    yield from fields(where, use, _TOOL_USE, _TOOL_USE)


def _tool_result(where: str, result: Json) -> Iterator[str]:
    yield from fields(where, result, _TOOL_RESULT, ("toolUseId", "content"))
    for number, inner in enumerate(items_at(result, "content")):
        yield from _union(f"{where}.content[{number}]", inner, ("text", "json", "image"))
        if "image" in as_object(inner) and as_object(result).get("status") == "error":
            yield f"{where}.content[{number}]: all content must be of type text if the status is error"


def _cache_point(where: str, point: Json) -> Iterator[str]:
    yield from fields(where, point, _CACHE_POINT, ("type",))


def _image(where: str, image: Json) -> Iterator[str]:
    yield from fields(where, image, _IMAGE, _IMAGE)
    data = object_at(image, "source").get("bytes")
    yield from picture_problems(where, str(as_object(image).get("format")), data, MOST_IMAGE_BYTES)


def _reasoning(where: str, thought: Json) -> Iterator[str]:
    if not isinstance(thought, dict) or len(thought) != 1:
        yield f"{where}: exactly one of reasoningText, redactedContent"
    elif "redactedContent" in thought:
        if not _is_base64(thought["redactedContent"]):
            yield f"{where}.redactedContent: invalid base64 data"
    else:
        yield from fields(where, thought, {"reasoningText": is_object})
        yield from fields(f"{where}.reasoningText", thought.get("reasoningText", {}), _REASONING_TEXT, _REASONING_TEXT)


_MEMBERS = {
    "toolUse": _tool_use,
    "toolResult": _tool_result,
    "cachePoint": _cache_point,
    "image": _image,
    "reasoningContent": _reasoning,
}


# ---- Cache points ---------------------------------------------------------------------------------------------------


def _cache_points(where: str, blocks: list[Json]) -> Iterator[str]:
    """A point stands after something that can be cached, in the same list."""
    for place, block in enumerate(blocks):
        if "cachePoint" not in as_object(block):
            continue
        if not place:
            yield f"{where}[{place}]: there is nothing available to cache"
        elif "reasoningContent" in as_object(blocks[place - 1]):
            yield f"{where}[{place}]: cache point cannot be inserted after reasoning block"


def _marks(body: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """(place, lifetime) of each point, in the order in which the server reads: tools, system, messages."""
    lists = [("toolConfig.tools", items_at(body.get("toolConfig"), "tools")), ("system", items_at(body, "system"))]
    for place, message in enumerate(items_at(body, "messages")):
        lists.append((f"messages[{place}].content", items_at(message, "content")))
    for where, blocks in lists:
        for number, block in enumerate(blocks):
            if point := object_at(block, "cachePoint"):
                yield f"{where}[{number}]", str(point.get("ttl", "5m"))
