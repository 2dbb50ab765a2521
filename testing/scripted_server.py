"""A real loopback server that speaks chat completions from a script, records what it was asked, and is strict."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from hermes.testing import script as _script
from hermes.testing import strict_chat
from hermes.testing.script import Reply, Script

Json = Any
_PATIENCE_S = 30.0
"""How long any wait of this file takes at most: a test that hangs should fail, not stop the suite."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. `problems` is what a strict server would refuse; `gone` is set when the client left."""

    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Json
    problems: tuple[str, ...]
    gone: threading.Event

    @property
    def messages(self) -> list[Json]:
        return list(self.body["messages"])

    @property
    def last(self) -> Json:
        """The last message."""
        return self.body["messages"][-1]

    @property
    def system(self) -> str:
        first = self.body["messages"][0]
        return str(first["content"]) if first["role"] == "system" else ""

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]


class ScriptedServer:
    """Answers `POST …/chat/completions` with the next reply of its script, and `GET …/models` with one model.

    One that breaks a rule of `strict_chat` is answered 400 and kept in `problems`, unless `strict` is False; so is
    one that comes after the end of the script. Use it as a context manager, or close it. Every method may be called
    from any thread.
    """

    def __init__(self, script: Script = (), *, strict: bool = True, model: str = "scripted-model") -> None:
        self.model = model
        self.strict = strict
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self.connections = 0
        self._function = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._call_count = 0
        self._changed = threading.Condition()
        self._releases = threading.Semaphore(0)
        self._closing = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self._acceptor.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def add(self, *replies: Reply) -> None:
        """More replies at the end of the script."""
        with self._changed:
            self._replies.extend(replies)

    def release(self, count: int = 1) -> None:
        """Let so many replies go on that wait at their `hold_after`."""
        self._releases.release(count)

    def wait_for_requests(self, count: int, timeout_s: float = _PATIENCE_S) -> list[Request]:
        """Block until so many requests have come; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came within {timeout_s:g} s")
            return self.requests[:count]

    def close(self) -> None:
        """Stop listening, end every connection and join every thread."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            open_sockets = list(self._sockets)
            self._releases.release(len(self._threads) + 1)
        for sock in open_sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(_PATIENCE_S)
        for thread in self._threads:
            thread.join(_PATIENCE_S)

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- Connections ------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._closing.is_set():
                    sock.close()
                    return
                self._sockets.add(sock)
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(sock,), name="scripted-connection", daemon=True)
                self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with sock.makefile("rb") as reader:
                while (asked := _read_request(reader)) is not None and self._answer(sock, *asked):
                    pass
        except (OSError, ValueError):
            pass  # the client left in the middle
        finally:
            with self._changed:
                self._sockets.discard(sock)
            sock.close()

    def _answer(self, sock: socket.socket, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> bool:
        """Answer one request; False when the connection is to be closed."""
        if method == "GET" and path.endswith("/models"):
            _send_json(sock, 200, {"object": "list", "data": [{"id": self.model, "object": "model"}]}, {})
            return True
        if method != "POST" or not path.endswith("/chat/completions"):
            _send_json(sock, 404, {"detail": "Not Found"}, {})
            return True
        request, reply = self._take(path, headers, raw)
        return _Sender(sock, request, reply, self.model, self._closing, self._releases).send()

    def _take(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[Request, Reply]:
        try:
            body = json.loads(raw)
            wrong = tuple(strict_chat.problems(body))
        except ValueError as error:
            body, wrong = None, (f"the body is not JSON: {error}",)
        request = Request(path, headers, raw, body, wrong, threading.Event())
        with self._changed:
            self.requests.append(request)
            number = len(self.requests)
            self._changed.notify_all()
            if wrong:
                self.problems.extend(f"request {number}: {text}" for text in wrong)
            if wrong and self.strict:
                return request, _script.fault(400, "; ".join(wrong), code="invalid_request_error")
            if self._function is None and not self._replies:
                self.problems.append(f"request {number}: the script was over")
                return request, _script.fault(400, f"the script was over before request {number}", code="script_over")
            reply = self._replies.pop(0) if self._function is None else None
        reply = reply or self._function(request)  # type: ignore[misc]  # one of the two is there
        return request, self._with_ids(reply)

    def _with_ids(self, reply: Reply) -> Reply:
        named = []
        for each in reply.calls:
            with self._changed:
                self._call_count += 1
                number = self._call_count
            named.append(each if each.id is not None else replace(each, id=f"call_{number}"))
        return reply.but(calls=tuple(named))


class _Sender:
    """Sends one reply, with all that can go wrong on the way."""

    def __init__(
        self, sock: socket.socket, request: Request, reply: Reply, model: str, closing: threading.Event,
        releases: threading.Semaphore,
    ) -> None:  # fmt: skip
        self._sock, self._request, self._reply, self._model = sock, request, reply, model
        self._closing, self._releases = closing, releases

    def send(self) -> bool:
        reply = self._reply
        is_stream = isinstance(self._request.body, dict) and bool(self._request.body.get("stream"))
        try:
            if not self._go_on(0):
                return False
            if reply.status != 200 or reply.body is not None:
                _send_json(self._sock, reply.status, reply.body, reply.headers)
                return True
            if reply.chunks is None and not is_stream:
                _send_json(self._sock, 200, _script.whole(reply, self._model), reply.headers)
                return True
            return self._stream()
        except OSError:
            self._request.gone.set()
            raise

    def _stream(self) -> bool:
        head = {"Content-Type": "text/event-stream", **self._reply.headers, "Transfer-Encoding": "chunked"}
        self._sock.sendall(_head(200, head))
        number = 0
        for number, data in enumerate(self._events()):
            if number and not self._go_on(number):
                return False
            event = b"data: " + data + b"\n\n"
            self._sock.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            if self._reply.piece_delay_s:
                self._closing.wait(self._reply.piece_delay_s)
        if not self._go_on(number + 1):
            return False
        self._sock.sendall(b"0\r\n\r\n")
        return True

    def _events(self) -> Iterator[bytes]:
        reply = self._reply
        if reply.chunks is not None:
            for chunk in reply.chunks:
                yield chunk.encode("utf-8") if isinstance(chunk, str) else json.dumps(chunk).encode("utf-8")
            return
        with_usage = bool((self._request.body.get("stream_options") or {}).get("include_usage"))
        for chunk in _script.streamed(reply, self._model, with_usage):
            yield json.dumps(chunk).encode("utf-8")
        yield b"[DONE]"

    def _go_on(self, number: int) -> bool:
        """What happens before event `number`: hold, stall, cut. False ends the connection."""
        if self._reply.hold_after == number:
            self._hold()
        if self._reply.stall_after == number:
            self._wait_until_gone()
            return False
        return self._reply.cut_after != number

    def _hold(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._releases.acquire(timeout=0.02):
            if self._closing.is_set() or time.monotonic() > deadline or self._is_gone():
                return

    def _wait_until_gone(self) -> None:
        while not self._closing.wait(0.005) and not self._is_gone():
            pass

    def _is_gone(self) -> bool:
        readable, _, _ = select.select([self._sock], [], [], 0)
        if readable and not self._sock.recv(1, socket.MSG_PEEK):
            self._request.gone.set()
            return True
        return False


# ---- HTTP -----------------------------------------------------------------------------------------------------------


def _read_request(reader: Any) -> tuple[str, str, dict[str, str], bytes] | None:
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


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _send_json(sock: socket.socket, status: int, body: Json, headers: Mapping[str, str]) -> None:
    is_text = isinstance(body, str)
    data = body.encode("utf-8", "replace") if is_text else json.dumps(body).encode("utf-8")
    kind = "text/plain; charset=utf-8" if is_text else "application/json"
    sock.sendall(_head(status, {"Content-Type": kind, **headers, "Content-Length": str(len(data))}) + data)


def scripted_settings(server: ScriptedServer, **more: Json) -> dict[str, Json]:
    """Settings (the content of a hermes.yaml) that make a run talk to the server as `scripted:any`."""
    provider = {"base_url": server.base_url, "api_key": "scripted-key"}
    return {"model": "scripted:any", "providers": {"scripted": provider}, **more}
