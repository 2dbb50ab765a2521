"""The token of a turn: the first reason stays, whoever waits wakes, a child hears its parent."""

from __future__ import annotations

import gc
import threading
import weakref

from hermes.kernel.endings import EndReason
from hermes.kernel.interrupts import Token


def test_the_first_reason_stays() -> None:
    token = Token()
    assert not token()
    token.set(EndReason.TERMINATED, "SIGTERM")
    token.set(EndReason.INTERRUPTED, "later")
    assert token()
    assert (token.reason, token.detail) == (EndReason.TERMINATED, "SIGTERM")


def test_a_waiter_in_another_thread_wakes_at_once() -> None:
    token, woken = Token(), []
    waiter = threading.Thread(target=lambda: woken.append(token.wait(60)))
    waiter.start()
    token.set()
    waiter.join(20)
    assert woken == [True]


def test_a_wait_that_nothing_stops_ends_by_itself_and_says_so() -> None:
    assert Token().wait(0.001) is False
    assert Token().wait(-1) is False


def test_a_callback_is_called_once_and_outside_the_lock() -> None:
    token, calls = Token(), []

    def callback() -> None:
        calls.append(token.reason)
        token.set(EndReason.INTERNAL)  # would hang inside the lock
        token.on_cancel(lambda: calls.append(None))

    token.on_cancel(callback)
    token.set()
    token.set()
    assert calls == [EndReason.INTERRUPTED, None]


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    token, calls = Token(), []
    forget = token.on_cancel(lambda: calls.append(1))
    forget()
    forget()
    token.set()
    forget()
    assert calls == []


def test_a_callback_on_a_set_token_is_called_at_once() -> None:
    token, calls = Token(), []
    token.set()
    token.on_cancel(lambda: calls.append(1))()
    assert calls == [1]


def test_a_child_hears_its_parent_with_reason_and_detail() -> None:
    parent = Token()
    child, grandchild = Token(parent), None
    grandchild = Token(child)
    parent.set(EndReason.HANGUP, "the terminal is gone")
    assert (grandchild.reason, grandchild.detail) == (EndReason.HANGUP, "the terminal is gone")
    assert Token(parent).reason is EndReason.HANGUP


def test_a_parent_does_not_hear_its_child() -> None:
    parent = Token()
    Token(parent).set()
    assert not parent()


def test_a_closed_child_is_deaf_and_not_kept_alive_by_its_parent() -> None:
    parent = Token()
    child = Token(parent)
    child.close()
    child.close()
    parent.set()
    assert not child()
    gone = weakref.ref(child)
    del child
    gc.collect()
    assert gone() is None


def test_of_many_threads_that_set_one_wins_and_every_callback_runs_once() -> None:
    token, calls, gate = Token(), [], threading.Barrier(8)
    for number in range(50):
        token.on_cancel(lambda n=number: calls.append(n))

    def work(reason: EndReason) -> None:
        gate.wait()
        token.set(reason)

    reasons = list(EndReason)[:8]
    threads = [threading.Thread(target=work, args=(reason,)) for reason in reasons]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert token.reason in reasons
    assert sorted(calls) == list(range(50))
