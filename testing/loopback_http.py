"""Just enough of HTTP/1.1 for a server on loopback: read a request, write a head or a whole answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

Json = Any


def read_request(reader: Any) -> tuple[str, str, dict[str, str], bytes] | None:
    """Method, path, headers (names in lower case), body; None when the client closed."""
    line = reader.readline(65536)
    if not line.strip():
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (row := reader.readline(65536).decode("latin-1").strip()) != "":
        name, _, value = row.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return method, path, headers, _read_chunks(reader)
    length = int(headers.get("content-length", 0))
    raw = reader.read(length)
    return None if len(raw) < length else (method, path, headers, raw)


def _read_chunks(reader: Any) -> bytes:
    pieces = []
    while (size := int(reader.readline(65536).split(b";")[0], 16)) > 0:
        pieces.append(reader.read(size))
        reader.readline(8)
    reader.readline(8)
    return b"".join(pieces)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def send_json(sock: socket.socket, status: int, body: Json, headers: Mapping[str, str]) -> None:
    is_text = isinstance(body, str)
    data = body.encode("utf-8", "replace") if is_text else json.dumps(body).encode("utf-8")
    kind = "text/plain; charset=utf-8" if is_text else "application/json"
    sock.sendall(head(status, {"Content-Type": kind, **headers, "Content-Length": str(len(data))}) + data)
