"""Take secrets out of a text: for the log, for error details, for what a tool gave back.

One table of forms. A hidden value becomes `[hidden NAME]`, which cannot be mistaken for a key: a mask with head and
tail was once written back into a settings file as the key. Forms and lengths are from the runtime specification,
section 12.4, which took them from the vendors' own key formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SHORTEST_KNOWN_CHARS = 8
"""A remembered value shorter than this would hide ordinary words."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one kind of secret looks; its last group, else the whole match, is hidden.

    A text without any of `marks` is never searched: looking for a literal costs a hundredth of the expression. The
    expression is compiled when a mark is first seen.
    `inside_word` False: a match in the middle of a longer word is left alone.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    inside_word: bool = False


def _form(name: str, marks: str, pattern: str, *, inside_word: bool = False) -> Form:
    return Form(name, tuple(marks.split("|")), pattern, inside_word)


FORMS: tuple[Form, ...] = (
    _form("sk_key", "sk-", r"sk-[A-Za-z0-9_-]{10,}"),  # OpenAI, Anthropic, OpenRouter and many that copied it
    _form("github_token", "ghp_|gho_|ghu_|ghs_|ghr_", r"gh[pousr]_[A-Za-z0-9]{10,}"),
    _form("github_token", "github_pat_", r"github_pat_[A-Za-z0-9_]{10,}"),
    _form("slack_token", "xox", r"xox[baprs]-[A-Za-z0-9-]{10,}"),
    _form("slack_token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,}"),
    _form("google_key", "AIza", r"AIza[A-Za-z0-9_-]{30,}"),
    _form("aws_key", "AKIA|ASIA", r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _form("stripe_key", "k_live_|k_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _form("perplexity_key", "pplx-", r"pplx-[A-Za-z0-9]{10,}"),
    _form("xai_key", "xai-", r"xai-[A-Za-z0-9]{30,}"),
    _form("groq_key", "gsk_", r"gsk_[A-Za-z0-9]{10,}"),
    _form("huggingface_token", "hf_", r"hf_[A-Za-z0-9]{20,}"),
    _form("replicate_token", "r8_", r"r8_[A-Za-z0-9]{20,}"),
    _form("npm_token", "npm_", r"npm_[A-Za-z0-9]{20,}"),
    _form("pypi_token", "pypi-", r"pypi-[A-Za-z0-9_-]{20,}"),
    _form("digitalocean_token", "dop_v1_|doo_v1_", r"do[op]_v1_[A-Za-z0-9]{10,}"),
    _form("fireworks_key", "fw-|fw_|fpk_", r"f(?:w[-_]|pk_)[A-Za-z0-9]{30,}"),
    _form("tavily_key", "tvly-", r"tvly-[A-Za-z0-9-]{10,}"),
    _form("firecrawl_key", "fc-", r"fc-[a-f0-9]{16,}"),
    _form("sendgrid_key", "SG.", r"SG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    _form("notion_token", "ntn_", r"ntn_[A-Za-z0-9]{10,}"),
    _form("fernet_token", "gAAAA", r"gAAAA[A-Za-z0-9_=-]{20,}"),
    _form("telegram_token", ":AA", r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    # the look back keeps a long run of these letters from being read again from each `eyJ` in it
    _form("jwt", "eyJ", r"eyJ(?<![A-Za-z0-9_-]eyJ)[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?"),
    # the end line may have been cut off with the rest of the text
    _form(
        "private_key",
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]{0,20}PRIVATE KEY-----|[\s\S]*)",
        inside_word=True,
    ),
    # no quote in the value: a swallowed closing quote broke the command that held it
    _form("bearer", "earer |EARER ", r"(?:Bearer|bearer|BEARER) ([A-Za-z0-9._~+/=-]{16,})"),
    _form("basic", "uthorization", r"[Aa]uthorization[\"']?: ?[\"']?(?:[Bb]asic|[Tt]oken) ([^\s\"',;\[]{6,})"),
    _form(
        "api_key",
        "api-key|Api-Key|API-Key|API-KEY",
        r"(?i:api-key)[\"']?: ?[\"']?([^\s\"',;\[]{8,})",
        inside_word=True,
    ),
    # `://` first, since an expression that begins with a literal is searched fast; the value stays on one line: it once
    # ran on to the next @ of another
    _form(
        "password",
        "://",
        r"://(?:(?<=postgres://)|(?<=postgresql://)|(?<=mysql://)|(?<=mariadb://)|(?<=mongodb://)|(?<=mongodb\+srv://)"
        r"|(?<=redis://)|(?<=rediss://)|(?<=amqp://)|(?<=amqps://)|(?<=\+asyncpg://)|(?<=\+psycopg2://)"
        r"|(?<=\+psycopg://)|(?<=\+pymysql://))[^\s:/@\"']{0,100}:([^\s@\"'\[]{1,200})(?=@)",
        inside_word=True,
    ),
    # a name and a password in a web address stay: people pass them on purpose; a bare token is a secret
    _form("token", "://", r"://([A-Za-z0-9_-]{20,})(?=@)", inside_word=True),
)  # fmt: skip

# An assignment is only a hint: in source code `token = next(it)` must stay as it is. For logs and error texts.
_ASSIGNMENT = _form(
    "value",
    "",
    r"(?:[Aa][Pp][Ii][_-]?[Kk][Ee][Yy]|SECRET|[Ss]ecret|TOKEN|[Tt]oken|PASSW(?:OR)?D|[Pp]assw(?:or)?d|[Cc]redential)"
    r"[A-Za-z_-]{0,20}[\"']?\s{0,2}[:=]\s{0,2}[\"']?"
    # looked up elsewhere, a number, or hidden already: nothing to hide
    r"(?!os\.|process\.|getenv|\$|\[|-?\d{1,7}(?:\.\d+)?(?![^\s\"'&,;)}\]]))([^\s\"'&,;)}\]\[]{6,})",
    inside_word=True,
)

_known: tuple[str, ...] = ()


def remember(values: Iterable[str]) -> None:
    """Hide these very values from now on, whatever they look like: keys from settings and environment."""
    global _known
    fresh = {value for value in values if len(value) >= _SHORTEST_KNOWN_CHARS}
    # longest first, so that a key that contains another is hidden as a whole
    _known = tuple(sorted(fresh.union(_known), key=len, reverse=True))


def redact(text: str, *, assignments: bool = False) -> str:
    """The text with secrets replaced by `[hidden NAME]`; the same object when there was nothing to hide.

    `assignments` also hides the values of settings that sound secret (`password: …`, `API_KEY=…`): right for a log or
    an error text, wrong for source code.
    """
    for value in _known:
        if value in text:
            text = text.replace(value, "[hidden key]")
    for form in FORMS:
        for mark in form.marks:
            if mark in text:
                text = _hide(form, text)
                break
    return _hide(_ASSIGNMENT, text) if assignments else text


def _hide(form: Form, text: str) -> str:
    label = f"[hidden {form.name}]"

    def mask(match: re.Match[str]) -> str:
        start, whole = match.start(), match.group()
        if not form.inside_word and start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
            return whole
        if not match.lastindex:
            return label
        begin, end = match.start(1) - start, match.end(1) - start
        return whole[:begin] + label + whole[end:]

    masked = re.sub(form.pattern, mask, text)
    return text if masked == text else masked
