"""The table by which `faults.py` recognises what went wrong at a provider: data only.

Rows are read from the top and the first that fits wins, so the order is: what never came to a status, structured
codes, wording within the statuses in which it counts, statuses. Wording is anchored to the whole phrase of a known
server: a word such as "quota" or "forbidden" alone says nothing. `example` is a text that the row must recognise; it is
a test. Sources: W1 to W3 and B numbers are rows of the project's case list (public bug reports, read in November 2026);
vendors' names stand for their public API references, read at the same time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hermes.kernel.effects import FaultKind as K

Reset = Literal["any", "stated", "unstated"]


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One way to recognise a fault; everything that a row names must hold.

    `causes` are `WireFault.cause` words, () meaning "http". `statuses` () is any, None among them is "no status".
    `codes` are structured codes in lower case. `wording` is searched in lower-case text; its groups `limit` (context
    window), `output` (largest output), `asked` and `input` are token counts. `reset` says whether the provider must
    have stated when to come back.
    """

    name: str
    kind: K
    source: str
    example: str = ""
    causes: tuple[str, ...] = ()
    statuses: tuple[int | None, ...] = ()
    codes: frozenset[str] = frozenset()
    wording: re.Pattern[str] | None = None
    reset: Reset = "any"


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_N = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
"""A count of tokens, with or without separators of thousands."""


def _words(pattern: str) -> re.Pattern[str]:
    """Compile a phrase; `<limit>` and the like stand for a count of tokens in a group of that name."""
    named = re.sub(r"(?<!P)<(\w+)>", lambda found: f"(?P<{found[1]}>{_N})", pattern)
    return re.compile(named.replace(" ?", r"\s*").replace(" ", r"\s+"), re.MULTILINE)


_REFUSED = (400, 403, 404, 422, None)
_SIZE = (400, 413, 422, 429, 500, 502, 503, 529, None)
"""Statuses under which servers and gateways report that a request does not fit."""

