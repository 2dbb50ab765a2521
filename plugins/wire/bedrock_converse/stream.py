"""One running call of Converse or ConverseStream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hermes.kernel.messages import Json, ModelReply
from hermes.kernel.providers import Delta, Timeouts, WireFault
from hermes.plugins.wire.http.dialling import Exchange, aborted

from .decoding import Assembler

if TYPE_CHECKING:
    from hermes.plugins.wire.http.connection import Body, Reply

_EVENT_STREAM = "application/vnd.amazon.eventstream"


class ConverseStream:
    """Begins the call when it is iterated, so that it can be aborted from the start (look-up and connect included).

    `post` sends the request and returns when the head of the reply has come. Messages name the target (`where`).
    """

    def __init__(
        self,
        post: Callable[[Exchange], Reply],
        assembler: Assembler,
        timeouts: Timeouts,
        *,
        is_stream: bool,
        where: str,
    ) -> None:
        # A reply that comes whole has no byte before its end, so the longer of the two limits holds for its first.
        first_s = timeouts.first_token_s if is_stream else max(timeouts.first_token_s, timeouts.stall_s)
        self._exchange = Exchange(timeouts.connect_s, first_s, timeouts.stall_s)
        self._post, self._assembler, self._where = post, assembler, where
        self._reply: ModelReply | None = None

    def __iter__(self) -> Iterator[Delta]:
        if self._exchange.aborted:
            raise aborted()
        answer = self._post(self._exchange)
        try:
            yield from self._read(answer)
        finally:
            answer.body.close()
        if self._exchange.aborted and not self._assembler.is_finished:
            raise aborted()
        self._reply = self._assembler.reply()

    def reply(self) -> ModelReply:
        if self._reply is None:
            raise RuntimeError("the stream was not read to its end")
        return self._reply

    def abort(self) -> None:
        self._exchange.abort()

    # ---- Reading ----------------------------------------------------------------------------------------------------

    def _read(self, answer: Reply) -> Iterator[Delta]:
        """By what came, not by what was asked for: gateways answer a stream with one object, or the reverse."""
        headers = {name.lower(): value for name, value in answer.headers}
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == _EVENT_STREAM:
            yield from self._events(answer.body)
        else:
            yield from self._whole(answer.body, kind)

    def _events(self, body: Body) -> Iterator[Delta]:
        from .frames import events_of

        try:
            for name, event in events_of(body, self._where):
                self._exchange.begun = True
                yield from self._assembler.feed(name, event)
        except WireFault as fault:
            # A connection that breaks after all is said has lost nothing but the usage.
            if fault.cause != "connection" or not self._assembler.is_finished:
                raise

    def _whole(self, body: Body, kind: str) -> Iterator[Delta]:
        pieces = []
        for piece in body:
            self._exchange.begun = True
            pieces.append(piece)
        data = b"".join(pieces)
        try:
            reply: Json = json.loads(data)
        except (ValueError, RecursionError):
            excerpt = " ".join(data[:200].decode("utf-8", "replace").split()) or "(nothing)"
            text = f"{self._where}: {kind or 'something else'} came in place of a reply of Converse: {excerpt}"
            raise WireFault("invalid", text, body=data[:4000].decode("utf-8", "replace"), phase="stream") from None
        yield from self._assembler.whole(reply)
