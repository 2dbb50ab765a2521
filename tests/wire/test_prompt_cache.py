"""What was sent once is sent again in the same bytes: no clock, memory, file or order of discovery moves them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config.settings import ToolSettings
from hermes.testing import call, text

MARKS = re.compile(rb',?\{"cachePoint":\{[^}]*\}\}|,"cache_control":\{[^}]*\}')
"""Cache marks move to the end of what is sent; all else must stand."""

TOOLS = """
import itertools
from hermes import hookimpl, tool

@tool
def ask_{name}(what: str) -> str:
    return what

@tool
def tell_{name}(what: str, to: str = "me") -> str:
    return what

count = itertools.count()

@hookimpl
def register_tools():
    return [ask_{name}, tell_{name}] if next(count) % 2 else [tell_{name}, ask_{name}]
"""
"""Each time it is asked, this plugin names its tools in another order."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`clock("61 s")` or `clock("a day")`: the local time moves on, by a time zone of its own."""

    def move(by: str) -> str:
        monkeypatch.setenv("TZ", {"nothing": "START0", "61 s": "LATER-0:01:01", "a day": "NEXT-24"}[by])
        time.tzset()
        return time.strftime("%F %T")

    move("nothing")
    yield move
    monkeypatch.undo()
    time.tzset()


def kept(before: Any, after: Any) -> bool:
    """Whether `after` begins with all of `before` up to its last words, cache marks left out."""
    old, new = (MARKS.sub(b"", request.raw) for request in (before, after))
    said = max(old.rfind(words) for words in (b"begin", b"go on", b"once more", b"Saved; it shows"))
    return new.startswith(old[:said])


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="moves the clock by the time zone")
def test_B034_61_seconds_a_memory_write_and_a_resume_on_another_day_change_no_byte_before_the_last_message(
    house: Any, api_mode: str, clock: Any
) -> None:
    house.server.add(
        call("memory", target="memory", action="add", content="The user likes tea."),
        text("Noted."),
        text("Going on."),
        text("Still there."),
    )
    began = time.strftime("%F %T")
    first = house.agent(api_mode)
    session = first.run("begin").session_id
    assert clock("61 s") > began
    first.run("go on")
    first.close()

    (house.work / "AGENTS.md").write_text("Changed since.", encoding="utf-8")
    day = clock("nothing")[:10]
    assert clock("a day")[:10] > day
    second = house.agent(api_mode)
    second.attach(session)
    second.run("once more")
    requests = house.server.requests
    assert len(requests) == 4
    for before, after in pairwise(requests):
        assert kept(before, after)
    assert "likes tea" not in requests[-1].system

    house.server.add(text("Hello."))
    third = house.agent(api_mode)
    third.run("begin")
    assert "likes tea" in requests[-1].system  # what was remembered and the day are in the prompt of the next session
    assert not kept(requests[0], requests[-1])


def test_B034_tools_that_are_found_in_another_order_are_sent_in_the_same_bytes(
    house: Any, api_mode: str, site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type(site)(tmp_path / "other")
    other.plugin("zebra", TOOLS.format(name="zebra"), group="hermes.tools")
    site.plugin("aardvark", TOOLS.format(name="aardvark"), group="hermes.tools")
    monkeypatch.syspath_prepend(str(other.directory))
    house.server.add(text("One."), text("Two."))
    tools = ToolSettings(toolsets=("files", "installed"))
    first = house.agent(api_mode, tools=tools)
    session = first.run("begin").session_id
    first.close()
    monkeypatch.syspath_prepend(str(site.directory))  # now this one is found first
    second = house.agent(api_mode, tools=tools)
    second.attach(session)
    second.run("go on")
    before, after = house.server.requests
    assert {"ask_zebra", "tell_aardvark"} <= set(before.tool_names)
    assert kept(before, after)
