"""The AWS event stream: binary messages of headers and a payload, each with two checksums."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

_STRING = 7
"""The type of a header whose value is a text (application/vnd.amazon.eventstream)."""


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Total length, length of the headers, checksum of both, headers, payload, checksum of all before it."""
    packed = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack("!II", 16 + len(packed) + len(payload), len(packed))
    begin = prelude + struct.pack("!I", zlib.crc32(prelude)) + packed + payload
    return begin + struct.pack("!I", zlib.crc32(begin))


def event(kind: str, payload: bytes) -> bytes:
    return message({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def exception(kind: str, payload: bytes) -> bytes:
    named = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return message(named, payload)


def _header(name: str, value: str) -> bytes:
    key, text = name.encode("utf-8"), value.encode("utf-8")
    return struct.pack("!B", len(key)) + key + struct.pack("!BH", _STRING, len(text)) + text
