"""What a wire format is to the scripted server, and what all formats do alike."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from hermes.testing.script import Fault, Reply, Thought

Json = Any
Issued: TypeAlias = Mapping[str, "str | None"]
"""Each seal that the server gave to a model, with the text that it seals; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as a format needs it to answer it.

    `path` is without query, `number` counts from 1 and goes into the ids of the reply.
    """

    path: str
    body: Json
    model: str
    number: int


class Format(Protocol):
    """One wire format; each module of this folder is one."""

    api_mode: str
    stream_type: str
    """The Content-Type of a stream."""
    signs_thinking: bool
    """Whether thinking carries a seal that must come back with it."""

    def wants_stream(self, asked: Asked) -> bool: ...

    def call_id(self, number: int) -> str:
        """The id of the server's tool call of this number, as ids look in this format."""
        ...

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """The reply as one object. Every call has its id."""
        ...

    def events(self, reply: Reply, asked: Asked) -> Iterator[Json]:
        """The reply as the events of a stream, each as `frame` takes it."""
        ...

    def frame(self, event: Json) -> bytes:
        """One event as the bytes that go out; a text is the data of an event."""
        ...

    def refusal(self, fault: Fault) -> tuple[Json, Mapping[str, str]]:
        """The body and the headers of an error."""
        ...

    def error_event(self, fault: Fault) -> Json:
        """An error as an event in the middle of a stream."""
        ...

    def problems(self, body: Json, issued: Issued) -> list[str]:
        """What a strict server would refuse."""
        ...

    def model(self, path: str, body: Json) -> str: ...

    def messages(self, body: Json) -> list[Json]:
        """The conversation, item by item as it is in the body."""
        ...

    def system(self, body: Json) -> str:
        """The system prompt as text; "" without."""
        ...

    def tool_names(self, body: Json) -> list[str]: ...


def seal(thought: Thought, asked: Asked) -> str:
    """What the server issues for a thought: made up, base64, the same each time, another for each request and model."""
    words = f"{asked.path}\n{asked.model}\n{asked.number}\n{thought.text}".encode("utf-8", "replace")
    return base64.b64encode(b"scripted seal " + hashlib.sha512(words).digest()).decode("ascii")


_SEALS = ("signature", "encrypted_content", "data", "redactedContent")


def issued_by(spoken: Format, reply: Reply, asked: Asked) -> dict[str, str | None]:
    """The seals that a reply gives away, those in chunks and bodies of the script too."""
    if not spoken.signs_thinking:
        return {}
    thoughts = [block for block in reply.blocks if isinstance(block, Thought)]
    return {
        **{seal(thought, asked): thought.text for thought in thoughts},
        **dict.fromkeys(_found([reply.chunks, reply.body])),
    }


def _found(value: Json) -> Iterator[str]:
    """The texts under the names of seals, however deep."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _SEALS and isinstance(inner, str):
                yield inner
            yield from _found(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _found(inner)


def arguments_of(raw: str) -> Json:
    """The arguments as a value for formats whose calls hold no text; what is no JSON stays a text."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def pieces(words: str, count: int) -> list[str]:
    """A text in about so many pieces; none when it is empty."""
    if not words:
        return []
    step = -(-len(words) // max(1, min(count, len(words))))
    return [words[i : i + step] for i in range(0, len(words), step)]


def sse(event: Json) -> bytes:
    """A server-sent event, named by its type where it has one, as OpenAI's Responses and Anthropic name theirs."""
    name = b"event: %s\n" % str(event["type"]).encode() if isinstance(event, dict) and "type" in event else b""
    data = event if isinstance(event, str) else json.dumps(event)
    return b"%sdata: %s\n\n" % (name, data.encode("utf-8"))


def changed_thoughts(came_back: Iterable[tuple[Json, Json]], issued: Issued) -> list[str]:
    """Problems of thoughts that came back with a right seal and another text; `came_back` is pairs of seal and text."""
    return [
        f"the thinking {str(text)[:60]!r} is not the one that was signed"
        for key, text in came_back
        if isinstance(key, str) and issued.get(key) not in (text, None)
    ]


def objects(body: Json, name: str) -> Iterator[Mapping[str, Json]]:
    """The objects in a list of the body; what is no object is the validator's business."""
    value = body.get(name) if isinstance(body, Mapping) else None
    yield from (item for item in (value if isinstance(value, list) else []) if isinstance(item, Mapping))
