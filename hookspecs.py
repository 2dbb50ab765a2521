"""Every hook, in the order in which a run calls them, and nothing else.

This file is the whole API beside the types that `hermes` exports. The first word of a name is its kind, and the kind
says how a failure is treated; docs/hooks.md has the policy and the table of entry-point groups. An implementation is an
ordinary function with `@hookimpl`; it names only the arguments that it wants. Calls are ours, not pluggy's: name order,
then `plugins.order`, each implementation apart, timed, named, with its stdout sent to stderr.

A failure is an exception (SystemExit too), a missed deadline (`plugins.hook_deadline_s`) or an answer of another type
than asked for. Two failures bench the plugin for the rest of the run. Only `StopRun` stops a run on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hermes.kernel.config.settings import ContextSettings, MemorySettings, SessionSettings
    from hermes.kernel.effects import ApprovalRequest, CallOpinion, Fault, Objection, RecoveryChoice
    from hermes.kernel.events import Event
    from hermes.kernel.messages import Json, Message, ModelReply, ModelRequest, ToolCall
    from hermes.kernel.providers import Provider, WireFormat
    from hermes.kernel.roles import (
        BatchEngine,
        CompressionInfo,
        ContextEngine,
        DelegateInfo,
        MemoryBackend,
        ModelCallInfo,
        Platform,
        PromptSection,
        Tool,
        ToolCallInfo,
        ToolReturn,
        TurnInfo,
    )
    from hermes.kernel.sessions import SessionInfo, StoreFactory

hookspec = pluggy.HookspecMarker("hermes")
hookimpl = pluggy.HookimplMarker("hermes")

# ---- Collect: called once, when the plugin is loaded. A failure drops the plugin with a warning; exit 11 if it is in
# ---- `plugins.required`. Return a list (one item alone is taken too).


@hookspec
def register_wire_formats() -> Sequence[WireFormat]:  # type: ignore[empty-body]
    """Give the wire format whose `name` is the entry point's name (an `api_mode`).

    Kind collect. Called once, when the chosen provider speaks it.
    """


@hookspec
def register_providers() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Give the provider whose `profile.name` is the entry point's name.

    Kind collect. Called once, when `model`, `fallback` or `auxiliary` names it. Import SDKs in `connect`, not here.
    """


@hookspec
def register_tools() -> Sequence[Tool]:  # type: ignore[empty-body]
    """Give the tools of the toolset that the entry point names. An empty `Tool.toolset` is filled in.

    Kind collect. Called once, when `tools.toolsets` names the toolset or says `installed`. A tool whose name is taken
    is refused, unless `tools.replace` says otherwise.
    """


@hookspec
def register_memory_backends(settings: MemorySettings, home: Path) -> Sequence[MemoryBackend]:  # type: ignore[empty-body]
    """Give the memory backend whose `name` is the entry point's name.

    Kind collect. Called once an agent, when `memory.backend` names it. `home` may not exist yet.
    """


@hookspec
def register_prompt_sections() -> Sequence[PromptSection]:  # type: ignore[empty-body]
    """Give the section of the system prompt whose `name` is the entry point's name.

    Kind collect. Called once, when `prompt.sections` names it or says `installed`; `build` runs once an epoch.
    """


@hookspec
def register_context_engines(settings: ContextSettings) -> Sequence[ContextEngine]:  # type: ignore[empty-body]
    """Give the engine, named like the entry point, that replaces compression as a whole.

    Kind collect. Called once, when `context.engine` names it.
    """


@hookspec
def register_session_stores(settings: SessionSettings) -> Sequence[StoreFactory]:  # type: ignore[empty-body]
    """Give an object named like the entry point whose `open_store(settings, home)` opens the session store.

    Kind collect. Called once, when `sessions.store` names it. Nothing is opened here.
    """


@hookspec
def register_platforms() -> Sequence[Platform]:  # type: ignore[empty-body]
    """Give the front end whose `name` is the entry point's name.

    Kind collect. Called once, when its command runs.
    """


@hookspec
def register_batch_engines() -> Sequence[BatchEngine]:  # type: ignore[empty-body]
    """Give the engine, named like the entry point, that runs many prompts.

    Kind collect. Called once, when its command runs.
    """


@hookspec
def register_web_backends() -> Sequence[object]:  # type: ignore[empty-body]
    """Give web search backends, each with a `name`; for plugins in `hermes.plugins`.

    Kind collect. Called once, when the toolset `web` is on.
    """


# ---- A session and a turn begin -------------------------------------------------------------------------------------


@hookspec
def before_session(session: SessionInfo) -> None:
    """See that a session was opened, new or resumed.

    Kind observe: on the plugin's own thread, in order, some time after it happened. Once a session in a process. A
    failure is logged.
    """


@hookspec
def provide_turn_context(turn: TurnInfo) -> str | None:
    """Give text to be added to this turn's user message (never to the system prompt); None for nothing.

    Kind gather. Called once a turn, after the input is safe in the inbox; stored with origin `context`, and spilled to
    a file past a limit. A failed answer is left out, and logged.
    """


