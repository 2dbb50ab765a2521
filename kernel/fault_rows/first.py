"""What never came to a status, and structured codes that say it all."""

from __future__ import annotations

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.fault_rows.row import FaultRow, codes, words

FIRST: tuple[FaultRow, ...] = (
    FaultRow("timeout", K.TIMEOUT, "transport", causes=("timeout",)),
    FaultRow("stall", K.STALL, "transport; B016", causes=("stall",)),
    FaultRow("tls", K.TLS, "transport", causes=("tls",)),
    FaultRow("connection", K.CONNECTION, "transport; B149", causes=("connection", "aborted")),
    FaultRow("invalid_reply", K.INVALID_REPLY, "transport", causes=("invalid",)),
    # ---- Codes -----------------------------------------------------------------------------------------------------
    FaultRow(
        "code_tool_grammar", K.INVALID_REPLY, "B058, llama.cpp",
        '{"error":{"message":"Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]"}}',
        wording=words("failed to parse tool call arguments as json"),
    ),
    FaultRow(
        "code_overflow", K.CONTEXT_OVERFLOW, "OpenAI, llama.cpp; W1-10",
        '{"error":{"code":400,"message":"request (33056 tokens) exceeds the available context size (32768 tokens), '
        'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":33056,"n_ctx":32768}}',
        codes=codes("exceed_context_size_error model_context_window_exceeded"),
    ),
    FaultRow(
        "code_content", K.CONTENT_POLICY, "OpenAI, Azure, MiniMax; B064",
        '{"error":{"code":"content_filter","message":"The response was filtered"}}',
        codes=codes(
            "content_filter content_policy_violation responsibleaipolicyviolation new_sensitive bio_policy"
            " misalignment_policy_violation image_content_policy_violation"
        ),
    ),
    FaultRow(
        "code_quota_resets", K.RATE_LIMIT, "Codex; B014, W3", reset="stated",
        example='{"error":{"code":"usage_limit_reached","message":"The usage limit has been reached",'
        '"resets_in_seconds":120}}',
        codes=codes("usage_limit_reached insufficient_quota"),
    ),
    FaultRow(
        "code_billing", K.BILLING, "OpenAI, xAI; B014, W3",
        '{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}',
        codes=codes(
            "insufficient_quota terminal_quota_exhausted billing_not_active billing_hard_limit_reached billing_error"
            " payment_required insufficient_credits no_usable_credits balance_depleted usage_limit_reached"
            " model_not_supported_on_free_tier personal-team-blocked:spending-limit account_deactivated"
        ),
    ),
    FaultRow(
        "code_auth", K.AUTH, "OpenAI, Anthropic, Google, xAI, AWS; B093",
        '{"code":"unauthenticated:bad-credentials","error":"The token has expired"}',
        codes=codes(
            "invalid_api_key authentication_error unauthenticated unauthenticated:bad-credentials token_expired"
            " token_revoked api_key_invalid invalid_token refresh_token_reused unrecognizedclientexception"
            " expiredtokenexception invalidsignatureexception missingauthenticationtokenexception"
        ),
    ),
    FaultRow(
        "code_model", K.MODEL_NOT_FOUND, "OpenAI, AWS",
        '{"error":{"code":"model_not_found","message":"The model `x` does not exist"}}',
        codes=codes(
            "model_not_found model_not_available invalid_model unknown_model modelnotfound resourcenotfoundexception"
        ),
    ),
    FaultRow(
        "code_body_too_large", K.BODY_TOO_LARGE, "Anthropic",
        '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        codes=codes("request_too_large"),
    ),
)  # fmt: skip
