"""What a ScriptedServer says: one `Reply` a request, made by a few short functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from hermes.kernel.messages import Usage

Json = Any


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments` as a text is sent as it is, right or wrong; `id` None is made up by the server."""

    name: str
    arguments: Mapping[str, Json] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def raw(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the server.

    `finish` None is chosen from what there is; "" sends none. A `status` other than 200 is a fault: `body` is its body
    (an object, or a text sent as it is), and so it is at 200 when given. `chunks` are sent as events in place of
    what the other fields would make. `pieces` is how many deltas a text is cut into. Events are counted from 0:
    `stall_after` sends so many and then nothing while the client stays, `cut_after` sends so many and closes.
    `hold_after` sends so many and waits for `ScriptedServer.release()`. `piece_delay_s` lies between events.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    finish: str | None = None
    usage: Usage | None = field(default_factory=lambda: Usage(10, 5))
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    chunks: Sequence[Json] | None = None
    pieces: int = 3
    piece_delay_s: float = 0.0
    stall_after: int | None = None
    cut_after: int | None = None
    hold_after: int | None = None

    def but(self, **changes: Any) -> Reply:
        """The same reply with other fields: `text("hello world").but(cut_after=2)`."""
        return replace(self, **changes)

    @property
    def finish_reason(self) -> str | None:
        if self.finish is not None:
            return self.finish or None
        return "tool_calls" if self.calls else "stop"


def text(text: str, *, thinking: str = "", finish: str | None = None) -> Reply:
    """An answer in words."""
    return Reply(text=text, thinking=thinking, finish=finish)


def call(
    name: str, arguments: Mapping[str, Json] | str | None = None, /, *, id: str | None = None, **named: Json
) -> Reply:
    """One tool call: `call("read_file", path="a.txt")`."""
    return Reply(calls=(Call(name, named if arguments is None else arguments, id),))


def calls(*each: Call, text: str = "") -> Reply:
    """Several tool calls in one reply, with words beside them if wanted."""
    return Reply(text=text, calls=each)


def fault(status: int, message: str = "", *, code: str | None = None, body: Json = None, **headers: str) -> Reply:
    """A refusal: `fault(429, "slow down", retry_after="2")`; underscores in header names become dashes."""
    made = {"error": {"message": message, "type": code or "error", "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=made if body is None else body, headers=named)


def stall(after: int = 0, text: str = "this never ends") -> Reply:
    """Send so many events, then nothing, with the connection open. After 0 events not even the headers are sent."""
    return Reply(text=text, stall_after=after)


def cut(after: int = 1, text: str = "this is cut") -> Reply:
    """Send so many events, then close the connection. After 0 events there is no answer at all."""
    return Reply(text=text, cut_after=after)


def events(*chunks: Json) -> Reply:
    """These chunks, word for word: objects as JSON, texts as they are (`"[DONE]"` is not added)."""
    return Reply(chunks=chunks)


Script: TypeAlias = "Sequence[Reply] | Callable[[Any], Reply]"
"""Replies in order, or a function from the request (`scripted_server.Request`) to its reply."""


# ---- On the wire ----------------------------------------------------------------------------------------------------


def whole(reply: Reply, model: str) -> Json:
    """A reply as one completion object."""
    message: dict[str, Json] = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call_object(c) for c in reply.calls]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    out: dict[str, Json] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    out["choices"] = [choice]
    if reply.usage is not None:
        out["usage"] = usage_object(reply.usage)
    return out


def streamed(reply: Reply, model: str, with_usage: bool) -> list[Json]:
    """A reply as the objects of its events, without `[DONE]`."""
    deltas: list[dict[str, Json]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.thinking, reply.pieces)]
    deltas += [{"content": piece} for piece in _pieces(reply.text, reply.pieces)]
    for index, each in enumerate(reply.calls):
        begin = _call_object(each)
        begin["function"]["arguments"] = ""
        deltas.append({"tool_calls": [{"index": index, **begin}]})
        for piece in _pieces(each.raw, reply.pieces):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    out: list[Json] = [{**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    if (finish := reply.finish_reason) is not None:
        out.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if with_usage and reply.usage is not None:
        out.append({**base, "choices": [], "usage": usage_object(reply.usage)})
    return out


def usage_object(usage: Usage) -> Json:
    """Counts as OpenAI writes them: the prompt with its cached tokens, the completion with its reasoning."""
    prompt, completion = usage.prompt_tokens, usage.output_tokens + usage.reasoning_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _call_object(each: Call) -> dict[str, Json]:
    return {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.raw}}


def _pieces(words: str, count: int) -> list[str]:
    if not words:
        return []
    step = -(-len(words) // max(1, min(count, len(words))))
    return [words[i : i + step] for i in range(0, len(words), step)]
