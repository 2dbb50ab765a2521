"""What the tests of the Responses API share: targets, callers, a server of raw bytes, and replies read from events."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes.kernel.messages import Message, ModelReply
from hermes.kernel.providers import Delta, ModelRow, Profile, Target
from hermes.plugins.wire.codex_responses import CodexResponses
from hermes.plugins.wire.codex_responses.decoding import Assembler


def make_target(
    base_url: str = "http://127.0.0.1:9/v1", model: str = "scripted-model", row: ModelRow | None = None, **quirks: Any
) -> Target:
    profile = Profile("test", base_url, quirks=quirks)
    return Target(f"test:{model}", profile, model, base_url, "codex_responses", "key-1", row=row)


@pytest.fixture
def target() -> Target:
    return make_target()


@pytest.fixture
def new_target() -> Callable[..., Target]:
    return make_target


@pytest.fixture
def new_caller(new_caller: Any) -> Callable[[Target], Any]:
    return lambda target: new_caller(target, CodexResponses())


@pytest.fixture
def caller(scripted: Any, new_caller: Any) -> Any:
    """Calls the `scripted` server."""
    return new_caller(make_target(scripted.base_url))


class Decoded:
    """A reply and what was shown of it."""

    def __init__(self, reply: ModelReply, deltas: list[Delta]) -> None:
        self.reply, self.deltas = reply, deltas

    def shown(self, kind: str = "text") -> str:
        return "".join(delta.text for delta in self.deltas if delta.kind == kind)


@pytest.fixture
def decode(target: Target) -> Callable[..., Decoded]:
    """Feeds events (or one `whole` response) to an assembler, as a stream does, `[DONE]` included."""

    def run(*events: Any, target: Target = target, whole: Any = None) -> Decoded:
        assembler = Assembler(target)
        deltas = list(assembler.whole(whole)) if whole is not None else []
        for event in events:
            if event == "[DONE]":
                assembler.is_done = True
            else:
                deltas.extend(assembler.feed(event))
        deltas.extend(assembler.rest())
        return Decoded(assembler.reply(), deltas)

    return run


@pytest.fixture
def items() -> Callable[..., list[Any]]:
    """The input items that messages come to for a target."""

    def run(target: Target, *messages: Message) -> list[Any]:
        found = [CodexResponses().encode(message, target) for message in messages]
        return [item for data in found for item in json.loads(b"[" + data + b"]")]

    return run


@pytest.fixture
def raw_server() -> Iterator[Callable[[bytes], str]]:
    """Starts a loopback server that answers every request with these bytes and closes; gives its base URL."""
    with contextlib.ExitStack() as stack:

        def start(answer: bytes) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=_answer, args=(listener, answer), daemon=True)
            thread.start()
            stack.callback(thread.join, 10)
            stack.callback(_shut, listener)
            return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

        yield start


def _answer(listener: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1 << 20)
                sock.sendall(answer)


def _shut(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
