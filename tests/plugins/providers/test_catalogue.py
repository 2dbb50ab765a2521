"""The providers that come with hermes, and the snapshot of facts beside them, are what they claim to be."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from importlib import resources

import pytest

from hermes.kernel.config.settings import ProviderSettings
from hermes.kernel.discovery import scan
from hermes.kernel.errors import ProviderError
from hermes.kernel.facts import Snapshot, table_of
from hermes.kernel.probing import PROBES
from hermes.kernel.profiles import MODEL_FIELDS, detect_api_mode, filled_url, merge_profile, read_profiles
from hermes.kernel.providers import Profile

PROFILES = {profile.name: profile for profile in read_profiles(scan(), pytest.fail)}
FOLDER = resources.files("hermes.plugins.providers")
TABLE = json.loads(FOLDER.joinpath("models.json").read_text(encoding="utf-8"))
ASKED_FOR = {
    "openai", "openai-codex", "anthropic", "bedrock", "openrouter", "nous", "azure", "gemini", "vertex", "deepseek",
    "xai", "mistral", "groq", "cerebras", "together", "fireworks", "moonshot", "zai", "minimax", "qwen", "dashscope",
    "huggingface", "nvidia", "perplexity", "ollama", "lmstudio", "llamacpp", "vllm", "custom",
}  # fmt: skip
"""Issue 3. github-copilot is not among them: see docs/decisions.md."""

FORMATS = {
    "anthropic": "anthropic_messages", "minimax": "anthropic_messages", "bedrock": "bedrock_converse",
    "openai": "codex_responses", "openai-codex": "codex_responses", "xai": "codex_responses",
    "perplexity": "codex_responses",
}  # fmt: skip


def test_at_least_25_providers_are_there_and_all_that_were_asked_for() -> None:
    assert set(PROFILES) >= ASKED_FOR
    assert len(PROFILES) >= 25


@pytest.mark.parametrize("name", PROFILES)
def test_a_row_says_what_a_call_needs(name: str) -> None:
    profile = PROFILES[name]
    assert profile.title
    assert profile.key_variables
    assert profile.base_url or name == "bedrock"  # its region decides
    is_open = profile.local or "{" in profile.base_url.partition("//")[0]
    assert is_open or not profile.base_url or profile.base_url.startswith("https://")
    assert not profile.base_url.endswith("/")
    assert detect_api_mode(profile, profile.base_url, profile.default_model) == FORMATS.get(name, "chat_completions")
    assert profile.quirks.get("probe") in (None, *PROBES)


@pytest.mark.parametrize("name", PROFILES)
def test_every_quirk_of_a_row_is_one_that_is_written_down(name: str) -> None:
    quirks = PROFILES[name].quirks
    of_models = quirks.get("by_model", {})
    for quirk in {*quirks, *(quirk for each in of_models.values() for quirk in each)}:
        assert f"`{quirk}`" in str(Profile.__doc__), quirk
    assert all(pattern == pattern.lower() for pattern in of_models)


@pytest.mark.parametrize("name", [n for n, p in PROFILES.items() if p.default_model and table_of(p) in TABLE["models"]])
def test_a_default_model_is_known_with_its_prices_and_not_about_to_go(name: str) -> None:
    row = Snapshot(scan(), pytest.fail).find(PROFILES[name], PROFILES[name].default_model)
    assert row is not None
    assert row.price_input is not None
    assert row.tools is not False
    until = re.fullmatch(r"until (\d{4}-\d\d)-\d\d", row.note)
    assert until is None or until[1] > "2027-03"


def test_newer_models_of_openai_are_asked_by_the_responses_api_and_older_ones_by_chat() -> None:
    openai = PROFILES["openai"]
    for model in ("gpt-5", "gpt-5.4-mini", "gpt-6.1-terra", "o3", "o4-mini", "gpt-5.3-codex"):
        assert detect_api_mode(openai, openai.base_url, model) == "codex_responses"
    for model in ("gpt-4.1", "gpt-4o", "chat-latest"):
        assert detect_api_mode(openai, openai.base_url, model) == "chat_completions"
    proxy = merge_profile("openai", openai, ProviderSettings(base_url="https://llm.example.com/v1"))
    assert detect_api_mode(proxy, proxy.base_url, "gpt-6.1-terra") == "chat_completions"


# ---- Addresses that the user fills ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "environ", "url"),
    [
        ("azure", {"AZURE_OPENAI_RESOURCE": "mine"}, "https://mine.openai.azure.com/openai/v1"),
        ("vertex", {"GOOGLE_CLOUD_PROJECT": "p-1"},
         "https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/endpoints/openapi"),
        ("custom", {"CUSTOM_BASE_URL": " http://10.0.0.7:9/v1 "}, "http://10.0.0.7:9/v1"),
        ("bedrock", {}, ""),
    ],
)  # fmt: skip
def test_an_address_is_filled_from_variables(name: str, environ: dict[str, str], url: str) -> None:
    assert filled_url(PROFILES[name], environ) == url


@pytest.mark.parametrize(
    ("name", "variable"),
    [("azure", "AZURE_OPENAI_RESOURCE"), ("vertex", "GOOGLE_CLOUD_PROJECT"), ("custom", "CUSTOM_BASE_URL")],
)
def test_a_missing_part_of_an_address_says_what_to_set(name: str, variable: str) -> None:
    with pytest.raises(ProviderError, match=rf"set {variable}, or providers\.{name}\.base_url"):
        filled_url(PROFILES[name], {variable: " "})


def test_the_key_stays_with_an_address_of_the_same_kind_and_goes_to_no_other() -> None:
    azure = PROFILES["azure"]
    mine = merge_profile("azure", azure, ProviderSettings(base_url="https://mine.openai.azure.com/openai/v1"))
    assert mine.key_variables == azure.key_variables
    for host in ("https://openai.azure.com.evil.example/v1", "https://evil.example/mine.openai.azure.com"):
        assert merge_profile("azure", azure, ProviderSettings(base_url=host)).key_variables == ()
    custom = merge_profile("custom", PROFILES["custom"], ProviderSettings(base_url="https://any.example/v1"))
    assert custom.key_variables == ("CUSTOM_API_KEY",)
    here = merge_profile("custom", PROFILES["custom"], ProviderSettings(base_url="http://127.0.0.1:9/v1"))
    assert (custom.local, here.local) == (False, True)


# ---- The snapshot ---------------------------------------------------------------------------------------------------


def test_the_snapshot_names_its_source_its_licence_and_its_day() -> None:
    assert "litellm" in TABLE["source"]
    assert TABLE["licence"].startswith("MIT")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", TABLE["date"])


def test_the_snapshot_is_small_sorted_one_model_a_line_and_of_our_providers_only() -> None:
    text = FOLDER.joinpath("models.json").read_text(encoding="utf-8")
    assert len(text) < 300_000
    count = sum(map(len, TABLE["models"].values()))
    assert sum(bool(re.match(r'^"[^"]+":\{.*\},?$', line)) for line in text.splitlines()) == count
    for provider, rows in TABLE["models"].items():
        assert provider in PROFILES
        assert list(rows) == sorted(rows)


def test_every_fact_of_the_snapshot_is_plausible() -> None:
    for provider, rows in TABLE["models"].items():
        for name, row in rows.items():
            where = f"{provider}:{name}"
            assert set(row) <= set(MODEL_FIELDS), where
            for key in ("window_tokens", "output_tokens", "priced_to_tokens"):
                assert 256 <= row.get(key, 256) <= 20_000_000, where
            for key in ("price_input", "price_output", "price_cache_read", "price_cache_write"):
                assert 0 <= row.get(key, 0) <= 1000, where
            assert row.get("price_cache_read", 0) <= max(row.get("price_input", 1000), 0.0), where
            assert row.get("note", "until 9").removeprefix("until ") > TABLE["date"], where


def test_a_write_price_for_an_hour_is_known_for_every_claude_of_anthropic_and_bedrock() -> None:
    for name in ("anthropic", "bedrock"):
        profile: Profile = PROFILES[name]
        assert profile.quirks["cache_write_factors"] == {"5m": 1.25, "1h": 2}
        for model, row in TABLE["models"][name].items():
            if fnmatchcase(model, "*claude*[45]*") and "price_cache_write" in row:
                assert row["price_cache_write"] == pytest.approx(1.25 * row["price_input"], rel=0.01), model
