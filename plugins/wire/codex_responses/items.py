"""From the output items of a response to the parts of the neutral reply."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from hermes.kernel.messages import Json, Part, Refusal, Replay, Text, Thinking, ToolCall, clean, clean_json
from hermes.kernel.providers import Target
from hermes.plugins.wire.jsontext import entries, read_arguments
from hermes.plugins.wire.toolnames import own_name

from .encoding import MESSAGE, REASONING

NARRATION = ("commentary", "analysis")
"""Phases of a message that is no answer: what the model says of its work between two steps."""
_MESSAGE_ID = re.compile(r"msg[a-zA-Z0-9_-]{1,61}")
"""Another id of a message is refused in the input: OpenAI takes 64 characters (Copilot gives some 400), and this
beginning."""
_FOREIGN_ID = "rs_tmp_"
"""How the id of a reasoning item begins that a proxy made up: no provider knows what it holds."""


def parts_of(items: Sequence[Mapping[str, Json]], target: Target, *, is_cut: bool) -> list[Part]:
    """What the items say, in their order; items of other types are the server's own business.

    `is_cut`: the response stopped before its end, so the arguments in the last item may be half.
    """
    parts: list[Part] = []
    calls, reasoned = 0, False
    for item in items:
        match item.get("type"):
            case "message":
                parts.extend(_message(item, target, reasoned=reasoned))
            case "reasoning":
                parts.extend(_reasoning(item, target))
                reasoned = True
            case "function_call":
                parts.append(_call(item, calls, is_cut=is_cut and item is items[-1]))
                calls += 1
    return parts


def said(item: Mapping[str, Json]) -> list[tuple[str, str]]:
    """The texts of a message item in their order, each with its kind: "text" or "refusal"."""
    content = item.get("content")
    if isinstance(content, str):
        return [("text", content)]
    found: list[tuple[str, str]] = []
    for block in entries(content):
        if not isinstance(block, Mapping):
            continue
        if isinstance(text := block.get("text"), str):
            found.append(("text", text))
        elif isinstance(refusal := block.get("refusal"), str):
            found.append(("refusal", refusal))
    return found


def thought(item: Mapping[str, Json]) -> str:
    """What a reasoning item shows: its summary, else the reasoning itself, which open models give."""
    for field in ("summary", "content"):
        texts = [block["text"] for block in entries(item.get(field)) if isinstance(block, Mapping) and "text" in block]
        if text := "\n\n".join(text for text in texts if isinstance(text, str)):
            return text
    return ""


def is_narration(item: Mapping[str, Json]) -> bool:
    return item.get("phase") in NARRATION


def _message(item: Mapping[str, Json], target: Target, *, reasoned: bool) -> Iterator[Part]:
    replay = _message_replay(item, target, reasoned=reasoned)
    for kind, text in said(item):
        if not text.strip():
            continue
        if kind == "refusal":
            yield Refusal(clean(text), replay)
        elif is_narration(item):
            yield Thinking(clean(text), replay)
        else:
            yield Text(clean(text), replay=replay)


def _message_replay(item: Mapping[str, Json], target: Target, *, reasoned: bool) -> Replay | None:
    item_id, phase = item.get("id"), item.get("phase")
    payload: dict[str, Json] = {}
    if isinstance(item_id, str) and _MESSAGE_ID.fullmatch(item_id):
        payload["id"] = item_id
    if isinstance(phase, str) and phase:
        payload["phase"] = clean(phase)
    if payload and reasoned:
        payload["reasoned"] = True
    return Replay(target.issuer, MESSAGE, payload) if payload else None


def _reasoning(item: Mapping[str, Json], target: Target) -> Iterator[Thinking]:
    """Without its encrypted content an item cannot be sent back: the server has kept nothing of it (B081)."""
    item_id, sealed = item.get("id"), item.get("encrypted_content")
    item_id = item_id if isinstance(item_id, str) else ""
    replay = None
    if isinstance(sealed, str) and sealed and not item_id.startswith(_FOREIGN_ID):
        summary = [block for block in entries(item.get("summary")) if isinstance(block, Mapping)]
        payload = {"summary": summary, "encrypted_content": sealed}
        replay = Replay(target.issuer, REASONING, clean_json(payload | ({"id": item_id} if item_id else {})))
    text = clean(thought(item)).strip()
    if text or replay is not None:
        yield Thinking(text, replay)


def _call(item: Mapping[str, Json], number: int, *, is_cut: bool) -> ToolCall:
    name, raw = _as_text(item.get("name")), _raw_arguments(item.get("arguments"))
    call_id = clean(_as_text(item.get("call_id"))) or made_up_id(name, raw, number)
    arguments, problem = read_arguments(own_name(clean(name)), raw, is_cut)
    return ToolCall(call_id, own_name(clean(name)), arguments, problem)


def made_up_id(name: str, arguments: str, number: int) -> str:
    """The id of a call that came without: the same each time, for a random one would end the cached prompt there."""
    content = f"{name}\n{arguments}\n{number}".encode("utf-8", "replace")
    return f"call_{hashlib.sha256(content).hexdigest()[:12]}"


def _raw_arguments(value: Json) -> str:
    """Arguments as the text that they should be; some servers give them as an object."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else _as_text(value)


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""