@hookspec
def before_turn(turn: TurnInfo) -> None:
    """See that a turn begins. Kind observe, once a turn; a failure is logged."""


# ---- Each call of the model -----------------------------------------------------------------------------------------


@hookspec
def around_model_call(request: ModelRequest, proceed: Callable[[ModelRequest], ModelReply]) -> ModelReply:  # type: ignore[empty-body]
    """Stand around one attempt at the model: change the request, the reply, or answer without asking.

    Kind around: `proceed(request)` calls the next wrapper, the last one the model. It may be called with another
    request, more than once (each real call is paid for), or not at all. What `proceed` raises belongs to the call: let
    it pass. Called at every attempt; a changed request lasts for that attempt. A failure becomes a fault of kind
    `plugin`.
    """


@hookspec
def before_model_call(call: ModelCallInfo) -> None:
    """See that an attempt begins. Kind observe, at every attempt; a failure is logged."""


@hookspec
def after_model_call(call: ModelCallInfo) -> None:
    """See how an attempt ended: usage, seconds, stop reason, fault. Kind observe, at every attempt that began."""


@hookspec
def choose_recovery(fault: Fault, attempts: int) -> RecoveryChoice | None:
    """Say what to do about a fault of the model, before the kernel's own table does; None to leave it to others.

    Kind choose: the first answer wins. Called with every fault; `attempts` counts those at this target, from 1. Answers
    count against the table's own limits. A failure is logged, and the next plugin is asked.
    """


# ---- Each tool call -------------------------------------------------------------------------------------------------


@hookspec
def decide_tool_call(call: ToolCallInfo) -> CallOpinion | None:
    """Say whether a call may run: None (no opinion), ask a person, or block it with a reason that the model reads.

    Kind decide: everybody is asked, the strictest answer wins. Once a call, before approval. No answer lifts the
    hard-line list or a deny rule. A failure counts as *ask*, and as *deny* when nobody can be asked, also once the
    plugin is benched: a guard that is broken does not open the door.
    """


@hookspec
def decide_approval(request: ApprovalRequest) -> Literal["deny", "once", "session"] | None:
    """Answer for the person who would be asked; None leaves the question to them.

    Kind decide: everybody is asked, the strictest answer wins (deny, then a failure, then once, then session). Once a
    question.
    """


@hookspec
def around_tool_call(call: ToolCall, proceed: Callable[[ToolCall], ToolReturn]) -> ToolReturn:  # type: ignore[empty-body]
    """Stand around one call of a tool: change its arguments, its result, or answer without running it.

    Kind around, in the thread of the call, inside its deadline. A failure becomes the error that the model reads, with
    the plugin's name.
    """


@hookspec
def before_tool_call(call: ToolCallInfo) -> None:
    """See that a call starts, with its effective arguments. Kind observe, once a call that starts."""


@hookspec
def after_tool_call(call: ToolCallInfo) -> None:
    """See how a call ended: status, seconds, bytes. Kind observe, once a call that started."""


@hookspec
def before_delegate(delegate: DelegateInfo) -> None:
    """See that a child begins. Kind observe, once a child."""


@hookspec
def after_delegate(delegate: DelegateInfo) -> None:
    """See how a child ended. Kind observe, once a child that began."""


# ---- Compression ----------------------------------------------------------------------------------------------------


@hookspec
def before_compression(compression: CompressionInfo) -> None:
    """See that a conversation is about to be compressed. Kind observe, once a compression."""


@hookspec
def provide_compression_notes(messages: Sequence[Message]) -> str | None:
    """Give what the summary must not lose; None for nothing.

    Kind gather. Called once for each request of purpose `compression`, with the messages about to be superseded. A
    failed answer is left out, and logged.
    """


@hookspec
def after_compression(compression: CompressionInfo) -> None:
    """See tokens before and after. Kind observe, once a compression, also when it was not possible."""


# ---- The turn and the session end -----------------------------------------------------------------------------------


@hookspec
def choose_turn_end(turn: TurnInfo) -> Objection | None:
    """Accept the candidate `turn.answer` (None), or give an Objection that the model reads and goes on with.

    Kind choose: the first objection wins. Called with every candidate that is not final, at most 3 objections a turn,
    each costs an iteration. A failure is logged, and the next plugin is asked.
    """


@hookspec
def after_turn(turn: TurnInfo) -> None:
    """See why a turn ended (`reason`) and its answer. Kind observe, once a turn that began."""


@hookspec
def after_session(session: SessionInfo) -> None:
    """See that the process is done with a session. Kind observe, once for each `before_session`."""


@hookspec
def on_event(event: Event, delta: bool) -> Json:
    """See every event, as `--output-format stream-json` prints them. Kind observe; the answer is ignored.

    Pieces of streamed text (TextDelta, ThinkingDelta) are many: they come only to an implementation that names the
    argument `delta`, which is True for them.
    """
