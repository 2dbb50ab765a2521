"""Seeded mutations of the converters: each plants one fault that the rules must catch.

A mutation wraps a wire format and edits what goes in or what comes out; the formats themselves stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from targets import WIRES

from hermes.kernel.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Parameters, Stream, Target, Timeouts, ToolSchema, WireFormat
from hermes.plugins.wire.parts import Fragment

Json = Any
_CHAT, _RESPONSES, _MESSAGES, _CONVERSE = WIRES
_ALL = tuple(WIRES)


class Wrapped:
    """A wire format with one of its steps changed."""

    def __init__(self, inner: WireFormat) -> None:
        self.inner, self.name = inner, inner.name

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        return self.inner.prefix(system, tools, target)

    def encode(self, message: Message, target: Target) -> bytes:
        return self.inner.encode(message, target)

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        return self.inner.envelope(prefix, fragments, parameters, target)

    def open(self, body: Sequence[bytes], parameters: Parameters, target: Target, timeouts: Timeouts) -> Stream:
        return self.inner.open(body, parameters, target, timeouts)

    def close(self) -> None:
        self.inner.close()


class _Given(Wrapped):
    """Each message is changed before it is encoded."""

    def __init__(self, inner: WireFormat, change: Callable[[Message, Target], Message]) -> None:
        super().__init__(inner)
        self.change = change

    def encode(self, message: Message, target: Target) -> bytes:
        return self.inner.encode(self.change(message, target), target)


class _Made(Wrapped):
    """The items of each message are changed after it is encoded."""

    def __init__(self, inner: WireFormat, change: Callable[[list[Json]], None]) -> None:
        super().__init__(inner)
        self.change = change

    def encode(self, message: Message, target: Target) -> bytes:
        made = self.inner.encode(message, target)
        items = json.loads(b"[" + made + b"]")
        self.change(items)
        data = json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()[1:-1]
        return Fragment.of(data, getattr(made, "mark_at", 0))


class _Whole(Wrapped):
    """The whole body is changed."""

    def __init__(self, inner: WireFormat, change: Callable[[Json], None]) -> None:
        super().__init__(inner)
        self.change = change

    def envelope(
        self, prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target
    ) -> Sequence[bytes]:
        body = json.loads(b"".join(self.inner.envelope(prefix, fragments, parameters, target)))
        self.change(body)
        return [json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()]


class _Numbered(Wrapped):
    """The prefix is another each time."""

    _numbers = count()

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        return self.inner.prefix(f"{system or 'You help.'} {next(self._numbers)}", tools, target)


class _Broken(Wrapped):
    """What was no text in the system prompt is sent as half of a pair."""

    def prefix(self, system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
        return self.inner.prefix(system, tools, target).replace("\ufffd".encode(), rb"\ud800")


@dataclass(frozen=True, slots=True)
class Mutation:
    """`fault` is what was planted, `said` a pattern of the violation that must be found for each of `wires`."""

    fault: str
    said: str
    wires: Mapping[str, WireFormat]


def _wrapped(make: Callable[[WireFormat], WireFormat], *api_modes: str) -> dict[str, WireFormat]:
    return {api_mode: make(WIRES[api_mode]) for api_mode in api_modes}


def _given(change: Callable[[Message, Target], Message], *api_modes: str) -> dict[str, WireFormat]:
    return _wrapped(lambda inner: _Given(inner, change), *api_modes)


def _made(change: Callable[[list[Json]], None], *api_modes: str) -> dict[str, WireFormat]:
    return _wrapped(lambda inner: _Made(inner, change), *api_modes)


def _whole(change: Callable[[Json], None], *api_modes: str) -> dict[str, WireFormat]:
    return _wrapped(lambda inner: _Whole(inner, change), *api_modes)


# ---- Changes of what goes in ----------------------------------------------------------------------------------------


def _reversed_results(message: Message, target: Target) -> Message:
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    return replace(message, parts=(*reversed(message.results), *others)) if message.results else message


def _as_own(message: Message, target: Target) -> Message:
    """Thinking of another model on the same wire passes for the target's own."""
    parts = [
        replace(part, replay=replace(part.replay, issuer=target.issuer))
        if isinstance(part, Thinking) and part.replay and part.replay.issuer.startswith(f"{target.api_mode} ")
        else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def _as_words(message: Message, target: Target) -> Message:
    parts = [Text(part.text) if isinstance(part, Thinking) and part.text.strip() else part for part in message.parts]
    return replace(message, parts=tuple(parts))


def _without_last_call(message: Message, target: Target) -> Message:
    kept = [part for part in message.parts if part is not (message.calls or [None])[-1]]
    return replace(message, parts=tuple(kept)) if message.calls else message


def _without_last_word(message: Message, target: Target) -> Message:
    texts = [part for part in message.parts if isinstance(part, Text)]
    kept = [part for part in message.parts if not texts or part is not texts[-1]]
    return replace(message, parts=tuple(kept)) if kept else message


def _without_images(message: Message, target: Target) -> Message:
    kept = [part for part in message.parts if not isinstance(part, Image)]
    return replace(message, parts=tuple(kept)) if kept else message


def _without_thinking(message: Message, target: Target) -> Message:
    kept = [part for part in message.parts if not isinstance(part, Thinking)]
    return replace(message, parts=tuple(kept))


def _without_arguments(message: Message, target: Target) -> Message:
    parts = [replace(part, arguments={}) if isinstance(part, ToolCall) else part for part in message.parts]
    return replace(message, parts=tuple(parts))


def _other_ids(message: Message, target: Target) -> Message:
    parts = [replace(p, call_id=f"{p.call_id}x") if isinstance(p, ToolResult) else p for p in message.parts]
    return replace(message, parts=tuple(parts))


# ---- Changes of what comes out --------------------------------------------------------------------------------------


def _blank_text(items: list[Json]) -> None:
    for item in items:
        if isinstance(content := item.get("content"), list):
            first = content[0]
            blank = {"text": ""} if "type" not in first else {"type": "text", "text": ""}
            content.insert(0, {**blank, "type": "input_text"} if first.get("type") == "input_text" else blank)
        elif item.get("role") == "user":
            item["content"] = ""


def _thinks_last(items: list[Json]) -> None:
    for item in items:
        if isinstance(content := item.get("content"), list) and _is_thought(content[0]):
            content.append(content.pop(0))


def _reasons_last(items: list[Json]) -> None:
    if items and items[0]["type"] == "reasoning":
        items.append(items.pop(0))


def _other_thoughts(items: list[Json]) -> None:
    for item in items:
        for part in (item, *(item.get("content") if isinstance(item.get("content"), list) else ())):
            thought = part.get("reasoningContent", {}).get("reasoningText", part)
            for name in ("thinking", "text") if _is_thought(part) else ():
                if name in thought:
                    thought[name] += "!"
            for summary in part.get("summary", ()):
                summary["text"] += "!"


def _is_thought(block: Json) -> bool:
    return "reasoningContent" in block or block.get("type") in ("thinking", "redacted_thinking")


def _marked_thought(body: Json) -> None:
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list) and content and _is_thought(content[0]):
            if "type" in content[0]:
                content[0]["cache_control"] = {"type": "ephemeral"}
            else:
                content.insert(1, {"cachePoint": {"type": "default"}})


