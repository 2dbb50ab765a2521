"""Observers see what happens, in order, beside the loop; they can neither slow nor stop it."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from hermes.kernel.errors import PluginError, StopRun
from hermes.kernel.events import Notice, TextDelta, TurnStarted
from hermes.kernel.observers import QUEUE_LENGTH

Site = Any
Make = Any

START = "import threading\nfrom hermes import hookimpl, StopRun\nseen = []\ngo = threading.Event()\n"


def _load(site: Site, make_plugins: Make, body: str, **settings: Any) -> tuple[Any, list[str], Any]:
    module = site.plugin("watch", START + body)
    plugins, lines = make_plugins(**settings)
    assert plugins.load("hermes.plugins", ["watch"]) == ("watch",)
    return plugins, lines, sys.modules[module]


def test_an_observer_sees_everything_in_order_on_one_thread_of_its_own(site: Site, make_plugins: Make) -> None:
    body = (
        "@hookimpl\ndef before_turn(turn): seen.append((turn, threading.get_ident()))\n"
        "@hookimpl\ndef after_turn(turn): seen.append((-turn, threading.get_ident()))\n"
    )
    plugins, lines, module = _load(site, make_plugins, body)
    for number in range(1, 200):
        plugins.observe("before_turn", turn=number)
        plugins.observe("after_turn", turn=number)
    plugins.close()
    assert [what for what, _ in module.seen] == [sign * n for n in range(1, 200) for sign in (1, -1)]
    threads = {thread for _, thread in module.seen}
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert lines == []


def test_deltas_come_only_to_who_asks_for_them(site: Site, make_plugins: Make) -> None:
    silent = START + "@hookimpl\ndef on_event(event): seen.append(event)\n"
    asking = START + "@hookimpl\ndef on_event(event, delta): seen.append((event, delta))\n"
    modules = [site.plugin("silent", silent), site.plugin("asking", asking)]
    plugins, _ = make_plugins()
    plugins.load("hermes.plugins", ["installed"])
    delta, started = TextDelta(attempt=1, text="x"), TurnStarted(turn=1, text="y")
    for event in (started, delta):
        plugins.observe("on_event", event=event)
    plugins.close()
    assert sys.modules[modules[0]].seen == [started]
    assert sys.modules[modules[1]].seen == [(started, False), (delta, True)]


def test_spec_8049_an_observer_that_raises_is_logged_then_benched_and_the_run_goes_on(
    site: Site, make_plugins: Make
) -> None:
    body = "@hookimpl\ndef before_turn(turn):\n    seen.append(turn)\n    raise SystemExit\n"
    plugins, lines, module = _load(site, make_plugins, body)
    for number in range(5):
        plugins.observe("before_turn", turn=number)
    plugins.close()
    assert module.seen == [0, 1]
    assert len(lines) == 1
    assert "twice" in lines[0]


def test_an_observer_that_hangs_holds_nothing_and_is_left_behind(site: Site, make_plugins: Make) -> None:
    body = "@hookimpl\ndef before_turn(turn):\n    seen.append(turn)\n    go.wait()\n"
    plugins, lines, module = _load(site, make_plugins, body, hook_deadline_s=0.05)
    until = time.monotonic() + 10
    number = 0
    while plugins.wants("before_turn") and time.monotonic() < until:
        plugins.observe("before_turn", turn=number)
        number += 1
    started = time.monotonic()
    plugins.close()
    module.go.set()
    assert time.monotonic() - started < 10
    assert not plugins.wants("before_turn")
    assert len(module.seen) == 2
    assert any("did not return within" in line for line in lines)


def test_the_queue_is_bounded_and_what_was_dropped_is_told(site: Site, make_plugins: Make) -> None:
    body = "@hookimpl\ndef before_turn(turn):\n    seen.append(turn)\n    go.wait(20)\n"
    plugins, lines, module = _load(site, make_plugins, body, hook_deadline_s=60)
    for number in range(QUEUE_LENGTH + 51):
        plugins.observe("before_turn", turn=number)
    module.go.set()
    plugins.close()
    assert module.seen[-1] == QUEUE_LENGTH + 50
    assert len(module.seen) in (QUEUE_LENGTH, QUEUE_LENGTH + 1)
    assert any("dropped" in line for line in lines)


def test_closing_waits_at_most_a_second_and_says_what_is_lost(site: Site, make_plugins: Make) -> None:
    plugins, lines, module = _load(site, make_plugins, "@hookimpl\ndef before_turn(turn):\n    go.wait()\n")
    plugins.observe("before_turn", turn=1)
    started = time.monotonic()
    plugins.close()
    module.go.set()
    assert time.monotonic() - started < 10
    assert "still busy" in lines[0]


def test_stop_run_of_an_observer_reaches_the_run(site: Site, make_plugins: Make) -> None:
    body = (
        "@hookimpl\ndef before_turn(turn): raise StopRun('quota')\n@hookimpl\ndef provide_turn_context(): return 'x'\n"
    )
    stopped: list[StopRun] = []
    plugins, _, _ = _load(site, make_plugins, body, on_stop=stopped.append)
    plugins.observe("before_turn", turn=1)
    plugins.close()
    assert stopped[0].why == "quota"
    plugins, _ = make_plugins()
    plugins.load("hermes.plugins", ["watch"])
    plugins.observe("before_turn", turn=1)
    plugins.close()
    with pytest.raises(StopRun, match="quota"):
        plugins.gather("provide_turn_context", turn=1)


def test_strict_tells_the_run_of_a_failed_observer_at_its_next_question(site: Site, make_plugins: Make) -> None:
    body = "@hookimpl\ndef before_turn(turn): raise ValueError\n@hookimpl\ndef provide_turn_context(): return 'x'\n"
    plugins, _, _ = _load(site, make_plugins, body, strict=True)
    plugins.observe("before_turn", turn=1)
    plugins.close()
    with pytest.raises(PluginError, match="acme-watch"):
        plugins.gather("provide_turn_context", turn=1)


def test_without_listeners_nothing_is_called_or_queued(make_plugins: Make) -> None:
    plugins, _ = make_plugins()
    threads = threading.active_count()
    assert not plugins.wants("on_event")
    plugins.observe("on_event", event=Notice(kind="plugin", text="x"))
    assert plugins.gather("provide_turn_context", turn=1) == []
    assert plugins.decide("decide_tool_call", call=1) == []
    assert plugins.choose("choose_turn_end", turn=1) is None
    assert plugins.around("around_tool_call", 1, lambda n: n + 1) == 2
    assert threading.active_count() == threads
