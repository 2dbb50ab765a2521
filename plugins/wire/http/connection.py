"""HTTP/1.1 on our own sockets, so that a call can be ended from another thread: what every SDK's transport stands on.

`httpcore2` and urllib3 hide their sockets until the headers have come, and cost about 0.7 ms of CPU a request; this
costs 0.2. The SDK still builds, authenticates and checks every request.
"""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hermes.kernel.providers import WireFault

from .dialling import Exchange, Origin, aborted, dial, proxy_headers

_READ_BYTES = 65536
_SEND_BYTES = 1 << 17
"""What is sent as it is; smaller pieces are copied together first, for a system call each costs more."""
_IDLE_EXPIRES_S = 20.0
"""Half-dead pooled connections took up to 219 s to be noticed behind proxies (B149)."""
_IDLE_MOST = 20
_ERROR_BODY_MOST_BYTES = 1 << 20
_DRAIN_S = 0.05

current = threading.local()
"""`current.exchange`: the exchange of the call that this thread makes; no SDK has a way to pass it through."""


class Pool:
    """Idle connections by origin, the last used first; safe from every thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[tuple[float, socket.socket]]] = {}

    def take(self, origin: Origin) -> socket.socket | None:
        """A connection that looks alive, or None."""
        while True:
            with self._lock:
                row = self._idle.get(origin)
                if not row:
                    return None
                since, sock = row.pop()
            if time.monotonic() - since < _IDLE_EXPIRES_S and not _is_readable(sock):
                return sock
            sock.close()

    def give(self, origin: Origin, sock: socket.socket) -> None:
        with self._lock:
            row = self._idle.setdefault(origin, [])
            row.append((time.monotonic(), sock))
            expired = row[:-_IDLE_MOST]
            del row[:-_IDLE_MOST]
        for _, old in expired:
            old.close()

    def drop(self, origin: Origin | None = None) -> None:
        """Close the idle connections of an origin, or all: after one broke, its neighbours are not trusted."""
        with self._lock:
            origins = list(self._idle) if origin is None else [origin]
            rows = [self._idle.pop(o, []) for o in origins]
        for _, sock in (pair for row in rows for pair in row):
            sock.close()


def _is_readable(sock: socket.socket) -> bool:
    """An idle connection with something to read has been closed by the server, or is out of step."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


@dataclass(frozen=True, slots=True)
class Reply:
    """The head of a reply, and its body as it comes."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: Body

    def close(self) -> None:
        self.body.close()


class Connections:
    """Posts requests, keeping connections by their origin. Safe from any thread."""

    def __init__(self) -> None:
        self._pool = Pool()

    def request(
        self, method: str, url: str, headers: Iterable[tuple[bytes, bytes]], body: Iterable[bytes], exchange: Exchange
    ) -> Reply:
        """Send and read the head of the reply; the headers go out as they are given. Raises WireFault."""
        origin, path = _place(url)
        head = _head(method, url if origin.proxy and not origin.is_tunnel else path, headers, origin)
        sock = self._pool.take(origin)
        if sock is None:
            sock = dial(origin, exchange)
        else:
            _hold(exchange, sock)
        try:
            reply = _send(sock, head, body, exchange, origin)
        except WireFault:
            exchange.hold(None)
            sock.close()
            self._pool.drop(origin)
            raise
        return Reply(reply.status, reply.getheaders(), Body(reply, sock, exchange, self._pool, origin))

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.drop()


connections = Connections()
"""One for the process: connections are kept by address, and there is one TLS context."""


def _hold(exchange: Exchange, sock: socket.socket) -> None:
    try:
        exchange.hold(sock)
    except WireFault:
        sock.close()
        raise


class Body:
    """The reply's bytes as they come; gives the connection back to the pool when it was read to its end."""

    def __init__(
        self, reply: http.client.HTTPResponse, sock: socket.socket, exchange: Exchange, pool: Pool, origin: Origin
    ) -> None:
        self._reply, self._sock, self._exchange = reply, sock, exchange
        self._pool, self._origin = pool, origin
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        read_bytes = 0
        while piece := self._read():
            yield piece
            read_bytes += len(piece)
            if self._reply.status >= 400 and read_bytes > _ERROR_BODY_MOST_BYTES:
                return

    def _read(self) -> bytes:
        if self._is_over():
            return b""
        try:
            self._sock.settimeout(self._exchange.read_timeout_s())
            piece = self._reply.read1(_READ_BYTES)
        except OSError as error:
            self._pool.drop(self._origin)
            raise self._exchange.failed(error, str(self._origin)) from error
        except (http.client.HTTPException, ValueError) as error:
            raise self._cut() from error
        if not piece and self._reply.length:
            raise self._cut()
        return piece

    def _is_over(self) -> bool:
        return self._reply.isclosed() or self._reply.length == 0

    def _cut(self) -> WireFault:
        if self._exchange.aborted:
            return aborted()
        self._pool.drop(self._origin)
        return WireFault("connection", f"{self._origin} closed the connection in the middle of a reply", phase="stream")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        is_reusable = not self._reply.will_close and not self._exchange.aborted and self._is_at_end()
        self._exchange.hold(None)
        self._reply.close()
        if is_reusable and not self._exchange.aborted:
            self._pool.give(self._origin, self._sock)
        else:
            self._sock.close()

    def _is_at_end(self) -> bool:
        """Read what little may follow the last event, such as the last chunk; not for long."""
        if self._is_over():
            return True
        try:
            self._sock.settimeout(_DRAIN_S)
            return not self._reply.read1(_READ_BYTES) and self._is_over()
        except (OSError, http.client.HTTPException, ValueError):
            return False


