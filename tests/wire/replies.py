"""Replies of models as each wire format decodes them, streamed and whole, with what was lost on the way."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from targets import Route

from hermes.kernel.messages import ModelReply, Thinking
from hermes.plugins.wire.toolnames import own_name
from hermes.testing.formats import FORMATS, Asked, issued_by
from hermes.testing.script import Call, Reply, Thought

Json = Any


class Decoded(NamedTuple):
    """`seals`: what the server issued, with the text that each seals. `lost`: what the decoder did not give back."""

    reply: ModelReply
    seals: Mapping[str, str | None]
    lost: list[str]


def decoded(route: Route, scripted: Reply, number: int, rng: Random) -> Decoded:
    """What a route's wire format makes of a reply; half of them streamed."""
    spoken = FORMATS[route.target.api_mode]
    asked = Asked("/", {"stream": True}, route.target.model, number)
    assembler = importlib.import_module(f"hermes.plugins.wire.{spoken.api_mode}.decoding").Assembler(route.target)
    if rng.random() < 0.5:
        for event in spoken.events(scripted, asked):
            _feed(assembler, event)
    else:
        for _ in assembler.whole(_decorated(spoken.api_mode, spoken.whole(scripted, asked), rng)):
            pass
    if spoken.api_mode != "bedrock_converse":  # it has nothing to hold back
        for _ in assembler.rest():
            pass
    reply = assembler.reply()
    seals = issued_by(spoken, scripted, asked)
    return Decoded(reply, seals, [*_lost(scripted, reply, seals)])


def _feed(assembler: Any, event: Json) -> None:
    """One event, as the stream of its format hands it on."""
    if event == "[DONE]":
        assembler.is_done = True
        return
    named = not event.keys() & {"type", "object"}
    for _ in assembler.feed(*next(iter(event.items()))) if named else assembler.feed(event):
        pass


def _lost(scripted: Reply, reply: ModelReply, seals: Mapping[str, str | None]) -> Iterator[str]:
    said = "\0".join(getattr(part, "text", "") for part in reply.parts)
    for block in scripted.blocks:
        text = "" if isinstance(block, Call) else block.text if isinstance(block, Thought) else block
        if text and not getattr(block, "is_redacted", False) and text.strip() not in said:
            yield f"lost in decoding: {text[:60]!r}"
    kept = repr([part.replay.payload for part in reply.parts if isinstance(part, Thinking) and part.replay])
    yield from (f"lost in decoding: the seal of {text!r}" for seal, text in seals.items() if seal not in kept)
    calls = [block for block in scripted.blocks if isinstance(block, Call)]
    wanted = [(call.id, own_name(call.name), call.arguments) for call in calls]
    found = [(call.id, call.name, dict(call.arguments)) for call in reply.calls]
    for one, other in zip(wanted, [*found, *[None] * len(wanted)], strict=False):
        if one != other and (other is None or not isinstance(one[2], str)):
            yield f"lost in decoding: the call {one}, which came as {other}"


# ---- What real servers say besides ----------------------------------------------------------------------------------


def _decorated(api_mode: str, whole: Json, rng: Random) -> Json:
    """A whole reply, sometimes with opaque fields of providers, narration, or a refusal in place of the text."""
    if rng.random() < 0.5:
        return whole
    if api_mode == "chat_completions":
        return _chat(whole, rng)
    if api_mode == "codex_responses":
        return _responses(whole, rng)
    return whole


def _chat(whole: Json, rng: Random) -> Json:
    """OpenRouter's reasoning blocks, Gemini's signatures of calls, OpenAI's refusals."""
    message = whole["choices"][0]["message"]
    if thinking := message.get("reasoning_content"):
        detail = {"type": "reasoning.text", "text": thinking, "signature": f"sig {rng.random()}", "index": 0}
        message["reasoning_details"] = [detail]
    for call in message.get("tool_calls", ())[:1]:
        call["extra_content"] = {"google": {"thought_signature": f"sig {rng.random()}"}}
    if message["content"] and "tool_calls" not in message and rng.random() < 0.3:
        message["refusal"], message["content"] = message["content"], None
    return whole


def _responses(whole: Json, rng: Random) -> Json:
    """A text before a call is narration; the last text is the answer, or a refusal."""
    items = whole["output"]
    for place, item in enumerate(items):
        if item["type"] != "message":
            continue
        is_answer = all(later["type"] != "function_call" for later in items[place:])
        item["phase"] = "final_answer" if is_answer else "commentary"
        if is_answer and rng.random() < 0.3:
            item["content"] = [{"type": "refusal", "refusal": item["content"][0]["text"]}]
    return whole
