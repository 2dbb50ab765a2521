"""Post ready bytes by the anthropic SDK: one client for each endpoint of the process. Imported only by a call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import cast
from urllib.parse import urlsplit

import anthropic
import httpx2

from hermes.kernel.providers import Target, WireFault
from hermes.plugins.wire.http.connection import current
from hermes.plugins.wire.http.dialling import Exchange
from hermes.plugins.wire.http.sdk import Clients, header_safe, http_client, refused, request_headers, stainless

_VERSION = "2023-06-01"
"""The version that every server of this format knows. The next one (2026-10-21, which the SDK would send) differs, in
what is sent here, only by refusing the temperature of models that take one (page on versions, November 2026)."""
_TOLD = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async", "Timeout", "Retry-Count")
"""What the SDK would tell of the machine and of itself, in headers that begin with X-Stainless-."""
_BETA = "anthropic-beta"

_clients: Clients[anthropic.Anthropic] = Clients()
close = _clients.close


def post(
    path: str, body: Sequence[bytes], target: Target, exchange: Exchange, *, betas: Sequence[str], is_stream: bool
) -> httpx2.Response:
    """Send the body as it is, to a path such as `/v1/messages`; the reply's head has come, its bytes have not.

    Raises WireFault.
    """
    headers = request_headers(body, is_stream=is_stream)
    if betas:
        stated = [value for name, value in target.headers.items() if name.lower() == _BETA]
        headers[_BETA] = ",".join([*stated, *betas])
    current.exchange = exchange
    try:
        stream = _client(target).post(
            path,
            content=list(body),
            cast_to=object,
            options={"headers": headers},
            stream=True,
            stream_cls=anthropic.Stream[object],
        )
        return stream.response
    except anthropic.APIStatusError as error:
        raise refused(error, target.name) from None
    except anthropic.AnthropicError as error:
        if isinstance(error.__cause__, WireFault):  # the SDK wraps what the transport raises
            raise error.__cause__ from None
        raise WireFault("connection", f"{target.name}: {error}", phase="send") from error
    finally:
        current.exchange = None


def _client(target: Target) -> anthropic.Anthropic:
    key = (target.base_url, target.api_key, _is_bearer(target), tuple(sorted(target.headers.items())))
    return _clients.get(key, lambda: _new_client(target))


def _new_client(target: Target) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="none",  # with any, the SDK looks for no other credential in the environment or on disk
        base_url=target.base_url.rstrip("/").removesuffix("/v1"),
        max_retries=0,
        default_headers=cast("dict[str, str]", _headers(target)),
        open_telemetry=False,
        http_client=http_client(),
    )


def _headers(target: Target) -> dict[str, str | anthropic.Omit]:
    """The user's headers over ours and the SDK's, without those that tell of the machine or of another host."""
    key = header_safe(target.api_key)
    bearer = _is_bearer(target) and bool(key)
    headers: dict[str, str | anthropic.Omit] = {
        "Accept-Encoding": "identity",
        "anthropic-version": _VERSION,
        "Authorization": f"Bearer {key}" if bearer else anthropic.Omit(),
    }
    if key and not bearer:
        headers["X-Api-Key"] = key
    left_out = [*stainless(_TOLD), *_headers_of_environment(target)]
    taken = {name.lower() for name in (*headers, *target.headers)}
    headers.update((name, anthropic.Omit()) for name in left_out if name.lower() not in taken)
    return {**headers, **target.headers}


def _headers_of_environment(target: Target) -> Iterator[str]:
    """Names in ANTHROPIC_CUSTOM_HEADERS, which is Anthropic's business: the SDK would send them to every host."""
    if urlsplit(target.base_url).hostname != "api.anthropic.com":
        for line in os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n"):
            yield line.partition(":")[0].strip()


def _is_bearer(target: Target) -> bool:
    return bool(target.quirk("auth") == "bearer")
