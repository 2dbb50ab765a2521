"""What a ScriptedServer says, whatever the format: one `Reply` a request, made by a few short functions."""

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
class Thought:
    """Thinking of the model, signed by the server where the format signs it; `is_redacted`: only the seal is sent."""

    text: str = ""
    is_redacted: bool = False


Block: TypeAlias = "Thought | str | Call"
"""What a reply is made of; a `str` is text."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that the server tells of. `code` None is the format's own word for the status."""

    status: int
    message: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the server, the same for every format.

    `order` says what the model wrote block by block; left out: `thinking`, `text`, `calls`, in this order. `finish` is
    a word of chat completions that each format translates ("stop", "tool_calls", "length", "content_filter"; any other
    goes as it is); None is chosen from what there is; "" sends none. A `status` other than 200 is a fault: `fault` told
    as the format tells it, or `body` (an object, or a text sent as it is), which is sent at 200 too when given.
    `chunks` are sent as events in place of what the other fields would make. `pieces` is how many deltas a text is cut
    into. Events are counted from 0: `stall_after` sends so many and then nothing while the client stays, `cut_after`
    sends so many and closes, `fault_after` sends so many, then `fault` as an event of the stream, and ends.
    `hold_after` sends so many and waits for `ScriptedServer.release()`. `piece_delay_s` lies between events.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    order: Sequence[Block] | None = None
    finish: str | None = None
    usage: Usage | None = field(default_factory=lambda: Usage(10, 5))
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    fault: Fault | None = None
    chunks: Sequence[Json] | None = None
    pieces: int = 3
    piece_delay_s: float = 0.0
    stall_after: int | None = None
    cut_after: int | None = None
    fault_after: int | None = None
    hold_after: int | None = None

    def but(self, **changes: Any) -> Reply:
        """The same reply with other fields: `text("hello world").but(cut_after=2)`."""
        return replace(self, **changes)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What the model wrote, in its order, without empty texts."""
        if self.order is not None:
            return tuple(self.order)
        thoughts = [Thought(self.thinking)] if self.thinking else []
        return (*thoughts, *filter(None, [self.text]), *self.calls)

    @property
    def finish_reason(self) -> str | None:
        if self.finish is not None:
            return self.finish or None
        return "tool_calls" if any(isinstance(block, Call) for block in self.blocks) else "stop"


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


def blocks(*each: Block) -> Reply:
    """What the model wrote block by block: `blocks(Thought("a"), "words", Call("f"), Thought("b"), Call("g"))`."""
    return Reply(order=each)


def fault(status: int, message: str = "", *, code: str | None = None, body: Json = None, **headers: str) -> Reply:
    """A refusal: `fault(429, "slow down", retry_after="2")`; underscores in header names become dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=body, fault=Fault(status, message, code), headers=named)


def error_event(message: str = "", *, status: int = 500, code: str | None = None, after: int = 2) -> Reply:
    """An error in the middle: the stream begins with status 200, and says after so many events that it failed.

    A reply that is not streamed has no middle: it is refused with this status.
    """
    return Reply(text="this will fail", fault=Fault(status, message, code), fault_after=after)


def stall(after: int = 0, text: str = "this never ends") -> Reply:
    """Send so many events, then nothing, with the connection open. After 0 events not even the headers are sent."""
    return Reply(text=text, stall_after=after)


def cut(after: int = 1, text: str = "this is cut") -> Reply:
    """Send so many events, then close the connection. After 0 events there is no answer at all."""
    return Reply(text=text, cut_after=after)


def events(*chunks: Json) -> Reply:
    """These chunks, word for word: objects as the format frames them, texts as the data of an event (`"[DONE]"` is not
    added), bytes as they are."""
    return Reply(chunks=chunks)


Script: TypeAlias = "Sequence[Reply] | Callable[[Any], Reply]"
"""Replies in order, or a function from the request (`scripted_server.Request`) to its reply."""
