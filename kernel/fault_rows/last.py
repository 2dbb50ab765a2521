"""Codes that say less than wording, and then statuses."""

from __future__ import annotations

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.fault_rows.row import FaultRow, codes

LAST: tuple[FaultRow, ...] = (
    FaultRow(
        "code_overloaded", K.OVERLOADED, "Anthropic, llama.cpp, Z.AI (1305); B056",
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        codes=codes(
            "overloaded_error overloaded unavailable_error server_is_overloaded engine_overloaded_error"
            " modelnotreadyexception 1305"
        ),
    ),
    FaultRow(
        "code_rate", K.RATE_LIMIT, "OpenAI, Anthropic, Google, AWS",
        '{"error":{"code":"rate_limit_exceeded","message":"slow down"}}',
        codes=codes(
            "rate_limit_exceeded rate_limit_error resource_exhausted throttled throttlingexception too_many_requests"
            " servicequotaexceededexception"
        ),
    ),
    FaultRow(
        "code_permission", K.PERMISSION, "Anthropic, Google",
        '{"error":{"type":"permission_error","message":"no access"}}',
        codes=codes("permission_error permission_denied access_denied unsupported_country_region_territory"),
    ),
    FaultRow(
        "code_timeout", K.TIMEOUT, "Anthropic, Google", '{"error":{"type":"timeout_error","message":"timed out"}}',
        codes=codes("timeout_error deadline_exceeded request_timeout"),
    ),
    FaultRow(
        "code_server", K.SERVER_ERROR, "OpenAI, Anthropic; inside a stream",
        '{"error":{"type":"server_error","message":"The server had an error"}}', statuses=(None,),
        codes=codes("server_error api_error internal_error internal_server_error internal unavailable"),
    ),
    FaultRow(
        "code_model_error", K.SERVER_ERROR, "Bedrock: of status 424, to be tried again; B056",
        '{"code":"ModelErrorException","message":"The request failed due to an error while processing the model."}',
        codes=codes("modelerrorexception modelstreamerrorexception"),
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
