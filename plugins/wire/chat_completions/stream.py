"""One running call of the chat completions wire format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hermes.kernel.messages import Json, ModelReply
from hermes.kernel.providers import Delta, Parameters, Target, Timeouts, WireFault

from .decoding import Assembler
from .dialling import Exchange, aborted
from .sse import data_of

if TYPE_CHECKING:
    import httpx2


class ChatStream:
    """Begins the call when it is iterated, so that it can be aborted from the start (look-up and connect included)."""

    def __init__(
        self,
        body: Sequence[bytes],
        parameters: Parameters,
        target: Target,
        timeouts: Timeouts,
        tool_names: Sequence[str] = (),
    ) -> None:
        # A reply that comes whole has no byte before its end, so the longer of the two limits holds for its first.
        first_s = timeouts.first_token_s if parameters.stream else max(timeouts.first_token_s, timeouts.stall_s)
        self._exchange = Exchange(timeouts.connect_s, first_s, timeouts.stall_s)
        self._body, self._parameters, self._target = body, parameters, target
        self._assembler = Assembler(target, tool_names)
        self._reply: ModelReply | None = None

    def __iter__(self) -> Iterator[Delta]:
        from .client import post

        if self._exchange.aborted:
            raise aborted()
        response = post(self._body, self._target, self._exchange, is_stream=self._parameters.stream)
        try:
            yield from self._read(response)
        finally:
            response.close()
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

    def _read(self, response: httpx2.Response) -> Iterator[Delta]:
        """By what came, not by what was asked for: some servers answer a stream with one object, or the reverse."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" or (self._parameters.stream and kind not in ("application/json", "text/html")):
            yield from self._events(response, kind)
        else:
            yield from self._whole(response, kind)
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
                    chunk = json.loads(data)
                except (ValueError, RecursionError):
                    # The last line of a cut stream may be half; a word such as `ping` is nobody's reply.
                    broken = data if data[:1] in (b"{", b"[") else b""
                    continue
                exchange.begun = True
                yield from assembler.feed(chunk)
        except WireFault as fault:
            # Servers that close without the last chunk after all is said are forgiven.
            if fault.cause != "connection" or not assembler.is_finished:
                raise
        if not assembler.was_fed and not exchange.aborted:
            raise self._no_json(begin.first, kind)

    def _whole(self, response: httpx2.Response, kind: str) -> Iterator[Delta]:
        pieces = []
        for piece in response.iter_bytes():
            self._exchange.begun = True
            pieces.append(piece)
        data = b"".join(pieces)
        try:
            completion: Json = json.loads(data)
        except (ValueError, RecursionError):
            if data.lstrip()[:5] in (b"data:", b": "):
                raise WireFault("invalid", "the server sent events without saying so", phase="stream") from None
            raise self._no_json(data, kind) from None
        if not isinstance(completion, dict) or not (completion.get("choices") or completion.get("error")):
            raise self._no_reply(completion)
        self._assembler.is_done = True
        yield from self._assembler.feed(completion)

    def _no_json(self, data: bytes, kind: str = "") -> WireFault:
        excerpt = " ".join(data[:200].decode("utf-8", "replace").split())
        what = kind or "something else"
        text = f"{self._target.base_url} answered with {what} in place of a chat completion: {excerpt or '(nothing)'}"
        return WireFault("invalid", text, body=data[:4000].decode("utf-8", "replace"), phase="stream")

    def _no_reply(self, completion: Json) -> WireFault:
        text = json.dumps(completion)
        if isinstance(completion, dict) and completion.get("object") == "error":
            return WireFault("http", str(completion.get("message")), body=text, phase="stream")
        return WireFault("invalid", f"the reply has no choices: {text[:200]}", body=text[:4000], phase="stream")


class _Begin:
    """Pieces as they come, with the first kept: it shows what a server sent in place of events."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.first = b""

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.first = self.first or piece[:4000]
            yield piece
