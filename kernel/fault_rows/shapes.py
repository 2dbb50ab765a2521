"""Wording about a request that is wrong in itself: a parameter, dead signatures, schemas, the order of messages."""

from __future__ import annotations

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.effects import RepairKind as R
from hermes.kernel.fault_rows.row import MALFORMED, FaultRow, codes, words

SHAPES: tuple[FaultRow, ...] = (
    FaultRow(
        "thinking_dead", K.BAD_REQUEST, "Anthropic, OpenAI, xAI; B080, B081",
        "messages.3.content.11: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. These blocks must remain as they were in the original response.",
        statuses=MALFORMED, repair=R.THINKING,
        wording=words(
            r"invalid [`'\"]?signature[`'\"]? in [`'\"]?thinking|thinking[`'\"]? blocks.{0,60}cannot be modified"
            r"|thinking.{0,120}must remain as they were|malformed encrypted reasoning content"
            r"|encrypted content.{0,200}could not be (?:verified|decrypted|parsed)"
            r"|item with id [`'\"]?rs_\S+ not found"
            r"|item [`'\"]?\w+[`'\"]? of type [`'\"]?\w+[`'\"]? was provided without its required"
        ),
    ),
    FaultRow(
        "code_thinking_dead", K.BAD_REQUEST, "OpenAI, gateways; B080",
        '{"error":{"code":"invalid_encrypted_content","message":"no"}}', repair=R.THINKING,
        codes=codes("thinking_signature_invalid invalid_encrypted_content"),
    ),
    FaultRow(
        "thinking_must_begin", K.BAD_REQUEST, "Anthropic, where thinking was off when a message was made",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        statuses=MALFORMED, repair=R.PARAMETER, subject="thinking",
        wording=words("expected [`']?thinking[`']? or [`']?redacted_thinking[`']?, but found"),
    ),
    FaultRow(
        "pairing", K.BAD_REQUEST, "W2: a fault of ours in the order or the ids of calls and results",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        statuses=MALFORMED,
        wording=words(
            r"tool_calls['\"`]? must be followed by tool messages|must be a response to a preceed?ing message"
            r"|did not find \d+ [`'\"]?tool_result|tool_use[`'\"]? ids? (?:must be unique|were found without)"
            r"|unexpected [`'\"]?tool_use_id|duplicate value for ['\"`]?tool_call_id|duplicate function_call_output"
            r"|no tool (?:call|output) found for function call|does not follow tool call|tool id\(.{0,80}\) not found"
            r"|toolconfig field must be defined|user messages cannot contain tool uses|invalid tool call arguments"
            r"|tool call id was .{0,80} but must be"
        ),
    ),
    FaultRow(
        "grammar_refused", K.BAD_REQUEST, "llama.cpp; runtime behaviour specification 8.2.5",
        "Failed to initialize samplers: failed to parse grammar", statuses=MALFORMED, repair=R.GRAMMAR,
        wording=words(
            "(?:error parsing|failed to parse) grammar|json-schema-to-grammar|json schema conversion failed"
            "|unable to generate parser for this template"
        ),
    ),
    FaultRow(
        "summaries_refused", K.BAD_REQUEST, "OpenAI; B080",
        "Your organization must be verified to generate reasoning summaries.", statuses=MALFORMED,
        wording=words("organization must be verified to generate reasoning summaries"),
        repair=R.PARAMETER, subject="reasoning.summary",
    ),
    FaultRow(
        "parameter", K.BAD_REQUEST, "OpenAI, Azure, Groq, Mistral; spec 8.7",
        "Unsupported parameter: 'temperature' is not supported with this model.",
        statuses=MALFORMED, repair=R.PARAMETER,
        wording=words(
            r"(?:unsupported|unknown|unrecognized) (?:request )?(?:parameter|argument|value|field)"
            r"s?(?: supplied)?: ?[`'\"\[]*<subject>"
        ),
    ),
    FaultRow(
        "parameter_unsupported", K.BAD_REQUEST, "xAI, LiteLLM, OpenRouter",
        "Model grok-4-latest does not support parameter reasoningEffort.",
        statuses=MALFORMED, repair=R.PARAMETER,
        wording=words(
            r"(?:(?:does not|doesn't) support (?:the )?parameters?:?|argument not supported on this model:)"
            r" ?[`'\"\[]*<subject>"
        ),
    ),
    FaultRow(
        "parameter_extra", K.BAD_REQUEST, "Anthropic, Bedrock, pydantic servers",
        "reasoning: Extra inputs are not permitted", statuses=MALFORMED, repair=R.PARAMETER,
        wording=words(r"(?:^|[\s\"'])<subject>: extra inputs are not permitted"),
    ),
    FaultRow(
        "parameter_key", K.BAD_REQUEST, "Bedrock", "#: extraneous key [top_k] is not permitted",
        statuses=MALFORMED, repair=R.PARAMETER, wording=words(r"extraneous key \[<subject>\] is not permitted"),
    ),
    FaultRow(
        "parameter_name", K.BAD_REQUEST, "Google",
        'Invalid JSON payload received. Unknown name "parallel_tool_calls": Cannot find field.',
        statuses=MALFORMED, repair=R.PARAMETER, wording=words(r"unknown name [\"'`]<subject>[\"'`]: cannot find field"),
    ),
    FaultRow(
        "parameter_is_not", K.BAD_REQUEST, "Anthropic, Azure, Groq",
        "`temperature` is deprecated for this model.", statuses=MALFORMED, repair=R.PARAMETER,
        wording=words(
            r"[`'\"]<subject>[`'\"] (?:is (?:deprecated|not supported) (?:for|with|by|on) (?:this|the) "
            r"|does not support .{1,40} with this model)"
        ),
    ),
    FaultRow(
        "code_parameter", K.BAD_REQUEST, "OpenAI",
        '{"error":{"code":"unsupported_parameter","param":"top_p","message":"no"}}', repair=R.PARAMETER,
        subject="param", codes=codes("unsupported_parameter unknown_parameter unsupported_value"),
    ),
)  # fmt: skip
