"""One open session: its log, its frozen prefix, its tools; agents and their children run their turns in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path

from hermes.kernel import inbox, prompt
from hermes.kernel.batch import BatchFacts
from hermes.kernel.crashed import repaired
from hermes.kernel.durable import DurableLog
from hermes.kernel.effects import ApprovalRequest
from hermes.kernel.endings import EndReason
from hermes.kernel.events import Event, Notice, SessionStarted, ToolProgress, TurnFinished, TurnStarted
from hermes.kernel.history import repair
from hermes.kernel.inbox import Input
from hermes.kernel.interrupts import Token
from hermes.kernel.messages import Image, Json, UserInput
from hermes.kernel.modelcalls import ModelCalls
from hermes.kernel.outcomes import Trail, state_to_json
from hermes.kernel.repairs import found_blind
from hermes.kernel.roles import ChildResult, ChildTask, PromptContext, Tool, ToolContext, TurnInfo
from hermes.kernel.running import Running
from hermes.kernel.runtime import Runtime
from hermes.kernel.services import Services
from hermes.kernel.sessions import Epoch, SessionLog, SessionStore, Snapshot
from hermes.kernel.sidecalls import SideCalls
from hermes.kernel.state import Limits, TurnResult, TurnState
from hermes.kernel.toolrunner import Person, Surroundings, ToolRunner, approved_of
from hermes.kernel.turncontext import turn_context

STORE_FAILED = "the session could not be written, and sessions.stop_when_failing makes that a stop"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a conversation stands among others: `caller` is the caller's own system prompt, `depth` 0 for a person's."""

    depth: int = 0
    caller: str | None = None
    iterations: int | None = 90
    person: Person | None = None
    is_resumed: bool = False


