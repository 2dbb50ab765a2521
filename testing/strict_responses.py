"""A validator of OpenAI Responses requests that is as strict as the strictest server of that format.

`problems(body)` names everything that some server refuses, of requests that keep nothing on the server (`store` false).
Rules from OpenAI's API reference (Responses, function calling, reasoning, structured outputs; November 2026), the
wordings of its refusals in public reports, and the project's cases B005, B026, B045, B066, B081, B141. Items that this
project never sends (built-in tools, files, references to stored items) are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .strict_values import (
    Check,
    address_problems,
    as_object,
    fields,
    id_problems,
    is_bool,
    is_count,
    is_list,
    is_object,
    is_object_text,
    is_share,
    is_text,
    items_at,
    kind_of,
    name_problems,
    object_at,
    open_objects,
    root_problems,
    surrogate_problems,
)

Json = Any

_INCLUDABLE = ("reasoning.encrypted_content", "message.output_text.logprobs", "message.input_image.image_url")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_STATUS = ("in_progress", "completed", "incomplete")


def _is_status(value: Json) -> bool:
    return value in _STATUS


_TOP_LEVEL: Mapping[str, Check] = {
    "model": is_text,
    "input": is_list,
    "instructions": is_text,
    "tools": is_list,
    "tool_choice": lambda v: v in ("none", "auto", "required") or (is_object(v) and v.get("type") == "function"),
    "parallel_tool_calls": is_bool,
    "store": lambda v: v is False,
    "stream": is_bool,
    "stream_options": lambda v: is_object(v) and set(v) == {"include_obfuscation"},
    "include": lambda v: isinstance(v, list) and all(item in _INCLUDABLE for item in v),
    "reasoning": is_object,
    "text": is_object,
    "max_output_tokens": lambda v: is_count(v, 16),
    "temperature": lambda v: is_share(v, 2),
    "top_p": is_share,
    "prompt_cache_key": lambda v: is_text(v) and len(v) <= 64,
    "prompt_cache_retention": lambda v: v in ("in_memory", "24h"),
    "prompt_cache_options": is_object,
    "service_tier": lambda v: v in ("auto", "default", "flex", "fast", "priority"),
    "truncation": lambda v: v in ("auto", "disabled"),
    "metadata": is_object,
    "safety_identifier": is_text,
    "user": is_text,
}
"""`store`: a server that keeps nothing (Codex) refuses anything but false. `max_output_tokens`: 16 at least."""
_TOOL: Mapping[str, Check] = {
    "type": lambda v: v == "function",
    "name": lambda v: isinstance(v, str),
    "description": lambda v: v is None or isinstance(v, str),
    "parameters": is_object,
    "strict": lambda v: v is None or isinstance(v, bool),
}
_REASONING: Mapping[str, Check] = {
    "effort": lambda v: v in _EFFORTS,
    "summary": lambda v: v in ("auto", "concise", "detailed"),
    "context": lambda v: v in ("auto", "current_turn", "all_turns"),
}
_FORMAT: Mapping[str, Check] = {
    "type": lambda v: v == "json_schema",
    "name": lambda v: isinstance(v, str),
    "schema": is_object,
    "description": lambda v: isinstance(v, str),
    "strict": lambda v: v is None or isinstance(v, bool),
}


def _id_of(*prefixes: str) -> Check:
    pattern = re.compile(rf"(?=.{{1,64}}\Z)(?:{'|'.join(prefixes)})[a-zA-Z0-9_-]*")
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


_ITEMS: Mapping[str, Mapping[str, Check]] = {
    "message": {
        "role": lambda v: v in ("user", "assistant", "system", "developer"),
        "content": lambda v: is_text(v) or is_list(v),
        "id": _id_of("msg"),
        "status": _is_status,
        "phase": lambda v: v in ("commentary", "final_answer"),
    },
    "function_call": {
        "call_id": is_text,
        "name": is_text,
        "arguments": is_object_text,
        "id": _id_of("fc"),
        "status": _is_status,
    },
    "function_call_output": {
        "call_id": is_text,
        "output": lambda v: is_text(v) or is_list(v),
        "id": _id_of("fc"),
        "status": _is_status,
    },
    "reasoning": {
        "summary": lambda v: isinstance(v, list) and all(map(_is_summary, v)),
        "encrypted_content": is_text,
        "content": lambda v: v is None or isinstance(v, list),
        "id": _id_of("rs"),
        "status": _is_status,
    },
}
"""Ids start by what they are of ("Expected an ID that begins with 'msg'"), and are 64 characters at most."""
_NEEDED: Mapping[str, set[str]] = {
    "message": {"role", "content"},
    "function_call": {"call_id", "name", "arguments"},
    "function_call_output": {"call_id", "output"},
    "reasoning": {"summary", "encrypted_content"},
}
"""A reasoning item without its content would be looked up by its id, and nothing is kept."""
_PARTS: Mapping[str, Mapping[str, Check]] = {
    "input_text": {"text": is_text, "prompt_cache_breakpoint": is_object},
    "output_text": {"text": is_text, "annotations": lambda v: isinstance(v, list), "logprobs": is_object},
    "refusal": {"refusal": is_text},
    "input_image": {
        "image_url": is_text,
        "detail": lambda v: v in ("low", "high", "auto", "original"),
        "prompt_cache_breakpoint": is_object,
    },
}
_OPTIONAL = {"prompt_cache_breakpoint", "annotations", "logprobs", "detail"}
_SHOWN = {"input_text", "input_image"}


def _is_summary(value: Json) -> bool:
    return is_object(value) and value.get("type") == "summary_text" and isinstance(value.get("text"), str)


def problems(body: Json, *, issued: Collection[str] | None = None) -> list[str]:
    """Everything that is wrong with a request, each with its place; empty when it is right.

    `issued` holds the encrypted contents that this server has given out; None takes any.
    """
    if not isinstance(body, dict):
        return ["the body is not an object"]
    return [
        *fields("", body, _TOP_LEVEL, ("model", "input", "store")),
        *_options(body),
        *_tools(body),
        *_input(items_at(body, "input"), issued),
        *surrogate_problems(body),
    ]


def _options(body: Mapping[str, Json]) -> Iterator[str]:
    if "stream_options" in body and body.get("stream") is not True:
        yield "stream_options without stream"
    yield from fields("reasoning", object_at(body, "reasoning"), _REASONING)
    text = object_at(body, "text")
    yield from (f"text.{name} is not known" for name in set(text) - {"format", "verbosity"})
    if text.get("verbosity", "low") not in ("low", "medium", "high"):
        yield f"text.verbosity has a bad value: {text['verbosity']!r}"
    form = object_at(text, "format")
    if not form or form == {"type": "text"} or form == {"type": "json_object"}:
        return
    yield from fields("text.format", form, _FORMAT, ("type", "name", "schema"))
    yield from name_problems("text.format", form.get("name"))
    yield from root_problems("text.format.schema", form.get("schema"))
    if form.get("strict") is True:
        yield from open_objects("text.format.schema", form.get("schema"), all_required=True)


def _tools(body: Mapping[str, Json]) -> Iterator[str]:
    names: set[str] = set()
    for place, tool in enumerate(items_at(body, "tools")):
        where = f"tools[{place}]"
        yield from fields(where, tool, _TOOL, ("type", "name", "parameters"))
        if isinstance(tool, dict):
            yield from name_problems(where, tool.get("name"), names)
            yield from root_problems(f"{where}.parameters", tool.get("parameters"))
            if tool.get("strict") is True:
                yield from open_objects(f"{where}.parameters", tool.get("parameters"), all_required=True)
    if "tool_choice" in body and "tools" not in body:
        yield "tool_choice without tools"
    choice = object_at(body, "tool_choice")
    if choice and str(choice.get("name")) not in names:
        yield f"tool_choice: no tool {choice.get('name')!r}"


# ---- Input ----------------------------------------------------------------------------------------------------------


def _input(items: Collection[Json], issued: Collection[str] | None) -> Iterator[str]:
    open_ids: list[str] = []
    used: set[str] = set()
    ids: set[str] = set()
    thought = ""
    kind = ""
    for place, item in enumerate(items):
        where = f"input[{place}]"
        kind = _kind(item)
        if kind not in _ITEMS:
            yield f"{where}: an item of type {kind!r}"
            continue
        needed = _NEEDED[kind]
        yield from fields(where, {k: v for k, v in item.items() if k != "type"}, _ITEMS[kind], needed)
        if "id" in item and str(item["id"]) in ids:
            yield f"{where}: duplicate item found with id {item['id']!r}"
        ids.add(str(item.get("id")))
        if thought and not _is_output(kind, item):
            yield f"{thought}: a reasoning item without its required following item"
        thought = where if kind == "reasoning" else ""
        yield from _item(where, kind, item, issued)
        yield from _pairs(where, kind, item, open_ids, used)
    if thought:
        yield f"{thought}: a reasoning item without its required following item"
    if open_ids:
        yield f"input: no tool output found for function call {', '.join(open_ids)}"
    if kind and _is_output(kind, list(items)[-1]):
        yield "input: the last item is the model's own, there is nothing to answer"


def _kind(item: Json) -> str:
    """An item with a role and no type is a message."""
    data = as_object(item)
    return str(data.get("type", "message" if "role" in data else ""))


def _is_output(kind: str, item: Json) -> bool:
    """Whether the model itself wrote the item."""
    return kind in ("function_call", "reasoning") or (kind == "message" and item.get("role") == "assistant")


def _pairs(where: str, kind: str, item: Json, open_ids: list[str], used: set[str]) -> Iterator[str]:
    call_id = str(item.get("call_id"))
    if kind == "function_call":
        yield from id_problems(where, item.get("call_id"), used)
        yield from name_problems(where, item.get("name"))
        open_ids.append(call_id)
    elif kind == "function_call_output":
        if call_id in open_ids:
            open_ids.remove(call_id)
        elif call_id in used:
            yield f"{where}: duplicate function_call_output for call_id {call_id!r}"
        else:
            yield f"{where}: no tool call found for function call output with call_id {call_id!r}"
    elif kind == "message" and item.get("role") != "assistant" and open_ids:
        yield f"{where}: no tool output found for function call {', '.join(open_ids)}"
        open_ids.clear()


def _item(where: str, kind: str, item: Json, issued: Collection[str] | None) -> Iterator[str]:
    if kind == "message":
        is_own = item.get("role") == "assistant"
        taken = {"output_text", "refusal"} if is_own else _SHOWN
        yield from _parts(f"{where}.content", items_at(item, "content"), taken)
        if not is_own:
            yield from (f"{where}.{name} is not known" for name in ("id", "phase") if name in item)
    elif kind == "function_call_output":
        yield from _parts(f"{where}.output", items_at(item, "output"), _SHOWN)
    elif kind == "reasoning" and issued is not None and str(item.get("encrypted_content")) not in issued:
        yield f"{where}: the encrypted content could not be verified"


def _parts(where: str, parts: Collection[Json], taken: Collection[str]) -> Iterator[str]:
    for number, part in enumerate(parts):
        here = f"{where}[{number}]"
        kind = kind_of(part)
        if kind not in taken:
            yield f"{here}: invalid value {kind!r}, supported values are {', '.join(sorted(taken))}"
            continue
        known = _PARTS[kind]
        yield from fields(here, {k: v for k, v in part.items() if k != "type"}, known, set(known) - _OPTIONAL)
        if kind == "input_image":
            yield from address_problems(here, part.get("image_url"))
