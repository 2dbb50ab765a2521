"""One call of one implementation of a hook: pruned arguments, a thread with a deadline, a failure with a name."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hermes.kernel.discovery import EntryPoint
from hermes.kernel.effects import CallOpinion, Stopped
from hermes.kernel.errors import StopRun
from hermes.kernel.quiet import quiet

ON_PURPOSE = (StopRun, Stopped, KeyboardInterrupt)
"""What passes through every guard; all else that a plugin raises is a failure of its own, SystemExit too."""


class MissedDeadline(Exception):
    pass


@dataclass(frozen=True, slots=True)
class HookFailure:
    """Stands among the answers of a decide hook for a plugin that failed: it counts as *ask*."""

    plugin: str
    reason: str


class Threads:
    """Daemon threads that run calls with a deadline, kept between calls. Never an executor: its threads hold the exit.

    A thread whose call missed its deadline is left behind with it. Safe to use from several threads at once.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[_Runner] = []

    def call(self, function: Callable[[], Any], deadline_s: float) -> Any:
        """What `function` returns or raises; MissedDeadline when it takes longer."""
        try:
            runner = self._idle.pop()
        except IndexError:
            runner = _Runner(self._name)
        job = _Job(function)
        runner.jobs.put(job)
        is_done = False
        try:
            is_done = job.done.wait(deadline_s)
        finally:
            if not is_done:  # late, or Ctrl-C came in this wait: the thread ends with the call that it is in
                runner.jobs.put(None)
        if not is_done:
            raise MissedDeadline(f"did not return within {deadline_s:g} s")
        self._idle.append(runner)
        if job.error is not None:
            raise job.error
        return job.result

    def close(self) -> None:
        while self._idle:
            self._idle.pop().jobs.put(None)


class _Job:
    __slots__ = ("done", "error", "function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None


class _Runner:
    def __init__(self, name: str) -> None:
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=f"hermes hook {name}", daemon=True).start()

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                with quiet():
                    job.result = job.function()
            except BaseException as error:  # raised again in the thread that waits
                job.error = error
            job.done.set()
            del job  # else a thread at rest would keep the last answer alive


@dataclass(slots=True, eq=False)
class Handle:
    """A loaded plugin as the calls see it. `failures` counts those of its hooks; two bench it."""

    entry_point: EntryPoint
    plugin: object
    threads: Threads
    failures: int = 0
    is_benched: bool = False

    @property
    def name(self) -> str:
        return self.entry_point.name


@dataclass(frozen=True, slots=True)
class Implementation:
    """One plugin's function for one hook; it gets only the arguments that it names."""

    hook: str
    handle: Handle
    function: Callable[..., Any]
    argument_names: tuple[str, ...]

    def prune(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {name: arguments[name] for name in self.argument_names if name in arguments}

    def call(self, arguments: Mapping[str, Any], deadline_s: float) -> Any:
        """Call it in a thread of the plugin. Raises what it raises, or MissedDeadline."""
        pruned = self.prune(arguments)
        return self.handle.threads.call(lambda: self.function(**pruned), deadline_s)


def cause_of(error: BaseException) -> str:
    """What went wrong in one line, with the plugin's own file and line when there is one."""
    if isinstance(error, SystemExit):
        text = f"called exit({'' if error.code is None else error.code})"
    elif isinstance(error, MissedDeadline) or type(error).__name__ == "WrongItem":
        return str(error)
    else:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return text
    return f"{text} ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


def strictest_opinion(answers: Iterable[tuple[str, CallOpinion | HookFailure]]) -> CallOpinion:
    """Put the answers of `decide_tool_call` together: block before ask before no opinion; a failure is *ask*."""
    ranks = {"allow": 0, "ask": 1, "block": 2}
    strictest = CallOpinion()
    for plugin, answer in answers:
        if isinstance(answer, HookFailure):
            answer = CallOpinion("ask", answer.reason)
        elif answer.verdict != "allow" and not answer.reason:
            answer = CallOpinion(answer.verdict, f"plugin {plugin} says so", answer.hard_line, answer.stopped)
        if (answer.hard_line, ranks[answer.verdict]) > (strictest.hard_line, ranks[strictest.verdict]):
            strictest = answer
    return strictest


def strictest_approval(
    answers: Iterable[tuple[str, str | HookFailure]],
) -> Literal["deny", "ask", "once", "session"] | None:
    """Put the answers of `decide_approval` together: deny, then ask (a failure), once, session; None: no answer."""
    given = {"ask" if isinstance(answer, HookFailure) else answer for _, answer in answers}
    order: tuple[Literal["deny", "ask", "once", "session"], ...] = ("deny", "ask", "once", "session")
    return next((answer for answer in order if answer in given), None)