def _marked_everywhere(body: Json) -> None:
    for message in body["messages"]:
        content = message["content"]
        if not isinstance(content, list):
            continue
        if "type" in content[-1]:
            content[-1]["cache_control"] = {"type": "ephemeral"}
        elif "cachePoint" not in content[-1]:
            content.append({"cachePoint": {"type": "default"}})


def _results_apart(body: Json) -> None:
    """A message for each result."""
    body["messages"] = [
        {**message, "content": [block]} if _is_result(block) else message
        for message in body["messages"]
        for block in (message["content"] if _is_result(message["content"][0]) else [None])
    ]


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and ("toolResult" in block or block.get("type") == "tool_result")


def _dotted_names(body: Json) -> None:
    for tool in body.get("tools") or body.get("toolConfig", {}).get("tools", ()):
        owner = tool.get("function") or tool.get("toolSpec") or tool
        if "name" in owner:
            owner["name"] = f"a.{owner['name']}"


def _open_tools(body: Json) -> None:
    body.pop("tools", None)
    body.pop("toolConfig", None)
    body.pop("tool_choice", None)


def _free_choice(body: Json) -> None:
    body.pop("tool_choice", None)


def _free_answer(body: Json) -> None:
    for name in ("response_format", "output_config", "outputConfig", "text"):
        body.pop(name, None)


