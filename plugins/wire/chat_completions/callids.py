"""Ids of tool calls for servers that want a form of their own."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping

from hermes.kernel.providers import Target

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def call_id(own: str, target: Target) -> str:
    """The id as this target takes it, the same for a call and its result, and in every process.

    With the quirk `call_id`, {"length": n}, so many letters and digits ("must be a-z, A-Z, 0-9, with a length of 9":
    Mistral): an id that is so already stays, another is hashed, so that two never become one.
    """
    wanted = target.quirk("call_id")
    if not isinstance(wanted, Mapping):
        return own
    length = int(wanted["length"])
    if len(own) == length and own.isascii() and own.isalnum():
        return own
    number = int.from_bytes(hashlib.sha256(own.encode("utf-8", "replace")).digest(), "big")
    return "".join(_DIGITS[number // 62**place % 62] for place in range(length))
