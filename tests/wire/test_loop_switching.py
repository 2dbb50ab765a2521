"""A session that was begun in one format goes on in any other, and back: nothing is lost, nothing is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from readings import said

from hermes.kernel.endings import EndReason
from hermes.kernel.events import Notice
from hermes.kernel.messages import Image
from hermes.testing import Call, Thought, blocks, call, fault, text

FORMATS = ("chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse")
PAIRS = list(permutations(FORMATS, 2))
SIGNING = FORMATS[1:]

READ_A, READ_B = Call("read_file", {"path": "a.txt"}), Call("read_file", {"path": "b.txt"}, id="odd:id/ü " + "x" * 60)
BEGUN = (
    blocks(Thought("First the a."), "I look at both.", READ_A, Thought(is_redacted=True), READ_B),
    blocks(Thought("Now I know."), "Both are read."),
)
"""What is said in the first format: thinking of every kind, parallel calls, an id that no other format would take."""


@pytest.fixture(autouse=True)
def files(house: Any) -> None:
    for name in "ab":
        (house.work / f"{name}.txt").write_text(f"this is {name}\n", encoding="utf-8")


def without_thinking(request: Any) -> list[tuple[str, str]]:
    return [item for item in said(request) if item[0] != "thinking"]


def sent_thoughts(request: Any) -> list[str]:
    return [what for kind, what in said(request) if kind == "thinking"]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_session_goes_on_in_another_format_and_comes_back(
    house: Any, first: str, second: str, red_pixel: Image
) -> None:
    house.server.add(*BEGUN)
    agent = house.agent(first)
    assert agent.run("read them, and look at this", images=[red_pixel]).answer == "Both are read."
    session = agent.session_id
    agent.close()

    house.server.add(blocks(Thought("Again."), call("read_file", path="a.txt").calls[0]), text("Still a."))
    other = house.agent(second)
    other.attach(session)
    assert other.run("once more").answer == "Still a."
    other.close()

    house.server.add(text("I am back."))
    back = house.agent(first)
    back.attach(session)
    assert back.run("are you there?").answer == "I am back."

    _, begun, _, switched, returned = house.server.requests
    assert [request.api_mode for request in house.server.requests] == [first, first, second, second, first]
    spoken = without_thinking(begun)
    assert {kind for kind, _ in spoken} == {"user", "image", "assistant", "call", "result"}
    assert ("image", red_pixel.data) in spoken
    # All that was said is in what the other format sends, in the same order, and in what the first sends after it.
    told = without_thinking(switched)
    assert told[: len(spoken)] == spoken
    assert told[len(spoken) : len(spoken) + 2] == [("assistant", "Both are read."), ("user", "once more")]
    assert without_thinking(returned)[: len(told)] == told
    # Thinking is for its issuer alone, and the issuer gets it back when it is asked again.
    own = 3 if first in SIGNING else 0
    assert len(sent_thoughts(switched)) == (1 if second in SIGNING else 0)
    assert sent_thoughts(returned)[: len(sent_thoughts(begun))] == sent_thoughts(begun)
    assert len(sent_thoughts(returned)) == own


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_turn_whose_model_fails_is_finished_by_a_fallback_in_another_format(
    house: Any, first: str, second: str
) -> None:
    house.server.add(BEGUN[0], fault(500, "It broke."), call("read_file", path="a.txt"), text("Both are read."))
    result = house.agent(first, fallback=(house.model(second),)).run("read them")
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "Both are read.")
    assert [request.api_mode for request in house.server.requests] == [first, first, second, second]
    assert any(event.kind == "fallback" for event in house.seen(Notice))
    failed, taken_over = house.server.requests[1:3]
    assert without_thinking(taken_over) == without_thinking(failed)
    assert sent_thoughts(taken_over) == []


@pytest.mark.parametrize("api_mode", SIGNING)
def test_thinking_of_another_model_of_the_same_format_is_not_sent(house: Any, api_mode: str) -> None:
    house.server.add(*BEGUN, text("Still both."))
    agent = house.agent(api_mode)
    agent.run("read them")
    session = agent.session_id
    agent.close()
    sibling = house.agent(api_mode, model=f"{house.model(api_mode)}-other")
    sibling.attach(session)
    assert sibling.run("once more").answer == "Still both."
    assert sent_thoughts(house.server.requests[1])
    assert sent_thoughts(house.server.requests[2]) == []


def test_hermes_run_goes_on_with_another_model_round_all_formats(
    house: Any, hermes_home: Path, red_pixel: Image
) -> None:
    """The command as a person types it: `hermes run --continue -m provider:model`."""
    providers = {name: {"base_url": house.server.url_for(name), "api_mode": name, "api_key": "k"} for name in FORMATS}
    (hermes_home / "hermes.yaml").write_text(json.dumps({"providers": providers}), encoding="utf-8")
    for number, api_mode in enumerate((*FORMATS, FORMATS[0])):
        house.server.add(
            blocks(Thought(f"Thought {number}."), call("read_file", path="a.txt").calls[0]), text(f"Answer {number}.")
        )
        going_on = ["--continue"] if number else []
        command = [sys.executable, "-P", "-m", "hermes", "run", *going_on, "-m", house.model(api_mode), f"Ask {number}"]
        done = subprocess.run(
            command,
            cwd=house.work,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, f"Answer {number}.\n"), done.stderr
    last = without_thinking(house.server.requests[-1])
    told = [what for kind, what in last if kind in ("user", "assistant")]
    assert told == [what for number in range(4) for what in (f"Ask {number}", f"Answer {number}.")] + ["Ask 4"]
    assert [kind for kind, _ in last].count("result") == 5