MUTATIONS: Mapping[str, Mutation] = {
    "results_reversed": Mutation("results are merged out of order", r"results of \[", _given(_reversed_results, *_ALL)),
    "thinking_to_another_model": Mutation(
        "thinking is replayed to a model that did not write it",
        "is sent to",
        _given(_as_own, _RESPONSES, _MESSAGES, _CONVERSE),
    ),
    "thinking_as_words": Mutation(
        "thinking is told as what the model said", "thinking of another is told", _given(_as_words, *_ALL)
    ),
    "call_lost": Mutation("the last call of a batch is lost", "in place of", _given(_without_last_call, *_ALL)),
    "words_lost": Mutation("the last text of a message is lost", "lost: ", _given(_without_last_word, *_ALL)),
    "images_lost": Mutation("pictures of the user are lost", "lost: (a|the) picture", _given(_without_images, *_ALL)),
    "thinking_lost": Mutation(
        "thinking does not come back to the model that wrote it",
        "lost: what the target issued",
        _given(_without_thinking, _RESPONSES, _MESSAGES, _CONVERSE),
    ),
    "arguments_lost": Mutation("calls go out without arguments", "in place of", _given(_without_arguments, *_ALL)),
    "ids_apart": Mutation("the ids of results are not those of calls", r"results of \[", _given(_other_ids, *_ALL)),
    "blank_text_kept": Mutation(
        "a blank text stays in a message", "blank|(text|content) has a bad value|no content", _made(_blank_text, *_ALL)
    ),
    "thinking_last": Mutation(
        "thinking ends a message", "the final block cannot be", _made(_thinks_last, _MESSAGES, _CONVERSE)
    ),
    "reasoning_last": Mutation(
        "a reasoning item stands behind what it led to",
        "without its required following item",
        _made(_reasons_last, _RESPONSES),
    ),
    "thinking_changed": Mutation(
        "the text of signed thinking is changed",
        "is not the one that was signed",
        _made(_other_thoughts, _RESPONSES, _MESSAGES, _CONVERSE),
    ),
    "mark_on_thinking": Mutation(
        "thinking carries a cache mark",
        "cache_control is not known|after reasoning block",
        _whole(_marked_thought, _MESSAGES, _CONVERSE),
    ),
    "too_many_marks": Mutation(
        "every message carries a cache mark",
        "a maximum of 4 cache marks",
        _whole(_marked_everywhere, _MESSAGES, _CONVERSE),
    ),
    "results_apart": Mutation(
        "each result is a message of its own", "in a row|must alternate", _whole(_results_apart, _MESSAGES, _CONVERSE)
    ),
    "names_uncleaned": Mutation("tools keep names that no server takes", "bad name", _whole(_dotted_names, *_ALL)),
    "tools_left_out": Mutation(
        "a history with calls goes out without tools", "must", _whole(_open_tools, _MESSAGES, _CONVERSE)
    ),
    "calls_allowed": Mutation(
        "a request that forbids calls does not say so", "calls are not forbidden", _whole(_free_choice, *_ALL[:3])
    ),
    "schema_lost": Mutation(
        "the schema of the answer is not sent", "the schema of the answer is lost", _whole(_free_answer, *_ALL)
    ),
    "cap_lost": Mutation(
        "no output limit is sent", "max_tokens is missing", _whole(lambda body: body.pop("max_tokens"), _MESSAGES)
    ),
    "prefix_impure": Mutation("the prefix holds a counter", "other bytes the second time", _wrapped(_Numbered, *_ALL)),
    "surrogates_pass": Mutation("half a pair goes out", "a lone surrogate", _wrapped(_Broken, *_ALL)),
}
