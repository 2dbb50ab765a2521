"""Post ready bytes by botocore: it finds the credentials and the endpoint and signs. Imported only by a call.

The request leaves the SDK at its `before-call` event, where a handler may answer in place of the network: there the
request is signed by the SDK's signer over our bytes, and sent by our own connection, which can be aborted.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore
import botocore.exceptions as refusals
from botocore.awsrequest import AWSRequest, create_request_object
from botocore.config import Config
from botocore.session import Session

from hermes.kernel.errors import ProviderError
from hermes.kernel.providers import Target
from hermes.plugins.wire.http.connection import Reply, connections
from hermes.plugins.wire.http.dialling import Exchange

from .refused import refused

_SERVICE = "bedrock-runtime"
_REGION = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z]{2,}-[a-z0-9-]+)\.")
_CREDENTIALS = (
    "sign in with AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a Bedrock API key in "
    "AWS_BEARER_TOKEN_BEDROCK"
)
_NOT_SIGNED_IN = (
    refusals.NoCredentialsError,
    refusals.PartialCredentialsError,
    refusals.CredentialRetrievalError,
    refusals.ProfileNotFound,
    refusals.NoAuthTokenError,
    refusals.TokenRetrievalError,
    refusals.SSOError,
    refusals.LoginError,
    refusals.ClientError,  # of the service that gives out temporary credentials
)

_lock = threading.Lock()
_clients: dict[tuple[str, bool], Any] = {}
_running = threading.local()
"""`_running.call`: the call that this thread makes; the SDK has no way to pass it to a handler."""


@dataclass(frozen=True, slots=True)
class _Call:
    body: Sequence[bytes]
    target: Target
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class _Answered:
    """Stands for the response in the SDK, which looks only whether it is an error: that is read by us."""

    status_code: int = 200


def post(body: Sequence[bytes], target: Target, exchange: Exchange, *, is_stream: bool) -> Reply:
    """Send the body as it is; the reply's head has come, its bytes have not. Raises WireFault and ProviderError."""
    _running.call = _Call(body, target, exchange)
    try:
        client = _client(target)
        operation = client.converse_stream if is_stream else client.converse
        reply: Reply = operation(modelId=target.model)["reply"]
    except _NOT_SIGNED_IN as error:
        _clients.pop(_kept_as(target), None)  # so that it looks again when the user has signed in
        raise ProviderError(f"{target.name}: {error}: {_CREDENTIALS}", kind="auth") from error
    except refusals.NoRegionError as error:
        text = f"{target.name}: no region: set AWS_REGION, or a base_url such as"
        text += " https://bedrock-runtime.us-east-1.amazonaws.com"
        raise ProviderError(text, kind="bad_request") from error
    except refusals.BotoCoreError as error:
        raise ProviderError(f"{target.name}: {error}", kind="bad_request") from error
    finally:
        _running.call = None
    if reply.status >= 300:
        raise refused(reply, target)
    return reply


def _send(params: dict[str, Any], model: Any, request_signer: Any, **_: Any) -> tuple[_Answered, dict[str, Reply]]:
    """Answer in place of the network: sign what the SDK prepared over our bytes, send it, give the open reply back."""
    call: _Call = _running.call
    params["body"] = b""
    request = create_request_object(params)
    _set_headers(request, call)
    if not _has_key(call.target):
        request_signer.sign(model.name, request)
    prepared = request.prepare()
    headers = [(name.encode("latin-1"), _encoded(value)) for name, value in prepared.headers.items()]
    reply = connections.request("POST", prepared.url, headers, call.body, call.exchange)
    return _Answered(), {"reply": reply}


def _set_headers(request: AWSRequest, call: _Call) -> None:
    """The digest is what the signer signs in place of a body, so that the pieces are never joined."""
    digest, size_bytes = sha256(), 0
    for piece in call.body:
        digest.update(piece)
        size_bytes += len(piece)
    headers = {
        "Host": urlsplit(str(request.url)).netloc.rpartition("@")[2],
        "Content-Type": "application/json",
        "Content-Length": str(size_bytes),
        "X-Amz-Content-SHA256": digest.hexdigest(),
    }
    if call.target.api_key:
        headers["Authorization"] = f"Bearer {call.target.api_key.strip()}"
    for name, value in (*headers.items(), *call.target.headers.items()):
        del request.headers[name]  # setting alone would send it twice
        request.headers[name] = value


def _encoded(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")


# ---- Clients --------------------------------------------------------------------------------------------------------


def _has_key(target: Target) -> bool:
    """Whether a Bedrock key, or a header of the user's, stands in place of credentials and a signature."""
    return bool(target.api_key) or any(name.lower() == "authorization" for name in target.headers)


def _kept_as(target: Target) -> tuple[str, bool]:
    """A client holds no key, so that one serves all keys of an address."""
    return target.base_url, _has_key(target)


def _client(target: Target) -> Any:
    key = _kept_as(target)
    client = _clients.get(key)
    if client is None:
        with _lock:
            client = _clients.get(key) or _clients.setdefault(key, _new_client(target))
    return client


def _new_client(target: Target) -> Any:
    """With a key a client never looks for credentials, else by the SDK's own chain."""
    session = Session()
    session.register_component("data_loader", _data_loader())
    if not _may_be_on_ec2():
        # Elsewhere nobody answers at the address of the metadata service, and each look takes seconds.
        session.get_component("credential_provider").remove("iam-role")
    config = Config(
        retries={"total_max_attempts": 1}, signature_version=botocore.UNSIGNED if _has_key(target) else None
    )
    try:
        client = session.create_client(
            _SERVICE, region_name=_region(target), endpoint_url=target.base_url or None, config=config
        )
    except ValueError as error:  # "Invalid endpoint"
        raise ProviderError(f"{target.name}: {error}", kind="bad_request") from error
    client.meta.events.register_last(f"before-call.{_SERVICE}", _send)
    return client


@cache
def _data_loader() -> Any:
    """One for the process: reading what describes the service takes 0.1 s, nine tenths of making a client."""
    return Session().get_component("data_loader")


def _region(target: Target) -> str | None:
    """Of the host, else of AWS_REGION; None leaves it to the SDK (AWS_DEFAULT_REGION, the profile).

    With an address and a key nothing depends on it, but the SDK wants one.
    """
    if found := _REGION.search((urlsplit(target.base_url).hostname or "").lower()):
        return found[1]
    return os.environ.get("AWS_REGION") or ("us-east-1" if target.base_url and _has_key(target) else None)


def _may_be_on_ec2() -> bool:
    """By the firmware's names (EC2 user guide, "Detect whether a host is an EC2 instance"); only Linux tells."""
    if sys.platform != "linux":
        return True
    for name in ("sys_vendor", "bios_version"):
        try:
            if "amazon" in Path("/sys/class/dmi/id", name).read_text(encoding="latin-1").lower():
                return True
        except OSError:
            continue
    return False


def close() -> None:
    """Close the idle connections and forget the clients."""
    with _lock:
        _clients.clear()
    connections.close()
