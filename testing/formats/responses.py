"""OpenAI's Responses API, as the scripted server speaks it (API reference and streaming events, November 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes.kernel.messages import Usage
from hermes.testing import strict_responses
from hermes.testing.formats.format import Asked, Issued, changed_thoughts, objects, pieces, seal, sse
from hermes.testing.script import Block, Call, Fault, Reply, Thought

Json = Any

api_mode = "codex_responses"
stream_type = "text/event-stream; charset=utf-8"
signs_thinking = True
frame = sse

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons that leave a response incomplete, with the reason that it gives; with every other it is completed."""
_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
}
"""Status to type and code; every other is a server_error (OpenAI's page of error codes, November 2026)."""


def wants_stream(asked: Asked) -> bool:
    return isinstance(asked.body, dict) and bool(asked.body.get("stream"))


def call_id(number: int) -> str:
    return f"call_{number}"


def whole(reply: Reply, asked: Asked) -> Json:
    """One response object; a finish reason of "" leaves it in progress."""
    finish = reply.finish_reason
    reason = _INCOMPLETE.get(finish or "")
    items = [_item(block, place, asked) for place, block in enumerate(reply.blocks)]
    status = "in_progress" if finish is None else "incomplete" if reason else "completed"
    out = _response(asked, status, items)
    out["incomplete_details"] = {"reason": reason} if reason else None
    if reply.usage is not None:
        out["usage"] = _usage(reply.usage)
    return out


def events(reply: Reply, asked: Asked) -> Iterator[Json]:
    for number, event in enumerate(_events(reply, asked)):
        yield {**event, "sequence_number": number}


def _events(reply: Reply, asked: Asked) -> Iterator[dict[str, Json]]:
    begun = _response(asked, "in_progress", [])
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for place, block in enumerate(reply.blocks):
        item = _item(block, place, asked)
        yield {"type": "response.output_item.added", "output_index": place, "item": _begin(item)}
        at = {"item_id": item["id"], "output_index": place}
        for event in _inside(block, item, reply.pieces):
            yield {**event, **at}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    if reply.finish_reason is not None:
        done = whole(reply, asked)
        yield {"type": f"response.{done['status']}", "response": done}


def _inside(block: Block, item: Json, count: int) -> Iterator[dict[str, Json]]:
    """The events between the beginning and the end of an item, without its place."""
    match block:
        case Thought(text):
            for part in item["summary"]:
                yield from _part(
                    "response.reasoning_summary_part", "response.reasoning_summary_text", part, text, count
                )
        case Call():
            kind = "response.function_call_arguments"
            yield from ({"type": f"{kind}.delta", "delta": piece} for piece in pieces(block.raw, count))
            yield {"type": f"{kind}.done", "arguments": block.raw, "name": block.name}
        case _:
            yield from _part("response.content_part", "response.output_text", item["content"][0], block, count)


def _part(part_kind: str, text_kind: str, part: Json, text: str, count: int) -> Iterator[dict[str, Json]]:
    index = {"summary_index" if "summary" in part_kind else "content_index": 0}
    yield {"type": f"{part_kind}.added", **index, "part": {**part, "text": ""}}
    yield from ({"type": f"{text_kind}.delta", **index, "delta": piece} for piece in pieces(text, count))
    yield {"type": f"{text_kind}.done", **index, "text": text}
    yield {"type": f"{part_kind}.done", **index, "part": part}


def refusal(fault: Fault) -> tuple[Json, Mapping[str, str]]:
    kind, code = _ERRORS.get(fault.status, ("server_error", "server_error"))
    error = {"message": fault.message, "type": kind, "param": None, "code": fault.code or code}
    return {"error": error}, {"x-request-id": "req_1"}


def error_event(fault: Fault) -> Json:
    """The response failed; the other form, an event of type `error`, is for `events` to send."""
    code = fault.code or _ERRORS.get(fault.status, ("", None))[1] or "server_error"
    failed = {"id": "resp_1", "object": "response", "created_at": 1, "status": "failed", "output": []}
    return {"type": "response.failed", "response": {**failed, "error": {"code": code, "message": fault.message}}}


def problems(body: Json, issued: Issued) -> list[str]:
    return [*strict_responses.problems(body, issued=issued), *changed_thoughts(_thoughts(body), issued)]


def _thoughts(body: Json) -> Iterator[tuple[Json, Json]]:
    for item in objects(body, "input"):
        if item.get("type") == "reasoning":
            yield item.get("encrypted_content"), "".join(str(part.get("text")) for part in objects(item, "summary"))


def model(path: str, body: Json) -> str:
    return str(body.get("model", ""))


def messages(body: Json) -> list[Json]:
    said = body["input"]
    return [{"role": "user", "content": said}] if isinstance(said, str) else list(said)


def system(body: Json) -> str:
    return str(body.get("instructions") or "")


def tool_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body.get("tools", ())]


# ---- Items ----------------------------------------------------------------------------------------------------------


def _response(asked: Asked, status: str, items: list[Json]) -> dict[str, Json]:
    head = {"id": f"resp_{asked.number}", "object": "response", "created_at": 1, "status": status}
    return {**head, "error": None, "incomplete_details": None, "model": asked.model, "output": items, "usage": None}


def _item(block: Block, place: int, asked: Asked) -> dict[str, Json]:
    number = f"{asked.number}_{place}"
    match block:
        case Thought(text):
            summary = [{"type": "summary_text", "text": text}] if text else []
            sealed = {"summary": summary, "encrypted_content": seal(block, asked)}
            return {"type": "reasoning", "id": f"rs_{number}", **sealed}
        case Call():
            call = {"call_id": block.id, "name": block.name, "arguments": block.raw}
            return {"type": "function_call", "id": f"fc_{number}", **call, "status": "completed"}
        case _:
            content = [{"type": "output_text", "text": block, "annotations": []}]
            message = {"role": "assistant", "content": content}
            return {"type": "message", "id": f"msg_{number}", **message, "status": "completed"}


def _begin(item: Json) -> Json:
    """The item as it starts: what arrives by deltas is empty, what is sealed is not complete."""
    empty: dict[str, Json] = {"content": [], "summary": [], "arguments": "", "status": "in_progress"}
    return {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}


def _usage(usage: Usage) -> Json:
    """The input with its cached tokens, the output with its reasoning."""
    output = usage.output_tokens + usage.reasoning_tokens
    cached = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": cached,
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + output,
    }
