"""One running call of Converse or ConverseStream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hermes.kernel.messages import Json
from hermes.kernel.providers import Delta, Timeouts, WireFault
from hermes.plugins.wire.http.stream import Call

from .decoding import Assembler

if TYPE_CHECKING:
    from hermes.plugins.wire.http.connection import Body, Reply
    from hermes.plugins.wire.http.dialling import Exchange

_EVENT_STREAM = "application/vnd.amazon.eventstream"


class ConverseStream(Call["Reply"]):
    """A call of Converse or ConverseStream. Messages name the target (`where`)."""

    def __init__(
        self,
        post: Callable[[Exchange], Reply],
        assembler: Assembler,
        timeouts: Timeouts,
        *,
        is_stream: bool,
        where: str,
    ) -> None:
        super().__init__(post, assembler, timeouts, is_stream=is_stream)
        self._assembler, self._where = assembler, where

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
        data = self._all_of(body)
        try:
            reply: Json = json.loads(data)
        except (ValueError, RecursionError):
            excerpt = " ".join(data[:200].decode("utf-8", "replace").split()) or "(nothing)"
            text = f"{self._where}: {kind or 'something else'} came in place of a reply of Converse: {excerpt}"
            raise WireFault("invalid", text, body=data[:4000].decode("utf-8", "replace"), phase="stream") from None
        yield from self._assembler.whole(reply)
