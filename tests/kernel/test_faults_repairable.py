"""Faults that say which part of a request was refused, and the wordings of tables W2 and W3 of the case list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.kernel.effects import Fault, RepairKind
from hermes.kernel.effects import FaultKind as K
from hermes.kernel.effects import RepairKind as R
from hermes.kernel.faults import classify
from hermes.kernel.providers import WireFault


def seen(status: int | None, body: Any) -> Fault:
    text = body if isinstance(body, str) else json.dumps(body)
    return classify(WireFault("http", text if isinstance(body, str) else "", status=status, body=text))


PARAMETERS = [
    ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    ("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
     "temperature"),
    ("Unsupported parameter: 'reasoning.generate_summary' is not supported with the 'o3-mini' model.",
     "reasoning.generate_summary"),
    ("Your organization must be verified to generate reasoning summaries.", "reasoning.summary"),
    ("Unrecognized request argument supplied: stream_options", "stream_options"),
    ("Unknown parameter: 'reasoning_effort'.", "reasoning_effort"),
    ("Argument not supported on this model: presencePenalty", "presencePenalty"),
    ("Model grok-4-latest does not support parameter reasoningEffort.", "reasoningEffort"),
    ("bedrock does not support parameters: ['tool_choice'], for model=x", "tool_choice"),
    ("The model returned the following errors: reasoning: Extra inputs are not permitted", "reasoning"),
    ("The model returned the following errors: #: extraneous key [top_k] is not permitted", "top_k"),
    ('Invalid JSON payload received. Unknown name "parallel_tool_calls": Cannot find field.', "parallel_tool_calls"),
    ("`temperature` is deprecated for this model.", "temperature"),
    ({"error": {"message": "no", "code": "unsupported_parameter", "param": "top_p"}}, "top_p"),
    ("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", "thinking"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "name"), PARAMETERS)
@pytest.mark.parametrize("status", [400, 422, 500, 502])
def test_a_refused_parameter_is_named_as_it_was_written_also_by_a_gateway_that_answers_5xx(
    status: int, body: Any, name: str
) -> None:
    fault = seen(status, body)
    assert (fault.kind, fault.repair, fault.subject) == (K.BAD_REQUEST, R.PARAMETER, name)


@pytest.mark.parametrize(
    "body",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks "
        "must remain as they were in the original response.",
        "malformed encrypted reasoning content: invalid base64url encoding",
        "The encrypted content gAAA...DQ== could not be verified.",
        {"error": {"code": "thinking_signature_invalid", "message": "no"}},
        {"error": {"code": "invalid_encrypted_content", "message": "no", "type": "invalid_request_error"}},
    ],
)
def test_B080_dead_signatures_are_recognised_in_every_wording(body: Any) -> None:
    assert (seen(400, body).kind, seen(400, body).repair) == (K.BAD_REQUEST, R.THINKING)


@pytest.mark.parametrize(
    "text",
    [
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "Item with id 'rs_1' not found.",
    ],
)
def test_B081_reasoning_that_lost_its_pair_is_left_out_with_the_rest_of_it(text: str) -> None:
    assert seen(400, text).repair is R.THINKING


@pytest.mark.parametrize(
    "text",
    [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. x",
        "messages with role \"tool\" must be a response to a preceeding message with \"tool_calls\".",
        "messages.2: Did not find 1 tool_result block(s) at the beginning of this message.",
        "tool_use ids must be unique",
        "Duplicate value for 'tool_call_id'",
        "Duplicate function_call_output for call_id",
        "No tool call found for function call output with call_id call_1.",
        "invalid params, tool call result does not follow tool call (2013)",
        "invalid params, tool result's tool id(call_9) not found (2013)",
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        "User messages cannot contain tool uses. Please remove the tool uses and try again",
        "Tool call id was x-1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "invalid tool call arguments",
    ],
)  # fmt: skip
def test_W2_what_is_wrong_with_the_order_of_messages_is_a_fault_of_ours_and_not_repaired(text: str) -> None:
    fault = seen(400, text)
    assert (fault.kind, fault.row, fault.repair) == (K.BAD_REQUEST, "pairing", None)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, "you (bob) have reached your session usage limit, upgrade for higher limits", K.BILLING),
        (429, "Weekly usage limit reached. Resets in 6hr 29min.", K.RATE_LIMIT),
        (429, {"error": {"code": "usage_limit_reached", "resets_in_seconds": 60}}, K.RATE_LIMIT),
        (429, {"error": {"code": "terminal_quota_exhausted"}}, K.BILLING),
        (429, {"error": {"code": "insufficient_quota"}}, K.BILLING),
        (402, "This request requires more credits, but can only afford 56272.", K.OUTPUT_CAP),
        (402, "API key USD spend limit exceeded. x", K.BILLING),
        (403, {"code": "unauthenticated:bad-credentials"}, K.AUTH),
        (403, "forbidden", K.PERMISSION),
        (401, {"error": {"code": "token_expired"}}, K.AUTH),
        (400, {"error": {"code": "refresh_token_reused"}}, K.AUTH),
        (503, "model temporarily unavailable due to upstream capacity limits", K.OVERLOADED),
        (529, "Overloaded", K.OVERLOADED),
        (None, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, K.OVERLOADED),
        (None, "upstream idle for 60000ms without data", K.OVERLOADED),
        (400, "Content Exists Risk", K.CONTENT_POLICY),
        (500, "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] x", K.INVALID_REPLY),
        (404, {"detail": "Not Found"}, K.BAD_REQUEST),
    ],
)
def test_W3_limits_billing_and_availability(status: int | None, body: Any, kind: K) -> None:
    assert seen(status, body).kind is kind


IMAGES = [
    (400, "messages.4.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
     "too_large", 5242880),
    (400, "image exceeds 5 MB maximum", "too_large", 5 * 1024 * 1024),
    (400, "media exceeds size limit: max 10485760 bytes (2013)", "too_large", 10485760),
    (400, "messages.19.content.27.image.source.base64.data: At least one of the image dimensions exceed max allowed "
     "size for many-image requests: 2000 pixels", "too_large", None),
    (400, "too many images and documents: 120 + 0 > 100", "too_many", 100),
    (400, "Too much media: 0 document pages + 107 images > 100", "too_many", 100),
    (400, "The request contains too many images: 11 images were provided, but the model supports a maximum of 10 "
     "images.",
     "too_many", 10),
    (400, "At most 5 image(s) may be provided in one request.", "too_many", 5),
    (404, "No endpoints found that support image input", "unsupported", None),
    (400, "unknown variant `image_url`, expected `text`", "unsupported", None),
    (400, "multimodal content is not supported", "unsupported", None),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
     "unsupported", None),
    (400, "Could not process image", "invalid", None),
    (400, {"error": {"code": "image_file_too_large"}}, "too_large", None),
    (400, {"error": {"code": "invalid_base64_image"}}, "invalid", None),
    (400, {"error": {"code": "unsupported_image_media_type"}}, "invalid", None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "subject", "limit"), IMAGES)
def test_B078_spec_23570_21160_refused_images_say_what_is_wrong_with_them_and_the_limit(
    status: int, body: Any, subject: str, limit: int | None
) -> None:
    fault = seen(status, body)
    assert (fault.kind, fault.repair) == (K.IMAGE_REFUSED, R.IMAGES)
    assert (fault.subject, fault.subject_limit) == (subject, limit)


@pytest.mark.parametrize("status", [503, 504])
def test_spec_23570_a_server_that_is_down_has_not_refused_an_image(status: int) -> None:
    assert seen(status, "image input is not supported").kind is not K.IMAGE_REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "Tool message content must be a string",
        "messages.3.content: expected string, got list",
        "tool_call.content must be string",
        "text is not set",
    ],
)
def test_spec_27344_pictures_in_tool_results_can_be_what_is_refused(text: str) -> None:
    assert (seen(400, text).kind, seen(400, text).repair) == (K.BAD_REQUEST, R.TOOL_IMAGES)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize samplers: failed to parse grammar",
        "Unable to generate parser for this template. Automatic parser generation failed: JSON schema"
        " conversion failed",
    ],
)
def test_a_schema_that_llama_cpp_cannot_turn_into_a_grammar_is_recognised(text: str) -> None:
    assert seen(400, {"error": {"code": 400, "message": text, "type": "invalid_request_error"}}).repair is R.GRAMMAR


@pytest.mark.parametrize("code", ["bio_policy", "misalignment_policy_violation", "image_content_policy_violation"])
def test_the_policy_codes_of_the_responses_api_are_refusals(code: str) -> None:
    assert seen(None, {"error": {"code": code, "message": "no"}}).kind is K.CONTENT_POLICY


# ---- Sizes ----------------------------------------------------------------------------------------------------------


def test_B069_a_sum_that_is_too_large_by_its_input_alone_is_an_overflow() -> None:
    fault = seen(400, "input length and `max_tokens` exceed context limit: 250000 + 8192 > 200000")
    assert (fault.kind, fault.limit_tokens, fault.input_tokens) == (K.CONTEXT_OVERFLOW, 200000, 250000)
    assert fault.output_limit_tokens is None


def test_B068_an_input_that_was_counted_in_characters_leaves_room_for_an_output() -> None:
    fault = seen(
        400,
        "This model's maximum context length is 65536 tokens. However, you requested 65536 output tokens and your "
        "prompt contains 77409 characters (more than 0 characters, which is the upper bound for 0 input tokens).",
    )
    assert (fault.kind, fault.output_limit_tokens) == (K.OUTPUT_CAP, 65536 - 77409 // 3)


def test_spec_55546_a_range_of_outputs_is_no_reason_to_compress() -> None:
    fault = seen(400, "Range of max_tokens should be [1, 65536]")
    assert (fault.kind, fault.output_limit_tokens, fault.limit_tokens) == (K.OUTPUT_CAP, 65536, None)


def test_llama_cpp_says_in_fields_how_large_the_prompt_was() -> None:
    body = {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error",
                      "n_prompt_tokens": 33056, "n_ctx": 32768}}  # fmt: skip
    assert (seen(400, body).limit_tokens, seen(400, body).input_tokens) == (32768, 33056)


# ---- Numbers of the specification, 13.4 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "status", "body", "kind"),
    [
        ("14038", 429, "The service is temporarily overloaded", K.OVERLOADED),
        ("58446", 404, "No endpoints found that support tool use", K.MODEL_NOT_FOUND),
        ("18028", None, "flagged for possible cybersecurity risk", K.CONTENT_POLICY),
        ("36109", 400, {"error": {"message": "prompt is too long: 5 tokens > 4 maximum"}}, K.CONTEXT_OVERFLOW),
        ("xai", 403, {"error": {"code": "personal-team-blocked:spending-limit", "message": "x"}}, K.BILLING),
        ("xai_text", 403, "You have hit your spending limit", K.BILLING),
        ("zai_1305", 429, {"error": {"code": "1305", "message": "x"}}, K.OVERLOADED),
    ],
)
def test_spec_13_4_says_what_each_of_these_is(number: str, status: int | None, body: Any, kind: K) -> None:
    assert seen(status, body).kind is kind


def test_spec_36109_a_payload_that_the_sdk_did_not_read_is_shown_without_keys() -> None:
    fault = classify(
        WireFault("http", "", status=401, body='{"error":{"message":"bad key sk-proj-abcdefghijklmnop12"}}')
    )
    assert fault.detail.startswith("HTTP 401: bad key [hidden")


def test_spec_52310_a_connection_that_breaks_is_no_overflow() -> None:
    fault = classify(WireFault("connection", "server disconnected without sending a response", phase="first_token"))
    assert fault.kind is K.CONNECTION


def test_spec_14782_a_body_that_is_no_json_is_a_reply_that_is_none() -> None:
    assert classify(WireFault("invalid", "Expecting value: line 1 column 1")).kind is K.INVALID_REPLY


def test_every_kind_of_repair_has_a_row() -> None:
    from hermes.kernel.fault_rows import ROWS

    assert {row.repair for row in ROWS} - {None} == set(RepairKind)
