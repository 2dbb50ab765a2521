"""What the tests of Converse share: targets, one call from front to back, an environment without AWS."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.messages import Message, ModelReply, Text
from hermes.kernel.providers import Delta, Parameters, Profile, Stream, Target, Timeouts, ToolSchema
from hermes.plugins.wire.bedrock_converse import BedrockConverse

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SOON = Timeouts(connect_s=5, first_token_s=5, stall_s=5)


def make_target(base_url: str = "http://127.0.0.1:9", model: str = CLAUDE, **more: Any) -> Target:
    """Quirks are what is no field of a Target."""
    fields = {name: more.pop(name) for name in ("api_key", "headers", "row", "cache_ttl", "output_cap") if name in more}
    profile = Profile("bedrock", base_url, quirks=more)
    return Target(
        f"bedrock:{model}", profile, model, base_url, "bedrock_converse", **{"api_key": "bedrock-key", **fields}
    )


class Caller:
    """Makes calls as the runtime does."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.wire = BedrockConverse()
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

    def sent(self, *messages: Message, **more: Any) -> Any:
        """The body as the server reads it."""
        return json.loads(b"".join(self.body(*messages, **more)))

    def open(self, timeouts: Timeouts = SOON, *, stream: bool = True) -> Stream:
        parameters = Parameters(stream=stream)
        return self.wire.open(self.body(parameters=parameters), parameters, self.target, timeouts)

    def __call__(self, *messages: Message, stream: bool = True, timeouts: Timeouts = SOON, **more: Any) -> ModelReply:
        parameters = more.pop("parameters", None) or Parameters(stream=stream)
        body = self.body(*messages, parameters=parameters, **more)
        running = self.wire.open(body, parameters, self.target, timeouts)
        self.deltas = []
        for delta in running:
            self.deltas.append(delta)
        return running.reply()

    def shown(self, kind: str = "text") -> str:
        """What was streamed by the last call."""
        return "".join(d.text for d in self.deltas if d.kind == kind)


@pytest.fixture(autouse=True)
def no_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is signed in, whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@pytest.fixture
def new_target() -> Callable[..., Target]:
    return make_target


@pytest.fixture
def target() -> Target:
    return make_target()


@pytest.fixture
def new_caller() -> Iterator[Callable[[Target], Caller]]:
    yield Caller
    BedrockConverse().close()


@pytest.fixture
def caller(scripted: Any) -> Iterator[Caller]:
    """Calls the `scripted` server as Claude."""
    made = Caller(make_target(scripted.url_for("bedrock_converse")))
    yield made
    made.wire.close()
