"""Post ready bytes by the openai SDK: one client for each endpoint of the process. Imported only by a call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import httpx2
import openai

from hermes.kernel.providers import Target, WireFault
from hermes.plugins.wire.http.connection import connections, current
from hermes.plugins.wire.http.dialling import Exchange
from hermes.plugins.wire.http.transport import Transport

_MACHINE_HEADERS = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")

_lock = threading.Lock()
_clients: dict[tuple[str, str, tuple[tuple[str, str], ...]], openai.OpenAI] = {}


def post(path: str, body: Sequence[bytes], target: Target, exchange: Exchange, *, is_stream: bool) -> httpx2.Response:
    """Send the body as it is, to a path such as `/responses`; the reply's head has come, its bytes have not.

    Raises WireFault.
    """
    length = str(sum(map(len, body)))
    headers: dict[str, str | openai.Omit] = {"Content-Length": length, "Content-Type": "application/json"}
    if is_stream:
        headers["Accept"] = "text/event-stream"
    if not target.api_key and not any(name.lower() == "authorization" for name in target.headers):
        headers["Authorization"] = openai.Omit()  # the SDK takes this only from the single request
    current.exchange = exchange
    try:
        stream = _client(target).post(
            path,
            content=list(body),
            cast_to=object,
            options={"headers": headers},
            stream=True,
            stream_cls=openai.Stream[object],
        )
        return stream.response
    except openai.APIStatusError as error:
        raise _refused(error, target) from None
    except openai.OpenAIError as error:
        raise WireFault("connection", f"{target.name}: {error}", phase="send") from error
    finally:
        current.exchange = None


def _refused(error: openai.APIStatusError, target: Target) -> WireFault:
    response = error.response
    message = f"POST {response.request.url}" if response.status_code in (404, 405) else ""
    return WireFault(
        "http",
        message or response.reason_phrase or target.name,
        status=response.status_code,
        headers=dict(response.headers),
        body=response.text,
        phase="first_token",
    )


def _client(target: Target) -> openai.OpenAI:
    key = (target.base_url, target.api_key, tuple(sorted(target.headers.items())))
    client = _clients.get(key)
    if client is None:
        with _lock:
            client = _clients.get(key) or _clients.setdefault(key, _new_client(target))
    return client


def _new_client(target: Target) -> openai.OpenAI:
    return openai.OpenAI(
        api_key=_header_safe(target.api_key) or "none",
        base_url=target.base_url,
        max_retries=0,
        default_headers=cast("dict[str, str]", _headers(target)),
        http_client=httpx2.Client(transport=Transport(), trust_env=False, timeout=None),
    )


def _headers(target: Target) -> dict[str, str | openai.Omit]:
    """The user's headers over the SDK's, without those that tell of the machine.

    OPENAI_ORG_ID and OPENAI_PROJECT_ID are OpenAI's business: the SDK would send them to every host.
    """
    left_out = [f"X-Stainless-{name}" for name in _MACHINE_HEADERS]
    if httpx2.URL(target.base_url).host != "api.openai.com":
        left_out += ["OpenAI-Organization", "OpenAI-Project"]
    given = {name.lower() for name in target.headers}
    omitted = {name: openai.Omit() for name in left_out if name.lower() not in given}
    return {"Accept-Encoding": "identity", **omitted, **target.headers}


def _header_safe(key: str) -> str:
    """A key that was pasted with a stray blank or a character that no header may hold."""
    return "".join(c for c in key if "!" <= c <= "~")


def close() -> None:
    """Close the idle connections and forget the clients."""
    with _lock:
        _clients.clear()
    connections.close()
