"""Catalogues are read without running code, hermes.yaml is laid over them, and one table decides the wire format."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from hermes.kernel import profiles
from hermes.kernel.config.settings import ProviderSettings
from hermes.kernel.discovery import Catalogue, scan
from hermes.kernel.errors import ProviderError, SettingsError
from hermes.kernel.profiles import detect_api_mode, merge_profile, merge_profiles, read_profiles
from hermes.kernel.providers import ModelRow, Profile


def install(site: Path, name: str, text: str, entry: str = "extra") -> Catalogue:
    """Write a distribution whose package raises when imported, with one catalogue of providers."""
    package = site / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not run')", encoding="utf-8")
    (package / "rows.json").write_text(text, encoding="utf-8")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[hermes.profiles]\n{entry} = {name}:rows.json\n", encoding="utf-8")
    return scan([str(site)])


def test_the_builtin_catalogue_is_read_whole_and_without_a_report() -> None:
    said: list[str] = []
    found = {p.name: p for p in read_profiles(scan(), said.append)}
    assert not said
    assert {"openai", "openrouter", "ollama", "lmstudio", "llamacpp"} <= set(found)
    assert found["ollama"].local
    assert not found["openai"].local


def test_a_catalogue_of_a_package_that_cannot_be_imported_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = json.dumps({"providers": [{"name": "mine", "base_url": "https://x.example/v1", "models": [{"name": "m"}]}]})
    found = read_profiles(install(tmp_path, "pkg_raises", text))
    assert found == (Profile("mine", "https://x.example/v1", models=(ModelRow("m"),)),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "no list under the key providers"),
        ('{"providers": [{"title": "x"}]}', "providers[0]: not an object with a name"),
        ('{"providers": [{"name": "a", "base_url": 5}]}', "a: base_url has the wrong type (int)"),
        ('{"providers": [{"name": "a", "colour": "red"}]}', "unknown key 'colour'"),
        ('{"providers": [{"name": "a", "models": [{"name": "m", "window_tokens": true}]}]}', "window_tokens"),
        ('{"providers": [{"name": "a", "key_variables": [1]}]}', "must hold texts"),
    ],
)
def test_a_broken_catalogue_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    reports: list[str] = []
    assert read_profiles(install(tmp_path, "pkg_broken", text), reports.append) == ()
    assert len(reports) == 1
    assert said in reports[0]
    assert "pkg_broken" in reports[0].replace("-", "_")


def test_one_bad_row_does_not_take_the_others_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = '{"providers": [{"name": "good"}, 7, {"name": "also"}, {"name": "good", "title": "second"}]}'
    reports: list[str] = []
    found = read_profiles(install(tmp_path, "pkg_rows", text), reports.append)
    assert [(p.name, p.title) for p in found] == [("also", ""), ("good", "")]
    assert len(reports) == 2


ROW = Profile("openai", "https://api.openai.com/v1", "", ("OPENAI_API_KEY",), "gpt", quirks={"a": 1, "b": 2})


def test_settings_are_laid_over_a_row_key_by_key() -> None:
    merged = merge_profile("openai", ROW, ProviderSettings(quirks={"b": 3}, headers={"X": "y"}, default_model="z"))
    assert merged == dataclasses.replace(ROW, quirks={"a": 1, "b": 3}, headers={"X": "y"}, default_model="z")


def test_B013_another_host_takes_neither_key_variables_nor_wire_format_along() -> None:
    row = dataclasses.replace(ROW, api_mode="codex_responses")
    moved = merge_profile("openai", row, ProviderSettings(base_url="http://127.0.0.1:9/v1"))
    assert (moved.base_url, moved.key_variables, moved.api_mode, moved.local) == ("http://127.0.0.1:9/v1", (), "", True)
    same = merge_profile("openai", row, ProviderSettings(base_url="https://api.openai.com/v2"))
    assert same.key_variables == ("OPENAI_API_KEY",)


def test_a_new_provider_needs_an_address() -> None:
    assert merge_profile("work", None, ProviderSettings(base_url="https://w.example")).base_url == "https://w.example"
    with pytest.raises(SettingsError, match=r"providers\.work: base_url is missing"):
        merge_profile("work", None, ProviderSettings())


def test_an_unknown_provider_is_answered_with_near_names() -> None:
    known = merge_profiles([ROW], {"work": ProviderSettings(base_url="https://w.example")})
    assert list(known) == ["openai", "work"]
    assert profiles.find_profile("work", known).name == "work"
    with pytest.raises(ProviderError, match="did you mean openai"):
        profiles.find_profile("opena", known)


CODEX = {"api_mode_by_model": {"*codex*": "codex_responses"}}
MODES = [
    ("bedrock", "", "anthropic.claude-sonnet", "bedrock_converse"),
    ("x", "https://bedrock-runtime.eu-west-1.amazonaws.com", "anthropic.claude", "bedrock_converse"),
    ("x", "https://bedrock-runtime-fips.us-east-1.amazonaws.com/", "m", "bedrock_converse"),
    ("anthropic", "", "claude", "anthropic_messages"),
    ("x", "https://API.anthropic.com", "claude", "anthropic_messages"),
    ("minimax", "https://api.minimax.io/anthropic/", "m", "anthropic_messages"),
    ("openai-codex", "", "gpt", "codex_responses"),
    ("x", "https://chatgpt.com/backend-api/codex", "gpt", "codex_responses"),
    ("openai", "https://api.openai.com/v1", "gpt-5-Codex", "codex_responses"),
    ("openai", "https://api.openai.com/v1", "gpt-5", "chat_completions"),
    ("openrouter", "https://openrouter.ai/api/v1", "anthropic/claude", "chat_completions"),
    ("x", "https://api.anthropic.com.evil.example/v1", "claude", "chat_completions"),
    ("x", "https://evil.example/?api.anthropic.com", "claude", "chat_completions"),
    ("x", "https://notchatgpt.com", "gpt", "chat_completions"),
    ("xai", "", "grok", "codex_responses"),
    ("x", "https://api.x.ai/v1", "grok", "codex_responses"),
    ("local", "http://127.0.0.1:8080/v1", "qwen", "chat_completions"),
]


@pytest.mark.parametrize(
    ("base_url", "keeps"),
    [
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", True),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", True),
        ("https://vpce-1-bedrock-runtime.us-east-1.vpce.amazonaws.com", True),
        ("https://proxy.example.com", False),
        ("http://bedrock-runtime.us-east-1.amazonaws.com.evil.example", False),
    ],
)
def test_spec_1739_a_key_of_a_row_without_an_address_goes_to_its_hosts_only(base_url: str, keeps: bool) -> None:
    hosts = ["bedrock-runtime*.amazonaws.com", "*.vpce.amazonaws.com"]
    row = Profile("bedrock", key_variables=("AWS_BEARER_TOKEN_BEDROCK",), quirks={"key_hosts": hosts})
    merged = merge_profiles([row], {"bedrock": ProviderSettings(base_url=base_url)})["bedrock"]
    assert bool(merged.key_variables) is keeps


@pytest.mark.parametrize(("name", "url", "model", "mode"), MODES)
def test_spec_10473_the_wire_format_follows_from_provider_url_and_model(
    name: str, url: str, model: str, mode: str
) -> None:
    profile = Profile(name, url, quirks=CODEX if name == "openai" else {})
    assert detect_api_mode(profile, url, model, None) == mode
    assert detect_api_mode(profile, url, model, "chat_completions") == "chat_completions"
    declared = dataclasses.replace(profile, api_mode="anthropic_messages")
    assert detect_api_mode(declared, url, model, "") == "anthropic_messages"


def test_keys_of_catalogue_rows_are_the_fields_of_profile_and_model_row() -> None:
    assert {f.name for f in dataclasses.fields(ModelRow)} == set(profiles.MODEL_FIELDS)
    assert {f.name for f in dataclasses.fields(Profile)} == set(profiles._ROW_FIELDS)
