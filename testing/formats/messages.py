"""Anthropic's Messages API, as the scripted server speaks it (API reference and streaming guide, November 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes.kernel.messages import Usage
from hermes.testing import strict_messages
from hermes.testing.formats.format import (
    Asked,
    Issued,
    arguments_of,
    changed_thoughts,
    objects,
    pieces,
    seal,
    sse,
)
from hermes.testing.script import Block, Call, Fault, Reply, Thought

Json = Any

api_mode = "anthropic_messages"
stream_type = "text/event-stream; charset=utf-8"
signs_thinking = True
frame = sse

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Every other status is `api_error` (Anthropic's page of errors, November 2026)."""


def wants_stream(asked: Asked) -> bool:
    return isinstance(asked.body, dict) and bool(asked.body.get("stream"))


def call_id(number: int) -> str:
    return f"toolu_{number:024}"


def whole(reply: Reply, asked: Asked) -> Json:
    """One message object. A call whose arguments are no JSON has them as a text."""
    out = _message(reply, asked)
    out["content"] = [_block(block, asked) for block in reply.blocks]
    out["stop_reason"] = _stop_reason(reply)
    if reply.usage is not None:
        out["usage"] = {**_input_usage(reply.usage), **_output_usage(reply.usage)}
    return out


def events(reply: Reply, asked: Asked) -> Iterator[Json]:
    start = _message(reply, asked)
    if reply.usage is not None:
        start["usage"] = {**_input_usage(reply.usage), "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(reply.blocks):
        yield {"type": "content_block_start", "index": index, "content_block": _begin(block, asked)}
        for delta in _deltas(block, reply.pieces, asked):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end: dict[str, Json] = {"type": "message_delta"}
    end["delta"] = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    if reply.usage is not None:
        end["usage"] = {**_input_usage(reply.usage), **_output_usage(reply.usage)}
    yield end
    yield {"type": "message_stop"}


def refusal(fault: Fault) -> tuple[Json, Mapping[str, str]]:
    return error_event(fault), {"request-id": "req_1"}


def error_event(fault: Fault) -> Json:
    kind = fault.code or _ERROR_TYPES.get(fault.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": fault.message}, "request_id": "req_1"}


def problems(body: Json, issued: Issued) -> list[str]:
    return [*strict_messages.problems(body, issued=issued), *changed_thoughts(_thoughts(body), issued)]


def _thoughts(body: Json) -> Iterator[tuple[Json, Json]]:
    for message in objects(body, "messages"):
        for block in objects(message, "content"):
            if block.get("type") == "thinking":
                yield block.get("signature"), block.get("thinking")


def model(path: str, body: Json) -> str:
    return str(body.get("model", ""))


def messages(body: Json) -> list[Json]:
    return list(body["messages"])


def system(body: Json) -> str:
    said = body.get("system", "")
    return said if isinstance(said, str) else "\n\n".join(block["text"] for block in said)


def tool_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body.get("tools", ())]


# ---- Blocks ---------------------------------------------------------------------------------------------------------


def _message(reply: Reply, asked: Asked) -> dict[str, Json]:
    head = {"id": f"msg_{asked.number}", "type": "message", "role": "assistant", "model": asked.model}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None}


def _block(block: Block, asked: Asked) -> Json:
    match block:
        case Thought(_, True):
            return {"type": "redacted_thinking", "data": seal(block, asked)}
        case Thought(text):
            return {"type": "thinking", "thinking": text, "signature": seal(block, asked)}
        case Call():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments_of(block.raw)}
        case _:
            return {"type": "text", "text": block}


def _begin(block: Block, asked: Asked) -> Json:
    """The block as it starts: what arrives by deltas is empty."""
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {name: empty.get(name, value) for name, value in _block(block, asked).items()}


def _deltas(block: Block, count: int, asked: Asked) -> Iterator[Json]:
    match block:
        case Thought(_, True):
            return
        case Thought(text):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(text, count))
            yield {"type": "signature_delta", "signature": seal(block, asked)}
        case Call():
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(block.raw, count))
        case _:
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(block, count))


def _stop_reason(reply: Reply) -> str | None:
    finish = reply.finish_reason
    return None if finish is None else _STOP_REASONS.get(finish, finish)


def _input_usage(usage: Usage) -> dict[str, Json]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
    }


def _output_usage(usage: Usage) -> dict[str, Json]:
    return {
        "output_tokens": usage.output_tokens + usage.reasoning_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
