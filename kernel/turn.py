"""The loop: from one user input to its end reason, as a generator of effects that touches nothing.

The tail of the conversation says what comes next: a message with open calls → run them; a complete assistant text → a
candidate answer; anything else → ask the model. So `turn(state, None)` goes on with a turn that a crash cut off.

Each kind of effect is yielded in one helper that takes over all that comes with its outcome. Nothing is yielded between
the outcome of RunTools and the Record of its results, but for the description of images in `begin`. A turn that ends
other than by an answer does so in one Record.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from hermes.kernel.asking import ask
from hermes.kernel.auxiliary import described
from hermes.kernel.chain import first_target, go_to
from hermes.kernel.effects import (
    Change,
    Consult,
    Effect,
    Notify,
    Objection,
    Outcome,
    Ran,
    Record,
    RunTools,
    Stopped,
    TurnEnded,
)
from hermes.kernel.endings import EndReason
from hermes.kernel.events import AssistantMessage
from hermes.kernel.history import user_message
from hermes.kernel.messages import Json, Message, ModelReply, ModelRequest, Text, ToolCall, ToolResult, UserInput, clean
from hermes.kernel.progress import Progress
from hermes.kernel.replies import (
    CONTINUE,
    CUT,
    DETAILS,
    FINAL_NOTES,
    MOST_CONTINUATIONS,
    MOST_CUT_STEPS,
    MOST_INVALID_STEPS,
    Kind,
    kind_of,
    larger_cap,
    stored,
)
from hermes.kernel.resting import CUT_OFF, closing_text, open_calls, resting, tool_message
from hermes.kernel.state import Effects, Ended, TurnResult, TurnState
from hermes.kernel.structured import as_object, fitted, misfit_note
from hermes.kernel.unanswered import no_answer

MOST_OBJECTIONS = 3
"""How often `choose_turn_end` may send an answer back in one turn (hooks.md)."""

REPEATS_OF_A_READ = 3
"""The same idempotent call with the same result this often: the next request must answer."""

REPEATS_OF_A_CHANGE = 10
"""The same for a call that may change things: such as a look at something that is still running."""

SAME_OUTCOMES_WORTH_A_WORD, SAME_OUTCOMES_OF_A_TOOL = 5, 20
"""One tool with the same outcome so often in a row, whatever its arguments: a word, then the end (B096)."""


def turn(state: TurnState, text: UserInput | None) -> Generator[Effect, Outcome, TurnResult]:
    """One turn. With a text, what an earlier turn left open is closed first, in the Record that holds the new text."""
    state.input = text
    go_to(state, first_target(state))
    try:
        if text is not None:
            yield from begin(state, text)
        result: TurnResult = yield from converse(state, Progress(cap=state.limits.output_cap))
        return result
    except Ended as end:
        result = yield from settle(state, end.reason, end.detail)
        return result
    except Stopped as stop:
        state.take_over(stop)
        result = yield from settle(state, stop.reason, stop.detail, stop.partial, stop.results)
        return result


def begin(state: TurnState, text: UserInput) -> Effects:
    """Record the user's message after whatever the conversation needs to rest first."""
    results: tuple[ToolResult, ...] = ()
    if runnable := tuple(c for c in open_calls(state) if not c.problem):
        results = yield from run(state, runnable, may_start=False)
    try:
        text = yield from described(state, text)
    except Stopped as stop:  # the results are not recorded yet, so they go with it
        stop.results = results
        raise
    yield Record((begun(state, text, results),))


def begun(state: TurnState, text: UserInput, results: tuple[ToolResult, ...]) -> Change:
    state.input = None
    before = resting(state, results, CUT_OFF)
    return state.append(*before, user_message(text.parts), taken=text.taken)


def converse(state: TurnState, progress: Progress) -> Effects:
    while True:
        tail = state.messages[-1]
        if tail.calls:
            yield from run_calls(state, progress)
        elif tail.role == "assistant" and tail.origin != "partial":
            if result := (yield from candidate(state, progress)):
                return result
        elif reason := must_end(state, progress):
            if result := (yield from final_answer(state, reason)):
                return result
        else:
            yield from step(state, progress)


