"""The transport under the SDKs that send by httpx2 (openai, anthropic). Imported only by a call: httpx2 is heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import httpx2

from .connection import Body, connections, current


class Transport(httpx2.BaseTransport):
    """What the SDK's http client sends by. Raises WireFault, which passes through httpx2 and the SDK untouched."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        stream = cast("httpx2.SyncByteStream", request.stream)
        reply = connections.request(request.method, str(request.url), request.headers.raw, stream, current.exchange)
        headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in reply.headers]
        return httpx2.Response(reply.status, headers=headers, stream=_Bytes(reply.body))


class _Bytes(httpx2.SyncByteStream):
    def __init__(self, body: Body) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        self._body.close()
