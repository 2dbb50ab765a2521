"""Open a connection that another thread can give up on at any moment: look-up, connect, proxy tunnel, TLS."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

from hermes.kernel.providers import WireFault

_TICK_S = 0.05
"""How often a connect looks whether it was aborted, for systems where `shutdown` does not wake it (Linux does)."""


@dataclass(slots=True)
class Exchange:
    """One request and its reply: the socket that it runs on, and how long each read may take.

    `abort` may be called from any thread. The lock is held around every change of `sock` and its shutdown, so that a
    number that the system has given to another file is never shut down. After `begun` reads have the stall limit.
    """

    connect_s: float
    first_s: float
    stall_s: float
    sock: socket.socket | None = None
    aborted: bool = False
    first_deadline: float = 0.0
    begun: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hold(self, sock: socket.socket | None) -> None:
        """Take the socket that is waited on from now; raises WireFault when the abort came first."""
        with self.lock:
            self.sock = sock
            if self.aborted and sock is not None:
                self.sock = None
                raise aborted()

    def abort(self) -> None:
        with self.lock:
            self.aborted = True
            if self.sock is not None:
                # Not SSLSocket.shutdown: it takes the TLS state away under the reader. OSError: not connected any more.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def read_timeout_s(self) -> float:
        """For the next read; raises WireFault when the first token is overdue."""
        if self.begun:
            return self.stall_s
        left = self.first_deadline - time.monotonic()
        if left <= 0:
            raise self.overdue()
        return left

    def overdue(self) -> WireFault:
        if self.begun:
            return WireFault("stall", f"the reply stopped: no bytes for {self.stall_s:g} s", phase="stream")
        return WireFault("timeout", f"no reply began within {self.first_s:g} s", phase="first_token")

    def failed(self, error: OSError, where: str) -> WireFault:
        """What an error of the socket means, the abort first: it shows as an error too."""
        if self.aborted:
            return aborted()
        if isinstance(error, TimeoutError):
            return self.overdue()
        phase: Any = "stream" if self.begun else "first_token"
        if isinstance(error, ssl.SSLError):
            return WireFault("tls", f"{where}: the TLS connection broke: {_reason(error)}", phase=phase)
        return WireFault("connection", f"{where}: the connection broke: {_reason(error)}", phase=phase)


def aborted() -> WireFault:
    return WireFault("aborted", "the call was aborted", phase="stream")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where to: scheme http or https. `proxy` is the URL of an HTTP proxy, or ""."""

    scheme: str
    host: str
    port: int
    proxy: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" + (f" by the proxy {urlsplit(self.proxy).hostname}" if self.proxy else "")

    @property
    def is_tunnel(self) -> bool:
        return bool(self.proxy) and self.scheme == "https"


def dial(origin: Origin, exchange: Exchange) -> socket.socket:
    """A connected socket, with TLS where the scheme says so. Raises WireFault of phase connect."""
    deadline = time.monotonic() + exchange.connect_s
    proxy = urlsplit(origin.proxy) if origin.proxy else None
    if proxy and proxy.scheme not in ("http", ""):
        raise WireFault(
            "connection", f"{proxy.scheme} proxies are not supported; set an http:// proxy", phase="connect"
        )
    host, port = (proxy.hostname or "", proxy.port or 80) if proxy else (origin.host, origin.port)
    sock: socket.socket | None = None
    try:
        sock = _connect(host, port, exchange, deadline, str(origin))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if origin.is_tunnel:
            _tunnel(sock, origin, deadline)
        if origin.scheme == "https":
            sock = _with_tls(sock, origin.host, exchange, deadline)
        return sock
    except (OSError, WireFault) as error:
        exchange.hold(None)
        if sock is not None:
            sock.close()
        if exchange.aborted:
            raise aborted() from None
        if isinstance(error, WireFault):
            raise
        raise _connect_fault(error, origin, exchange.connect_s) from error


