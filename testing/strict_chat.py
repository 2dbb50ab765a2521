"""A validator of chat-completions requests that is as strict as the strictest server.

`problems(body)` names everything that some server refuses: roles that do not alternate, calls without their results,
blank texts, unknown keys, bad names and ids. Rules from the API references of OpenAI, Mistral and DeepSeek, from chat
templates of local models, and from public reports of refusals (the project's cases B001, B005, B025, B026, B037, B045,
B062).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = Any

_TOP_LEVEL: Mapping[str, Callable[[Json], bool]] = {
    "model": lambda v: isinstance(v, str) and bool(v.strip()),
    "messages": lambda v: isinstance(v, list) and bool(v),
    "tools": lambda v: isinstance(v, list) and bool(v),
    "tool_choice": lambda v: v in ("none", "auto", "required") or isinstance(v, dict),
    "stream": lambda v: isinstance(v, bool),
    "stream_options": lambda v: isinstance(v, dict) and set(v) == {"include_usage"},
    "temperature": lambda v: _is_number(v) and 0 <= v <= 2,
    "max_tokens": lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0,
    "max_completion_tokens": lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0,
    "reasoning_effort": lambda v: v in ("none", "minimal", "low", "medium", "high", "xhigh"),
    "reasoning": lambda v: isinstance(v, dict),
    "grammar": lambda v: isinstance(v, str),
    "hermes_tools": lambda v: isinstance(v, list),
}
_MESSAGE_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content", "reasoning", "reasoning_details"},
    "tool": {"role", "content", "tool_call_id"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def problems(body: Json) -> list[str]:
    """Everything that is wrong with a request, each with its place; empty when it is right."""
    if not isinstance(body, dict):
        return ["the body is not an object"]
    return [*_top_level(body), *_tools(body.get("tools")), *_messages(body.get("messages")), *_surrogates(body)]


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


def _tools(tools: Json) -> Iterator[str]:
    names: set[str] = set()
    for place, tool in enumerate(tools if isinstance(tools, list) else []):
        where = f"tools[{place}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function" or set(tool) != {"type", "function"}:
            yield f"{where} is no function"
            continue
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{where}: bad name {name!r}"
        elif name in names:
            yield f"{where}: the name {name!r} is there twice"
        names.add(str(name))
        if not isinstance(function.get("description", ""), str):
            yield f"{where}: the description is no text"
        parameters = function.get("parameters", {"type": "object"})
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            yield f"{where}: parameters are not the schema of an object"


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
    elif isinstance(content, list) and content and role in ("user", "tool"):
        for number, part in enumerate(content):
            yield from _part(f"{where}.content[{number}]", part)
    else:
        yield f"{where}: content is neither a text nor a list of parts"


def _part(where: str, part: Json) -> Iterator[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        if not isinstance(part.get("text"), str) or not part["text"].strip():
            yield f"{where}: blank text"
    elif kind == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else None
        if not isinstance(url, str) or not re.match(r"https?://|data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]+$", url):
            yield f"{where}: bad image address"
    else:
        yield f"{where}: bad part type {kind!r}"


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
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{here}: bad name {name!r}"
        if not _is_object_text(function.get("arguments")):
            yield f"{here}: arguments are not the text of a JSON object"


def _is_object_text(text: Json) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _surrogates(body: Json) -> Iterator[str]:
    try:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        yield "a lone surrogate"


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