def must_end(state: TurnState, progress: Progress) -> EndReason | None:
    """Why the next request must answer without calls, sticky for the turn; None while it need not."""
    limit = state.limits.iterations
    if state.exhausted is None and limit is not None and state.iterations >= limit:
        state.exhausted = EndReason.BUDGET_ITERATIONS
    return state.exhausted or progress.must_answer


# ---- Ask the model --------------------------------------------------------------------------------------------------


def step(state: TurnState, progress: Progress) -> Effects:
    """One reply of the model, and what it leads to."""
    is_rest, may_call = state.messages[-1].origin == "partial", not progress.text_only
    notes = (CONTINUE if is_rest else "", progress.note, budget_note(state, progress))
    progress.note = ""
    schema = None if is_rest else asked_schema(state)  # the rest of an object does not fit by itself
    request = ModelRequest((), "\n".join(n for n in notes if n), may_call, progress.cap, schema=schema)
    reply = yield from ask(state, request)
    if reply is None:
        return
    state.iterations += 1
    match kind_of(reply, may_call=may_call):
        case Kind.CALLS | Kind.TEXT:
            progress.empties = progress.continuations = 0
            progress.recut = progress.text_only = False
            yield from accept(state, reply, may_call=may_call)
        case Kind.CUT_TEXT:
            yield from continue_text(state, progress, reply, may_call=may_call)
        case Kind.CUT_CALL:
            yield from cut_call(state, progress, reply)
        case kind:
            yield from no_answer(state, progress, reply, kind)


def asked_schema(state: TurnState) -> Mapping[str, Json] | None:
    return None if state.schema is None else as_object(state.schema)


def accept(state: TurnState, reply: ModelReply, origin: str = "", *, may_call: bool = True) -> Effects:
    """Record a reply; steering that came with an answer follows it and keeps the turn going."""
    message = stored(reply, state, may_call=may_call, origin=origin)
    steer, taken = steering(state) if not message.calls and not origin else ((), ())
    more = (Message("user", steer, "steer"),) if steer else ()
    yield Record((state.place(message, *more, taken=taken),))
    if message.calls or origin or more:
        yield Notify(AssistantMessage(text=message.text))


def continue_text(state: TurnState, progress: Progress, reply: ModelReply, *, may_call: bool) -> Effects:
    progress.empties = 0
    yield from accept(state, reply, "partial", may_call=may_call)
    progress.continuations += 1
    if progress.continuations > MOST_CONTINUATIONS:
        raise Ended(EndReason.CUT_TEXT, DETAILS[EndReason.CUT_TEXT])


def cut_call(state: TurnState, progress: Progress, reply: ModelReply) -> Effects:
    """A call whose arguments were cut is never run: ask once more with a larger cap, then tell the model to split."""
    if not progress.recut:
        progress.recut, progress.cap = True, larger_cap(progress.cap, reply)
        return
    progress.recut = False
    progress.cut_steps += 1
    yield from accept(state, reply)


def budget_note(state: TurnState, progress: Progress) -> str:
    """Tell the model once, at each share of `warn_model_at`, how much of its iterations is used."""
    limit = state.limits.iterations or 0
    passed = {s for s in state.limits.warn_model_at if limit and state.iterations >= s * limit} - progress.warned
    progress.warned |= passed
    if not passed:
        return ""
    return f"You have used {state.iterations} of {limit} steps for this task. Work towards your final answer."


# ---- Run tools ------------------------------------------------------------------------------------------------------


def run(state: TurnState, calls: tuple[ToolCall, ...], *, may_start: bool) -> Effects:
    """The one place that yields RunTools; gives the results and takes over what came with them."""
    outcome = yield RunTools(calls, may_start)
    if not isinstance(outcome, Ran):
        raise TypeError(f"RunTools must be answered by Ran, not {type(outcome).__name__}")
    state.take_over(outcome)
    state.take_state(outcome.results)
    return outcome.results


