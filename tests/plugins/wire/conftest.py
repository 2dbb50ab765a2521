"""What tests of wire formats share: targets, one call from front to back, and an independent mock of the OpenAI API."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.messages import Message, ModelReply, Text
from hermes.kernel.providers import Delta, Parameters, Profile, Stream, Target, Timeouts, ToolSchema, WireFormat
from hermes.plugins.wire.chat_completions import ChatCompletions

AIMOCK = "@copilotkit/aimock@1"
SOON = Timeouts(connect_s=5, first_token_s=5, stall_s=5)


def make_target(base_url: str = "http://127.0.0.1:9/v1", model: str = "scripted-model", **quirks: Any) -> Target:
    return Target(
        f"test:{model}", Profile("test", base_url, quirks=quirks), model, base_url, "chat_completions", "key-1"
    )


class Caller:
    """Makes calls as the runtime does, with one wire format for all of them."""

    def __init__(self, target: Target, wire: WireFormat | None = None) -> None:
        self.target = target
        self.wire = wire or ChatCompletions()
        self.deltas: list[Delta] = []

    def body(
        self,
        *messages: Message,
        tools: Sequence[ToolSchema] = (),
        system: str = "You are a test.",
        parameters: Parameters | None = None,
    ) -> Sequence[bytes]:
        said = messages or (Message("user", (Text("hello"),)),)
        prefix = self.wire.prefix(system, tools, self.target)
        fragments = [self.wire.encode(m, self.target) for m in said]
        return self.wire.envelope(prefix, fragments, parameters or Parameters(), self.target)

    def open(self, body: Sequence[bytes] | None = None, timeouts: Timeouts = SOON, *, stream: bool = True) -> Stream:
        parameters = Parameters(stream=stream)
        return self.wire.open(body or self.body(parameters=parameters), parameters, self.target, timeouts)

    def __call__(self, *messages: Message, stream: bool = True, timeouts: Timeouts = SOON, **more: Any) -> ModelReply:
        parameters = more.pop("parameters", None) or Parameters(stream=stream)
        body = self.body(*messages, parameters=parameters, **more)
        running = self.wire.open(body, parameters, self.target, timeouts)
        self.deltas = []
        for delta in running:
            self.deltas.append(delta)
        return running.reply()

    @property
    def shown(self) -> str:
        """The text that was streamed by the last call."""
        return "".join(d.text for d in self.deltas if d.kind == "text")


@pytest.fixture
def target() -> Target:
    return make_target()


@pytest.fixture
def new_target() -> Callable[..., Target]:
    return make_target


@pytest.fixture
def new_caller() -> Iterator[Callable[..., Caller]]:
    yield Caller
    ChatCompletions().close()


@pytest.fixture
def caller(scripted: Any) -> Iterator[Caller]:
    """Calls the `scripted` server."""
    made = Caller(make_target(scripted.base_url))
    yield made
    made.wire.close()


# ---- aimock: somebody else's idea of the API ------------------------------------------------------------------------

AIMOCK_FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "say hello"}, "response": {"content": "Hello from aimock."}},
        {
            "match": {"userMessage": "read the file", "hasToolResult": True},
            "response": {"content": "The file is read."},
        },
        {
            "match": {"userMessage": "read the file"},
            "response": {"toolCalls": [{"name": "read_file", "arguments": '{"path":"a.txt"}'}]},
        },
    ]
}


@pytest.fixture(scope="session")
def aimock_program() -> list[str]:
    """The command that starts aimock; installed once, outside the checkout (HERMES_TEST_NPM, else ~/.cache)."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm is not installed: it brings @copilotkit/aimock")
    folder = Path(os.environ.get("HERMES_TEST_NPM") or Path.home() / ".cache" / "hermes-tests" / "aimock")
    package = folder / "node_modules" / "@copilotkit" / "aimock"
    if not (package / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", AIMOCK]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install {AIMOCK}: {done.stderr.strip()[-300:]}")
    programs = json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]
    return [node, str(package / programs["llmock"])]


@pytest.fixture
def aimock(aimock_program: list[str], tmp_path: Path) -> Iterator[str]:
    """The base URL of a running aimock that answers by AIMOCK_FIXTURES."""
    fixtures = tmp_path / "aimock.json"
    fixtures.write_text(json.dumps(AIMOCK_FIXTURES), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*aimock_program, "--port", str(port), "--fixtures", str(fixtures)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            _wait_until_up(process, f"http://127.0.0.1:{port}/v1/models")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def _wait_until_up(process: subprocess.Popen[str], url: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if "listening" in line.lower() or "http://" in line:
            break
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()  # it answers, and that is all that is asked here
