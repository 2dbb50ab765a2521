"""What a request says, read from its body without any of the project's own code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Any

MARKS: Mapping[str, re.Pattern[bytes]] = {
    "chat_completions": re.compile(rb',"cache_control":\{"type":"ephemeral"(,"ttl":"(5m|1h)")?\}'),
    "codex_responses": re.compile(rb"(?!)"),
    "anthropic_messages": re.compile(rb',"cache_control":\{"type":"ephemeral"(,"ttl":"(5m|1h)")?\}'),
    "bedrock_converse": re.compile(rb',\{"cachePoint":\{"type":"default"(,"ttl":"(5m|1h)")?\}\}'),
}
"""Marks as bytes; in a text their quotes would be escaped."""


@dataclass(frozen=True, slots=True)
class Body:
    """The conversation of a request. `texts`: every text in it, in order; `calls`: id, name and arguments; `results`:
    id and the texts in it."""

    texts: list[str]
    calls: list[tuple[str, str, Json]]
    results: list[tuple[str, list[str]]]


def read(api_mode: str, body: Json) -> Body:
    items = body["input" if api_mode == "codex_responses" else "messages"]
    calls, results = _READERS[api_mode]
    return Body([*strings(items)], [*calls(items)], [*results(items)])


def strings(value: Json) -> Iterator[str]:
    """Every text in a JSON value in its order, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def _chat_calls(items: Json) -> Iterator[tuple[str, str, Json]]:
    for item in items:
        for call in item.get("tool_calls") or ():
            yield call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


def _chat_results(items: Json) -> Iterator[tuple[str, list[str]]]:
    for item in items:
        if item["role"] == "tool":
            yield item["tool_call_id"], [*strings(item["content"])]


def _responses_calls(items: Json) -> Iterator[tuple[str, str, Json]]:
    for item in items:
        if item["type"] == "function_call":
            yield item["call_id"], item["name"], json.loads(item["arguments"])


def _responses_results(items: Json) -> Iterator[tuple[str, list[str]]]:
    for item in items:
        if item["type"] == "function_call_output":
            yield item["call_id"], [*strings(item["output"])]


def _messages_calls(items: Json) -> Iterator[tuple[str, str, Json]]:
    for block in _blocks(items):
        if block["type"] == "tool_use":
            yield block["id"], block["name"], block["input"]


def _messages_results(items: Json) -> Iterator[tuple[str, list[str]]]:
    for block in _blocks(items):
        if block["type"] == "tool_result":
            yield block["tool_use_id"], [*strings(block["content"])]


def _converse_calls(items: Json) -> Iterator[tuple[str, str, Json]]:
    for block in _blocks(items):
        if use := block.get("toolUse"):
            yield use["toolUseId"], use["name"], use["input"]


def _converse_results(items: Json) -> Iterator[tuple[str, list[str]]]:
    for block in _blocks(items):
        if result := block.get("toolResult"):
            yield result["toolUseId"], [*strings(result["content"])]


def _blocks(items: Json) -> Iterator[Json]:
    for item in items:
        yield from item["content"] if isinstance(item["content"], list) else ()


_READERS: Mapping[str, tuple[Callable[[Json], Iterator[Any]], Callable[[Json], Iterator[Any]]]] = {
    "chat_completions": (_chat_calls, _chat_results),
    "codex_responses": (_responses_calls, _responses_results),
    "anthropic_messages": (_messages_calls, _messages_results),
    "bedrock_converse": (_converse_calls, _converse_results),
}
