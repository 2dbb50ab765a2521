"""Plugins' own settings are checked by the JSON files that they bring, and none of their code runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.kernel.config.plugin_schemas import editor_schema, merged_schema, plugin_schemas
from hermes.kernel.discovery import scan

SHOUT = {
    "type": "object",
    "properties": {"volume": {"type": "integer", "maximum": 11}, "key": {"type": "string", "writeOnly": True}},
    "additionalProperties": False,
    "required": ["volume"],
}


@pytest.fixture
def shout(site: Any) -> Any:
    """A plugin whose package cannot be imported; its schema is read all the same."""
    return install(site, "shout", json.dumps(SHOUT))


def install(site: Any, name: str, schema: str) -> Any:
    package = site.directory / f"pkg_{name}"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "settings.json").write_text(schema)
    site.distribution(f"acme-{name}", {"hermes.settings": {name: f"pkg_{name}:settings.json"}})
    return site


def test_a_plugins_settings_are_checked(desk: Any, shout: Any) -> None:
    problems = desk.problems("plugins:\n  settings:\n    shout: {volume: 12, vol: 1}\n")
    assert problems == [
        "given.yaml:3:21: plugins.settings.shout.volume: 12 is too large; at most 11",
        "given.yaml:3:25: plugins.settings.shout.vol: unknown key, did you mean plugins.settings.shout.volume",
    ]


def test_what_is_required_may_come_from_several_files(desk: Any, shout: Any) -> None:
    (desk.home / "hermes.yaml").write_text("plugins: {settings: {shout: {volume: 3}}}\n")
    loaded = desk.load("plugins: {settings: {shout: {key: '${env:K}'}}}\n", environ={"K": "0123"})
    assert loaded.settings.plugins.settings == {"shout": {"volume": 3, "key": "0123"}}
    (desk.home / "hermes.yaml").unlink()
    (problem,) = desk.problems("plugins: {settings: {shout: {key: x}}}\n")
    assert problem.endswith("plugins.settings.shout: volume is missing")


def test_a_reference_is_typed_by_the_plugins_schema(desk: Any, shout: Any) -> None:
    loaded = desk.load("plugins: {settings: {shout: {volume: '${env:V}'}}}\n", environ={"V": "7"})
    assert loaded.settings.plugins.settings["shout"]["volume"] == 7


def test_settings_of_a_plugin_without_a_schema_are_taken_as_they_are(desk: Any) -> None:
    loaded = desk.load("plugins: {settings: {other: {a: [1, {b: on}]}}}\n")
    assert loaded.settings.plugins.settings == {"other": {"a": [1, {"b": "on"}]}}


MALFORMED = (
    '{"type": "text"}', '{"type": {}}', '{"properties": []}', '{"properties": {"a": true}}', '{"items": true}',
    '{"enum": 5}', '{"required": "a"}', '{"minimum": "1"}', '{"anyOf": []}', '{"additionalProperties": {"type": 5}}',
)  # fmt: skip


@pytest.mark.parametrize("schema", ["{", "[]", *MALFORMED, "\udcff".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_a_broken_schema_is_a_warning_that_names_the_plugin(desk: Any, site: Any, schema: str) -> None:
    install(site, "broken", schema)
    loaded = desk.load("plugins: {settings: {broken: {a: 1}}}\n")
    assert "plugin broken (acme-broken)" in loaded.warnings[0]
    assert loaded.settings.plugins.settings == {"broken": {"a": 1}}


def test_a_name_that_two_claim_is_not_checked_by_either(desk: Any, shout: Any) -> None:
    shout.distribution("acme-rival", {"hermes.settings": {"shout": "pkg_shout:settings.json"}})
    loaded = desk.load("plugins: {settings: {shout: {volume: 99}}}\n")
    assert "acme-rival" in loaded.warnings[0]


def test_the_schemas_are_only_read_when_there_are_such_settings(desk: Any, shout: Any) -> None:
    (shout.directory / "pkg_shout" / "settings.json").write_text("{")
    assert desk.load("model: x\n").warnings == ()


def test_the_merged_schema_has_the_plugins_at_their_place(shout: Any) -> None:
    warnings: list[str] = []
    assert plugin_schemas(scan(), warnings)["shout"] == SHOUT
    merged = merged_schema(None, warnings)
    assert merged["properties"]["plugins"]["properties"]["settings"]["properties"]["shout"] == SHOUT
    assert warnings == []


def test_an_editor_accepts_references_and_the_shipped_file(shout: Any) -> None:
    import jsonschema

    validator = jsonschema.Draft202012Validator(editor_schema([]))
    validator.check_schema(editor_schema([]))
    assert validator.is_valid({"limits": {"iterations": "${env:X}"}, "approval": {"mode": "${env:Y}"}})
    assert not validator.is_valid({"limits": {"iterations": "many"}})
    assert not validator.is_valid({"modle": "x"})
