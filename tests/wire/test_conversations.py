"""Generated conversations by every wire format and its strict validator, and faults that must not pass unseen.

In processes of their own: two share the work, and a failing seed is run again by the command that it prints.
`HERMES_CONVERSATIONS` changes how many there are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MANY = Path(__file__).parent / "many.py"
COUNT = int(os.environ.get("HERMES_CONVERSATIONS", "10000"))
WIRES = ("chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse")


def run(*arguments: str) -> str:
    command = [sys.executable, str(MANY), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def test_no_server_refuses_a_generated_conversation_and_nothing_of_it_is_lost() -> None:
    said = run("--count", str(COUNT))
    assert f"{COUNT} conversations from seed 1, {4 * COUNT} bodies" in said
    print(said)


@pytest.mark.parametrize("origin", WIRES)
def test_a_conversation_begun_on_one_wire_format_goes_on_by_each(origin: str) -> None:
    count = max(COUNT // 20, 1)
    assert f"{4 * count} bodies" in run("--count", str(count), "--seed", "1000001", "--origin", origin)


def test_no_provider_of_the_catalogue_gets_a_request_that_a_strict_server_refuses() -> None:
    count = max(COUNT // 10, 1)
    assert f"{4 * count} bodies" in run("--count", str(count), "--seed", "2000001", "--catalogue")


def test_every_fault_that_is_planted_in_a_converter_is_caught() -> None:
    said = run("--mutations")
    assert "not caught: none" in said
    assert int(said.split()[0]) >= 60
