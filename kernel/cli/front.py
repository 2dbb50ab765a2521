"""One turn of a session, from the options of `hermes run` to the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from hermes.kernel.cli.attachments import Given, read_given
from hermes.kernel.cli.display import Display, Look
from hermes.kernel.cli.output import (
    Ending,
    JsonOutput,
    Output,
    Stdout,
    StreamJsonOutput,
    StructuredOutput,
    TextOutput,
    ending_line,
)
from hermes.kernel.cli.run_settings import RunOptions, check_options, load_settings
from hermes.kernel.cli.tally import Tally
from hermes.kernel.cli.watchdog import PATIENCE_S, Watchdog
from hermes.kernel.config.settings import DisplaySettings, Settings
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import HermesError, SessionNotFound, SettingsError, StopRun, UsageError
from hermes.kernel.events import Event, SessionStarted
from hermes.kernel.paths import home

if TYPE_CHECKING:
    from hermes.kernel.agent import Agent, TurnResult
    from hermes.kernel.cli.person import TerminalPerson
    from hermes.kernel.sessions import SessionStore

_SECRET_VARIABLES = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_IN_MEMORY = ":memory:"
"""What a store says of its path when nothing outlives the process."""
_SECRET_CHARS = 16
"""Shorter values of such variables are often ordinary words, and hiding those would spoil the log."""


def run(options: RunOptions, config_files: tuple[Path, ...]) -> int:
    """The whole run; returns the exit code. An error is told on stderr, and in the format that was asked for."""
    front = Front(options)
    ending = _ending(front, config_files)
    try:
        front.output.finish(ending)
    except OSError as error:
        where = f"; it is stored in session {ending.session}" if ending.stored else ""
        ending = Ending(EndReason.INTERNAL, f"the answer could not be written to standard output: {error}{where}")
    if ending.reason is not EndReason.COMPLETED:
        front.display.line(ending_line(ending))
    return ending.reason.exit_code


def _ending(front: Front, config_files: tuple[Path, ...]) -> Ending:
    try:
        return front.run(config_files)
    except HermesError as error:
        if front.options.debug:
            import traceback

            traceback.print_exception(error)
        problems = len(error.problems) if isinstance(error, SettingsError) else 0
        return Ending(error.reason, str(error), model=front.model, problems=problems)
    except BaseException as error:  # it goes on to the last guard of the process, which tells it on stderr
        front.output.finish(_unexpected(error))
        raise
    finally:
        front.display.close()


def _unexpected(error: BaseException) -> Ending:
    is_stop = isinstance(error, (KeyboardInterrupt, StopRun))
    return Ending(EndReason.INTERRUPTED if is_stop else EndReason.INTERNAL, f"{type(error).__name__}: {error}")


class Front:
    """The front end of one run: hands what happens to display and output, and signals to the agent.

    `patience_s` is how long after its limit (`limits.max_seconds`) a stuck run is ended by force.
    """

    def __init__(self, options: RunOptions, *, patience_s: float = PATIENCE_S) -> None:
        self.options = options
        self._patience_s = patience_s
        self.model: str | None = None
        self.display, self.output = screen(options, DisplaySettings())
        self._tally = Tally()
        self._agent: Agent | None = None
        self._person: TerminalPerson | None = None

    def run(self, config_files: tuple[Path, ...]) -> Ending:
        from hermes.kernel.cli.prompt_input import read_prompt
        from hermes.kernel.cli.signals import StopSignals
        from hermes.kernel.discovery import scan
        from hermes.kernel.greeting import greet_new

        check_options(self.options)
        given = read_given(self.options)
        with StopSignals(self._stop):
            loaded = load_settings(self.options, config_files)
            settings = loaded.settings
            self._configure(settings)
            for line in (*loaded.warnings, *greet_new(scan(), home())):
                self.display.notice(line)
            prompt = read_prompt(self.options.words, self.options.file, self.display.notice)
            if not prompt and not given.images and not self.options.resume:
                prompt = self._ask_for_prompt()
            return self._turn(settings, replace(given, prompt=prompt))

    def _configure(self, settings: Settings) -> None:
        """Do what the settings say of display and log."""
        from hermes.kernel.logs import start_logging
        from hermes.kernel.redact import remember

        self.display, self.output = screen(self.options, settings.display)
        remember(secrets(settings, os.environ))
        problem = start_logging(home(), level=settings.log.level, path=settings.log.path, loud=self.options.debug)
        if problem:
            self.display.notice(problem)

    def _ask_for_prompt(self) -> str:
        said = self._terminal_person().question("What should be done?") if self.options.interactive else None
        if not said:
            raise UsageError('there is no prompt: hermes run "…", hermes run -f FILE, or a pipe into hermes run')
        return said

    def _terminal_person(self) -> TerminalPerson:
        from hermes.kernel.cli.person import TerminalPerson

        self._person = self._person or TerminalPerson(self.display.still)
        return self._person

    def _turn(self, settings: Settings, given: Given) -> Ending:
        from hermes.kernel.agent import Agent

        person = self._terminal_person() if self.options.interactive else None
        limit_s = settings.limits.max_seconds
        with (
            Watchdog(limit_s, lambda: self._expired(limit_s), patience_s=self._patience_s),
            Agent(settings, ask=person, on_event=self._on_event) as agent,
        ):
            self._agent = agent
            result = drive(agent, self.options, given)
            ending = ending_of(result, self.model, stored=result.stored and agent.store.path() != _IN_MEMORY)
        return replace(ending, usage_by=self._tally.rows())

    def _on_event(self, event: Event) -> None:
        if isinstance(event, SessionStarted) and self.model is None:
            self.model = f"{event.provider}:{event.model}"
        self._tally.on_event(event)
        self.display.on_event(event)
        self.output.on_event(event)

    def _stop(self, reason: EndReason) -> None:
        """The first signal; called on the watcher's thread."""
        if self._person is not None:
            self._person.stop()
        if self._agent is None:  # nothing has begun that could be ended properly
            self._leave(Ending(reason, "stopped before the turn began; nothing was sent"))
        self.display.status("stopping; once more to leave at once")
        self._agent.interrupt(reason)

    def _expired(self, limit_s: float | None) -> None:
        """The run is stuck; called on the watchdog's thread. Its turn stays open and can be finished."""
        session = self._agent.session_id if self._agent else None
        detail = f"the run was stuck past its limit of {limit_s:g} s; it was ended and its turn stays open"
        self._leave(Ending(EndReason.BUDGET_TIME, detail, session=session, model=self.model))

    def _leave(self, ending: Ending) -> NoReturn:
        """Tell the ending and end the process, from a thread that is not the main one."""
        self.display.close()
        self.output.finish(ending)
        self.display.line(ending_line(ending))
        os._exit(ending.reason.exit_code)


