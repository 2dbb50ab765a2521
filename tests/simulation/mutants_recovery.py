"""Mutations of asking: retries, repairs, keys, the chain of targets and its breaker."""

from __future__ import annotations

from mutant import Mutation

RECOVERY: dict[str, Mutation] = {
    "retry_for_ever": Mutation(
        "recovery",
        "if policy.retries and tries.on_target < most and wait_s <= longest_s:",
        "if policy.retries and wait_s <= longest_s:",
        "a fault is retried past the attempts",
    ),
    "gives_up_early": Mutation(
        "recovery",
        "if policy.retries and tries.on_target < most and wait_s <= longest_s:",
        "if policy.retries and tries.on_target + 1 < most and wait_s <= longest_s:",
        "one attempt less than the settings allow",
    ),
    "retry_refused_key": Mutation(
        "recovery",
        "FaultKind.AUTH: Policy(False, EndReason.AUTH)",
        "FaultKind.AUTH: Policy(True, EndReason.AUTH)",
        "a refused key is tried again",
    ),
    "billing_retried": Mutation(
        "recovery",
        "FaultKind.BILLING: Policy(False, EndReason.BILLING)",
        "FaultKind.BILLING: Policy(True, EndReason.BILLING)",
        "a request that nobody pays for is sent again",
    ),
    "billing_retried_by_a_plugin": Mutation(
        "recovery",
        "NEVER_PAID = (FaultKind.BUDGET, FaultKind.BILLING)",
        "NEVER_PAID = (FaultKind.BUDGET,)",
        "a plugin sends again what nobody pays for",
    ),
    "closing_request_after_billing": Mutation(
        "asking",
        'if state.exhausted and request.purpose == "turn" and fault.kind is FaultKind.BILLING:',
        "if False:",
        "a key that nobody pays for is asked for a last answer",
    ),
    "unknown_retried_as_often_as_any": Mutation(
        "recovery",
        "FaultKind.UNKNOWN: Policy(True, _FAILED, most_attempts=2)",
        "FaultKind.UNKNOWN: Policy(True, _FAILED)",
        "what nobody understands is tried as often as a rate limit",
    ),
    "rate_limit_waited_out_beside_a_ready_target": Mutation(
        "recovery",
        "FaultKind.RATE_LIMIT: Policy(True, _FAILED, PATIENT_BASE_S, before_next=1)",
        "FaultKind.RATE_LIMIT: Policy(True, _FAILED, PATIENT_BASE_S)",
        "a rate limit is retried while another target is ready",
    ),
    "plugin_retries_past_the_table": Mutation(
        "recovery",
        "if tries.on_target < attempts and fault.kind not in NEVER_PAID:",
        "if fault.kind not in NEVER_PAID:",
        "a plugin's choose_recovery can retry for ever",
    ),
    "wall_is_waited_out": Mutation(
        "recovery", "and wait_s <= longest_s:", "and wait_s <= 1e9:", "a Retry-After of an hour is waited out"
    ),
    "long_wait_beside_a_ready_target": Mutation(
        "recovery",
        "LONGEST_WAIT_WITH_NEXT_S if has_next else LONGEST_WAIT_S",
        "LONGEST_WAIT_S",
        "minutes are waited for a target while another is ready",
    ),
    "retry_after_cut_short": Mutation(
        "recovery",
        "        return max(fault.retry_after_s, 0.0)",
        "        return min(fault.retry_after_s, 5.0)",
        "a target is asked before the time that it stated",
    ),
    "no_wait": Mutation(
        "asking", '    yield Wait(wait_s, f"{why}; trying again")\n', "", "a retry comes without a wait"
    ),
    "never_falls_back": Mutation(
        "recovery", "if has_next and policy.falls_back:", "if False:", "a ready target of the chain is not asked"
    ),
    "attempts_kept_over_a_switch": Mutation(
        "recovery",
        "self.on_target = self._keys = self._keys_tried = 0",
        "self._keys = self._keys_tried = 0",
        "the next target gets what attempts the one before left",
    ),
    "repair_counts_as_an_attempt": Mutation(
        "recovery",
        "        if not self.goes_on:\n            self.on_target -= 1\n",
        "",
        "a request that was mended used up an attempt",
    ),
    "other_keys_not_tried": Mutation(
        "recovery", "    if tries.goes_on:\n", "    if False:\n", "a pool's other keys are not tried"
    ),
    "keys_in_a_circle": Mutation(
        "recovery",
        "self.goes_on = fault.other_keys > 0 and self._keys_tried < self._keys",
        "self.goes_on = fault.other_keys > 0",
        "keys that rest for no time are tried for ever",
    ),
    "refused_key_does_not_rest": Mutation(
        "credentials",
        "        return max(fault.retry_after_s, REFUSED_RESTS_S)",
        "        return fault.retry_after_s",
        "a key that nobody pays for is sent again at once",
    ),
    "repaired_for_ever": Mutation(
        "repairs",
        "    if len(left_out) > len(sent.leave_out):",
        "    if True:",
        "the same part is left out again and again",
    ),
    "repaired_part_sent_again": Mutation(
        "repairs",
        '        leave_out=tuple(known.get(f"leave_out:{target}", ())),',
        "        leave_out=(),",
        "what a target refused is sent to it again",
    ),
    "earlier_repair_forgotten": Mutation(
        "repairs",
        "    left_out = [*sent.leave_out, *(",
        "    left_out = [*(",
        "the second repair undoes the first",
    ),
    "nothing_repaired": Mutation(
        "repairs",
        "    elif fault.repair is RepairKind.PARAMETER and _root(fault.subject) not in NEEDED:",
        "    elif False:",
        "a parameter that a target refuses ends the turn",
    ),
    "image_rule_not_sent": Mutation(
        "repairs",
        "        images=_rule(request, known, target),\n",
        "",
        "images that a target refused are sent to it again",
    ),
    "output_cap_not_lowered": Mutation(
        "repairs",
        "        output_cap=min(caps, default=None),\n",
        "",
        "an output that a target cannot write is asked for again",
    ),
    "output_cap_grows": Mutation(
        "repairs",
        "(sent.output_cap is None or room < sent.output_cap)",
        "True",
        "a cap is learned that is larger than the one that was refused",
    ),
    "image_places_kept_over_a_compression": Mutation(
        "repairs",
        '        if key.startswith("images:") and "start" in value:',
        "        if False:",
        "images of a new conversation are left out for places in the old one",
    ),
    "too_large_body_not_mended": Mutation(
        "repairs",
        "    elif fault.kind is FaultKind.BODY_TOO_LARGE:",
        "    elif False:",
        "a body that is too large for its images ends the turn",
    ),
    "words_for_a_schema_hide_the_tools_grammar": Mutation(
        "repairs",
        '    if sent.schema is None or "schema" in sent.leave_out:',
        "    if sent.schema is None:",
        "a grammar fault after the schema is told in words is never mended",
    ),
    "larger_window_adopted": Mutation(
        "context",
        "    if not stated or (known is not None and stated >= known):",
        "    if not stated:",
        "an overflow makes the window larger",
    ),
    "window_not_adopted": Mutation(
        "context",
        "    if not stated or (known is not None and stated >= known):",
        "    if True:",
        "the window that a provider states is not taken over",
    ),
    "window_stays_with_the_target_before": Mutation(
        "chain",
        '    state.window_tokens = state.known.get(f"window:{name}") or state.windows.get(name, state.window_tokens)\n',
        "",
        "a fallback is taken to hold what the primary holds",
    ),
    "left_target_asked_again": Mutation(
        "chain",
        "if i > state.target and not _cools(state, n)",
        "if i != state.target and not is_open(state, n)",
        "the chain goes back to a target that failed",
    ),
    "primary_asked_before_its_time": Mutation(
        "chain",
        "ready = (i for i, name in enumerate(state.targets) if not _cools(state, name))",
        "ready = iter((0,))",
        "the primary is asked while it cools down",
    ),
    "primary_never_restored": Mutation(
        "recovery",
        "    return min(max(COOLS_S, fault.retry_after_s or 0.0), LONGEST_COOLS_S)",
        "    return 1e9",
        "a target that was left once is never asked again",
    ),
    "refused_target_as_a_last_resort": Mutation(
        "chain",
        '    return passes(left["kind"]) and not is_open(state, target)',
        "    return not is_open(state, target)",
        "a target whose key was refused is asked for want of another",
    ),
    "spent_chain_asked_again": Mutation(
        "chain",
        '    if "chain_spent" in state.known:',
        "    if False:",
        "a chain that failed a moment ago is asked all over",
    ),
    "stalls_not_counted": Mutation(
        "asking",
        "    if is_silence(outcome):\n        yield Record(fell_silent(state, target))\n",
        "",
        "a target that falls silent again and again is waited for each time",
    ),
    "silent_stop_not_counted": Mutation(
        "asking",
        "            state.unrecorded.extend(fell_silent(state, target))",
        "            pass",
        "stopping a silent call hides that it was silent",
    ),
    "reply_does_not_end_the_stalls": Mutation(
        "asking",
        "        if learned := spoke(state, target):\n            yield Record(learned)\n",
        "",
        "stalls are counted over replies",
    ),
    "breaker_never_opens": Mutation(
        "chain", "    if count < STALLS_OPEN:", "    if True:", "a target that fell silent is asked all the same"
    ),
    "breaker_opens_early": Mutation(
        "chain", "    if count < STALLS_OPEN:", "    if count < 3:", "a target is given up after three stalls"
    ),
    "open_breaker_asked": Mutation(
        "asking",
        "    if not is_open(state, silent := state.target_name):",
        "    silent = state.target_name\n    if True:",
        "a target whose breaker is open is asked",
    ),
}
