"""A wire format that raises what it should not: a fault of that plugin, by its name, and never one of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hermes.kernel.config.settings import ProviderSettings, RequestSettings
from hermes.kernel.endings import EndReason
from hermes.kernel.messages import ModelReply, Text
from hermes.kernel.providers import Delta, WireFault

PLACES = ("prefix", "encode", "envelope", "open", "iterate", "read", "reply")


class Odd:
    """A wire format without a wire; it fails in one place, so many times."""

    name = "odd"

    def __init__(self, place: str, times: int, error: Exception) -> None:
        self.place, self.left, self.error, self.asked = place, times, error, 0

    def fail(self, place: str) -> None:
        if place == self.place and self.left:
            self.left -= 1
            raise self.error

    def prefix(self, *_: Any) -> bytes:
        self.fail("prefix")
        return b""

    def encode(self, *_: Any) -> bytes:
        self.fail("encode")
        return b"{}"

    def envelope(self, *_: Any) -> list[bytes]:
        self.fail("envelope")
        return [b"{}"]

    def open(self, *_: Any) -> Any:
        self.asked += 1
        self.fail("open")
        return OddStream(self)

    def close(self) -> None:
        pass


class OddStream:
    def __init__(self, wire: Odd) -> None:
        self.wire = wire

    def __iter__(self) -> Iterator[Delta]:
        self.wire.fail("iterate")
        yield Delta("text", "It ")
        self.wire.fail("read")
        yield Delta("text", "works.")

    def reply(self) -> ModelReply:
        self.wire.fail("reply")
        return ModelReply((Text("It works."),))

    def abort(self) -> None:
        pass


def run(house: Any, wire: Odd) -> Any:
    house.plugin("odd", group="hermes.wire", register_wire_formats=lambda: [wire])
    provider = ProviderSettings(base_url="http://127.0.0.1:9", api_key="k", api_mode="odd")
    return house.agent(providers={"scripted": provider}, request=RequestSettings(attempts=3)).run("go")


@pytest.mark.parametrize("place", PLACES)
def test_B066_spec_66267_a_type_error_in_a_wire_format_is_tried_once_more_and_no_permanent_error(
    house, place: str
) -> None:
    result = run(house, Odd(place, 1, TypeError("'NoneType' object is not iterable")))
    assert (result.reason, result.answer) == (EndReason.COMPLETED, "It works.")


@pytest.mark.parametrize("place", PLACES)
def test_a_wire_format_that_always_fails_ends_the_turn_with_its_name(house, place: str) -> None:
    wire = Odd(place, 99, KeyError("choices"))
    result = run(house, wire)
    assert result.reason is EndReason.PLUGIN
    assert "wire format odd (plugin odd) failed in" in result.detail
    assert "KeyError" in result.detail
    assert wire.left == 97, "it burns no more than its two attempts"
    assert result.messages[-1].role == "assistant"


def test_a_fault_that_a_wire_format_describes_is_not_touched(house) -> None:
    result = run(house, Odd("read", 99, WireFault("http", "bad key", status=401)))
    assert result.reason is EndReason.AUTH
