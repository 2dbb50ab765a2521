"""What is known of a model: who is believed, and which row a name means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.discovery import Catalogue, scan
from hermes.kernel.facts import Snapshot, elsewhere, merged, normal
from hermes.kernel.profiles import read_profiles
from hermes.kernel.providers import ModelRow, Profile

PRICES = {"price_input": 3.0, "price_output": 15.0, "price_cache_read": 0.3, "caching": True}
TABLE = {
    "anthropic": {
        "claude-opus-5": {"window_tokens": 1000, "images": True, **PRICES},
        "claude-opus-5-20260101": {"window_tokens": 900, **PRICES},
        "claude-haiku-4-5-20251001": {"window_tokens": 200},
        "claude-haiku-4-5-20251101": {"window_tokens": 201},
    },
    "bedrock": {
        "anthropic.claude-opus-5-20260101-v1:0": {"window_tokens": 800, **PRICES},
        "us.anthropic.claude-opus-5-20260101-v1:0": {"window_tokens": 800, **PRICES, "price_input": 3.3},
    },
    "router": {"openai/gpt-9": {"price_input": 1.0, "price_output": 2.0}},
    "openai": {"gpt-9": {"window_tokens": 500, "output_tokens": 50, "tools": True, "note": "until 2030", **PRICES}},
}


def install(site: Path, name: str, catalogue: Any, tables: Mapping[str, Any]) -> None:
    """Write a distribution with a catalogue, and files of facts beside it; its package raises when imported."""
    folder = site / name / "data"
    folder.mkdir(parents=True)
    (site / name / "__init__.py").write_text("raise RuntimeError('must not run')", encoding="utf-8")
    (folder / "rows.json").write_text(json.dumps(catalogue), encoding="utf-8")
    for file, table in tables.items():
        text = table if isinstance(table, str) else json.dumps(table)
        (folder / file).write_text(text, encoding="utf-8")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[hermes.profiles]\n{name} = {name}:data.rows.json\n", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def catalogue_with(site: Path, table: Any, name: str = "acme") -> Catalogue:
    install(site, name, {"models_file": "facts.json", "providers": []}, {"facts.json": table})
    return scan([str(site)])


@pytest.fixture
def snapshot(site: Path) -> Snapshot:
    return Snapshot(catalogue_with(site, {"date": "2030-01-02", "models": TABLE}), pytest.fail)


# ---- Who is believed ------------------------------------------------------------------------------------------------


def test_each_field_is_taken_from_the_nearest_who_knows_it() -> None:
    known = merged(
        "m",
        (
            ("settings", None),
            ("server", ModelRow("other name", window_tokens=10)),
            ("catalogue", ModelRow("m", window_tokens=20, price_input=0.0, images=False)),
            ("snapshot", ModelRow("m", 30, 40, 5.0, images=True, note="old")),
        ),
    )
    assert known.row == ModelRow("m", 10, 40, 0.0, images=False, note="old")
    assert known.sources == ("server", "catalogue", "snapshot")


def test_who_adds_nothing_is_no_source_and_nobody_knows_nothing() -> None:
    assert merged("m", (("a", ModelRow("m", 1)), ("b", ModelRow("m", 2)))).sources == ("a",)
    assert merged("m", (("a", None),)).row == ModelRow("m")


# ---- Which row a name means -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("claude-opus-5", "claude-opus-5"),
        ("Claude-Haiku-4.5-20251001", "claude-haiku-4-5"),
        ("models/gemini-3.8-flash", "gemini-3-8-flash"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("anthropic.claude-opus-5-20260101-v1:0", "anthropic-claude-opus-5"),
        ("accounts/fireworks/models/glm-5p3", "glm-5p3"),
        ("devstral-2512", "devstral-2512"),
    ],
)
def test_the_normal_form_of_a_name(name: str, form: str) -> None:
    assert normal(name) == form
    assert normal(form) == form


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("us.anthropic.claude-v1:0", "anthropic.claude-v1:0"),
        ("us-gov.anthropic.claude-opus-5", "anthropic.claude-opus-5"),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
        ("usual.model", "usual.model"),
    ],
)
def test_a_place_and_a_variant_are_taken_off(name: str, form: str) -> None:
    assert elsewhere(name) == form


def find(snapshot: Snapshot, name: str) -> ModelRow | None:
    provider, _, model = name.partition(":")
    return snapshot.find(Profile(provider), model)


@pytest.mark.parametrize(
    ("name", "window", "price"),
    [
        ("anthropic:claude-opus-5", 1000, 3.0),
        ("anthropic:claude-opus-5-20260101", 900, 3.0),
        ("anthropic:Claude-Opus-5-20990101", 1000, 3.0),  # a date that is not known: the undated
        ("anthropic:claude-haiku-4.5", 201, None),  # undated: the newest
        ("bedrock:us.anthropic.claude-opus-5-20260101-v1:0", 800, 3.3),
        ("bedrock:eu.anthropic.claude-opus-5-20260101-v1:0", 800, None),  # another place, another price
        ("bedrock:anthropic.claude-opus-5-v1:0", 800, 3.0),
        ("openrouter:anthropic/claude-opus-5", 1000, None),  # the vendor's model, the router's price
        ("openrouter:anthropic/claude-opus-5:free", 1000, None),
        ("openrouter:Anthropic/claude-opus-5", 1000, None),
        ("router:openai/gpt-9", 500, 1.0),  # its own price, the vendor's window
        ("mine:openai/gpt-9", 500, None),
    ],
)
def test_a_name_finds_its_row(snapshot: Snapshot, name: str, window: int, price: float | None) -> None:
    row = find(snapshot, name)
    assert row is not None
    assert (row.window_tokens, row.price_input) == (window, price)
    assert row.name == name.partition(":")[2]


@pytest.mark.parametrize(
    "name",
    ["anthropic:gpt-9", "openrouter:openrouter/auto", "mine:gpt-9", "openrouter:nobody/claude-opus-5", "x:", ":"],
)
def test_a_name_that_means_no_row_finds_none(snapshot: Snapshot, name: str) -> None:
    assert find(snapshot, name) is None


def test_a_vendors_row_tells_nothing_that_the_host_decides(snapshot: Snapshot) -> None:
    row = find(snapshot, "mine:openai/gpt-9")
    assert row == ModelRow("openai/gpt-9", 500, 50, tools=True)


def test_a_local_server_is_never_taken_for_its_models_vendor(snapshot: Snapshot) -> None:
    assert snapshot.find(Profile("ollama", local=True), "openai/gpt-9") is None


def test_a_provider_may_have_the_rows_of_another(snapshot: Snapshot) -> None:
    alias = Profile("claude", quirks={"facts_of": "anthropic"})
    assert snapshot.find(alias, "claude-opus-5") == find(snapshot, "anthropic:claude-opus-5")
    assert [row.name for row in snapshot.models(alias)] == sorted(TABLE["anthropic"])


# ---- Files ----------------------------------------------------------------------------------------------------------


def test_plugins_bring_facts_and_ours_in_name_order_are_believed_first(site: Path) -> None:
    catalogue_with(site, {"date": "2030-01-01", "models": {"p": {"m": {"window_tokens": 1}}}}, "aaa")
    more = {"date": "2031-01-01", "models": {"p": {"m": {"window_tokens": 2}, "n": {"window_tokens": 3}}}}
    both = Snapshot(catalogue_with(site, more, "bbb"))
    assert [row.window_tokens for row in both.models(Profile("p"))] == [1, 3]
    assert both.date == "2030-01-01"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("{", "models_file is not a table"),
        ("[]", "models_file is not a table"),
        ({"models": []}, "models_file is not a table"),
        ({"models": {"p": []}}, "models_file is not a table"),
        ({"models": {"p": {"m": 3}}}, "a row is not an object"),
        ({"models": {"p": {"m": {"colour": "red"}}}}, "unknown key 'colour'"),
        ({"models": {"p": {"m": {"window_tokens": "many"}}}}, "window_tokens has the wrong type"),
    ],
)
def test_a_file_or_row_that_is_wrong_is_told_and_left_out(site: Path, table: Any, says: str) -> None:
    said: list[str] = []
    assert Snapshot(catalogue_with(site, table), said.append).find(Profile("p"), "m") is None
    assert len(said) == 1
    assert says in said[0]


def test_a_file_that_is_not_there_is_told(site: Path) -> None:
    install(site, "acme", {"models_file": "nowhere.json", "providers": []}, {})
    said: list[str] = []
    assert Snapshot(scan([str(site)]), said.append).find(Profile("p"), "m") is None
    assert "nowhere.json" in said[0]


def test_nothing_is_read_before_the_first_question(site: Path) -> None:
    said: list[str] = []
    catalogue = catalogue_with(site, "{")
    assert read_profiles(catalogue, said.append) == ()
    Snapshot(catalogue, said.append)
    assert said == []