# ---- Before the turn ------------------------------------------------------------------------------------------------


def secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """The keys that this run knows of: they are hidden wherever they turn up."""
    keys: list[str] = []
    for provider in settings.providers.values():
        given = provider.api_key
        keys += [given] if isinstance(given, str) else given or ()
    return keys + [
        value
        for name, value in environ.items()
        if name.upper().endswith(_SECRET_VARIABLES) and len(value) >= _SECRET_CHARS
    ]


def screen(options: RunOptions, settings: DisplaySettings) -> tuple[Display, Output]:
    """What shows the run, by the options and by what stdout and stderr are."""
    live = _is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
    color = {"always": True, "never": False}.get(settings.color, live and not os.environ.get("NO_COLOR"))
    look = Look(
        live=live,
        quiet=options.quiet,
        verbosity=options.verbose,
        tools=settings.show_tools,
        reasoning=settings.show_reasoning,
        color=color,
    )
    display = Display(sys.stderr, look)
    return display, _output(options, settings, display)


def _output(options: RunOptions, settings: DisplaySettings, display: Display) -> Output:
    terminal = _is_terminal(sys.stdout)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if not terminal and reconfigure is not None and not os.environ.get("PYTHONIOENCODING"):
        reconfigure(encoding="utf-8", errors="replace")  # into a file or a pipe: not the code page of the machine
    stdout = Stdout(sys.stdout)
    if options.output_format == "json":
        return JsonOutput(stdout)
    if options.output_format == "stream-json":
        return StreamJsonOutput(stdout)
    if options.schema:
        return StructuredOutput(stdout, terminal=terminal)
    return TextOutput(stdout, display, terminal=terminal, streams=settings.stream)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


# ---- The turn -------------------------------------------------------------------------------------------------------


def drive(agent: Agent, options: RunOptions, given: Given) -> TurnResult:
    """Choose the session and run its turn; without a prompt, finish the turn that a crash cut off."""
    agent.use_system_prompt(options.system_prompt)
    chosen = options.resume
    if options.newest:
        chosen = agent.newest()
    elif options.session is not None:
        chosen = titled(agent.store, options.session)
    if chosen is not None:
        session = agent.attach(chosen, fork=options.fork)
        return _run(agent, given) if given.prompt or given.images else _resume(agent, session, given)
    if options.session is not None and not options.fork:
        agent.begin(options.session)
    elif options.fork:
        raise SessionNotFound(f"--fork: there is no session {options.session!r} to copy; hermes sessions list")
    return _run(agent, given)


def _run(agent: Agent, given: Given) -> TurnResult:
    return agent.run(given.prompt, given.images, schema=given.schema)


def _resume(agent: Agent, session: str, given: Given) -> TurnResult:
    if given.schema is not None:
        raise UsageError("--schema is for a new prompt; an unfinished turn keeps the schema that it began with")
    return agent.resume(session)


def titled(store: SessionStore, title: str) -> str | None:
    """The newest session of exactly this title; one whose id begins like it is another."""
    try:
        found = store.find(title)
        if store.info(found).title == title:
            return found
    except SessionNotFound:
        pass  # none, or several
    return next((info.id for info in store.list() if info.title == title), None)


def ending_of(result: TurnResult, model: str | None, *, stored: bool) -> Ending:
    return Ending(
        result.reason,
        detail=result.detail,
        session=result.session_id,
        turn=result.turn,
        answer=result.answer,
        partial=result.partial,
        iterations=result.iterations,
        seconds=result.seconds,
        usage=result.usage,
        model=result.model or model,
        stored=stored,
        steering=result.steering,
        structured=result.structured,
    )
