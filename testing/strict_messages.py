"""A validator of Anthropic Messages requests that is as strict as the strictest server of that format.

`problems(body)` names everything that some server refuses. Rules from Anthropic's API reference (Messages, tool use,
prompt caching, thinking, vision, structured outputs; November 2026), the wordings of its refusals in public reports,
and the project's cases B005, B026, B045, B062. Blocks that this project never sends (documents, server tools) are not
known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .strict_thinking import Said, thinking_problems
from .strict_values import (
    Check,
    address_problems,
    as_object,
    fields,
    id_problems,
    is_bool,
    is_count,
    is_list,
    is_mark,
    is_object,
    is_share,
    is_text,
    is_texts,
    items_at,
    kind_of,
    lifetime_problems,
    name_problems,
    object_at,
    open_objects,
    picture_problems,
    root_problems,
    surrogate_problems,
)

Json = Any

MOST_IMAGE_BYTES = 5 * 1024 * 1024
"""Of the base64 text, which is what the server counts ("image exceeds 5 MB maximum: … bytes > 5242880 bytes")."""


_TOP_LEVEL: Mapping[str, Check] = {
    "model": is_text,
    "messages": is_list,
    "max_tokens": is_count,
    "system": lambda v: isinstance(v, str) or is_list(v),
    "tools": is_list,
    "tool_choice": lambda v: isinstance(v, dict) and v.get("type") in ("auto", "any", "none", "tool"),
    "stream": is_bool,
    "temperature": is_share,
    "top_p": is_share,
    "top_k": is_count,
    "stop_sequences": is_texts,
    "metadata": lambda v: isinstance(v, dict) and set(v) <= {"user_id"},
    "thinking": is_object,
    "output_config": is_object,
    "service_tier": lambda v: v in ("auto", "standard_only"),
    "speed": lambda v: v in ("standard", "fast"),
    "cache_control": is_mark,
}
_TOOL: Mapping[str, Check] = {
    "type": lambda v: v == "custom",
    "name": lambda v: isinstance(v, str),
    "description": lambda v: isinstance(v, str),
    "input_schema": is_object,
    "strict": is_bool,
    "eager_input_streaming": is_bool,
    "cache_control": is_mark,
}
_BLOCKS: Mapping[str, Mapping[str, Check]] = {
    "text": {"text": is_text, "citations": lambda v: isinstance(v, list), "cache_control": is_mark},
    "image": {"source": is_object, "cache_control": is_mark},
    "tool_use": {"id": is_text, "name": is_text, "input": is_object, "cache_control": is_mark},
    "tool_result": {
        "tool_use_id": is_text,
        "content": lambda v: is_text(v) or is_list(v),
        "is_error": is_bool,
        "cache_control": is_mark,
    },
    "thinking": {"thinking": lambda v: isinstance(v, str), "signature": is_text},
    "redacted_thinking": {"data": is_text},
}
"""A thinking block takes no mark. Its text may be empty: a server that omits it still signs it."""
_OPTIONAL = {"citations", "cache_control", "is_error", "content"}
_OF_ROLE = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use"},
}
_THINKING = ("thinking", "redacted_thinking")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def problems(body: Json, *, issued: Collection[str] | None = None) -> list[str]:
    """Everything that is wrong with a request, each with its place; empty when it is right.

    `issued` holds the signatures and the redacted data that this server has given out; None takes any.
    """
    if not isinstance(body, dict):
        return ["the body is not an object"]
    return [
        *fields("", body, _TOP_LEVEL, ("model", "messages", "max_tokens")),
        *_system(body.get("system")),
        *_tools(body),
        *_thinking(body),
        *_output(object_at(body, "output_config")),
        *_messages(items_at(body, "messages"), issued),
        *_needs_tools(body),
        *lifetime_problems([*_marks("", body)]),
        *surrogate_problems(body),
    ]


# ---- What stands beside the messages --------------------------------------------------------------------------------


def _system(system: Json) -> Iterator[str]:
    if isinstance(system, str) and not system.strip():
        yield "system: blank text"
    for place, block in enumerate(system if isinstance(system, list) else ()):
        where = f"system[{place}]"
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"{where} is no text block"
        else:
            yield from _block_fields(where, block)


def _tools(body: Mapping[str, Json]) -> Iterator[str]:
    names: set[str] = set()
    for place, tool in enumerate(items_at(body, "tools")):
        where = f"tools[{place}]"
        yield from fields(where, tool, _TOOL, ("name", "input_schema"))
        if isinstance(tool, dict):
            yield from name_problems(where, tool.get("name"), names)
            schema = tool.get("input_schema")
            yield from root_problems(f"{where}.input_schema", schema)
            for key in object_at(schema, "properties"):
                if not _PROPERTY.fullmatch(key):
                    yield f"{where}.input_schema.properties: the key {key[:80]!r} does not fit {_PROPERTY.pattern}"
    choice = object_at(body, "tool_choice")
    if choice and "tools" not in body:
        yield "tool_choice without tools"
    if choice.get("type") == "tool" and str(choice.get("name")) not in names:
        yield f"tool_choice: no tool {choice.get('name')!r}"


def _thinking(body: Mapping[str, Json]) -> Iterator[str]:
    if "thinking" not in body:
        return
    said = []
    for place, message in enumerate(items_at(body, "messages")):
        kinds = [kind_of(block) for block in items_at(message, "content")] or ["text"]
        role = str(as_object(message).get("role"))
        said.append(Said(f"messages[{place}]", role, kinds[0] in _THINKING, "tool_result" in kinds))
    yield from thinking_problems(
        object_at(body, "thinking"),
        most=body.get("max_tokens"),
        temperature=body.get("temperature"),
        is_forced=kind_of(body.get("tool_choice")) in ("any", "tool"),
        said=said,
    )


def _output(config: Mapping[str, Json]) -> Iterator[str]:
    yield from (f"output_config.{name} is not known" for name in set(config) - {"effort", "format"})
    if config.get("effort", "low") not in ("low", "medium", "high", "xhigh", "max"):
        yield f"output_config.effort: {config['effort']!r} is not known"
    if "format" not in config:
        return
    known: Mapping[str, Check] = {"type": lambda v: v == "json_schema", "schema": is_object}
    yield from fields("output_config.format", config["format"], known, ("type", "schema"))
    yield from open_objects("output_config.format.schema", object_at(config["format"], "schema"))


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
            yield f"{where}: two messages of {role} in a row" if place else f"{where}: the first must be of the user"
        before = role
        content = message.get("content")
        if not is_text(content) and not is_list(content):
            yield f"{where}: no content"
        blocks = [block if isinstance(block, dict) else {} for block in items_at(message, "content")]
        for number, block in enumerate(blocks):
            yield from _block(f"{where}.content[{number}]", block, role, issued)
        yield from _pairs(where, blocks, open_ids) if role == "user" else _said(where, blocks, used)
        open_ids = [str(b.get("id")) for b in blocks if role == "assistant" and b.get("type") == "tool_use"]
    if before != "user":
        yield "messages: the last must be of the user (a prefilled reply is refused)"


def _pairs(where: str, blocks: Collection[Json], open_ids: list[str]) -> Iterator[str]:
    """Results come first, one for each call of the message before, and for nothing else."""
    answered: list[str] = []
    is_past = False
    for block in blocks:
        if block.get("type") != "tool_result":
            is_past = True
            continue
        call_id = str(block.get("tool_use_id"))
        if is_past:
            yield f"{where}: the result of {call_id} stands after other blocks"
        if call_id not in open_ids:
            yield f"{where}: unexpected tool_use_id {call_id!r}, no such call in the message before"
        elif call_id in answered:
            yield f"{where}: more than one result of {call_id}"
        answered.append(call_id)
    if missing := [call_id for call_id in open_ids if call_id not in answered]:
        yield f"{where}: no result for {', '.join(missing)}"


def _said(where: str, blocks: list[Json], used: set[str]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        if block.get("type") == "tool_use":
            yield from id_problems(f"{where}.content[{number}]", block.get("id"), used)
            yield from name_problems(f"{where}.content[{number}]", block.get("name"))
    if blocks and blocks[-1].get("type") in _THINKING:
        yield f"{where}: the final block cannot be thinking"


def _block(where: str, block: Mapping[str, Json], role: str, issued: Collection[str] | None) -> Iterator[str]:
    kind = kind_of(block)
    if kind not in _OF_ROLE[role]:
        yield f"{where}: a block of type {kind!r} in a message of {role}"
        return
    yield from _block_fields(where, block)
    if kind == "image":
        yield from _image(where, object_at(block, "source"))
    elif kind == "tool_result":
        yield from _result(where, block)
    elif kind in _THINKING and issued is not None:
        name = "signature" if kind == "thinking" else "data"
        if str(block.get(name)) not in issued:
            yield f"{where}: invalid {name} in a {kind} block"


def _block_fields(where: str, block: Mapping[str, Json]) -> Iterator[str]:
    known = _BLOCKS[block["type"]]
    yield from fields(where, {k: v for k, v in block.items() if k != "type"}, known, set(known) - _OPTIONAL)


def _image(where: str, source: Mapping[str, Json]) -> Iterator[str]:
    kind = kind_of(source)
    if kind == "base64":
        yield from (f"{where}.source.{name} is not known" for name in set(source) - {"type", "media_type", "data"})
        family, _, picture = str(source.get("media_type")).partition("/")
        kind = picture if family == "image" else str(source.get("media_type"))
        yield from picture_problems(f"{where}.source", kind, source.get("data"), MOST_IMAGE_BYTES)
    elif kind == "url":
        yield from (f"{where}.source.{name} is not known" for name in set(source) - {"type", "url"})
        url = source.get("url")
        yield from address_problems(f"{where}.source", None if str(url).startswith("data:") else url)
    else:
        yield f"{where}.source: bad type {kind!r}"


def _result(where: str, block: Mapping[str, Json]) -> Iterator[str]:
    for number, inner in enumerate(items_at(block, "content")):
        here = f"{where}.content[{number}]"
        kind = kind_of(inner)
        if kind not in ("text", "image"):
            yield f"{here}: a block of type {kind!r} in a result"
            continue
        yield from _block_fields(here, inner)
        if kind == "image":
            yield from _image(here, object_at(inner, "source"))
            if block.get("is_error") is True:
                yield f"{here}: all content must be of type text if is_error is true"


def _needs_tools(body: Mapping[str, Json]) -> Iterator[str]:
    for place, message in enumerate(items_at(body, "messages")):
        for block in items_at(message, "content"):
            if kind_of(block) in ("tool_use", "tool_result") and "tools" not in body:
                yield f"messages[{place}]: requests with tool_use or tool_result blocks must define tools"
                return


def _marks(where: str, data: Json) -> Iterator[tuple[str, str]]:
    """(place, lifetime) of each mark, in the order in which the server reads: tools, system, messages."""
    if isinstance(data, list):
        for place, item in enumerate(data):
            yield from _marks(f"{where}[{place}]", item)
    elif isinstance(data, dict):
        for name in ("tools", "system", "messages", "content"):
            yield from _marks(f"{where}.{name}".lstrip("."), data.get(name))
        if isinstance(mark := data.get("cache_control"), dict):
            yield where or "cache_control", str(mark.get("ttl", "5m"))
