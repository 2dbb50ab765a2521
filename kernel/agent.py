"""Agent: builds all of it from settings; run, send, steer, interrupt, resume."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Literal, Self

from hermes.kernel.children import Children
from hermes.kernel.config.settings import (
    LimitSettings,
    ProviderSettings,
    Settings,
    ToolSettings,
)
from hermes.kernel.conversation import Conversation, Standing
from hermes.kernel.crashed import close_children
from hermes.kernel.effects import ApprovalRequest
from hermes.kernel.endings import EndReason
from hermes.kernel.errors import (
    AgentBusy,
    SessionNotFound,
    SettingsError,
    StopRun,
    StoreError,
    UsageError,
)
from hermes.kernel.events import Event, Notice
from hermes.kernel.inbox import Input
from hermes.kernel.interrupts import Token
from hermes.kernel.journal import MemoryStore
from hermes.kernel.messages import Image, Json
from hermes.kernel.services import Services, build, open_store
from hermes.kernel.sessions import SessionStore
from hermes.kernel.state import TurnResult
from hermes.kernel.storing import StoreUnavailable
from hermes.kernel.structured import checked_schema
from hermes.kernel.toolrunner import Person

_LOG = logging.getLogger("hermes.agent")

Sent = Literal["waits", "steers", "queued", "interrupts"]
"""What became of a message by `Agent.send`: no turn runs and it waits for `run_next`; it reaches the running turn; it
waits for the end of that turn; it ended that turn and is next."""


class Agent:
    """One conversation at a time over the services of its settings. A context manager; `close` ends it.

    `ask` answers questions and approvals (`question`, `approve`); None when there is no one to ask. `on_event` gets
    every event, children's too, on the thread where it happens; it must not block.
    """

    def __init__(
        self, settings: Settings, *, ask: Person | None = None, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self.settings = settings
        self._person, self._on_event = ask, on_event
        self._services: Services | None = None
        self._store: SessionStore | None = None
        self._problem = ""  # why the store in use is one in memory that nobody asked for
        self._conversation: Conversation | None = None
        self._token: Token | None = None
        self._early: tuple[EndReason, str] | None = None
        self._lock = threading.Lock()
        self._speaking = threading.RLock()  # an `on_event` may send while a turn begins, in the same thread
        self._caller: str | None = None

    @classmethod
    def from_options(
        cls,
        *,
        model: str = "auto",
        base_url: str | None = None,
        api_key: str | None = None,
        max_iterations: int = 90,
        enabled_toolsets: Sequence[str] | None = None,
        disabled_toolsets: Sequence[str] = (),
        system_prompt: str | None = None,
    ) -> Self:
        """An agent without a settings file. With `base_url`, `model` is that endpoint's own name for it."""
        settings = Settings(limits=LimitSettings(iterations=max_iterations), model=model)
        if base_url is not None:
            endpoint = ProviderSettings(base_url=base_url, api_key=api_key)
            settings = replace(settings, model=f"custom:{model}", providers={"custom": endpoint})
        elif api_key is not None:
            name, _, of_provider = model.partition(":")
            if not of_provider:
                raise UsageError("api_key needs model='provider:model', or a base_url, to say whose key it is")
            settings = replace(settings, providers={name: ProviderSettings(api_key=api_key)})
        toolsets = ToolSettings().toolsets if enabled_toolsets is None else tuple(enabled_toolsets)
        kept = tuple(name for name in toolsets if name not in disabled_toolsets)
        agent = cls(replace(settings, tools=replace(settings.tools, toolsets=kept)))
        agent.use_system_prompt(system_prompt)
        return agent

    def use_system_prompt(self, text: str | None) -> None:
        """The caller's own part of the system prompt, for sessions that begin from now on."""
        self._caller = text

    # ---- What it stands on ------------------------------------------------------------------------------------------

    @property
    def services(self) -> Services:
        """Plugins, tools and models, found at the first use."""
        if self._services is None:
            self._services = build(self.settings, self._emit, on_stop=self._stopped_by_plugin)
        return self._services

    @property
    def store(self) -> SessionStore:
        if self._store is None:
            self._store, self._problem = open_store(self.services)
        return self._store

    @property
    def session_id(self) -> str | None:
        return self._conversation.log.id if self._conversation else None

    # ---- Sessions ---------------------------------------------------------------------------------------------------

    def begin(self, title: str = "") -> str:
        """Begin a new session and leave the one before; returns its id. Raises AgentBusy while a turn runs."""
        with self._speaking:
            self._check_idle()
            return self._begin(title)

    def _begin(self, title: str = "") -> str:
        self._leave()
        choice = self.services.chain()[0]
        if choice.why:
            self._emit(Notice(kind="model", text=f"model: {choice.name} ({choice.why})"))
        if self.settings.limits.max_cost_usd is not None and not self.services.targets.has_price(choice.name):
            text = f"the price of {choice.name} is unknown: limits.max_cost_usd cannot stop this run"
            self._emit(Notice(kind="budget", text=text))
        try:
            return self._create(choice.name, title)
        except StoreError as error:
            if self.settings.sessions.stop_when_failing or self._problem:
                raise
            self._emit(Notice(kind="store", text=f"{error}; this run is kept in memory only"))
            self._store, self._problem = MemoryStore(), str(error)
            return self._create(choice.name, title)

    def _create(self, model: str, title: str) -> str:
        directory = str(self.services.places.cwd)
        session_id = self.store.create(directory=directory, model=model, title=title, source="cli")
        self._open(session_id, is_resumed=False)
        return session_id

    def attach(self, id_or_title: str, *, fork: bool = False) -> str:
        """Go on with a session, or with a copy of it; what a crash left open in its children is closed first.

        Raises SessionNotFound, SessionBusy with the process that has it, or AgentBusy while a turn runs.
        """
        with self._speaking:
            self._check_idle()
            self._leave()
            session_id = self.store.find(id_or_title)
            if fork:
                session_id = self.store.fork(session_id)
            self._open(session_id, is_resumed=True)
            return session_id

    def newest(self) -> str:
        """The id of the session of this directory with the newest activity; SessionNotFound when there is none."""
        directory = str(self.services.places.cwd)
        for info in self.store.list(directory=directory, limit=1):
            return info.id
        if self._problem:
            raise StoreUnavailable(self._problem)
        raise SessionNotFound(f"no session was begun in {directory}; `hermes sessions list` shows all of them")

    def _open(self, session_id: str, *, is_resumed: bool) -> None:
        standing = Standing(0, self._caller, self.settings.limits.iterations, self._person, is_resumed)
        spawn = Children(self.services, self.store).spawn
        conversation = Conversation(self.services, self.store, standing, spawn, self._remember)
        conversation.open(self.store.open(session_id))
        conversation.log.stored = conversation.log.stored and not self._problem
        self._conversation = conversation
        if is_resumed:
            close_children(self.store, session_id)

    def _leave(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    # ---- Turns ------------------------------------------------------------------------------------------------------

    def run(self, text: str, images: Sequence[Image] = (), *, schema: Mapping[str, Json] | None = None) -> TurnResult:
        """One turn, to its end, in the session that is open, else in a new one.

        With a JSON Schema, `structured` of the result is the answer as a value that fits it. Raises AgentBusy while
        another turn runs, SettingsError or UsageError for what cannot begin; what a provider, tool, plugin or store
        does ends in the result.
        """
        if not text.strip() and not images:
            raise UsageError("the message is empty")
        plain = None if schema is None else checked_schema(schema)
        result = self._turn(lambda conversation: conversation.said(text, images, plain))
        assert result is not None  # a message that was said begins a turn
        return result

    def resume(self, session_id: str) -> TurnResult:
        """Finish the turn of a session that a crash cut off, or begin the one that waits; UsageError without either."""
        if self.session_id != session_id:
            self.attach(session_id)
        if (result := self.run_next()) is None:
            raise UsageError(f"session {session_id} has no unfinished turn; give a prompt to go on with it")
        return result

    def run_next(self) -> TurnResult | None:
        """One turn for what comes next by itself in the open session: a turn that a crash cut off, else what was sent.

        With `sessions.busy: queue` each message is a turn of its own, else all that wait are one. None, and nothing
        done, when there is neither. Raises as `run` does.
        """
        return self._turn(Conversation.next_input) if self._conversation is not None else None

    def send(self, text: str, images: Sequence[Image] = ()) -> Sent:
        """Say something at any moment, from any thread; durable on return, and never lost, also by a crash.

        While no turn runs it waits for `run_next`. While one runs, `sessions.busy` decides: it reaches the model with
        the next tool results (images cannot, and nothing overtakes what waits), waits for a turn of its own, or
        interrupts. `run` takes all that waits before its own text. Raises UsageError when it is empty or no session is
        open.
        """
        if not text.strip() and not images:
            raise UsageError("the message is empty")
        with self._speaking:
            conversation, token = self._conversation, self._token
            if conversation is None:
                raise UsageError("no session is open: begin() or attach() one, or run() the first message")
            busy = self.settings.sessions.busy
            if token is not None and busy == "steer" and not images and not conversation.is_anybody_waiting():
                conversation.steer(text, keep=True)
                return "steers"
            conversation.queue(text, images)
        if token is None:
            return "waits"
        if busy != "interrupt":
            return "queued"
        token.set(EndReason.INTERRUPTED, "a new message came")
        return "interrupts"

    def interrupt(self, reason: EndReason = EndReason.INTERRUPTED, detail: str = "") -> None:
        """Stop the running turn, from any thread. Before a turn runs, the next one is stopped at once."""
        with self._lock:
            token = self._token
            if token is None:
                self._early = (reason, detail)
                return
        token.set(reason, detail)

    def steer(self, text: str) -> None:
        """Say something to the running turn; it reaches the model with the next tool results. Durable on return.

        Raises UsageError when no turn runs or the text is blank.
        """
        conversation = self._conversation
        if self._token is None or conversation is None:
            raise UsageError("no turn is running; use run() instead of steer()")
        if not text.strip():
            raise UsageError("the text to steer with is blank")
        conversation.steer(text)

    def _turn(self, begin: Callable[[Conversation], Input | None]) -> TurnResult | None:
        """One turn of the input that `begin` finds. What others send meanwhile comes behind this input, not before."""
        with self._speaking:
            token = self._begin_turn()
            begun: Input | None = None
            try:
                conversation = self._opened()
                begun = begin(conversation)
            finally:
                if begun is None:
                    self._end_turn(token)
        if begun is None:
            return None
        try:
            return conversation.run(begun, token)
        finally:
            self._end_turn(token)

    def _opened(self) -> Conversation:
        if self._conversation is None:
            self._begin()
        if self._conversation is None:
            raise UsageError("no session is open")
        return self._conversation

    def _end_turn(self, token: Token) -> None:
        with self._lock:
            self._token = None
        token.close()

    def _check_idle(self) -> None:
        if self._token is not None:
            raise AgentBusy("a turn of this agent is running; wait for it, steer() it, or interrupt() it")

    def _begin_turn(self) -> Token:
        with self._lock:
            self._check_idle()
            self._token = Token()
            if self._early is not None:
                self._token.set(*self._early)
                self._early = None
            return self._token

    def _stopped_by_plugin(self, stop: StopRun) -> None:
        self.interrupt(EndReason.INTERRUPTED, stop.why or "a plugin stopped the run")

    # ---- The rest ---------------------------------------------------------------------------------------------------

    def _remember(self, request: ApprovalRequest) -> None:
        """A person said "always": keep it as a rule of the user's own settings."""
        from hermes.kernel.approval import rule_for
        from hermes.kernel.config.rules import add_rule

        try:
            add_rule(rule_for(request))
        except (SettingsError, OSError) as error:
            self._emit(Notice(kind="warning", text=f"the rule could not be saved, it holds for this run: {error}"))

    def _emit(self, event: Event) -> None:
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:  # a front end that fails must not leave a turn open
                _LOG.exception("on_event failed for %s", type(event).__name__)
        if self._services is not None and self._services.plugins.wants("on_event"):
            self._services.plugins.observe("on_event", event=event)

    def close(self) -> None:
        """Leave the session and let observers finish; safe to call twice."""
        self._leave()
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._services is not None:
            self._services.close()
            self._services = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["Agent", "TurnResult"]