ROWS: tuple[FaultRow, ...] = (
    # ---- Never came to a status -------------------------------------------------------------------------------------
    FaultRow("timeout", K.TIMEOUT, "transport", causes=("timeout",)),
    FaultRow("stall", K.STALL, "transport; B016", causes=("stall",)),
    FaultRow("tls", K.TLS, "transport", causes=("tls",)),
    FaultRow("connection", K.CONNECTION, "transport; B149", causes=("connection", "aborted")),
    FaultRow("invalid_reply", K.INVALID_REPLY, "transport", causes=("invalid",)),
    # ---- Codes ------------------------------------------------------------------------------------------------------
    FaultRow(
        "code_tool_grammar", K.INVALID_REPLY, "B058, llama.cpp",
        '{"error":{"message":"Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]"}}',
        wording=_words("failed to parse tool call arguments as json"),
    ),
    FaultRow(
        "code_overflow", K.CONTEXT_OVERFLOW, "OpenAI, llama.cpp; W1-10",
        '{"error":{"code":400,"message":"request (33056 tokens) exceeds the available context size (32768 tokens), '
        'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":33056,"n_ctx":32768}}',
        codes=_codes("exceed_context_size_error model_context_window_exceeded"),
    ),
    FaultRow(
        "code_content", K.CONTENT_POLICY, "OpenAI, Azure, MiniMax; B064",
        '{"error":{"code":"content_filter","message":"The response was filtered"}}',
        codes=_codes("content_filter content_policy_violation responsibleaipolicyviolation new_sensitive"),
    ),
    FaultRow(
        "code_quota_resets", K.RATE_LIMIT, "Codex; B014, W3", reset="stated",
        example='{"error":{"code":"usage_limit_reached","message":"The usage limit has been reached",'
        '"resets_in_seconds":120}}',
        codes=_codes("usage_limit_reached insufficient_quota"),
    ),
    FaultRow(
        "code_billing", K.BILLING, "OpenAI, xAI; B014, W3",
        '{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}',
        codes=_codes(
            "insufficient_quota terminal_quota_exhausted billing_not_active billing_hard_limit_reached billing_error"
            " payment_required insufficient_credits no_usable_credits balance_depleted usage_limit_reached"
            " model_not_supported_on_free_tier personal-team-blocked:spending-limit account_deactivated"
        ),
    ),
    FaultRow(
        "code_auth", K.AUTH, "OpenAI, Anthropic, Google, xAI, AWS; B093",
        '{"code":"unauthenticated:bad-credentials","error":"The token has expired"}',
        codes=_codes(
            "invalid_api_key authentication_error unauthenticated unauthenticated:bad-credentials token_expired"
            " token_revoked api_key_invalid invalid_token refresh_token_reused unrecognizedclientexception"
            " expiredtokenexception invalidsignatureexception missingauthenticationtokenexception"
        ),
    ),
    FaultRow(
        "code_model", K.MODEL_NOT_FOUND, "OpenAI, AWS",
        '{"error":{"code":"model_not_found","message":"The model `x` does not exist"}}',
        codes=_codes(
            "model_not_found model_not_available invalid_model unknown_model modelnotfound resourcenotfoundexception"
        ),
    ),
    FaultRow(
        "code_image", K.IMAGE_REFUSED, "OpenAI", '{"error":{"code":"image_too_large","message":"too large"}}',
        codes=_codes("image_too_large invalid_image invalid_image_url invalid_image_format image_parse_error"),
    ),
    FaultRow(
        "code_body_too_large", K.BODY_TOO_LARGE, "Anthropic",
        '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        codes=_codes("request_too_large"),
    ),
    # ---- Wording: sizes (output before input: some texts speak of both) --------------------------------------------
    FaultRow(
        "cannot_afford", K.OUTPUT_CAP, "OpenRouter; B090",
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, "
        "but can only afford 56272.",
        statuses=(402,), wording=_words("can only afford <output>"),
    ),
    FaultRow(
        "output_over_model", K.OUTPUT_CAP, "proxies; W1-9, B069",
        "max_tokens cannot exceed the configured model output limit of 16384",
        statuses=_SIZE, wording=_words("max(?:_completion)?_tokens.{0,60}output limit of <output>"),
    ),
    FaultRow(
        "output_over_model_bedrock", K.OUTPUT_CAP, "Bedrock",
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a value that is lower.",
        statuses=_SIZE, wording=_words("maximum tokens you requested exceeds the model limit of <output>"),
    ),
    FaultRow(
        "output_over_range", K.OUTPUT_CAP, "DashScope", "Range of max_tokens should be [1, 65536]",
        statuses=_SIZE, wording=_words(r"range of max_tokens should be \[\d+, ?<output>\]"),
    ),
    FaultRow(
        "sum_overflow_anthropic", K.OUTPUT_CAP, "Anthropic, Bedrock; W1-3, B069",
        "input length and `max_tokens` exceed context limit: 196758 + 8192 > 200000, decrease input length or "
        "`max_tokens` and try again",
        statuses=_SIZE, wording=_words(r"exceed context limit: <input> \+ <asked> > <limit>"),
    ),
    FaultRow(
        "output_too_large", K.OUTPUT_CAP, "OpenAI, Anthropic, DeepSeek",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        statuses=_SIZE,
        wording=_words(
            r"max(?:_completion)?_tokens(?: is too large)?:? ?(?:\d+)?.{0,40}"
            r"(?:supports at most |> |maximum value for .{0,30} is |must be less than or equal to )`?<output>"
        ),
    ),
    FaultRow(
        "sum_overflow_vllm", K.OUTPUT_CAP, "vLLM, Bedrock Mantle; W1-5, B068",
        "This model's maximum context length is 202752 tokens. However, you requested 65536 output tokens and your "
        "prompt contains at least 137217 input tokens, for a total of at least 202753 tokens.",
        statuses=_SIZE,
        wording=_words(
            r"maximum context length is <limit> tokens.{0,40}requested <asked> output tokens.{0,40}"
            r"contains (?:at least )?(?:<input> input tokens|\d+ characters)"
        ),
    ),
    FaultRow(
        "sum_overflow_openai", K.OUTPUT_CAP, "OpenAI, DeepSeek",
        "This model's maximum context length is 16385 tokens. However, you requested 17000 tokens (1000 in the "
        "messages, 16000 in the completion). Please reduce the length of the messages or completion.",
        statuses=_SIZE,
        wording=_words(
            r"maximum context length is <limit> tokens.{0,40}requested (?:about )?\d+ tokens \(<input> "
            r"(?:in the messages|of text input).{0,80}?<asked> in the (?:completion|output)"
        ),
    ),
    FaultRow(
        "sum_overflow_sglang", K.OUTPUT_CAP, "SGLang; W1-7, B068",
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
        "132528 tokens: 66992 tokens from the input messages and 65536 tokens for the completion.",
        statuses=_SIZE,
        wording=_words(
            r"maximum context length of <limit> tokens.{0,60}<input> tokens from the input messages and <asked> tokens"
        ),
    ),
    FaultRow(
        "overflow_arrow", K.CONTEXT_OVERFLOW, "Anthropic, Bedrock; W1-1",
        "prompt is too long: 203470 tokens > 200000 maximum",
        statuses=_SIZE, wording=_words("prompt is too long: <input> tokens > <limit>"),
    ),
    FaultRow(
        "overflow_available", K.CONTEXT_OVERFLOW, "llama.cpp; W1-10",
        "request (33056 tokens) exceeds the available context size (32768 tokens), try increasing it",
        statuses=_SIZE, wording=_words(r"\(<input> tokens\) exceeds the available context size \(<limit> tokens\)"),
    ),
    FaultRow(
        "overflow_up_to", K.CONTEXT_OVERFLOW, "Google; W1-11",
        "Unable to submit request because the input token count is 32825 but model only supports up to 32768.",
        statuses=_SIZE, wording=_words("input token count is <input> but.{0,30}supports up to <limit>"),
    ),
    FaultRow(
        "overflow_google", K.CONTEXT_OVERFLOW, "Google",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        statuses=_SIZE, wording=_words(r"exceeds the maximum number of tokens allowed \(?<limit>"),
    ),
    FaultRow(
        "overflow_max_window", K.CONTEXT_OVERFLOW, "oMLX; W1-12",
        "Prompt too long: 129,566 tokens exceeds max context window of 128,000",
        statuses=_SIZE, wording=_words("prompt too long: <input> tokens exceeds max context window of <limit>"),
    ),
    FaultRow(
        "overflow_while_limit", K.CONTEXT_OVERFLOW, "Cerebras; W1-13",
        "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
        statuses=_SIZE, wording=_words("current length is <input> while limit is <limit>"),
    ),
    FaultRow(
        "overflow_max_length", K.CONTEXT_OVERFLOW, "OpenAI, vLLM",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        statuses=_SIZE, wording=_words("maximum context length (?:is|of) <limit> tokens"),
    ),
    FaultRow(
        "overflow_ollama", K.CONTEXT_OVERFLOW, "Ollama, LM Studio",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9000>= "
        "n_ctx: 4096)",
        statuses=_SIZE,
        wording=_words(r"greater than the context length(?:.{0,40}n_ctx: <limit>)?"),
    ),
    FaultRow(
        "long_context_gate", K.CONTEXT_OVERFLOW, "Anthropic subscription; W1-14",
        "Extra usage is required for long context requests",
        statuses=_SIZE, wording=_words("extra usage is required for long context"),
    ),
    FaultRow(
        "request_over_tpm", K.CONTEXT_OVERFLOW, "OpenAI",
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 10000, Requested 12000.",
        statuses=(413, 429), wording=_words("request too large for .{0,80}tokens per min"),
    ),
    FaultRow(
        "overflow_no_number", K.CONTEXT_OVERFLOW, "W1-2, W1-4, W1-8, B070",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        statuses=_SIZE,
        wording=_words(
            "prompt is too long|prompt too long|input is too long for requested model|too many total text bytes"
            "|input exceeds the context window|exceeds the model'?s? (?:maximum )?context (?:length|window)"
            "|exceed(?:s|ed)? (?:the )?(?:available |maximum )?context (?:length|size|window|limit)"
            "|tokens in request more than max tokens allowed|prompt exceeds max length|exceeds the max_model_len"
            "|input length .{0,40}exceeds .{0,20}maximum|超过最大长度|上下文长度"
        ),
    ),
    FaultRow(
        "code_overflow_bare", K.CONTEXT_OVERFLOW, "OpenAI", '{"error":{"code":"context_length_exceeded"}}',
        codes=_codes("context_length_exceeded max_tokens_exceeded string_above_max_length"),
    ),
    FaultRow(
        "image_refused", K.IMAGE_REFUSED, "Anthropic, MiniMax, OpenAI, vLLM; W1-16, B078",
        "messages.4.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        statuses=(400, 413, 415, 422, 500, None),
        wording=_words(
            r"image exceeds \S+ ?[mk]b maximum|media exceeds size limit|image (?:is )?too large|image dimensions exceed"
            r"|max allowed size: \d+ pixels|could not process image|not a valid image|unsupported image"
            r"|(?:does not|doesn't) support (?:image|vision)|image input is not supported"
            r"|no endpoints found that support image"
            r"|is not a multimodal model|image_url.{0,40}(?:not supported|is only supported)"
        ),
    ),
    FaultRow(
        "body_too_large", K.BODY_TOO_LARGE, "HTTP fronts; W1-15, B077", "413 Request Entity Too Large",
        statuses=(400, 500, 502, None),
        wording=_words("request entity too large|payload too large|request body too large"),
    ),
    # ---- Wording: who may, who pays, what is allowed -----------------------------------------------------------------
    FaultRow(
        "content_policy", K.CONTENT_POLICY, "DeepSeek, OpenAI, OpenRouter, Azure; B064",
        "Content Exists Risk", statuses=(400, 403, 422, 451, 500, None),
        wording=_words(
            "content exists risk|violates? (?:our|openai'?s?) usage polic|your request was flagged"
            "|flagged for possible cybersecurity risk|prompt was flagged by our safety|your input was flagged"
            "|triggering (?:azure openai's|the) content management policy|rejected as a result of our safety system"
        ),
    ),
    FaultRow(
        "data_policy", K.PERMISSION, "OpenRouter",
        "No endpoints found matching your data policy", statuses=_REFUSED,
        wording=_words("no endpoints (?:found|available) matching your (?:data|guardrail|privacy)"),
    ),
    FaultRow(
        "model_wording", K.MODEL_NOT_FOUND, "OpenAI, Ollama, OpenRouter, LM Studio, Anthropic; B094",
        "model 'x' not found", statuses=_REFUSED,
        wording=_words(
            r"model [`'\"]?[^\s`'\"]+[`'\"]? (?:was )?not found|the model [`'\"]?[^\s`'\"]+[`'\"]? does not exist"
            r"|^model does not exist|is not a valid model|no endpoints found for |no such model|unknown model"
            r"|no endpoints found that support tool use|invalid model (?:identifier|name)|model not found|^model: \S+$"
            r"|no models? (?:is )?loaded|provided model identifier is invalid|with on-demand throughput isn.t supported"
        ),
    ),
    FaultRow(
        "auth_wording", K.AUTH, "Google, GitHub; B093", "API key not valid. Please pass a valid API key.",
        statuses=(400, 403, None),
        wording=_words(
            "api key not valid|invalid api key|incorrect api key|token (?:has |is )?expired|invalid authentication"
            "|bad credentials|token has been revoked|expired token"
        ),
    ),
    FaultRow(
        "quota_resets", K.RATE_LIMIT, "Ollama cloud, OpenCode; B014, W3",
        "Weekly usage limit reached. Resets in 6hr 29min.", statuses=(402, 403, 429, None), reset="stated",
        wording=_words("usage limit|quota|spend(?:ing)? limit|limit exceeded|limit reached|credits?"),
    ),
    FaultRow("payment_resets", K.RATE_LIMIT, "W3", statuses=(402,), reset="stated"),
    FaultRow(
        "rate_wording", K.RATE_LIMIT, "many; B014",
        "Rate limit exceeded: 20 per minute", statuses=(400, 403, 429, 500, 503, None),
        wording=_words(
            r"rate.?limit(?:ed| (?:reached|exceeded|hit))|(?:requests|tokens|limit:? ?\d+) per "
            r"(?:minute|min|day|second)|\d+ per (?:second|minute|hour)"
            r"|too many (?:concurrent )?requests|rate increased too quickly"
            r"|throttlingexception|limit \d+ / min"
        ),
    ),
    FaultRow(
        "billing_wording", K.BILLING, "OpenAI, Anthropic, OpenRouter, Ollama cloud, xAI; B014, W3",
        "you (someone) have reached your session usage limit, upgrade for higher limits",
        statuses=(400, 403, 404, 429, None), reset="unstated",
        wording=_words(
            "upgrade for higher limits|insufficient (?:credits|balance|funds|quota)|credit balance is too low"
            "|credits (?:have been )?exhausted|no usable credits|top up your credits|billing hard limit"
            "|exceeded your current quota|account is (?:deactivated|suspended)|run out of (?:funds|credits)"
            "|out of funds|out of extra usage|key limit exceeded|spend(?:ing)? limit|not available on the free tier"
            "|your plan does not include"
        ),
    ),
    FaultRow(
        "overloaded_wording", K.OVERLOADED, "Anthropic, Z.AI; B056, W3",
        "model temporarily unavailable due to upstream capacity limits", statuses=(429, 500, 502, 503, 529, None),
        wording=_words(
            "overloaded|(?:at|over|upstream) capacity|no healthy upstream|upstream idle for|out of capacity"
            "|no available (?:server|worker|channel)"
        ),
    ),
    FaultRow(
        "request_refused_by_gateway", K.BAD_REQUEST, "gateways that answer 5xx for a malformed request",
        "Unknown parameter: 'reasoning_effort'.", statuses=(500, 502),
        wording=_words("(?:unknown|unsupported|unrecognized) (?:request )?(?:parameter|argument)"),
    ),
    # ---- Codes that say less than the wordings above ---------------------------------------------------------------
    FaultRow(
        "code_overloaded", K.OVERLOADED, "Anthropic, llama.cpp; B056",
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        codes=_codes(
            "overloaded_error overloaded unavailable_error server_is_overloaded engine_overloaded_error"
            " modelnotreadyexception"
        ),
    ),
    FaultRow(
        "code_rate", K.RATE_LIMIT, "OpenAI, Anthropic, Google, AWS",
        '{"error":{"code":"rate_limit_exceeded","message":"slow down"}}',
        codes=_codes(
            "rate_limit_exceeded rate_limit_error resource_exhausted throttled throttlingexception too_many_requests"
            " servicequotaexceededexception"
        ),
    ),
    FaultRow(
        "code_permission", K.PERMISSION, "Anthropic, Google",
        '{"error":{"type":"permission_error","message":"no access"}}',
        codes=_codes("permission_error permission_denied access_denied unsupported_country_region_territory"),
    ),
    FaultRow(
        "code_timeout", K.TIMEOUT, "Anthropic, Google", '{"error":{"type":"timeout_error","message":"timed out"}}',
        codes=_codes("timeout_error deadline_exceeded request_timeout"),
    ),
    FaultRow(
        "code_server", K.SERVER_ERROR, "OpenAI, Anthropic; inside a stream",
        '{"error":{"type":"server_error","message":"The server had an error"}}', statuses=(None,),
        codes=_codes("server_error api_error internal_error internal_server_error internal unavailable"),
    ),
    FaultRow(
        "code_model_error", K.SERVER_ERROR, "Bedrock: of status 424, to be tried again; B056",
        '{"code":"ModelErrorException","message":"The request failed due to an error while processing the model."}',
        codes=_codes("modelerrorexception modelstreamerrorexception"),
    ),
    # ---- Statuses --------------------------------------------------------------------------------------------------
    FaultRow("status_401", K.AUTH, "RFC 9110", statuses=(401,)),
    FaultRow("status_402", K.BILLING, "RFC 9110", statuses=(402,)),
    FaultRow("status_403", K.PERMISSION, "RFC 9110", statuses=(403,)),
    FaultRow("status_404", K.BAD_REQUEST, "a wrong URL is no missing model; B094", statuses=(404, 405)),
    FaultRow("status_timeout", K.TIMEOUT, "RFC 9110, Cloudflare", statuses=(408, 504, 522, 524)),
    FaultRow("status_413", K.BODY_TOO_LARGE, "RFC 9110; W1-15", statuses=(413,)),
    FaultRow("status_429", K.RATE_LIMIT, "RFC 6585", statuses=(429,)),
    FaultRow("status_overloaded", K.OVERLOADED, "RFC 9110, Anthropic", statuses=(503, 529)),
)  # fmt: skip
