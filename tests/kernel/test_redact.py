"""Secrets are hidden, ordinary text and code are left alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.kernel import redact as room
from hermes.kernel.redact import redact, remember

SECRETS = [
    ("sk-abcdefghijklmnop", "sk_key"),
    ("sk-ant-api03-Zm9vYmFyYmF6", "sk_key"),
    ("sk-or-v1-0123456789abcdef", "sk_key"),
    ("ghp_abcdefghijklmnop0123", "github_token"),
    ("github_pat_11ABCDEFG0abcdefgh", "github_token"),
    ("xoxb-123456789012-abcdef", "slack_token"),
    ("xapp-1-A0123456789-abcdef", "slack_token"),
    ("AIza" + "B" * 35, "google_key"),
    ("AKIA" + "ABCD1234EFGH5678", "aws_key"),
    ("sk_live_abcdefghij1234", "stripe_key"),
    ("rk_test_abcdefghij1234", "stripe_key"),
    ("pplx-abcdefghij1234", "perplexity_key"),
    ("xai-" + "a1" * 20, "xai_key"),
    ("gsk_abcdefghij1234", "groq_key"),
    ("hf_" + "AbCdEfGhIj" * 3, "huggingface_token"),
    ("r8_" + "AbCdEfGhIj" * 3, "replicate_token"),
    ("npm_" + "a1" * 18, "npm_token"),
    ("pypi-AgEIcHlwaS5vcmcCJDAwMDA", "pypi_token"),
    ("dop_v1_0123456789abcdef", "digitalocean_token"),
    ("fw_" + "a1" * 16, "fireworks_key"),
    ("tvly-abcdefghij1234", "tavily_key"),
    ("fc-0123456789abcdef0123", "firecrawl_key"),
    ("SG.abcdefghij1234.klmnopqrst5678", "sendgrid_key"),
    ("ntn_abcdefghij1234", "notion_token"),
    ("gAAAAABh" + "x" * 24, "fernet_token"),
    ("123456789:AA" + "b" * 33, "telegram_token"),
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4", "jwt"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----", "private_key"),
]


@pytest.mark.parametrize(("secret", "name"), SECRETS, ids=[name for _, name in SECRETS])
def test_every_form_is_hidden_wherever_it_stands(secret: str, name: str) -> None:
    for before, after in (("", ""), ("key=", " end"), ('{"k": "', '"}'), ("(", ")"), ("a\n", "\nb")):
        assert redact(f"{before}{secret}{after}") == f"{before}[hidden {name}]{after}"


def test_every_row_of_the_table_has_a_secret_that_shows_it() -> None:
    structural = {"bearer", "basic", "api_key", "password", "token"}
    assert {form.name for form in room.FORMS} - structural == {name for _, name in SECRETS}


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [hidden bearer]"),
        ("x-api-key: abcdef123456", "x-api-key: [hidden api_key]"),
        ("postgres://me:hunter2@db/x", "postgres://me:[hidden password]@db/x"),
        ("mongodb+srv://me:a/b@db", "mongodb+srv://me:[hidden password]@db"),
        ("https://0123456789abcdefghij@git.example/x", "https://[hidden token]@git.example/x"),
        # the end line of a key was cut off with the rest of the text
        ("-----BEGIN PRIVATE KEY-----\nMIIE\nabc", "[hidden private_key]"),
    ],
)
def test_secrets_in_their_surroundings_leave_the_surroundings(text: str, hidden: str) -> None:
    assert redact(text) == hidden


def test_spec_43083_the_quote_after_a_header_stays() -> None:
    text = "curl -H 'Authorization: Basic dXNlcjpwYXNz' http://x"
    assert redact(text) == "curl -H 'Authorization: Basic [hidden basic]' http://x"


def test_spec_33801_a_password_in_an_address_ends_with_its_line() -> None:
    text = "redis://cache:6379/0\nsend it to me@example.com"
    assert redact(text) is text


def test_spec_35519_a_hidden_key_shows_no_part_of_the_key() -> None:
    assert "abcd" not in redact("sk-abcdefghijklmnopqrstuvwxyz")
    assert "wxyz" not in redact("sk-abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    "text",
    [
        "task-management-of-things",
        "desk-abcdefghijklmnop",
        "https://example.com/?token=abcdef",
        "https://me:pass@example.com/",  # 34029: people pass these on purpose
        "def hf_hub_download(x): ...",
        "token = next(tokens)",
        "MAX_TOKENS=100",
        "a plain sentence",
        "",
    ],
)
def test_ordinary_text_and_code_stay_the_same_object(text: str) -> None:
    assert redact(text) is text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("OPENAI_API_KEY=foo123456", "OPENAI_API_KEY=[hidden value]"),
        ("db.password: hunter22 ok", "db.password: [hidden value] ok"),  # 16413: lower-case configuration keys
        ('{"client_secret": "abcdef"}', '{"client_secret": "[hidden value]"}'),
        ("a=1&access_token=abcdefg&b=2", "a=1&access_token=[hidden value]&b=2"),
        ("API_KEY = os.getenv('X_KEY')", "API_KEY = os.getenv('X_KEY')"),  # 2852: a look-up is no secret
        ("api_key: ${env:WORK_KEY}", "api_key: ${env:WORK_KEY}"),
        ("max_tokens: 4096", "max_tokens: 4096"),
    ],
)
def test_assignments_are_hidden_in_logs_and_errors(text: str, hidden: str) -> None:
    assert redact(text, assignments=True) == hidden


def test_a_remembered_key_is_hidden_whatever_it_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_known", ())
    remember(["correct horse battery", "x", "correct horse battery staple"])
    assert redact("say correct horse battery staple x") == "say [hidden key] x"


@given(
    st.lists(st.sampled_from([s for s, _ in SECRETS] + ["=", "x", "\n", "password:"]) | st.text(max_size=20)).map(
        " ".join
    )
)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    for assignments in (False, True):
        once = redact(text, assignments=assignments)
        assert redact(once, assignments=assignments) == once


def test_a_hostile_text_of_a_megabyte_does_not_hang() -> None:
    for piece in (
        "sk-",
        "-----BEGIN PRIVATE KEY-----",
        "postgres://a:",
        "eyJ",
        "token",
        "https://a",
        "SG.aaaaaaaaaaaa",
    ):
        text = piece * (1_000_000 // len(piece))
        start = time.monotonic()
        redact(text, assignments=True)
        assert time.monotonic() - start < 10
