"""Which file is a project's: never the shipped defaults, in whatever checkout one works."""

from __future__ import annotations

from pathlib import Path

from hermes.kernel.config.sources import project_file, shipped_defaults


def test_a_copy_of_the_shipped_defaults_is_not_a_projects_file(tmp_path: Path) -> None:
    (tmp_path / "hermes.yaml").write_text(shipped_defaults(), encoding="utf-8")
    assert project_file(tmp_path) is None


def test_the_defaults_of_another_version_of_hermes_in_its_checkout_are_not_a_projects_file(tmp_path: Path) -> None:
    (tmp_path / "hermes.yaml").write_text(shipped_defaults() + "# a newer line\n", encoding="utf-8")
    assert project_file(tmp_path) == tmp_path / "hermes.yaml"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "hermes-kernel"\n', encoding="utf-8")
    assert project_file(tmp_path) is None


def test_a_projects_own_file_counts(tmp_path: Path) -> None:
    (tmp_path / "hermes.yaml").write_text("model: ollama:qwen3:8b\n", encoding="utf-8")
    assert project_file(tmp_path) == tmp_path / "hermes.yaml"
