"""Wording about sizes: the output's before the input's, since some texts speak of both."""

from __future__ import annotations

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.fault_rows.row import SIZE, FaultRow, codes, words

SIZES: tuple[FaultRow, ...] = (
    FaultRow(
        "cannot_afford", K.OUTPUT_CAP, "OpenRouter; B090",
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, "
        "but can only afford 56272.",
        statuses=(402,), wording=words("can only afford <output>"),
    ),
    FaultRow(
        "output_over_model", K.OUTPUT_CAP, "proxies; W1-9, B069",
        "max_tokens cannot exceed the configured model output limit of 16384",
        statuses=SIZE, wording=words("max(?:_completion)?_tokens.{0,60}output limit of <output>"),
    ),
    FaultRow(
        "output_over_model_bedrock", K.OUTPUT_CAP, "Bedrock",
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a value that is lower.",
        statuses=SIZE, wording=words("maximum tokens you requested exceeds the model limit of <output>"),
    ),
    FaultRow(
        "output_over_range", K.OUTPUT_CAP, "DashScope", "Range of max_tokens should be [1, 65536]",
        statuses=SIZE, wording=words(r"range of max_tokens should be \[\d+, ?<output>\]"),
    ),
    FaultRow(
        "sum_overflow_anthropic", K.OUTPUT_CAP, "Anthropic, Bedrock; W1-3, B069",
        "input length and `max_tokens` exceed context limit: 196758 + 8192 > 200000, decrease input length or "
        "`max_tokens` and try again",
        statuses=SIZE, wording=words(r"exceed context limit: <input> \+ <asked> > <limit>"),
    ),
    FaultRow(
        "output_too_large", K.OUTPUT_CAP, "OpenAI, Anthropic, DeepSeek",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        statuses=SIZE,
        wording=words(
            r"max(?:_completion)?_tokens(?: is too large)?:? ?(?:\d+)?.{0,40}"
            r"(?:supports at most |> |maximum value for .{0,30} is |must be less than or equal to )`?<output>"
        ),
    ),
    FaultRow(
        "sum_overflow_vllm", K.OUTPUT_CAP, "vLLM, Bedrock Mantle; W1-5, B068",
        "This model's maximum context length is 202752 tokens. However, you requested 65536 output tokens and your "
        "prompt contains at least 137217 input tokens, for a total of at least 202753 tokens.",
        statuses=SIZE,
        wording=words(
            r"maximum context length is <limit> tokens.{0,40}requested <asked> output tokens.{0,40}"
            r"contains (?:at least )?(?:<input> input tokens|<chars> characters)"
        ),
    ),
    FaultRow(
        "sum_overflow_openai", K.OUTPUT_CAP, "OpenAI, DeepSeek",
        "This model's maximum context length is 16385 tokens. However, you requested 17000 tokens (1000 in the "
        "messages, 16000 in the completion). Please reduce the length of the messages or completion.",
        statuses=SIZE,
        wording=words(
            r"maximum context length is <limit> tokens.{0,40}requested (?:about )?\d+ tokens \(<input> "
            r"(?:in the messages|of text input).{0,80}?<asked> in the (?:completion|output)"
        ),
    ),
    FaultRow(
        "sum_overflow_sglang", K.OUTPUT_CAP, "SGLang; W1-7, B068",
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
        "132528 tokens: 66992 tokens from the input messages and 65536 tokens for the completion.",
        statuses=SIZE,
        wording=words(
            r"maximum context length of <limit> tokens.{0,60}<input> tokens from the input messages and <asked> tokens"
        ),
    ),
    FaultRow(
        "overflow_arrow", K.CONTEXT_OVERFLOW, "Anthropic, Bedrock; W1-1",
        "prompt is too long: 203470 tokens > 200000 maximum",
        statuses=SIZE, wording=words("prompt is too long: <input> tokens > <limit>"),
    ),
    FaultRow(
        "overflow_available", K.CONTEXT_OVERFLOW, "llama.cpp; W1-10",
        "request (33056 tokens) exceeds the available context size (32768 tokens), try increasing it",
        statuses=SIZE, wording=words(r"\(<input> tokens\) exceeds the available context size \(<limit> tokens\)"),
    ),
    FaultRow(
        "overflow_up_to", K.CONTEXT_OVERFLOW, "Google; W1-11",
        "Unable to submit request because the input token count is 32825 but model only supports up to 32768.",
        statuses=SIZE, wording=words("input token count is <input> but.{0,30}supports up to <limit>"),
    ),
    FaultRow(
        "overflow_google", K.CONTEXT_OVERFLOW, "Google",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        statuses=SIZE, wording=words(r"exceeds the maximum number of tokens allowed \(?<limit>"),
    ),
    FaultRow(
        "overflow_max_window", K.CONTEXT_OVERFLOW, "oMLX; W1-12",
        "Prompt too long: 129,566 tokens exceeds max context window of 128,000",
        statuses=SIZE, wording=words("prompt too long: <input> tokens exceeds max context window of <limit>"),
    ),
    FaultRow(
        "overflow_while_limit", K.CONTEXT_OVERFLOW, "Cerebras; W1-13",
        "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
        statuses=SIZE, wording=words("current length is <input> while limit is <limit>"),
    ),
    FaultRow(
        "overflow_max_length", K.CONTEXT_OVERFLOW, "OpenAI, vLLM",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        statuses=SIZE, wording=words("maximum context length (?:is|of) <limit> tokens"),
    ),
    FaultRow(
        "overflow_ollama", K.CONTEXT_OVERFLOW, "Ollama, LM Studio",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9000>= "
        "n_ctx: 4096)",
        statuses=SIZE,
        wording=words(r"greater than the context length(?:.{0,40}n_ctx: <limit>)?"),
    ),
    FaultRow(
        "long_context_gate", K.CONTEXT_OVERFLOW, "Anthropic subscription; W1-14",
        "Extra usage is required for long context requests",
        statuses=SIZE, wording=words("extra usage is required for long context"),
    ),
    FaultRow(
        "request_over_tpm", K.CONTEXT_OVERFLOW, "OpenAI",
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 10000, Requested 12000.",
        statuses=(413, 429), wording=words("request too large for .{0,80}tokens per min"),
    ),
    FaultRow(
        "overflow_no_number", K.CONTEXT_OVERFLOW, "W1-2, W1-4, W1-8, B070",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        statuses=SIZE,
        wording=words(
            "prompt is too long|prompt too long|input is too long for requested model|too many total text bytes"
            "|input exceeds the context window|exceeds the model'?s? (?:maximum )?context (?:length|window)"
            "|exceed(?:s|ed)? (?:the )?(?:available |maximum )?context (?:length|size|window|limit)"
            "|tokens in request more than max tokens allowed|prompt exceeds max length|exceeds the max_model_len"
            "|input length .{0,40}exceeds .{0,20}maximum|超过最大长度|上下文长度"
        ),
    ),
    FaultRow(
        "code_overflow_bare", K.CONTEXT_OVERFLOW, "OpenAI", '{"error":{"code":"context_length_exceeded"}}',
        codes=codes("context_length_exceeded max_tokens_exceeded string_above_max_length"),
    ),
    FaultRow(
        "body_too_large", K.BODY_TOO_LARGE, "HTTP fronts; W1-15, B077", "413 Request Entity Too Large",
        statuses=(400, 500, 502, None),
        wording=words("request entity too large|payload too large|request body too large"),
    ),
)  # fmt: skip
