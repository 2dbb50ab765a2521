"""A validator of chat-completions requests that is as strict as the strictest server.

`problems(body)` names everything that some server refuses: roles that do not alternate, calls without their results,
blank texts, unknown keys, bad names and ids. Rules from the API references of OpenAI, Mistral and DeepSeek, from chat
templates of local models, and from public reports of refusals (the project's cases B001, B005, B025, B026, B037, B045,
B062).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .strict_values import (
    address_problems,
    fields,
    is_bool,
    is_count,
    is_list,
    is_mark,
    is_object,
    is_object_text,
    is_share,
    is_text,
    is_texts,
    items_at,
    kind_of,
    lifetime_problems,
    name_problems,
    object_at,
    open_objects,
    root_problems,
    surrogate_problems,
)

Json = Any

_TOP_LEVEL: Mapping[str, Callable[[Json], bool]] = {
    "model": is_text,
    "messages": is_list,
    "tools": is_list,
    "tool_choice": lambda v: v in ("none", "auto", "required") or isinstance(v, dict),
    "parallel_tool_calls": is_bool,
    "stream": is_bool,
    "stream_options": lambda v: isinstance(v, dict) and set(v) == {"include_usage"},
    "temperature": lambda v: is_share(v, 2),
    "top_p": is_share,
    "stop": lambda v: is_text(v) or is_texts(v),
    "seed": lambda v: is_count(v, 0),
    "max_tokens": is_count,
    "max_completion_tokens": is_count,
    "reasoning_effort": lambda v: v in ("none", "minimal", "low", "medium", "high", "xhigh", "max", "default"),
    "reasoning": is_object,
    "thinking": is_object,
    "response_format": lambda v: isinstance(v, dict) and v.get("type") in ("text", "json_object", "json_schema"),
    "prompt_cache_key": lambda v: is_text(v) and len(v) <= 64,
    "provider": is_object,
    "usage": is_object,
    "extra_body": is_object,
    "enable_thinking": is_bool,
    "reasoning_format": lambda v: v in ("parsed", "raw", "hidden"),
    "chat_template_kwargs": is_object,
    "grammar": lambda v: isinstance(v, str),
    "hermes_tools": lambda v: isinstance(v, list),
}
"""`reasoning`, `provider`, `usage` are OpenRouter's, `thinking` is of Kimi, DeepSeek and z.ai, `extra_body` Google's,
`enable_thinking` Qwen's, `reasoning_format` and the effort "default" Groq's, `chat_template_kwargs` of vLLM and
llama.cpp, the last two ours. A server that does not know one refuses it or does not mind."""
_FORMAT: Mapping[str, Callable[[Json], bool]] = {
    "name": lambda v: isinstance(v, str),
    "schema": is_object,
    "description": lambda v: isinstance(v, str),
    "strict": lambda v: v is None or isinstance(v, bool),
}
_MESSAGE_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content", "reasoning", "reasoning_details"}
    | {"extra_content"},
    "tool": {"role", "content", "tool_call_id"},
}
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def problems(body: Json) -> list[str]:
    """Everything that is wrong with a request, each with its place; empty when it is right."""
    if not isinstance(body, dict):
        return ["the body is not an object"]
    return [
        *_top_level(body),
        *_format(object_at(body, "response_format")),
        *_tools(body.get("tools")),
        *_messages(body.get("messages")),
        *lifetime_problems([*_marks(body)]),
        *surrogate_problems(body),
    ]


def _top_level(body: Mapping[str, Json]) -> Iterator[str]:
    for name in ("model", "messages"):
        if name not in body:
            yield f"{name} is missing"
    for name, value in body.items():
        check = _TOP_LEVEL.get(name)
        if check is None:
            yield f"unknown parameter {name!r}"
        elif not check(value):
            yield f"{name} has a bad value: {str(value)[:80]}"
    if "tool_choice" in body and "tools" not in body:
        yield "tool_choice without tools"
    if "stream_options" in body and body.get("stream") is not True:
        yield "stream_options without stream"


def _format(form: Mapping[str, Json]) -> Iterator[str]:
    if form.get("type") != "json_schema":
        return
    inner = form.get("json_schema")
    yield from (f"response_format.{name} is not known" for name in set(form) - {"type", "json_schema"})
    yield from fields("response_format.json_schema", inner, _FORMAT, ("name", "schema"))
    yield from name_problems("response_format.json_schema", object_at(form, "json_schema").get("name"))
    if object_at(form, "json_schema").get("strict") is True:
        schema = object_at(form, "json_schema").get("schema")
        yield from open_objects("response_format.json_schema.schema", schema, all_required=True)


def _tools(tools: Json) -> Iterator[str]:
    names: set[str] = set()
    for place, tool in enumerate(tools if isinstance(tools, list) else []):
        where = f"tools[{place}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function" or set(tool) != {"type", "function"}:
            yield f"{where} is no function"
            continue
        yield from name_problems(where, function.get("name"), names)
        if not isinstance(function.get("description", ""), str):
            yield f"{where}: the description is no text"
        parameters = function.get("parameters", {"type": "object"})
        yield from root_problems(f"{where}.function.parameters", parameters)
        if function.get("strict") is True:
            yield from open_objects(f"{where}.function.parameters", parameters, all_required=True)


def _messages(messages: Json) -> Iterator[str]:
    if not isinstance(messages, list):
        return
    open_ids: list[str] = []
    used_ids: set[str] = set()
    before = "system"
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _MESSAGE_KEYS:
            yield f"{where}: bad role {role!r}"
            continue
        if unknown := set(message) - _MESSAGE_KEYS[role]:
            yield f"{where}: unknown keys {sorted(unknown)}"
        yield from _order(where, place, role, before, open_ids)
        yield from _content(where, role, message)
        if role == "assistant":
            calls = message.get("tool_calls")
            yield from _calls(where, calls, used_ids)
            open_ids = [str(c.get("id")) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
        elif role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in open_ids:
                open_ids.remove(str(call_id))
            else:
                yield f"{where}: tool_call_id {call_id!r} answers no open call"
        before = role
    if open_ids:
        yield f"at the end: no result for {', '.join(open_ids)}"
    if before not in ("user", "tool"):
        yield f"the last message is of {before}, not of user or tool"


def _order(where: str, place: int, role: str, before: str, open_ids: list[str]) -> Iterator[str]:
    if role == "system" and place:
        yield f"{where}: a system message that is not the first"
    if role != "tool" and open_ids:
        yield f"{where}: no result for {', '.join(open_ids)}"
    if role == "user" and before == "user":
        yield f"{where}: two user messages in a row"
    if role == "user" and before == "tool":
        yield f"{where}: a user message after a tool message"
    if role == "assistant" and before not in ("user", "tool"):
        yield f"{where}: an assistant message after {before}"


def _content(where: str, role: str, message: Mapping[str, Json]) -> Iterator[str]:
    content = message.get("content")
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            yield f"{where}: no content"
    elif isinstance(content, str):
        if not content.strip():
            yield f"{where}: blank content"
    elif is_list(content):
        for number, part in enumerate(content):
            yield from _part(f"{where}.content[{number}]", part, role)
    else:
        yield f"{where}: content is neither a text nor a list of parts"


def _part(where: str, part: Json, role: str) -> Iterator[str]:
    """A text, which may carry OpenRouter's cache mark, or a picture where pictures may stand."""
    kind = kind_of(part)
    if kind == "text":
        if not is_text(part.get("text")):
            yield f"{where}: blank text"
        yield from (f"{where}.{name} is not known" for name in set(part) - {"type", "text", "cache_control"})
        if "cache_control" in part and not is_mark(part["cache_control"]):
            yield f"{where}: bad cache mark {part['cache_control']!r}"
    elif kind == "image_url" and role in ("user", "tool"):
        yield from address_problems(where, object_at(part, "image_url").get("url"))
    else:
        yield f"{where}: bad part type {kind!r}"


