"""Errors that come in place of a reply, or in the middle of one, with status 200."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes.kernel.messages import Json, clean
from hermes.kernel.providers import WireFault


def raise_error(data: Mapping[str, Json]) -> None:
    """An error inside a reply, also with status 200 (B056)."""
    error = data.get("error")
    if not error and data.get("object") == "error":
        error = data
    if not error:
        return
    inner = error if isinstance(error, Mapping) else {"message": str(error)}
    code = inner.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    raise WireFault(
        "http",
        clean(str(inner.get("message") or "the provider reported an error inside the reply")),
        status=status,
        code=str(code if isinstance(code, str) and code else inner.get("type") or ""),
        body=json.dumps({"error": inner}),
        phase="stream",
    )


def no_reply(completion: Json) -> WireFault:
    text = json.dumps(completion)
    if isinstance(completion, Mapping) and completion.get("object") == "error":
        return WireFault("http", str(completion.get("message")), body=text, phase="stream")
    return WireFault("invalid", f"the reply has no choices: {text[:200]}", body=text[:4000], phase="stream")
