"""What the service said when it refused a request, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.kernel.messages import Json, clean
from hermes.kernel.providers import Target, WireFault
from hermes.plugins.wire.http.connection import Reply

_STREAM_RIGHT = "InvokeModelWithResponseStream"
_STREAM_HINT = "; grant bedrock:InvokeModelWithResponseStream, or set display.stream: false"


def refused(reply: Reply, target: Target) -> WireFault:
    """The fault of a reply with an error's status; its body is read to the end. `code` is the name of the exception."""
    try:
        data = b"".join(reply.body)
    finally:
        reply.body.close()
    headers = {name.lower(): value for name, value in reply.headers}
    body = data.decode("utf-8", "replace")
    said = _object(data)
    code = headers.get("x-amzn-errortype") or str(said.get("__type") or "")
    code = code.partition(":")[0].rpartition("#")[2]  # `Name:http://…` in the header, `namespace#Name` in the body
    message = clean(str(said.get("message") or said.get("Message") or ""))
    if reply.status == 403 and _STREAM_RIGHT in message:
        message, body = message + _STREAM_HINT, ""
    message = message or code or f"{target.name} answered with status {reply.status}"
    return WireFault("http", message, status=reply.status, code=code, headers=headers, body=body, phase="first_token")


def _object(data: bytes) -> Mapping[str, Json]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