def run_calls(state: TurnState, progress: Progress) -> Effects:
    calls = open_calls(state)
    runnable = tuple(c for c in calls if not c.problem)
    results = (yield from run(state, runnable, may_start=True)) if runnable else ()
    message = tool_message(calls, results)
    steer, taken = steering(state)
    yield Record((state.append(Message("tool", (*message.parts, *steer)), taken=taken),))
    watch_calls(state, progress, calls, message)


def watch_calls(state: TurnState, progress: Progress, calls: tuple[ToolCall, ...], message: Message) -> None:
    """Stop a turn that makes no progress: cut or invalid calls only, or the same call over and over."""
    if progress.cut_steps > MOST_CUT_STEPS:
        raise Ended(EndReason.CUT_TOOL_CALL, DETAILS[EndReason.CUT_TOOL_CALL])
    if all(c.problem for c in calls):
        progress.invalid_steps += not any(c.problem and c.problem.startswith(CUT) for c in calls)
        if progress.invalid_steps >= MOST_INVALID_STEPS:
            raise Ended(EndReason.INVALID_TOOLS, DETAILS[EndReason.INVALID_TOOLS])
        return
    progress.invalid_steps = 0
    for call, result in zip(calls, message.results, strict=True):
        watch_repeats(state, progress, call, result)


def watch_repeats(state: TurnState, progress: Progress, call: ToolCall, result: ToolResult) -> None:
    is_read = call.name in state.idempotent
    changes_things = result.status == "ok" and not is_read
    outcome = (result.status, result.parts)
    count = progress.repeats.add(call, outcome, changes_things=changes_things)
    of_tool, in_circle = progress.repeats.of_tool(call.name), progress.is_in_circle(result)
    if result.status != "ok" and count >= state.limits.stop_after_failing_calls:
        blocked = result.status == "blocked"
        progress.must_answer = progress.must_answer or (EndReason.NEEDS_PERSON if blocked else EndReason.STUCK_CALLS)
    elif is_read and result.status == "ok" and count >= REPEATS_OF_A_READ:
        progress.must_answer = progress.must_answer or EndReason.COMPLETED
    elif count >= REPEATS_OF_A_CHANGE or of_tool >= SAME_OUTCOMES_OF_A_TOOL or in_circle:
        progress.must_answer = progress.must_answer or EndReason.STUCK_CALLS
    elif count >= 2:
        progress.note = (
            f"You have made the same call of {call.name} {count} times with the same outcome. "
            "Do not repeat it: use what you have, or try something else."
        )
    elif of_tool >= SAME_OUTCOMES_WORTH_A_WORD:
        progress.note = (
            f"{call.name} gave the same outcome {of_tool} times in a row, whatever you called it with. "
            "Use what you have, or try something else."
        )


def steering(state: TurnState) -> tuple[tuple[Text, ...], tuple[int, ...]]:
    """What the user said meanwhile, as text parts, with the inbox rows that they take; it waits no more."""
    waiting, state.steering = state.steering, []
    return tuple(Text(clean(s.text), "steer") for s in waiting if s.text.strip()), tuple(s.inbox_id for s in waiting)


# ---- End ------------------------------------------------------------------------------------------------------------


def candidate(state: TurnState, progress: Progress) -> Effects:
    """A complete text: the answer, unless a plugin objects; gives the result, or None when the turn goes on."""
    answer = state.messages[-1].text
    if state.schema is not None and (problem := fitted(answer, state.schema)[1]):
        return (yield from mend(state, progress, state.schema, problem))
    if progress.objections < MOST_OBJECTIONS and must_end(state, progress) is None:
        choice = yield Consult("turn_end", {"answer": answer, "objections": progress.objections})
        if isinstance(choice, Objection) and choice.message.strip():
            progress.objections += 1
            return (yield from nudge(state, answer, choice.message))
    return (yield from end(state, EndReason.COMPLETED, answer))


