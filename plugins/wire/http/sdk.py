"""What the SDKs that send by httpx2 have in common: clients kept by endpoint, headers of a request, a refusal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import httpx2

from hermes.kernel.providers import WireFault

from .connection import connections
from .transport import Transport

ClientT = TypeVar("ClientT")


class StatusError(Protocol):
    """What an SDK raises for a status of 400 or more."""

    response: httpx2.Response


class Clients(Generic[ClientT]):
    """SDK clients, one for each endpoint of the process. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[Hashable, ClientT] = {}

    def get(self, key: Hashable, make: Callable[[], ClientT]) -> ClientT:
        client = self._clients.get(key)
        if client is None:
            with self._lock:
                client = self._clients.get(key) or self._clients.setdefault(key, make())
        return client

    def close(self) -> None:
        """Close the idle connections and forget the clients."""
        with self._lock:
            self._clients.clear()
        connections.close()


def http_client() -> httpx2.Client:
    """What an SDK sends by: our connections, without the environment's proxies and without a timeout of its own."""
    return httpx2.Client(transport=Transport(), trust_env=False, timeout=None)


def request_headers(body: Sequence[bytes], *, is_stream: bool) -> dict[str, str]:
    """The headers of one request, over those of its client."""
    headers = {"Content-Length": str(sum(map(len, body))), "Content-Type": "application/json"}
    if is_stream:
        headers["Accept"] = "text/event-stream"
    return headers


def stainless(names: Iterable[str]) -> list[str]:
    """The headers in which an SDK tells of the machine and of itself."""
    return [f"X-Stainless-{name}" for name in names]


def header_safe(key: str) -> str:
    """A key that was pasted with a stray blank or a character that no header may hold."""
    return "".join(c for c in key if "!" <= c <= "~")


def refused(error: StatusError, name: str) -> WireFault:
    """The fault of a status; `name` is the target's."""
    response = error.response
    message = f"POST {response.request.url}" if response.status_code in (404, 405) else ""
    return WireFault(
        "http",
        message or response.reason_phrase or name,
        status=response.status_code,
        headers=dict(response.headers),
        body=response.text,
        phase="first_token",
    )
