"""Faults are recognised by code, then status, then anchored wording; every row of the table by its own example."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.fault_rows import ROWS, FaultRow
from hermes.kernel.faults import classify
from hermes.kernel.providers import WireFault
from hermes.kernel.retry_after import retry_after_s

NOW = 1_800_000_000.0


def http(status: int | None, body: Any = "", **headers: str) -> WireFault:
    text = body if isinstance(body, str) else json.dumps(body)
    message = text if isinstance(body, str) else ""
    return WireFault(
        "http", message, status=status, body=text, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@pytest.mark.parametrize("row", [r for r in ROWS if r.example], ids=lambda r: r.name)
def test_every_row_recognises_its_own_example(row: FaultRow) -> None:
    fault = http(row.statuses[0] if row.statuses else 400, row.example)
    found = classify(fault)
    assert (found.row, found.kind, found.repair) == (row.name, row.kind, row.repair)


def test_row_names_are_unique_and_wording_is_lower_case() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        if row.wording:
            bare = re.sub(r"\\.|\(\?P<\w+>", "", row.wording.pattern)
            assert bare == bare.lower(), row.name


W1 = [
    (400, "prompt is too long: 903884 tokens > 200000 maximum", K.CONTEXT_OVERFLOW, 200000),
    (400, "Prompt is too long", K.CONTEXT_OVERFLOW, None),
    (400, "Input is too long for requested model", K.CONTEXT_OVERFLOW, None),
    (400, "too many total text bytes", K.CONTEXT_OVERFLOW, None),
    (400, "input length and `max_tokens` exceed context limit: 196758 + 8192 > 200000, decrease input length or "
     "`max_tokens` and try again", K.OUTPUT_CAP, 200000),
    (400, "This model's maximum context length is 202752 tokens. However, you requested 65536 output tokens and your "
     "prompt contains at least 137217 input tokens, for a total of at least 202753 tokens. Please reduce the length of "
     "the input prompt or the number of requested output tokens. (parameter=input_tokens, value=137217)",
     K.OUTPUT_CAP, 202752),
    (400, "This model's maximum context length is 65536 tokens. However, you requested 65536 output tokens and your "
     "prompt contains 77409 characters (more than 0 characters, which is the upper bound for 0 input tokens).",
     K.OUTPUT_CAP, 65536),
    (400, "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
     "132528 tokens: 66992 tokens from the input messages and 65536 tokens for the completion.", K.OUTPUT_CAP, 131072),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again.",
     K.CONTEXT_OVERFLOW, None),
    (400, "max_tokens cannot exceed the configured model output limit of 16384", K.OUTPUT_CAP, None),
    (400, {"error": {"code": 400, "message": "request (33056 tokens) exceeds the available context size "
     "(32768 tokens), try increasing it", "type": "exceed_context_size_error",
     "n_prompt_tokens": 33056, "n_ctx": 32768}},
     K.CONTEXT_OVERFLOW, 32768),
    (400, "Unable to submit request because the input token count is 32825 but model only supports up to 32768.",
     K.CONTEXT_OVERFLOW, 32768),
    (400, "Prompt too long: 129,566 tokens exceeds max context window of 128,000", K.CONTEXT_OVERFLOW, 128000),
    (400, "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
     K.CONTEXT_OVERFLOW, 40000),
    (429, "Extra usage is required for long context requests", K.CONTEXT_OVERFLOW, None),
    (413, "Request Entity Too Large", K.BODY_TOO_LARGE, None),
    (413, "Payload Too Large", K.BODY_TOO_LARGE, None),
    (400, "image exceeds 5 MB maximum", K.IMAGE_REFUSED, None),
    (400, "media exceeds size limit: max 10485760 bytes (2013)", K.IMAGE_REFUSED, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "limit"), W1)
def test_B002_every_overflow_wording_is_recognised_with_the_window_it_states(
    status: int, body: Any, kind: K, limit: int | None
) -> None:
    fault = classify(http(status, body))
    assert (fault.kind, fault.limit_tokens) == (kind, limit)
    if isinstance(body, str):
        wrapped = classify(http(status, {"error": {"message": body, "type": "invalid_request_error", "code": None}}))
        assert (wrapped.kind, wrapped.limit_tokens) == (kind, limit)
        raw = {"error": {"message": "Provider returned error", "code": status, "metadata": {"raw": body}}}
        assert classify(http(status, raw)).kind is kind


@pytest.mark.parametrize(
    ("text", "room"),
    [
        ("max_tokens cannot exceed the configured model output limit of 16384", 16384),
        ("... exceed context limit: 196758 + 8192 > 200000", 3242),
        ("Range of max_tokens should be [1, 65536]", 65536),
        ("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens", 64000),
        ("Your input exceeds the context window of this model.", None),
    ],
)
def test_B068_B069_the_output_that_fits_is_told_apart_from_the_window(text: str, room: int | None) -> None:
    assert classify(http(400, text)).output_limit_tokens == room


def test_B090_a_402_that_states_what_can_be_afforded_is_an_output_cap() -> None:
    fault = http(402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but "
                      "can only afford 56272.")  # fmt: skip
    assert classify(fault).kind is K.OUTPUT_CAP
    assert classify(fault).output_limit_tokens == 56272


LIMITS = [
    (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, {}, K.BILLING),
    (429, {"error": {"code": "terminal_quota_exhausted"}}, {}, K.BILLING),
    (429, {"error": {"message": "you (bob) have reached your session usage limit, upgrade for higher limits"}},
     {}, K.BILLING),
    (429, {"error": {"message": "Weekly usage limit reached. Resets in 6hr 29min."}}, {}, K.RATE_LIMIT),
    (429, {"error": {"code": "usage_limit_reached", "message": "The usage limit has been reached"}}, {}, K.BILLING),
    (429, {"error": {"code": "usage_limit_reached", "resets_in_seconds": 60}}, {}, K.RATE_LIMIT),
    (429, "Rate limit exceeded: 20 per minute", {}, K.RATE_LIMIT),
    (429, {"error": {"message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED",
                     "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}},
     {}, K.RATE_LIMIT),
    (429, "", {}, K.RATE_LIMIT),
    (429, {"error": {"message": "The model is overloaded, try later"}}, {}, K.OVERLOADED),
    (402, {"error": {"message": "Insufficient credits"}}, {}, K.BILLING),
    (402, {"error": {"message": "API key USD spend limit exceeded."}}, {}, K.BILLING),
    (402, {"error": {"message": "Payment required"}}, {"retry_after": "60"}, K.RATE_LIMIT),
    (400, {"type": "error", "error": {"type": "invalid_request_error",
     "message": "Your credit balance is too low to access the Anthropic API."}}, {}, K.BILLING),
    (403, {"error": {"code": "personal-team-blocked:spending-limit", "message": "no"}}, {}, K.BILLING),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "headers", "kind"), LIMITS)
def test_B014_a_quota_wall_is_billing_and_a_limit_that_resets_is_a_rate_limit(
    status: int, body: Any, headers: dict[str, str], kind: K
) -> None:
    assert classify(http(status, body, **headers)).kind is kind


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, K.AUTH),
        (403, {"code": "unauthenticated:bad-credentials", "error": "The token is bad"}, K.AUTH),
        (403, "forbidden", K.PERMISSION),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], K.AUTH),
        (401, {"error": {"message": "refresh_token_reused"}}, K.AUTH),
    ],
)
def test_B093_bad_and_expired_keys_are_auth_and_an_ordinary_403_is_not(status: int, body: Any, kind: K) -> None:
    assert classify(http(status, body)).kind is kind


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, {"detail": "Not Found"}, K.BAD_REQUEST),
        (404, {"error": {"message": "model 'x' not found"}}, K.MODEL_NOT_FOUND),
        (404, {"error": {"message": 'model "qwen9:1b" not found, try pulling it first'}}, K.MODEL_NOT_FOUND),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-x"}}, K.MODEL_NOT_FOUND),
        (400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}, K.MODEL_NOT_FOUND),
        (400, {"error": "model does not exist"}, K.MODEL_NOT_FOUND),
        (404, {"error": {"message": "No endpoints found matching your data policy (x)"}}, K.PERMISSION),
        (400, {"error": {"message": "the file does not exist"}}, K.BAD_REQUEST),
    ],
)  # fmt: skip
def test_B094_only_clear_wording_says_that_the_model_is_missing(status: int, body: Any, kind: K) -> None:
    assert classify(http(status, body)).kind is kind


def test_B094_a_404_names_the_url_that_was_asked() -> None:
    fault = WireFault("http", "POST http://127.0.0.1:9/v1/chat", status=404, body='{"detail":"Not Found"}')
    assert classify(fault).detail == "HTTP 404: Not Found (POST http://127.0.0.1:9/v1/chat)"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] x", K.INVALID_REPLY),
        (500, "oops", K.SERVER_ERROR),
        (502, "<html>Bad Gateway</html>", K.SERVER_ERROR),
        (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, K.OVERLOADED),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, K.OVERLOADED),
        (None, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, K.OVERLOADED),
        (None, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, K.RATE_LIMIT),
        (504, "", K.TIMEOUT),
        (418, "teapot", K.BAD_REQUEST),
        (302, "", K.BAD_REQUEST),
        (None, "what", K.UNKNOWN),
        (400, "Content Exists Risk", K.CONTENT_POLICY),
    ],
)
def test_statuses_and_stream_errors_have_a_kind(status: int | None, body: Any, kind: K) -> None:
    assert classify(http(status, body)).kind is kind


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("timeout", K.TIMEOUT),
        ("stall", K.STALL),
        ("tls", K.TLS),
        ("connection", K.CONNECTION),
        ("invalid", K.INVALID_REPLY),
    ],
)
def test_transport_causes_have_a_kind_and_keep_their_message(cause: Any, kind: K) -> None:
    fault = classify(WireFault(cause, "no bytes for 180 s"))
    assert (fault.kind, fault.detail) == (kind, "no bytes for 180 s")


def test_wording_does_not_win_over_a_status_that_says_otherwise() -> None:
    assert classify(http(401, "prompt is too long: 5 tokens > 4 maximum")).kind is K.AUTH
    assert classify(http(503, "please pass a valid model: model 'x' not found")).kind is K.OVERLOADED


WAITS = [
    ("30", 30), ("0", 0), ("-5", 0), ("1.5", 1.5), ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
    ("Fri, 15 Jan 2027 08:00:45 GMT", 45), ("2m59.56s", 179.56), ("1m30s", 90), ("370ms", 0.37), ("abc", None),
    ("", None), ("999999", 999999), ("nan", None), ("inf", None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "seconds"), WAITS)
def test_B092_every_form_of_retry_after_is_read(value: str, seconds: float | None) -> None:
    found = retry_after_s({"Retry-After": value}, now=NOW)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


def test_B092_other_places_that_say_when_to_come_back() -> None:
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "30"}, now=NOW) == 1.5
    assert retry_after_s({}, "please try again in 6.2s.", now=NOW) == pytest.approx(6.2)
    assert retry_after_s({}, "weekly usage limit reached. resets in 6hr 29min.", now=NOW) == 6 * 3600 + 29 * 60
    assert retry_after_s({}, "retry after 20 seconds", now=NOW) == 20
    assert retry_after_s({}, "try again in 5 monkeys", now=NOW) is None
    used_up = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
    left = {"x-ratelimit-remaining-tokens": "10", "x-ratelimit-reset-tokens": "9h"}
    assert retry_after_s(used_up | left, now=NOW) == 360
    assert retry_after_s({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW + 12:.0f}000"}, now=NOW) == 12
    assert retry_after_s({"anthropic-ratelimit-requests-remaining": "0",
                          "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:30Z"}, now=NOW) == 30  # fmt: skip


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefghijklmnop1234", "sk-ant-api03-abcdefgh12345678", "AIzaSyA1234567890abcdefghijABCDEFGHIJ12",
     "gsk_abcdefghij0123456789",
     "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"],
)  # fmt: skip
def test_the_detail_is_one_line_without_keys(secret: str) -> None:
    fault = http(401, {"error": {"message": f"Incorrect API key provided:\n{secret}. Bearer {secret}"}})
    detail = classify(fault).detail
    assert secret not in detail
    assert "\n" not in detail
    assert detail.startswith("HTTP 401: Incorrect API key provided: [hidden")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "metadata", "raw", "n_ctx", "retry_after"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([None, 200, 400, 402, 429, 500, 599]), json_values, st.text(max_size=30))
def test_no_body_and_no_header_breaks_the_recognition(status: int | None, body: Any, header: str) -> None:
    fault = http(status, json.dumps(body), retry_after=header, x_ratelimit_reset=header)
    found = classify(fault)
    assert found.kind in K
    assert len(found.detail) <= 420
    assert found.retry_after_s is None or found.retry_after_s >= 0