def _connect_fault(error: OSError, origin: Origin, connect_s: float) -> WireFault:
    if isinstance(error, TimeoutError):
        return WireFault("timeout", f"no connection to {origin} within {connect_s:g} s", phase="connect")
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of {origin} is not trusted ({error.verify_message}); set SSL_CERT_FILE for your own CA"
        return WireFault("tls", text, phase="connect")
    if isinstance(error, ssl.SSLError):
        return WireFault("tls", f"no TLS connection to {origin}: {_reason(error)}", phase="connect")
    if isinstance(error, socket.gaierror):
        return WireFault("connection", f"the host {origin.host} is not known: {_reason(error)}", phase="connect")
    return WireFault("connection", f"no connection to {origin}: {_reason(error)}", phase="connect")


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _connect(host: str, port: int, exchange: Exchange, deadline: float, name: str) -> socket.socket:
    problem: OSError = OSError(f"the look-up of {name} gave no address")
    for family, kind, protocol, _, address in _look_up(host, port, exchange, deadline):
        sock = socket.socket(family, kind, protocol)
        try:
            exchange.hold(sock)
            _connect_one(sock, address, exchange, deadline)
            return sock
        except OSError as error:
            exchange.hold(None)
            sock.close()
            problem = error
            if exchange.aborted or isinstance(error, TimeoutError):
                break
        except WireFault:
            sock.close()
            raise
    raise problem


def _connect_one(sock: socket.socket, address: Any, exchange: Exchange, deadline: float) -> None:
    sock.setblocking(False)
    try:
        sock.connect(address)
    except BlockingIOError:
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_WRITE)
            while not selector.select(_TICK_S):
                if exchange.aborted:
                    raise ConnectionAbortedError from None
                if time.monotonic() > deadline:
                    raise TimeoutError from None
        if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(number, os.strerror(number)) from None
        if exchange.aborted:
            raise ConnectionAbortedError from None
    sock.settimeout(_left(deadline))


def _look_up(host: str, port: int, exchange: Exchange, deadline: float) -> list[Any]:
    """Addresses of a host. A name is looked up in a thread of its own: a resolver cannot be interrupted."""
    if host == "localhost" or _is_address(host):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found: list[Any] = []
    done = threading.Event()

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.append(error)
        done.set()

    threading.Thread(target=look_up, name="hermes-look-up", daemon=True).start()
    while not done.wait(_TICK_S):
        if exchange.aborted:
            raise aborted()
        if time.monotonic() > deadline:
            raise TimeoutError
    if isinstance(found[0], UnicodeError):
        raise socket.gaierror(f"{host!r} is no host name")
    if isinstance(found[0], OSError):
        raise found[0]
    return list(found[0])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _with_tls(sock: socket.socket, host: str, exchange: Exchange, deadline: float) -> ssl.SSLSocket:
    secure = tls_context().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        exchange.hold(secure)  # the plain socket object has just lost its number
        secure.settimeout(_left(deadline))
        secure.do_handshake()
    except (OSError, WireFault):
        exchange.hold(None)
        secure.close()
        raise
    return secure


@cache
def tls_context() -> ssl.SSLContext:
    """One for the process: loading the certificates costs 20 ms. SSL_CERT_FILE and SSL_CERT_DIR are respected.

    Raises WireFault when the file that they name cannot be read.
    """
    import httpcore2

    try:
        context: ssl.SSLContext = httpcore2.default_ssl_context()
    except OSError as error:
        named = {name: os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)}
        text = f"the certificates of trusted authorities cannot be loaded: {_reason(error)} {named or ''}".rstrip()
        raise WireFault("tls", text, phase="connect") from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def proxy_headers(origin: Origin) -> Mapping[str, str]:
    """What a proxy wants to see: the user and password of its URL."""
    proxy = urlsplit(origin.proxy)
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}


def _tunnel(sock: socket.socket, origin: Origin, deadline: float) -> None:
    target = f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{k}: {v}" for k, v in proxy_headers(origin).items())]
    sock.settimeout(_left(deadline))
    sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < 65536:
        sock.settimeout(_left(deadline))
        piece = sock.recv(1)  # byte by byte: what follows the blank line belongs to TLS
        if not piece:
            break
        answer += piece
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    if not status.startswith("HTTP/1.") or status[9:12] != "200":
        raise WireFault(
            "connection", f"the proxy refused a tunnel to {target}: {status or 'no answer'}", phase="connect"
        )
