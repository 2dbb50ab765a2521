"""A running call is ended from another thread, in every format: before the first byte and in the middle."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hermes.kernel.endings import EndReason
from hermes.kernel.events import TextDelta
from hermes.kernel.providers import WireFault
from hermes.testing import ScriptedServer, call, stall, text

SOON_S = 5.0
"""No abort may take so long; the goal is some milliseconds."""


def aborted(stream: Any, when: Any) -> None:
    """Read in a thread and abort from this one when `when` returns; the reader must get the fault soon."""
    found: list[WireFault] = []

    def read() -> None:
        try:
            list(stream)
        except WireFault as error:
            found.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    when()
    stream.abort()
    reader.join(SOON_S)
    assert not reader.is_alive()
    assert [error.cause for error in found] == ["aborted"]
    stream.abort()  # more than once does no harm


@pytest.mark.parametrize(("stream", "after"), [(False, 0), (True, 0), (True, 1), (True, 4)])
def test_an_abort_wakes_the_reader_before_the_first_byte_and_in_the_middle(
    scripted: ScriptedServer, caller: Any, stream: bool, after: int
) -> None:
    scripted.add(stall(after=after), text("still there"))
    aborted(caller.open(stream=stream), lambda: scripted.wait_for_requests(1))
    assert scripted.requests[0].gone.wait(SOON_S)  # the server sees it at once, and can stop
    assert caller(stream=stream).text == "still there"  # the next call has a connection that works


def test_an_abort_ends_a_call_whose_arguments_are_streaming(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(call("read_file", path="a.txt").but(stall_after=5))
    begun = threading.Event()
    stream = caller.open()

    class Telling:
        """The stream, telling when the name of the tool has come."""

        abort = staticmethod(stream.abort)

        def __iter__(self) -> Any:
            for delta in stream:
                if delta.kind == "call":
                    begun.set()
                yield delta

    aborted(Telling(), lambda: begun.wait(SOON_S))
    assert begun.is_set()


def test_an_abort_before_the_call_sends_nothing(scripted: ScriptedServer, caller: Any) -> None:
    stream = caller.open()
    stream.abort()
    with pytest.raises(WireFault) as caught:
        list(stream)
    assert caught.value.cause == "aborted"
    assert scripted.connections == 0


def test_an_abort_after_the_end_leaves_reply_and_connection_alone(scripted: ScriptedServer, caller: Any) -> None:
    scripted.add(text("one"), text("two"))
    stream = caller.open()
    list(stream)
    stream.abort()
    assert stream.reply().text == "one"
    assert caller().text == "two"
    assert scripted.connections == 1


def test_an_agent_that_is_interrupted_in_the_middle_keeps_what_was_shown(
    house: Any, api_mode: str, middle: int
) -> None:
    house.server.add(stall(after=middle, text="a long answer"), text("I am back."))
    shown = threading.Event()
    agent = house.agent(api_mode, on_event=lambda event: isinstance(event, TextDelta) and shown.set())
    results: list[Any] = []
    turn = threading.Thread(target=lambda: results.append(agent.run("go")), daemon=True)
    turn.start()
    assert shown.wait(20)
    agent.interrupt()
    turn.join(SOON_S)
    assert not turn.is_alive()
    (result,) = results
    assert (result.reason, result.partial) == (EndReason.INTERRUPTED, "a lon")
    assert agent.run("and now?").answer == "I am back."
