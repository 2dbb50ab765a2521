"""A real loopback server that speaks every wire format from a script, records what it was asked, and is strict."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from hermes.testing import script as _script
from hermes.testing.formats import BASE_PATHS, FORMATS, Asked, Format, format_of, issued_by
from hermes.testing.loopback_http import read_request, send_json
from hermes.testing.script import Call, Reply, Script
from hermes.testing.sending import PATIENCE_S, Sender

Json = Any


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. `problems` is what a strict server would refuse; `gone` is set when the client left.

    `messages`, `last`, `system` and `tool_names` read the body as the format has it.
    """

    api_mode: str
    model: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Json
    problems: tuple[str, ...]
    gone: threading.Event

    @property
    def messages(self) -> list[Json]:
        """The messages; the input items of the Responses API."""
        return FORMATS[self.api_mode].messages(self.body)

    @property
    def last(self) -> Json:
        """The last message or item."""
        return self.messages[-1]

    @property
    def system(self) -> str:
        return FORMATS[self.api_mode].system(self.body)

    @property
    def tool_names(self) -> list[str]:
        return FORMATS[self.api_mode].tool_names(self.body)


class ScriptedServer:
    """Answers a request with the next reply of its script, in the format of its path; `GET …/models` gives one model.

    The paths are `…/chat/completions`, `…/responses`, `…/v1/messages`, `/model/{id}/converse` and `…/converse-stream`.
    A request that breaks a rule of the format's validator (`strict_chat` and its like) is answered 400 and kept in
    `problems`, unless `strict` is False; so is one that comes after the end of the script, and one that sends a
    signature or an encrypted item which this server did not give to this model in this format, or with other words.
    Use it as a context manager, or close it. Every method may be called from any thread.
    """

    def __init__(self, script: Script = (), *, strict: bool = True, model: str = "scripted-model") -> None:
        self.model = model
        self.strict = strict
        self.requests: list[Request] = []
        self.problems: list[str] = []
        self.connections = 0
        self._function: Callable[[Request], Reply] | None = None
        self._replies: list[Reply] = []
        self._call_count = 0
        self._issued: dict[tuple[str, str], dict[str, str | None]] = {}
        self._changed = threading.Condition()
        self._releases = threading.Semaphore(0)
        self._closing = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="scripted-server", daemon=True)
        self.play(script)
        self._acceptor.start()

    @property
    def base_url(self) -> str:
        """For chat completions and the Responses API."""
        return self.url_for("chat_completions")

    def url_for(self, api_mode: str) -> str:
        """The base URL as the SDK of this format wants it."""
        return f"http://127.0.0.1:{self.port}{BASE_PATHS[api_mode]}"

    def play(self, script: Script) -> None:
        """Answer by this script from the next request on."""
        with self._changed:
            self._function = script if callable(script) else None
            self._replies = [] if callable(script) else list(script)

    def add(self, *replies: Reply) -> None:
        """More replies at the end of the script."""
        with self._changed:
            self._replies.extend(replies)

    def release(self, count: int = 1) -> None:
        """Let so many replies go on that wait at their `hold_after`."""
        self._releases.release(count)

    def wait_for_requests(self, count: int, timeout_s: float = PATIENCE_S) -> list[Request]:
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
        self._acceptor.join(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)

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
                while (asked := read_request(reader)) is not None and self._answer(sock, *asked):
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
            send_json(sock, 200, {"object": "list", "data": [{"id": self.model, "object": "model"}]}, {})
            return True
        spoken = format_of(path)
        if method != "POST" or spoken is None:
            send_json(sock, 404, {"detail": "Not Found"}, {})
            return True
        request, asked, reply = self._take(spoken, path, headers, raw)
        return Sender(sock, spoken, asked, request.gone, self._closing, self._releases).send(reply)

    def _take(self, spoken: Format, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[Request, Asked, Reply]:
        """Record a request and find what is answered."""
        body, wrong = _read(raw)
        model = spoken.model(path, body) if isinstance(body, dict) else ""
        wrong = wrong or tuple(spoken.problems(body, self._issued.get((spoken.api_mode, model), {})))
        request = Request(spoken.api_mode, model, path, headers, raw, body, wrong, threading.Event())
        with self._changed:
            self.requests.append(request)
            asked = Asked(path.partition("?")[0], body, self.model, len(self.requests))
            self._changed.notify_all()
            refused = self._refusal(asked.number, wrong)
            function = self._function
            reply = refused or (self._replies.pop(0) if function is None else None)
        reply = self._with_ids(reply or function(request), spoken)  # type: ignore[misc]  # one of the two is there
        with self._changed:
            self._issued.setdefault((spoken.api_mode, model), {}).update(issued_by(spoken, reply, asked))
        return request, asked, reply

    def _refusal(self, number: int, wrong: tuple[str, ...]) -> Reply | None:
        if wrong:
            self.problems.extend(f"request {number}: {text}" for text in wrong)
        if wrong and self.strict:
            return _script.fault(400, "; ".join(wrong))
        if self._function is None and not self._replies:
            self.problems.append(f"request {number}: the script was over")
            return _script.fault(400, f"the script was over before request {number}", code="script_over")
        return None

    def _with_ids(self, reply: Reply, spoken: Format) -> Reply:
        return reply.but(order=tuple(self._named(b, spoken) if isinstance(b, Call) else b for b in reply.blocks))

    def _named(self, each: Call, spoken: Format) -> Call:
        with self._changed:
            self._call_count += 1
            number = self._call_count
        return each if each.id is not None else replace(each, id=spoken.call_id(number))


def _read(raw: bytes) -> tuple[Json, tuple[str, ...]]:
    """The body as a value, and what is wrong with it."""
    try:
        return json.loads(raw), ()
    except ValueError as error:
        return None, (f"the body is not JSON: {error}",)


def scripted_settings(server: ScriptedServer, api_mode: str = "chat_completions", **more: Json) -> dict[str, Json]:
    """Settings (the content of a hermes.yaml) that make a run talk to the server as `scripted:any` in this format."""
    provider = {"base_url": server.url_for(api_mode), "api_key": "scripted-key", "api_mode": api_mode}
    return {"model": "scripted:any", "providers": {"scripted": provider}, **more}
