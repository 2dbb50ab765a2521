"""A whole agent on each format, against a strict server: the tool loop, thinking, images, usage, connections."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from readings import said

from hermes.kernel.config.settings import DisplaySettings
from hermes.kernel.endings import EndReason
from hermes.kernel.events import TextDelta, ThinkingDelta
from hermes.kernel.messages import Image, Thinking, Usage
from hermes.testing import Call, Thought, blocks, calls, text

MARKS = re.compile(rb',?\{"cachePoint":\{[^}]*\}\}|,"cache_control":\{[^}]*\}')
SIGNING = ["codex_responses", "anthropic_messages", "bedrock_converse"]


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def display(request: pytest.FixtureRequest) -> DisplaySettings:
    return DisplaySettings(stream=request.param)


@pytest.fixture
def files(house: Any) -> None:
    for name in "abc":
        (house.work / f"{name}.txt").write_text(f"this is {name}\n", encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_a_tool_loop_with_parallel_calls(house: Any, api_mode: str, display: DisplaySettings) -> None:
    house.server.add(
        calls(Call("read_file", {"path": "a.txt"}), Call("read_file", {"path": "b.txt"}), text="I look at both."),
        calls(Call("read_file", {"path": "c.txt"})),
        text("All three are read.").but(usage=Usage(100, 7, cache_read_tokens=40, cache_write_tokens=3)),
    )
    result = house.agent(api_mode, display=display).run("read them")
    assert (result.reason, result.answer, result.iterations) == (EndReason.COMPLETED, "All three are read.", 3)
    first, _, third = house.server.requests
    assert first.system
    assert "read_file" in first.tool_names
    assert [request.api_mode for request in house.server.requests] == [api_mode] * 3
    spoken = said(third)
    assert [kind for kind, _ in spoken] == ["user", "assistant", "call", "call", "result", "result", "call", "result"]
    assert ("call", 'read_file {"path": "b.txt"}') in spoken
    contents = [what for kind, what in spoken if kind == "result"]
    assert ["this is " + letter in what for letter, what in zip("abc", contents, strict=True)] == [True] * 3
    assert house.server.connections == 1
    shown = "".join(event.text for event in house.seen(TextDelta))
    assert shown == "I look at both.All three are read."


def test_usage_comes_in_disjoint_buckets(house: Any, api_mode: str, display: DisplaySettings) -> None:
    house.server.add(text("Done.").but(usage=Usage(100, 7, 40, 3, 5)))
    usage = house.agent(api_mode, display=display).run("go").usage
    reasoning = 0 if api_mode == "bedrock_converse" else 5  # Converse counts reasoning as output
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (100, 40, 3)
    assert (usage.output_tokens, usage.reasoning_tokens) == (12 - reasoning, reasoning)


@pytest.mark.parametrize("api_mode", SIGNING)
@pytest.mark.usefixtures("files")
def test_thinking_comes_back_signed_in_its_place_and_with_every_request(
    house: Any, api_mode: str, display: DisplaySettings
) -> None:
    house.server.add(
        blocks(
            Thought("First the a."),
            "I look.",
            Call("read_file", {"path": "a.txt"}),
            Thought("Then the b."),
            Call("read_file", {"path": "b.txt"}),
        ),
        blocks(Thought(is_redacted=True), Call("read_file", {"path": "c.txt"})),
        blocks(Thought("Now I know."), "Done."),
        text("Still done."),
    )
    agent = house.agent(api_mode, display=display)
    result = agent.run("read them")
    assert result.answer == "Done."
    assert agent.run("sure?").answer == "Still done."
    spoken = said(house.server.requests[-1])
    assert [kind for kind, _ in spoken] == [
        "user",
        *("thinking", "assistant", "call", "thinking", "call", "result", "result"),
        *("thinking", "call", "result"),
        *("thinking", "assistant"),
        "user",
    ]
    seals = [what for kind, what in spoken if kind == "thinking"]
    assert len(set(seals)) == 4
    thoughts = [p.text for m in result.messages for p in m.parts if isinstance(p, Thinking)]
    assert thoughts == ["First the a.", "Then the b.", "", "Now I know."]
    assert "".join(event.text for event in house.seen(ThinkingDelta)).startswith("First the a.")


@pytest.mark.usefixtures("files")
def test_the_bytes_of_history_never_change_from_call_to_call(house: Any, api_mode: str) -> None:
    """What was said is said again in the same bytes, thinking and all; only cache marks may move."""
    house.server.add(
        blocks(Thought("Hm."), "I look.", Call("read_file", {"path": "a.txt"})),
        *(calls(Call("read_file", {"path": f"{name}.txt"})) for name in "bca"),
        text("Done."),
    )
    house.agent(api_mode).run("read them")
    for before, after in pairwise(house.server.requests):
        assert said(after)[: len(said(before))] == said(before)
        old, new = (MARKS.sub(b"", request.raw) for request in (before, after))
        last_said = b"this is" if b"this is" in old else b"read them"
        assert new.startswith(old[: old.rindex(last_said)])


def test_an_image_of_the_user_is_shown_to_the_model(house: Any, api_mode: str, red_pixel: Image) -> None:
    house.server.add(text("Red."), text("Still red."))
    agent = house.agent(api_mode)
    assert agent.run("which colour?", images=[red_pixel]).answer == "Red."
    assert agent.run("sure?").answer == "Still red."
    spoken = said(house.server.requests[-1])
    assert [kind for kind, _ in spoken] in (
        ["user", "image", "assistant", "user"],
        ["image", "user", "assistant", "user"],
    )
    assert ("image", red_pixel.data) in spoken


def test_words_of_all_writing_systems_go_there_and_back(house: Any, api_mode: str, display: DisplaySettings) -> None:
    words = 'naïve 中文 🙂 \u202eعربى\u202c \\ " </s> \x7f'
    house.server.add(text(words))
    assert house.agent(api_mode, display=display).run(f"say {words}").answer == words
    assert said(house.server.requests[0])[-1][1].endswith(f"say {words}")


# ---- What a cold run imports ----------------------------------------------------------------------------------------

SDKS = {
    "chat_completions": "openai",
    "codex_responses": "openai",
    "anthropic_messages": "anthropic",
    "bedrock_converse": "botocore",
}
COLD = """
import json, sys
from hermes.kernel.agent import Agent
from hermes.kernel.config.settings import ProviderSettings, RequestSettings, Settings, ToolSettings
api_mode, base_url, model = sys.argv[1:]
endpoint = ProviderSettings(base_url=base_url, api_mode=api_mode, api_key="k")
agent = Agent(Settings(model=f"here:{model}", providers={"here": endpoint}, tools=ToolSettings(toolsets=("files",))))
assert agent.run("go").answer == "Done."
print(json.dumps([name for name in ("openai", "anthropic", "botocore") if name in sys.modules]))
"""


def test_a_cold_run_imports_exactly_one_sdk(house: Any, api_mode: str, tmp_path: Path) -> None:
    house.server.add(text("Done."))
    model = house.model(api_mode).partition(":")[2]
    command = [sys.executable, "-c", COLD, api_mode, house.server.url_for(api_mode), model]
    done = subprocess.run(command, cwd=house.work, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f'["{SDKS[api_mode]}"]'
