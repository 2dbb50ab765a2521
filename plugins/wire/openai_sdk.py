"""Post ready bytes by the openai SDK: one client for each endpoint of the process. Imported only by a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import httpx2
import openai

from hermes.kernel.providers import Target, WireFault
from hermes.plugins.wire.http.connection import current
from hermes.plugins.wire.http.dialling import Exchange
from hermes.plugins.wire.http.sdk import Clients, header_safe, http_client, refused, request_headers, stainless

_MACHINE_HEADERS = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")

_clients: Clients[openai.OpenAI] = Clients()
close = _clients.close


def post(path: str, body: Sequence[bytes], target: Target, exchange: Exchange, *, is_stream: bool) -> httpx2.Response:
    """Send the body as it is, to a path such as `/responses`; the reply's head has come, its bytes have not.

    Raises WireFault.
    """
    headers: dict[str, str | openai.Omit] = {**request_headers(body, is_stream=is_stream)}
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
        raise refused(error, target.name) from None
    except openai.OpenAIError as error:
        raise WireFault("connection", f"{target.name}: {error}", phase="send") from error
    finally:
        current.exchange = None


def _client(target: Target) -> openai.OpenAI:
    key = (target.base_url, target.api_key, tuple(sorted(target.headers.items())))
    return _clients.get(key, lambda: _new_client(target))


def _new_client(target: Target) -> openai.OpenAI:
    return openai.OpenAI(
        api_key=header_safe(target.api_key) or "none",
        base_url=target.base_url,
        max_retries=0,
        default_headers=cast("dict[str, str]", _headers(target)),
        http_client=http_client(),
    )


def _headers(target: Target) -> dict[str, str | openai.Omit]:
    """The user's headers over the SDK's, without those that tell of the machine.

    OPENAI_ORG_ID and OPENAI_PROJECT_ID are OpenAI's business: the SDK would send them to every host.
    """
    left_out = stainless(_MACHINE_HEADERS)
    if httpx2.URL(target.base_url).host != "api.openai.com":
        left_out += ["OpenAI-Organization", "OpenAI-Project"]
    given = {name.lower() for name in target.headers}
    omitted = {name: openai.Omit() for name in left_out if name.lower() not in given}
    return {"Accept-Encoding": "identity", **omitted, **target.headers}
