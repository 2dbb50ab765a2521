"""Bedrock's Converse and ConverseStream, as the scripted server speaks them (service model of 2023-09-30)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from hermes.kernel.messages import Usage
from hermes.testing import strict_converse
from hermes.testing.formats import event_stream
from hermes.testing.formats.format import Asked, Issued, arguments_of, changed_thoughts, objects, pieces, seal
from hermes.testing.script import Block, Call, Fault, Reply, Thought

Json = Any

api_mode = "bedrock_converse"
stream_type = "application/vnd.amazon.eventstream"
signs_thinking = True

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
_EXCEPTIONS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
"""Every other status is InternalServerException."""
_STREAM_EXCEPTIONS = {
    400: "validationException",
    424: "modelStreamErrorException",
    429: "throttlingException",
    503: "serviceUnavailableException",
}
"""Every other status is internalServerException; a stream has no more exceptions than these five."""


def wants_stream(asked: Asked) -> bool:
    return asked.path.endswith("/converse-stream")


def call_id(number: int) -> str:
    return f"tooluse_{number:022}"


def whole(reply: Reply, asked: Asked) -> Json:
    """One reply. A call whose arguments are no JSON has them as a text."""
    content = [_block(block, asked) for block in reply.blocks]
    out: dict[str, Json] = {"output": {"message": {"role": "assistant", "content": content}}}
    out["stopReason"] = _stop_reason(reply)
    if reply.usage is not None:
        out["usage"] = _usage(reply.usage)
    return {**out, "metrics": {"latencyMs": 1}}


def events(reply: Reply, asked: Asked) -> Iterator[Json]:
    """Each event is an object of one name and what it holds; only calls have a contentBlockStart."""
    yield {"messageStart": {"role": "assistant"}}
    for index, block in enumerate(reply.blocks):
        at = {"contentBlockIndex": index}
        if isinstance(block, Call):
            yield {"contentBlockStart": {**at, "start": {"toolUse": {"toolUseId": block.id, "name": block.name}}}}
        for delta in _deltas(block, reply.pieces, asked):
            yield {"contentBlockDelta": {**at, "delta": delta}}
        yield {"contentBlockStop": at}
    if reply.finish_reason is not None:
        yield {"messageStop": {"stopReason": _stop_reason(reply)}}
    if reply.usage is not None:
        yield {"metadata": {"usage": _usage(reply.usage), "metrics": {"latencyMs": 1}}}


def frame(event: Json) -> bytes:
    """`{name: payload}` as a message of that name; the payload is padded by `p`, as the real ones are."""
    ((name, payload),) = event.items()
    if name.endswith("Exception"):
        return event_stream.exception(name, json.dumps(payload).encode("utf-8"))
    return event_stream.event(name, json.dumps({**payload, "p": "abcdefgh"}).encode("utf-8"))


def refusal(fault: Fault) -> tuple[Json, Mapping[str, str]]:
    name = fault.code or _EXCEPTIONS.get(fault.status, "InternalServerException")
    return {"message": fault.message}, {"x-amzn-ErrorType": name, "x-amzn-RequestId": "request-1"}


def error_event(fault: Fault) -> Json:
    name = fault.code or _STREAM_EXCEPTIONS.get(fault.status, "internalServerException")
    return {name: {"message": fault.message}}


def problems(body: Json, issued: Issued) -> list[str]:
    return [*strict_converse.problems(body, issued=issued), *changed_thoughts(_thoughts(body), issued)]


def _thoughts(body: Json) -> Iterator[tuple[Json, Json]]:
    for message in objects(body, "messages"):
        for block in objects(message, "content"):
            reasoning = block.get("reasoningContent")
            thought = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
            if isinstance(thought, dict):
                yield thought.get("signature"), thought.get("text")


def model(path: str, body: Json) -> str:
    return unquote(path.split("/model/", 1)[1].rpartition("/")[0])


def messages(body: Json) -> list[Json]:
    return list(body["messages"])


def system(body: Json) -> str:
    return "\n\n".join(block["text"] for block in body.get("system", ()) if "text" in block)


def tool_names(body: Json) -> list[str]:
    tools = (body.get("toolConfig") or {}).get("tools", ())
    return [tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool]


# ---- Blocks ---------------------------------------------------------------------------------------------------------


def _block(block: Block, asked: Asked) -> Json:
    match block:
        case Thought(_, True):
            return {"reasoningContent": {"redactedContent": seal(block, asked)}}
        case Thought(text):
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": seal(block, asked)}}}
        case Call():
            used = {"toolUseId": block.id, "name": block.name, "input": arguments_of(block.raw)}
            return {"toolUse": used}
        case _:
            return {"text": block}


def _deltas(block: Block, count: int, asked: Asked) -> Iterator[Json]:
    match block:
        case Thought(_, True):
            yield {"reasoningContent": {"redactedContent": seal(block, asked)}}
        case Thought(text):
            yield from ({"reasoningContent": {"text": piece}} for piece in pieces(text, count))
            yield {"reasoningContent": {"signature": seal(block, asked)}}
        case Call():
            yield from ({"toolUse": {"input": piece}} for piece in pieces(block.raw, count))
        case _:
            yield from ({"text": piece} for piece in pieces(block, count))


def _stop_reason(reply: Reply) -> str | None:
    finish = reply.finish_reason
    return None if finish is None else _STOP_REASONS.get(finish, finish)


def _usage(usage: Usage) -> Json:
    output = usage.output_tokens + usage.reasoning_tokens
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": output,
        "totalTokens": usage.prompt_tokens + output,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }
