"""OpenAI's chat completions, as the scripted server speaks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.kernel.messages import Usage
from hermes.testing import strict_chat
from hermes.testing.formats.format import Asked, Issued, pieces
from hermes.testing.script import Call, Fault, Reply, Thought

Json = Any

api_mode = "chat_completions"
stream_type = "text/event-stream"
signs_thinking = False


def wants_stream(asked: Asked) -> bool:
    return isinstance(asked.body, dict) and bool(asked.body.get("stream"))


def call_id(number: int) -> str:
    return f"call_{number}"


def whole(reply: Reply, asked: Asked) -> Json:
    """One completion object; thinking is its `reasoning_content`."""
    message: dict[str, Json] = {"role": "assistant", "content": None}
    if text := "".join(block for block in reply.blocks if isinstance(block, str)):
        message["content"] = text
    if thinking := "".join(block.text for block in reply.blocks if isinstance(block, Thought)):
        message["reasoning_content"] = thinking
    if calls := [_call_object(block) for block in reply.blocks if isinstance(block, Call)]:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    out: dict[str, Json] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.model}
    out["choices"] = [choice]
    if reply.usage is not None:
        out["usage"] = _usage(reply.usage)
    return out


def events(reply: Reply, asked: Asked) -> Iterator[Json]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked.model}
    for delta in _deltas(reply):
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    if (finish := reply.finish_reason) is not None:
        yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    options = asked.body.get("stream_options") if isinstance(asked.body, dict) else None
    if reply.usage is not None and isinstance(options, dict) and options.get("include_usage"):
        yield {**base, "choices": [], "usage": _usage(reply.usage)}
    yield "[DONE]"


def _deltas(reply: Reply) -> Iterator[dict[str, Json]]:
    yield {"role": "assistant", "content": ""}
    index = 0
    for block in reply.blocks:
        if isinstance(block, Thought):
            yield from ({"reasoning_content": piece} for piece in pieces(block.text, reply.pieces))
        elif isinstance(block, str):
            yield from ({"content": piece} for piece in pieces(block, reply.pieces))
        else:
            begin = _call_object(block)
            begin["function"]["arguments"] = ""
            yield {"tool_calls": [{"index": index, **begin}]}
            for piece in pieces(block.raw, reply.pieces):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            index += 1


def frame(event: Json) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event)
    return b"data: %s\n\n" % data.encode("utf-8")


def refusal(fault: Fault) -> tuple[Json, Mapping[str, str]]:
    kind = fault.code or ("invalid_request_error" if fault.status < 500 else "server_error")
    return {"error": {"message": fault.message, "type": kind, "code": fault.code}}, {}


def error_event(fault: Fault) -> Json:
    """As OpenRouter tells of an error after the stream began: the status is the code."""
    return {"error": {"message": fault.message, "code": fault.code or fault.status}}


def problems(body: Json, issued: Issued) -> list[str]:
    return strict_chat.problems(body)


def model(path: str, body: Json) -> str:
    return str(body.get("model", ""))


def messages(body: Json) -> list[Json]:
    return list(body["messages"])


def system(body: Json) -> str:
    first = body["messages"][0]
    return str(first["content"]) if first["role"] == "system" else ""


def tool_names(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def _usage(usage: Usage) -> Json:
    """The prompt with its cached tokens, the completion with its reasoning."""
    prompt, completion = usage.prompt_tokens, usage.output_tokens + usage.reasoning_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _call_object(each: Call) -> dict[str, Json]:
    return {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.raw}}