def _send(
    sock: socket.socket, head: bytes, body: Iterable[bytes], exchange: Exchange, origin: Origin
) -> http.client.HTTPResponse:
    """Send the request in blocks, without ever joining the whole body, and read the head of the reply."""
    reply = None
    try:
        try:
            sock.settimeout(exchange.stall_s)
            for block in _blocks(head, body):
                sock.sendall(block)
        except TimeoutError:
            raise WireFault("timeout", f"{origin} took no bytes for {exchange.stall_s:g} s", phase="send") from None
        except OSError:
            if exchange.aborted:
                raise
            # The server may have refused the body before its end: what it says comes next.
        exchange.first_deadline = time.monotonic() + exchange.first_s
        sock.settimeout(exchange.read_timeout_s())
        reply = http.client.HTTPResponse(sock, method="POST")
        reply.begin()
        begun, reply = reply, None
        return begun
    except http.client.RemoteDisconnected:
        if exchange.aborted:
            raise aborted() from None
        text = f"{origin} closed the connection without a reply"
        raise WireFault("connection", text, phase="first_token") from None
    except OSError as error:
        raise exchange.failed(error, str(origin)) from error
    except (http.client.HTTPException, ValueError) as error:
        if exchange.aborted:
            raise aborted() from None
        text = f"{origin} does not answer in HTTP ({str(error)[:80] or type(error).__name__}): check the address"
        raise WireFault("invalid", text, phase="first_token") from error
    finally:
        if reply is not None:
            reply.close()  # else its file keeps the socket open


def _blocks(head: bytes, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Small pieces are put together up to a block (a system call each would cost more than the copy)."""
    block, size = [head], len(head)
    for piece in pieces:
        if len(piece) >= _SEND_BYTES:
            yield b"".join(block)
            yield piece
            block, size = [], 0
            continue
        block.append(piece)
        size += len(piece)
        if size >= _SEND_BYTES:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)


def _head(method: str, target: str, headers: Iterable[tuple[bytes, bytes]], origin: Origin) -> bytes:
    lines = [f"{method} {target} HTTP/1.1".encode("ascii")]
    lines += [name + b": " + value for name, value in headers]
    if origin.proxy and not origin.is_tunnel:
        lines += [f"{name}: {value}".encode("latin-1") for name, value in proxy_headers(origin).items()]
    if any(b"\n" in line or b"\r" in line for line in lines):
        raise WireFault("connection", "a header of this provider has a line break in it: look at its key", phase="send")
    return b"\r\n".join(lines) + b"\r\n\r\n"


_origins: dict[tuple[str, str, int | None], Origin] = {}


def _place(url: str) -> tuple[Origin, str]:
    """Where a URL leads to, and its path with the query."""
    split = urlsplit(url)
    key = (split.scheme, split.hostname or "", split.port)
    found = _origins.get(key)
    if found is None:
        scheme, host, port = key
        port = port or (443 if scheme == "https" else 80)
        found = _origins[key] = Origin(scheme, host, port, _proxy_for(scheme, host))
    return found, (split.path or "/") + (f"?{split.query}" if split.query else "")


def _proxy_for(scheme: str, host: str) -> str:
    """The proxy that the environment names for a host, or ""; loopback never goes by one."""
    from urllib.request import getproxies, proxy_bypass

    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return ""
    proxies: dict[str, Any] = getproxies()
    return str(proxies.get(scheme) or proxies.get("all") or "")