def _marks(body: Json) -> Iterator[tuple[str, str]]:
    """(place, lifetime) of each cache mark."""
    for place, message in enumerate(items_at(body, "messages")):
        for number, part in enumerate(items_at(message, "content")):
            if mark := object_at(part, "cache_control"):
                yield f"messages[{place}].content[{number}]", str(mark.get("ttl", "5m"))


def _calls(where: str, calls: Json, used_ids: set[str]) -> Iterator[str]:
    if calls is None:
        return
    if not isinstance(calls, list) or not calls:
        yield f"{where}: tool_calls is not a list with calls"
        return
    for place, call in enumerate(calls):
        here = f"{where}.tool_calls[{place}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            yield f"{here} is no function call"
            continue
        if unknown := set(call) - {"id", "type", "function", "extra_content"}:
            yield f"{here}: unknown keys {sorted(unknown)}"
        call_id, name = call.get("id"), function.get("name")
        if not isinstance(call_id, str) or not _ID.fullmatch(call_id):
            yield f"{here}: bad id {call_id!r}"
        if call_id in used_ids:
            yield f"{here}: the id {call_id!r} was used before"
        used_ids.add(str(call_id))
        yield from name_problems(here, name)
        if not is_object_text(function.get("arguments")):
            yield f"{here}: arguments are not the text of a JSON object"