@dataclass(slots=True)
class Conversation:
    """Owns one SessionLog from `open` to `close`. One turn at a time."""

    services: Services
    store: SessionStore
    standing: Standing
    spawn: Callable[[Conversation, Running, Sequence[ChildTask]], Sequence[ChildResult]]
    remember: Callable[[ApprovalRequest], None] = lambda request: None
    log: DurableLog = field(init=False)
    runtime: Runtime = field(init=False)
    tools: Mapping[str, Tool] = field(init=False)
    epoch: Epoch = field(init=False)
    snapshot: Snapshot = field(init=False)
    state: TurnState | None = None
    _token: Token | None = None
    _must_store_epoch: bool = False

    # ---- Open and close ---------------------------------------------------------------------------------------------

    def open(self, log: SessionLog) -> None:
        """Take a session over: load it, settle which prefix holds, make its driver."""
        self.log = DurableLog(log, self._as_known, self._store_failed)
        self.log.claim()
        try:
            self._prepare()
        except BaseException:
            self.log.release()
            raise

    def _prepare(self) -> None:
        self.snapshot = self.log.load()
        self.tools = self.services.tools(can_ask=self.standing.person is not None, depth=self.standing.depth)
        self._settle_epoch()
        services, session = self.services, self.log.id
        models = ModelCalls(services.targets, services.plugins, services.ledger, self.emit, lambda: self.epoch, session)
        runner = ToolRunner(
            self._facts,
            services.plugins,
            self.log,
            self.emit,
            self.standing.person,
            session,
            services.settings.tools.deadline_s,
            self.remember,
        )
        trail = Trail() if services.settings.sessions.outcomes else None
        self.runtime = Runtime(
            self.log,
            models,
            runner,
            services.plugins,
            self.emit,
            self._surroundings,
            services.engine(),
            self._build,
            trail,
        )
        name = services.chain()[0].name
        provider, _, model = name.partition(":")
        started = SessionStarted(
            model=model, provider=provider, directory=str(services.places.cwd), resumed=self.standing.is_resumed
        )
        self.emit(started)
        services.plugins.observe("before_session", session=self.snapshot.info)

    def close(self) -> None:
        self.services.plugins.observe("after_session", session=self.snapshot.info)
        self.log.release()

    def emit(self, event: Event) -> None:
        self.services.emit(event if event.session else replace(event, session=self.log.id))

    # ---- The prefix -------------------------------------------------------------------------------------------------

    def _settle_epoch(self) -> None:
        """Keep the stored prefix while its tools are still these; else begin a new epoch and say why."""
        schemas = tuple(tool.schema for tool in self.tools.values())
        stored = self.snapshot.epoch
        if stored is not None and {s.name: s for s in stored.tools} == {s.name: s for s in schemas}:
            self.epoch = stored
            return
        why = "the session begins"
        if stored is not None:
            before, now = {s.name for s in stored.tools}, {s.name for s in schemas}
            changes = [*(f"+{n}" for n in sorted(now - before)), *(f"-{n}" for n in sorted(before - now))]
            why = f"the tools changed: {' '.join(changes) or 'other descriptions'}"
            self.emit(Notice(kind="context", text=f"the system prompt is built anew: {why}"))
        self.epoch = Epoch((stored.number if stored else 0) + 1, "", schemas, why)
        self.epoch = self._build(why, number=self.epoch.number)
        self._must_store_epoch = True

    def _build(self, why: str, number: int | None = None) -> Epoch:
        """The next epoch: sections, files and clock as they are now."""
        services, settings = self.services, self.services.settings
        provider, _, model = services.chain()[0].name.partition(":")
        context = PromptContext(
            session_id=self.log.id,
            cwd=services.places.cwd,
            home=services.places.home,
            model=model,
            provider=provider,
            platform="cli",
            date=date.today().isoformat(),
            tool_names=frozenset(self.tools),
            identity=settings.prompt.identity,
            append=settings.prompt.append,
            caller=self.standing.caller,
            context_files=settings.prompt.context_files,
            section_max_chars=settings.prompt.section_max_chars,
            memory=services.memory() if self.standing.depth == 0 else None,
            depth=self.standing.depth,
            notice=lambda line: self.emit(Notice(kind="warning", text=line)),
        )
        text = prompt.build(services.sections(), services.section_names(), context, self._section_failed)
        self.epoch = Epoch(number or self.epoch.number + 1, text, tuple(t.schema for t in self.tools.values()), why)
        return self.epoch

    def _section_failed(self, name: str, cause: str) -> None:
        self.emit(Notice(kind="plugin", text=f"prompt section {name} is left out: {cause}"))

    # ---- Turns ------------------------------------------------------------------------------------------------------

    def said(self, text: str, images: Sequence[Image] = (), schema: Mapping[str, Json] | None = None) -> Input:
        """A user's message for the next turn, on disk."""
        return inbox.said(self.log, self.snapshot, text, images, schema)

    def queue(self, text: str, images: Sequence[Image] = ()) -> None:
        """Let a message wait for a turn of its own; on disk before this returns."""
        self.log.put_inbox("input", inbox.message_parts(text, images))

    def is_anybody_waiting(self) -> bool:
        """Whether a message waits for a turn of its own; steering must not overtake it."""
        return bool(self.log.waiting("input"))

    def next_input(self) -> Input | None:
        """What comes next by itself: the rest of a turn that a crash cut off, or a message that waits."""
        together = self.services.settings.sessions.busy != "queue"
        return inbox.next_input(self.log, self.snapshot, together=together)

    def steer(self, text: str, *, keep: bool = False) -> None:
        """Say something to the running turn; on disk before this returns. With `keep` it is never given back."""
        self.runtime.inbox.steer(text, keep=keep)

    def run(self, begun: Input, token: Token) -> TurnResult:
        """One turn, from its input to its end."""
        self._token = token
        given, text = begun.given, begun.text
        if given is not None:
            info = TurnInfo(self.log.id, 0, text, str(self.services.places.cwd), messages=self.snapshot.messages)
            added = turn_context(self.services.plugins, info, token, self._results_folder())
            given = replace(given, parts=(*given.parts, *added))
            self.runtime.inbox.hold_back(given.taken)
        return self._turn(given, text, token, begun.schema)

    def _turn(self, given: UserInput | None, text: str, token: Token, schema: Mapping[str, Json] | None) -> TurnResult:
        state = self._state(schema)
        self.state = state
        if given is None and self.snapshot.open_turn is not None:
            state.turn, state.iterations = self.snapshot.open_turn.id, self.snapshot.open_turn.iterations
            state.attempts = self.snapshot.open_turn.attempts
        else:
            state.turn = self.log.begin_turn(state_to_json(state))
        if self.runtime.trail is not None:
            self.runtime.trail.begin(state, given, resumed=given is None)
        self._store_beginning(state)
        for row in self.log.waiting("steer"):
            self.runtime.inbox.put(row.id, row.text)
        if self._must_stop():
            token.set(EndReason.STORE_FAILED, STORE_FAILED)
        info = TurnInfo(self.log.id, state.turn, text, str(self.services.places.cwd), messages=tuple(state.messages))
        self.services.plugins.observe("before_turn", turn=info)
        self.emit(TurnStarted(turn=state.turn, text=text))
        result = self.runtime.run(state, given, token)
        result = replace(result, steering=self.runtime.inbox.give_back(state.steering))
        if self._must_stop() and result.reason is EndReason.COMPLETED:
            result = replace(result, reason=EndReason.STORE_FAILED, detail=STORE_FAILED)
        self._ended(result, info)
        self._token = None
        return result

    def _must_stop(self) -> bool:
        return not self.log.stored and self.services.settings.sessions.stop_when_failing

    def _ended(self, result: TurnResult, info: TurnInfo) -> None:
        """The one epilogue of every turn."""
        self.snapshot = self._as_known()
        after = replace(info, answer=result.answer, reason=result.reason.value, messages=result.messages)
        self.services.plugins.observe("after_turn", turn=after)
        self.emit(
            TurnFinished(
                turn=result.turn,
                reason=result.reason.value,
                answer=result.answer,
                detail=result.detail,
                iterations=result.iterations,
                seconds=result.seconds,
                usage=result.usage,
            )
        )

    def _state(self, schema: Mapping[str, Json] | None) -> TurnState:
        services = self.services
        limits, known = services.settings.limits, dict(self.snapshot.state)
        chain = tuple(choice.name for choice in services.chain())
        return TurnState(
            self.log.id,
            0,
            repair(self.snapshot.messages),
            frozenset(self.tools),
            frozenset(n for n, t in self.tools.items() if t.idempotent),
            set(self.snapshot.call_ids),
            known,
            chain,
            known.get(f"window:{chain[0]}") or services.targets.window_of(chain[0]),
            limits=Limits(
                self.standing.iterations,
                limits.warn_model_at,
                limits.stop_after_failing_calls,
                services.settings.request.attempts,
                services.settings.model_options.max_output_tokens,
            ),
            auxiliary=services.auxiliary(),
            blind=services.blind() | found_blind(known),
            schema=schema,
            windows={name: services.targets.window_of(name) for name in chain},
            only_read=frozenset(n for n, t in self.tools.items() if t.only_reads),
        )

    def _store_beginning(self, state: TurnState) -> None:
        """Record a prefix that is new, and a conversation that had to be repaired, before anything is built on them."""
        changes = repaired(self.snapshot.messages, state.messages)
        epoch = self.epoch if self._must_store_epoch else None
        self._must_store_epoch = False
        if changes or epoch:
            self.log.record(state.turn, changes, iterations=state.iterations, attempts=state.attempts, epoch=epoch)

    # ---- What the runtime asks for ----------------------------------------------------------------------------------

    def _facts(self, known: Mapping[str, Json]) -> BatchFacts:
        settings = self.services.settings
        return BatchFacts(
            self.tools,
            self._cwd(known),
            settings.approval,
            settings.tools.workers,
            settings.tools.result_max_chars,
            approved_of(known),
        )

    def _surroundings(self, state: TurnState, token: Token) -> Surroundings:
        def context(tool: Tool, running: Running) -> ToolContext:
            return self._context(tool, running, state)

        ledger = self.services.ledger
        return Surroundings(
            state.turn,
            self.standing.depth,
            token,
            self.services.places.cwd,
            self._results_folder(),
            ledger.seconds_left,
            context,
        )

    def _results_folder(self) -> Path:
        return self.services.places.home / "results" / self.log.id

    def _context(self, tool: Tool, running: Running, state: TurnState) -> ToolContext:
        services, call_id = self.services, running.call.id

        def ask(question: str, choices: Sequence[str]) -> str | None:
            if self.standing.person is None:
                return None
            with running.asking():
                return self.standing.person.question(question, choices)

        own = services.settings.plugins.settings.get(tool.toolset, {})
        aside = SideCalls(services, self.log.id, self.emit, self.runtime.child_usage.append)
        return ToolContext(
            session_id=self.log.id,
            call_id=call_id,
            cwd=self._cwd(state.known),
            home=services.places.home,
            cancelled=running.token,
            progress=lambda line: self.emit(ToolProgress(call_id=call_id, text=line)),
            ask=ask,
            spawn=lambda tasks: self.spawn(self, running, tasks),
            search=self.store,
            state=dict(state.known),
            settings={**own, "protect_paths": list(services.settings.approval.protect_paths)},
            deadline=running.deadline,
            depth=self.standing.depth,
            memory=services.memory(),
            ask_model=partial(aside.ask, running.token),
        )

    def _cwd(self, known: Mapping[str, Json]) -> Path:
        """Where the session's commands have got to, else where it began."""
        given = known.get("cwd")
        path = Path(given) if isinstance(given, str) else self.services.places.cwd
        return path if path.is_dir() else self.services.places.cwd

    def _as_known(self) -> Snapshot:
        """The session as this process knows it: what memory goes on from when the disk fails."""
        state = self.state
        if state is None:
            return self.snapshot
        info = self.snapshot.info
        return replace(
            self.snapshot,
            info=replace(info, turns=max(info.turns, state.turn)),
            messages=tuple(state.messages),
            call_ids=frozenset(state.call_ids),
            state=dict(state.known),
            epoch=self.epoch,
            open_turn=None,
            inbox=(),
        )

    def _store_failed(self, cause: str) -> None:
        stops = self.services.settings.sessions.stop_when_failing
        then = "the turn stops here (sessions.stop_when_failing)" if stops else "going on in memory"
        self.emit(Notice(kind="store", text=f"{cause}; {then}: what follows is not stored"))
        if stops and self._token is not None:
            self._token.set(EndReason.STORE_FAILED, cause)
