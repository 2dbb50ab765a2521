"""From the neutral conversation to the input items of the Responses API, message by message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from hermes.kernel.messages import Image, Json, Message, Part, Refusal, Text, Thinking, ToolCall
from hermes.kernel.providers import Target
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, is_own, words
from hermes.plugins.wire.pictures import address_of, note_of
from hermes.plugins.wire.toolnames import wire_name

MESSAGE = "message"
"""Kind of the Replay of what a message item said. Payload: `id` and `phase` of the item, where it had them, and
`reasoned`, true when a reasoning item came before it in the same reply."""
REASONING = "reasoning"
"""Kind of the Replay of a reasoning item. Payload: its `summary` and `encrypted_content`, and its `id` if any."""

_IMAGE_NOTE = "[an image was returned; this model cannot be shown images in tool results]"
_IMAGE_BELOW = "[an image was returned: see the next message]"


def encode_message(message: Message, target: Target) -> bytes:
    """The input items of one message, joined by commas; nothing when it has nothing that this target may be sent."""
    match message.role:
        case "assistant":
            items = _assistant(message, target)
        case "tool":
            items = list(_tool_results(message, target))
        case _:
            items = [_user([p for p in message.parts if isinstance(p, (Text, Image))])]
    return b",".join(dumps(item) for item in items)


def _user(parts: Iterable[Text | Image]) -> Json:
    return {"type": "message", "role": "user", "content": _content(parts) or [_text(NO_OUTPUT)]}


def _content(parts: Iterable[Text | Image]) -> list[Json]:
    return [
        _text(words(p)) if isinstance(p, Text) else _image(p) for p in parts if isinstance(p, Image) or p.text.strip()
    ]


def _text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def _image(part: Image) -> Json:
    if (url := address_of(part)) is None:
        return _text(note_of(part))
    return {"type": "input_image", "image_url": url, "detail": "auto"}


# ---- What the model said --------------------------------------------------------------------------------------------


class _Source(NamedTuple):
    """The message item that a text came from; all empty for what this target did not write."""

    id: str = ""
    phase: str = ""
    reasoned: bool = False


def _assistant(message: Message, target: Target) -> list[Json]:
    """Reasoning, texts and calls in the model's order.

    A reasoning item must be followed by another one, or the request is refused (B081): at the end it is left out (an
    empty message behind it would be refused by xAI). Ids are not sent but for those of messages, since a server that
    stores nothing looks for a reasoning item by its id in vain, and checks pairs by them: the id of a message is stale
    when the reasoning that belongs to it is gone. None is sent twice.
    """
    items: list[Json] = []
    has_reasoning, sent_ids = False, {""}
    for source, parts in groupby(message.parts, lambda part: _source(part, target)):
        if source is not None:
            has_id = source.id not in sent_ids and (has_reasoning or not source.reasoned)
            if has_id and _replays_id(MESSAGE, target):
                sent_ids.add(source.id)
            else:
                source = source._replace(id="")
            items += _message(source, list(parts))
            continue
        for part in parts:
            if isinstance(part, ToolCall):
                items.append(_call(part))
            elif payload := _replayed(part, REASONING, target):
                items.append(_reasoning(payload, target))
                has_reasoning = True
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _source(part: Part, target: Target) -> _Source | None:
    """Where a text came from; None for what is no text. Narration is a Thinking that came from a message item."""
    payload = _replayed(part, MESSAGE, target)
    if payload is not None:
        return _Source(payload.get("id", ""), payload.get("phase", ""), payload.get("reasoned", False))
    return _Source() if isinstance(part, (Text, Refusal)) else None


def _replayed(part: Part, kind: str, target: Target) -> Mapping[str, Json] | None:
    """What this target gave with a part, to have it back; None when it gave nothing of this kind."""
    replay = part.replay
    return replay.payload if replay is not None and replay.kind == kind and is_own(replay, target) else None


def _message(source: _Source, parts: Sequence[Part]) -> Iterator[Json]:
    """One message item: as it came where it has its id, else as plain text, which every host takes."""
    said = [p for p in parts if isinstance(p, (Text, Refusal, Thinking)) and p.text.strip()]
    if not said:
        return
    item: dict[str, Json] = {"type": "message", "role": "assistant"}
    if source.phase:
        item["phase"] = source.phase
    if source.id:
        yield item | {"id": source.id, "status": "completed", "content": [_output(part) for part in said]}
    else:
        yield item | {"content": "".join(part.text for part in said)}


def _output(part: Text | Refusal | Thinking) -> Json:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text, "annotations": []}


def _reasoning(payload: Mapping[str, Json], target: Target) -> Json:
    item = {"type": "reasoning", "summary": payload["summary"], "encrypted_content": payload["encrypted_content"]}
    return item | {"id": payload["id"]} if _replays_id(REASONING, target) and "id" in payload else item


def _replays_id(kind: str, target: Target) -> bool:
    return kind in target.quirk("replayed_ids", (MESSAGE,))


def _call(call: ToolCall) -> Json:
    arguments = dumps(dict(call.arguments)).decode("utf-8")
    return {"type": "function_call", "call_id": call.id, "name": wire_name(call.name), "arguments": arguments}


# ---- What the tools gave --------------------------------------------------------------------------------------------


def _tool_results(message: Message, target: Target) -> Iterator[Json]:
    """One item a result. The words beside them stand in the last one: a user message here would end what OpenAI's
    models take for the current turn, and with it the reasoning that they are shown of it."""
    place = _image_place(target)
    beside = [part for part in message.parts if isinstance(part, Text)]
    for number, result in enumerate(message.results, 1):
        more = beside if number == len(message.results) else []
        output = _result([*result.parts, *more], place)
        yield {"type": "function_call_output", "call_id": result.call_id, "output": output}
    images = [part for result in message.results for part in result.parts if isinstance(part, Image)]
    if images and place == "user_message":
        yield _user(images)


def _image_place(target: Target) -> str:
    """Where images of tool results go: "output", "user_message" behind the results, or "" nowhere."""
    stated = target.quirk("images_in_tool_results")
    if stated is None:
        stated = target.row is not None and target.row.images is True
    return "user_message" if stated == "user_message" else "output" if stated else ""


def _result(parts: Sequence[Text | Image], place: str) -> str | list[Json]:
    """A result as one text; as a list only with images in it."""
    if place == "output" and any(isinstance(p, Image) for p in parts):
        return _content(parts)
    note = _IMAGE_BELOW if place else _IMAGE_NOTE
    texts = [words(p) if isinstance(p, Text) else note for p in parts]
    return "\n\n".join(t for t in texts if t.strip()) or NO_OUTPUT
