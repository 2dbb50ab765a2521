"""Mutations of the turn, of replies and of batches."""

from __future__ import annotations

from mutant import Mutation

LOOP: dict[str, Mutation] = {
    "auxiliary_words_kept": Mutation(
        "auxiliary", '        stop.partial = ""', "        pass", "a description that was cut off becomes the answer"
    ),
    "answer_mended_for_ever": Mutation(
        "turn",
        "if progress.repaired or state.exhausted",
        "if state.exhausted",
        "an answer is sent back for ever",
    ),
    "answer_not_held_against_schema": Mutation(
        "turn",
        "if state.schema is not None and (problem :=",
        "if False and (problem :=",
        "what does not fit the schema is given as the answer",
    ),
    "steering_lost_after_tools": Mutation(
        "turn", "(*message.parts, *steer)", "(*message.parts,)", "steering is marked as taken and placed nowhere"
    ),
    "steering_told_twice": Mutation(
        "turn",
        "waiting, state.steering = state.steering, []",
        "waiting = list(state.steering)",
        "it stays waiting",
    ),
    "steering_not_taken": Mutation(
        "turn",
        'yield Record((state.append(Message("tool", (*message.parts, *steer)), taken=taken),))',
        'yield Record((state.append(Message("tool", (*message.parts, *steer))),))',
        "the inbox row of placed steering stays, and is handed out again after a crash",
    ),
    "settle_in_two_records": Mutation(
        "turn",
        "    yield Record((*changes, *state.unrecorded, TurnEnded(reason, answer)))\n",
        "    yield Record(tuple(changes))\n    yield Record((*state.unrecorded, TurnEnded(reason, answer)))\n",
        "a crash between closing message and end resumes a stopped turn as a running one",
    ),
    "problem_calls_run": Mutation(
        "turn",
        "    runnable = tuple(c for c in calls if not c.problem)\n    results = (yield",
        "    runnable = tuple(calls)\n    results = (yield",
        "a call whose arguments were lost is run",
    ),
    "problem_forgotten": Mutation(
        "replies",
        'name=clean(name) or "invalid_tool_call", arguments=arguments, problem=problem)',
        'name=clean(name) or "invalid_tool_call", arguments=arguments, problem=None)',
        "the refusal is not stored with the call, so it runs with {}",
    ),
    "ids_not_renamed": Mutation(
        "replies", 'fresh_id(call.id or "call", state.call_ids)', '(call.id or "call")', "call ids collide"
    ),
    "ids_forgotten": Mutation(
        "replies", "    state.call_ids.add(new_id)\n", "", "two calls of one reply get the same id"
    ),
    "stop_reason_lost": Mutation(
        "turn",
        "result = yield from settle(state, stop.reason, stop.detail, stop.partial, stop.results)",
        "result = yield from settle(state, EndReason.INTERNAL, stop.detail, stop.partial, stop.results)",
        "a stopped turn says that it failed",
    ),
    "partial_lost": Mutation(
        "turn",
        'if partial.strip() and (tail.role != "assistant" or tail.origin == "partial"):',
        "if False:",
        "the text that was streamed before an interrupt is lost",
    ),
    "results_of_stop_ignored": Mutation(
        "turn",
        "stop.detail, stop.partial, stop.results)",
        "stop.detail, stop.partial)",
        "calls that ended before the stop are told as not run",
    ),
    "state_of_stop_ignored": Mutation(
        "turn",
        "    state.take_state(results)\n    if state.input",
        "    if state.input",
        "the state of a stop is lost",
    ),
    "budget_not_sticky": Mutation(
        "turn",
        "    return state.exhausted or progress.must_answer",
        "    spent, state.exhausted = state.exhausted, None\n    return progress.must_answer",
        "an exhausted budget is forgotten",
    ),
    "iterations_not_counted": Mutation("turn", "    state.iterations += 1\n", "", "the iteration limit never comes"),
    "objections_unlimited": Mutation(
        "turn", "if progress.objections < MOST_OBJECTIONS and", "if", "a plugin keeps a turn going for ever"
    ),
    "cut_text_is_an_answer": Mutation(
        "replies",
        "return Kind.CUT_TEXT if cut else Kind.TEXT",
        "return Kind.TEXT",
        "a text that was cut off is given as the answer",
    ),
    "refusal_is_an_answer": Mutation(
        "replies",
        "    if any(isinstance(p, Refusal) for p in reply.parts):",
        "    if False:",
        "a refusal is given as a completed answer",
    ),
    "filtered_reply_is_used": Mutation(
        "replies",
        "    if reply.stop_reason is StopReason.REFUSAL:",
        "    if False:",
        "a reply that a filter stopped is an answer, and its calls run",
    ),
    "surrogates_pass": Mutation(
        "history",
        "out.append(part if (cleaned := clean(text)) is text else replace(part, text=cleaned, replay=None))",
        "out.append(part)",
        "a lone surrogate reaches the store",
    ),
    "not_closed_before_input": Mutation(
        "turn",
        "    before = resting(state, results, CUT_OFF)\n",
        "    before = ()\n",
        "what a crash left open is not closed before a new user message",
    ),
    "results_in_order_of_ending": Mutation(
        "batch",
        "return BatchResult(tuple(life.results[c.id] for c in calls), life.stopped)",
        "return BatchResult(tuple(life.results.values()), life.stopped)",
        "results come in the order in which the calls ended",
    ),
    "started_is_run_again": Mutation(
        "batch",
        "elif may_start and tool is not None and tool.idempotent:",
        "elif may_start and tool is not None:",
        "a call that had started is run again after a crash",
    ),
    "known_result_ignored": Mutation(
        "batch",
        "    if record.result is not None:",
        "    if False:",
        "a call that the journal knows as finished is told as unknown",
    ),
    "started_not_journalled": Mutation(
        "batch",
        "            yield JournalStarted(fresh)\n",
        "            pass\n",
        "a crash hides that a tool ran",
    ),
    "finished_not_journalled": Mutation(
        "batch",
        "        life.results[result.call_id] = result\n        yield JournalFinished(result)\n",
        "        life.results[result.call_id] = result\n",
        "a crash after a tool ended makes its outcome unknown, and its state is lost",
    ),
    "running_told_not_run": Mutation(
        "batch",
        "was stopped by the user while it ran; it may have done part of its work",
        "was not run",
        "a call that was stopped while it ran is told as not run",
    ),
}