def mend(state: TurnState, progress: Progress, schema: Mapping[str, Json], problem: str) -> Effects:
    """An answer that does not fit the schema: let the model write it again once, else end with what there is."""
    answer = state.messages[-1].text
    if progress.repaired or state.exhausted is not None:
        return (yield from end(state, EndReason.SCHEMA_UNMET, answer, f"the answer does not fit the schema: {problem}"))
    progress.repaired = progress.text_only = True
    return (yield from nudge(state, answer, misfit_note(problem, schema)))


def nudge(state: TurnState, answer: str, message: str) -> Effects:
    """Send an answer back; the model reads `message`, and the turn goes on."""
    yield Notify(AssistantMessage(text=answer))
    yield Record((state.append(user_message((Text(message),), "nudge")),))


def end(state: TurnState, reason: EndReason, answer: str, detail: str = "") -> Effects:
    """End the turn with the text that is its last message."""
    yield Record((TurnEnded(reason, answer),))
    yield Notify(AssistantMessage(text=answer, final=True))
    return result_of(state, reason, answer, detail)


def final_answer(state: TurnState, reason: EndReason) -> Effects:
    """One last request that may not call tools; whatever comes of it, a budget's reason stays.

    Gives None when its answer has yet to be held against a schema: the turn goes on with it as with any other.
    """
    note = FINAL_NOTES.get(reason, FINAL_NOTES[EndReason.BUDGET_TOKENS])
    cap = state.limits.output_cap
    try:
        reply = yield from ask(state, ModelRequest((), note, False, cap, "summary", schema=asked_schema(state)))
    except Ended as end:
        if not reason.is_budget:
            raise
        detail = f"{DETAILS[reason]}; the closing request failed: {end.detail}"
        return (yield from settle(state, reason, detail, state.streamed))
    if reply is None or kind_of(reply, may_call=False) not in (Kind.TEXT, Kind.CUT_TEXT):
        ends = state.exhausted or (EndReason.STUCK_CALLS if reason is EndReason.COMPLETED else reason)
        return (yield from settle(state, ends, DETAILS[ends], state.streamed))
    change = state.place(stored(reply, state, may_call=False))
    if reason is EndReason.COMPLETED and state.schema is not None:
        yield Record((change,))
        return None
    answer = state.messages[-1].text
    yield Record((change, TurnEnded(reason, answer)))
    yield Notify(AssistantMessage(text=answer, final=True))
    return result_of(state, reason, answer, DETAILS.get(reason, ""))


def settle(
    state: TurnState, reason: EndReason, detail: str, partial: str = "", results: tuple[ToolResult, ...] = ()
) -> Effects:
    """End a turn other than by an answer, in one Record: what is missing, the closing message, and the end."""
    changes: list[Change] = []
    state.take_state(results)
    if state.input is not None:
        changes.append(begun(state, state.input, results))
        results = ()
    tail = state.messages[-1]
    if partial.strip() and (tail.role != "assistant" or tail.origin == "partial"):
        changes.append(state.place(Message("assistant", (Text(clean(partial)),), "partial")))
    elif missing := resting(state, results, closing_text(reason, detail)):
        changes.append(state.append(*missing))
    last = state.messages[-1]
    answer = None if last.origin in ("partial", "closing") else last.text
    yield Record((*changes, *state.unrecorded, TurnEnded(reason, answer)))
    return result_of(state, reason, answer, detail)


def result_of(state: TurnState, reason: EndReason, answer: str | None, detail: str = "") -> TurnResult:
    last = state.messages[-1]
    return TurnResult(
        state.session_id,
        state.turn,
        reason,
        answer,
        detail,
        partial=last.text if last.origin == "partial" else "",
        iterations=state.iterations,
        usage=state.usage,
        structured=None if state.schema is None or answer is None else fitted(answer, state.schema)[0],
        steering=tuple(s.text for s in state.steering),
        messages=tuple(state.messages),
    )
