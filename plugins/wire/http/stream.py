"""One running call whose reply is JSON in server-sent events, or one JSON object: the same for three wire formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from hermes.kernel.messages import Json, ModelReply
from hermes.kernel.providers import Delta, Timeouts, WireFault

from .dialling import Exchange, aborted
from .sse import data_of

if TYPE_CHECKING:
    import httpx2


class Assembler(Protocol):
    """Collects one reply from what the server sends, in the order in which it comes."""

    is_done: bool
    """Set when the server said that nothing more follows (`[DONE]`), and for a reply that came whole."""
    was_fed: bool
    """True once an event that belongs to a reply has come."""

    @property
    def is_finished(self) -> bool:
        """True when all has been said, so that a connection which breaks now has lost nothing."""
        ...

    def feed(self, event: Json) -> Iterator[Delta]:
        """Take one event; raises WireFault for an error that came in place of one."""
        ...

    def whole(self, reply: Json) -> Iterator[Delta]:
        """Take a reply that came as one object; raises WireFault when it is none."""
        ...

    def rest(self) -> Iterator[Delta]:
        """What was held back until the end."""
        ...

    def reply(self) -> ModelReply:
        """What came, as a whole. Raises WireFault("invalid") when it is no reply."""
        ...


class Assembled(Protocol):
    """What a running call asks of that which collects its reply."""

    @property
    def is_finished(self) -> bool: ...

    def reply(self) -> ModelReply: ...


class Closable(Protocol):
    def close(self) -> None: ...


AnswerT = TypeVar("AnswerT", bound=Closable)


class Call(Generic[AnswerT]):
    """The life of one call, whatever its reply looks like.

    It begins when it is iterated, so that it can be aborted from the start (look-up and connect included).

    `post` sends the request and returns when the head of the reply has come; a subclass reads the rest in `_read`.
    """

    def __init__(
        self, post: Callable[[Exchange], AnswerT], assembled: Assembled, timeouts: Timeouts, *, is_stream: bool
    ) -> None:
        # A reply that comes whole has no byte before its end, so the longer of the two limits holds for its first.
        first_s = timeouts.first_token_s if is_stream else max(timeouts.first_token_s, timeouts.stall_s)
        self._exchange = Exchange(timeouts.connect_s, first_s, timeouts.stall_s)
        self._post, self._assembled = post, assembled
        self._reply: ModelReply | None = None

    def __iter__(self) -> Iterator[Delta]:
        if self._exchange.aborted:
            raise aborted()
        answer = self._post(self._exchange)
        try:
            yield from self._read(answer)
        finally:
            answer.close()
        if self._exchange.aborted and not self._assembled.is_finished:
            raise aborted()
        self._reply = self._assembled.reply()

    def reply(self) -> ModelReply:
        if self._reply is None:
            raise RuntimeError("the stream was not read to its end")
        return self._reply

    def abort(self) -> None:
        self._exchange.abort()

    def _read(self, answer: AnswerT) -> Iterator[Delta]:
        raise NotImplementedError

    def _all_of(self, pieces: Iterable[bytes]) -> bytes:
        """The bytes of a reply that comes whole."""
        found = []
        for piece in pieces:
            self._exchange.begun = True
            found.append(piece)
        return b"".join(found)


class JsonStream(Call["httpx2.Response"]):
    """A call whose reply is JSON. Messages name the server (`where`) and what was `expected` of it."""

    def __init__(
        self,
        post: Callable[[Exchange], httpx2.Response],
        assembler: Assembler,
        timeouts: Timeouts,
        *,
        is_stream: bool,
        expected: str,
        where: str,
    ) -> None:
        super().__init__(post, assembler, timeouts, is_stream=is_stream)
        self._assembler = assembler
        self._is_stream, self._expected, self._where = is_stream, expected, where

    def _read(self, answer: httpx2.Response) -> Iterator[Delta]:
        """By what came, not by what was asked for: some servers answer a stream with one object, or the reverse."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" or (self._is_stream and kind not in ("application/json", "text/html")):
            yield from self._events(answer, kind)
        else:
            yield from self._whole(answer, kind)
        yield from self._assembler.rest()

    def _events(self, response: httpx2.Response, kind: str) -> Iterator[Delta]:
        assembler, exchange = self._assembler, self._exchange
        broken, begin = b"", _Begin(response.iter_bytes())
        try:
            for data in data_of(begin):
                if data == b"[DONE]":
                    assembler.is_done = True
                    break
                if broken:
                    raise self._no_json(broken)
                try:
                    event = json.loads(data)
                except (ValueError, RecursionError):
                    # The last line of a cut stream may be half; a word such as `ping` is nobody's reply.
                    broken = data if data[:1] in (b"{", b"[") else b""
                    continue
                exchange.begun = True
                yield from assembler.feed(event)
                if assembler.is_done:  # some servers keep the connection open after the last event
                    break
        except WireFault as fault:
            # Servers that close without the last chunk after all is said are forgiven.
            if fault.cause != "connection" or not assembler.is_finished:
                raise
        if not assembler.was_fed and not exchange.aborted:
            raise self._no_json(begin.first, kind)

    def _whole(self, response: httpx2.Response, kind: str) -> Iterator[Delta]:
        data = self._all_of(response.iter_bytes())
        try:
            reply: Json = json.loads(data)
        except (ValueError, RecursionError):
            if data.lstrip()[:5] in (b"data:", b": ", b"event"):
                raise WireFault("invalid", "the server sent events without saying so", phase="stream") from None
            raise self._no_json(data, kind) from None
        yield from self._assembler.whole(reply)
        self._assembler.is_done = True

    def _no_json(self, data: bytes, kind: str = "") -> WireFault:
        excerpt = " ".join(data[:200].decode("utf-8", "replace").split())
        what = kind or "something else"
        text = f"{self._where} answered with {what} in place of {self._expected}: {excerpt or '(nothing)'}"
        return WireFault("invalid", text, body=data[:4000].decode("utf-8", "replace"), phase="stream")


class _Begin:
    """Pieces as they come, with the first kept: it shows what a server sent in place of events."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.first = b""

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.first = self.first or piece[:4000]
            yield piece
