"""What the tests over the wire share: the four formats by name, one call from front to back, and an agent in a home."""

from __future__ import annotations

import base64
import importlib.util
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import ProviderSettings, RequestSettings, Settings, ToolSettings
from hermes.kernel.events import Event
from hermes.kernel.messages import Image, Message, ModelReply, Text
from hermes.kernel.providers import Delta, Parameters, Profile, Stream, Target, Timeouts, ToolSchema, WireFormat
from hermes.testing import ScriptedServer

MODELS: Mapping[str, str] = {
    "chat_completions": "gpt-4o",
    "codex_responses": "gpt-5",
    "anthropic_messages": "claude-sonnet-4-5",
    "bedrock_converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""A model that is asked in each format."""

MIDDLE: Mapping[str, int] = {
    "chat_completions": 2, "codex_responses": 5, "anthropic_messages": 4, "bedrock_converse": 2,
}  # fmt: skip
"""After so many events of a stream the first piece of text has come, and not the last."""

SOON = Timeouts(connect_s=10, first_token_s=20, stall_s=20)
READ = ToolSchema(
    "read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)
E = TypeVar("E", bound=Event)


def wire_format(api_mode: str) -> WireFormat:
    (made,) = import_module(f"hermes.plugins.wire.{api_mode}").register_wire_formats()
    wire: WireFormat = made
    return wire


class Caller:
    """Makes calls in one format as the runtime does."""

    def __init__(self, api_mode: str, base_url: str, model: str | None = None, **quirks: Any) -> None:
        named = model or MODELS[api_mode]
        profile = Profile("test", base_url, quirks=quirks)
        self.target = Target(f"test:{named}", profile, named, base_url, api_mode, "key-1")
        self.wire = wire_format(api_mode)
        self.deltas: list[Delta] = []

    def open(
        self, *messages: Message, tools: Sequence[ToolSchema] = (READ,), stream: bool = True, timeouts: Timeouts = SOON
    ) -> Stream:
        parameters = Parameters(stream=stream)
        said = messages or (Message("user", (Text("hello"),)),)
        prefix = self.wire.prefix("You are a test.", tools, self.target)
        fragments = [self.wire.encode(message, self.target) for message in said]
        body = self.wire.envelope(prefix, fragments, parameters, self.target)
        return self.wire.open(body, parameters, self.target, timeouts)

    def __call__(self, *messages: Message, **more: Any) -> ModelReply:
        running = self.open(*messages, **more)
        self.deltas = []
        for delta in running:
            self.deltas.append(delta)
        return running.reply()

    @property
    def shown(self) -> str:
        """The text that was streamed by the last call."""
        return "".join(delta.text for delta in self.deltas if delta.kind == "text")


@pytest.fixture(params=MODELS)
def api_mode(request: pytest.FixtureRequest) -> str:
    """Each of the four formats in turn."""
    name: str = request.param
    return name


@pytest.fixture
def middle(api_mode: str) -> int:
    """How many events of a stream bring it to the middle of its text."""
    return MIDDLE[api_mode]


@pytest.fixture
def new_caller() -> Iterator[Callable[..., Caller]]:
    """`new_caller(api_mode, base_url, model=None, **quirks)`."""
    made: list[Caller] = []

    def make(*given: Any, **quirks: Any) -> Caller:
        made.append(Caller(*given, **quirks))
        return made[-1]

    yield make
    for caller in made:
        caller.wire.close()


@pytest.fixture
def caller(api_mode: str, scripted: ScriptedServer, new_caller: Any) -> Caller:
    """Calls the `scripted` server, in each format in turn."""
    made: Caller = new_caller(api_mode, scripted.url_for(api_mode))
    return made


# ---- An agent in a home of its own ----------------------------------------------------------------------------------


class House:
    """Agents whose provider `<api_mode>` is the scripted server in this format; they read files in `work`."""

    def __init__(self, work: Path, server: ScriptedServer) -> None:
        self.work, self.server = work, server
        self.events: list[Event] = []
        self._agents: list[Agent] = []

    def agent(self, api_mode: str, *, on_event: Callable[[Event], Any] | None = None, **sections: Any) -> Agent:
        given: dict[str, Any] = {
            "model": self.model(api_mode),
            "providers": {
                name: ProviderSettings(base_url=self.server.url_for(name), api_mode=name, api_key="scripted-key")
                for name in MODELS
            },
            "request": RequestSettings(attempts=1),
            "tools": ToolSettings(toolsets=("files",)),
            **sections,
        }

        def emit(event: Event) -> None:
            self.events.append(event)
            if on_event is not None:
                on_event(event)

        agent = Agent(Settings(**given), on_event=emit)
        self._agents.append(agent)
        return agent

    @staticmethod
    def model(api_mode: str) -> str:
        return f"{api_mode}:{MODELS[api_mode]}"

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        for agent in self._agents:
            agent.close()


@pytest.fixture
def house(
    hermes_home: Path, tmp_path: Path, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    made = House(work, scripted)
    yield made
    made.close()


def picture() -> Image:
    """A PNG of one red pixel."""
    chunks = ((b"IHDR", struct.pack("!IIBBBBB", 1, 1, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"\x00\xff\x00\x00")))
    packed = [
        struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
        for name, data in (*chunks, (b"IEND", b""))
    ]
    return Image("image/png", base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(packed)).decode("ascii"))


@pytest.fixture
def red_pixel() -> Image:
    return picture()


# ---- Modules that several tests here import by name -----------------------------------------------------------------


def _share(name: str) -> None:
    """Make a module beside this file importable, without its directory on sys.path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_share("readings")
_share("mocks")
