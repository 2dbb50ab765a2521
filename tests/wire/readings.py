"""A request of any format read back as what was said: the same list for the same conversation in all four.

Items are `(kind, what)`: user, assistant and thinking with their text (or seal), image with its bytes in base64 or its
address, call with name and arguments as JSON text, result with the name of its call and its text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Json = Any
Item = tuple[str, str]


def said(request: Any) -> list[Item]:
    """What a request of the scripted server holds, the system prompt left out."""
    return list(_READERS[request.api_mode](request.body))


def _arguments(value: Json) -> str:
    """In one spelling: some formats hold a text, some an object."""
    return json.dumps(json.loads(value) if isinstance(value, str) else value, sort_keys=True)


def _chat(body: Json) -> Iterator[Item]:
    names: dict[str, str] = {}
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == "tool":
            yield "result", f"{names[message['tool_call_id']]}: {_chat_text(content)}"
            yield from (item for item in _chat_parts(content) if item[0] == "image")
        elif role != "system":
            if reasoning := message.get("reasoning_content"):
                yield "thinking", reasoning
            yield from ((role if kind == "text" else kind, what) for kind, what in _chat_parts(content))
        for each in message.get("tool_calls", ()):
            names[each["id"]] = each["function"]["name"]
            yield "call", f"{each['function']['name']} {_arguments(each['function']['arguments'])}"


def _chat_parts(content: Json) -> Iterator[Item]:
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
        if part["type"] == "text":
            yield "text", part["text"]
        else:
            yield "image", part["image_url"]["url"].rpartition("base64,")[2]


def _chat_text(content: Json) -> str:
    return "".join(what for kind, what in _chat_parts(content) if kind == "text")


def _responses(body: Json) -> Iterator[Item]:
    names: dict[str, str] = {}
    for item in body["input"]:
        match item.get("type", "message"):
            case "reasoning":
                yield "thinking", item["encrypted_content"]
            case "function_call":
                names[item["call_id"]] = item["name"]
                yield "call", f"{item['name']} {_arguments(item['arguments'])}"
            case "function_call_output":
                parts = list(_responses_parts(item["output"]))
                yield "result", f"{names[item['call_id']]}: {''.join(what for kind, what in parts if kind == 'text')}"
                yield from (part for part in parts if part[0] == "image")
            case _:
                parts = list(_responses_parts(item["content"]))
                yield from ((item["role"] if kind == "text" else kind, what) for kind, what in parts)


def _responses_parts(content: Json) -> Iterator[Item]:
    for part in [{"type": "input_text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "input_image":
            yield "image", part["image_url"].rpartition("base64,")[2]
        else:
            yield "text", part["text"]


def _messages(body: Json) -> Iterator[Item]:
    names: dict[str, str] = {}
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "tool_use":
                    names[block["id"]] = block["name"]
                    yield "call", f"{block['name']} {_arguments(block['input'])}"
                case "tool_result":
                    yield from _result(names[block["tool_use_id"]], block["content"], _messages_part)
                case _:
                    yield _messages_part(block, message["role"])


def _messages_part(block: Json, role: str) -> Item:
    match block["type"]:
        case "text":
            return role, block["text"]
        case "image":
            return "image", block["source"].get("data") or block["source"]["url"]
        case _:
            return "thinking", block.get("signature") or block["data"]


def _converse(body: Json) -> Iterator[Item]:
    names: dict[str, str] = {}
    for message in body["messages"]:
        for block in message["content"]:
            if used := block.get("toolUse"):
                names[used["toolUseId"]] = used["name"]
                yield "call", f"{used['name']} {_arguments(used['input'])}"
            elif result := block.get("toolResult"):
                yield from _result(names[result["toolUseId"]], result["content"], _converse_part)
            elif "cachePoint" not in block:
                yield _converse_part(block, message["role"])


def _converse_part(block: Json, role: str) -> Item:
    if "text" in block:
        return role, block["text"]
    if "json" in block:
        return role, json.dumps(block["json"])
    if image := block.get("image"):
        return "image", image["source"]["bytes"]
    reasoning = block["reasoningContent"]
    return "thinking", reasoning.get("redactedContent") or reasoning["reasoningText"]["signature"]


def _result(name: str, content: Json, part_of: Callable[[Json, str], Item]) -> Iterable[Item]:
    parts = [("text", content)] if isinstance(content, str) else [part_of(block, "text") for block in content]
    yield "result", f"{name}: {''.join(what for kind, what in parts if kind == 'text')}"
    yield from (part for part in parts if part[0] == "image")


_READERS: Mapping[str, Callable[[Json], Iterator[Item]]] = {
    "chat_completions": _chat,
    "codex_responses": _responses,
    "anthropic_messages": _messages,
    "bedrock_converse": _converse,
}
