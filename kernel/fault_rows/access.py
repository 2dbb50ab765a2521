"""Wording about who may, who pays and what is allowed."""

from __future__ import annotations

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.fault_rows.row import REFUSED, FaultRow, words

ACCESS: tuple[FaultRow, ...] = (
    FaultRow(
        "content_policy", K.CONTENT_POLICY, "DeepSeek, OpenAI, OpenRouter, Azure; B064",
        "Content Exists Risk", statuses=(400, 403, 422, 451, 500, None),
        wording=words(
            "content exists risk|violates? (?:our|openai'?s?) usage polic|your request was flagged"
            "|flagged for possible cybersecurity risk|prompt was flagged by our safety|your input was flagged"
            "|triggering (?:azure openai's|the) content management policy|rejected as a result of our safety system"
        ),
    ),
    FaultRow(
        "data_policy", K.PERMISSION, "OpenRouter",
        "No endpoints found matching your data policy", statuses=REFUSED,
        wording=words("no endpoints (?:found|available) matching your (?:data|guardrail|privacy)"),
    ),
    FaultRow(
        "model_wording", K.MODEL_NOT_FOUND, "OpenAI, Ollama, OpenRouter, LM Studio, Anthropic; B094",
        "model 'x' not found", statuses=REFUSED,
        wording=words(
            r"model [`'\"]?[^\s`'\"]+[`'\"]? (?:was )?not found|the model [`'\"]?[^\s`'\"]+[`'\"]? does not exist"
            r"|^model does not exist|is not a valid model|no endpoints found for |no such model|unknown model"
            r"|no endpoints found that support tool use|invalid model (?:identifier|name)|model not found|^model: \S+$"
            r"|no models? (?:is )?loaded|provided model identifier is invalid|with on-demand throughput isn.t supported"
        ),
    ),
    FaultRow(
        "auth_wording", K.AUTH, "Google, GitHub; B093", "API key not valid. Please pass a valid API key.",
        statuses=(400, 403, None),
        wording=words(
            "api key not valid|invalid api key|incorrect api key|token (?:has |is )?expired|invalid authentication"
            "|bad credentials|token has been revoked|expired token"
        ),
    ),
    FaultRow(
        "quota_resets", K.RATE_LIMIT, "Ollama cloud, OpenCode; B014, W3",
        "Weekly usage limit reached. Resets in 6hr 29min.", statuses=(402, 403, 429, None), reset="stated",
        wording=words("usage limit|quota|spend(?:ing)? limit|limit exceeded|limit reached|credits?"),
    ),
    FaultRow("payment_resets", K.RATE_LIMIT, "W3", statuses=(402,), reset="stated"),
    FaultRow(
        "rate_wording", K.RATE_LIMIT, "many; B014",
        "Rate limit exceeded: 20 per minute", statuses=(400, 403, 429, 500, 503, None),
        wording=words(
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
        wording=words(
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
        wording=words(
            "overloaded|(?:at|over|upstream) capacity|no healthy upstream|upstream idle for|out of capacity"
            "|no available (?:server|worker|channel)"
        ),
    ),
)  # fmt: skip
