"""The pytest plugin as an author meets it: found by itself, cheap, strict, and clean."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_pytest(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_author.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_author.py"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False
    )


def test_loading_the_plugin_imports_nothing_of_the_kernel() -> None:
    code = "import sys, hermes.testing.pytest_plugin; print([m for m in sys.modules if m.startswith('hermes.kernel')])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_author_gets_fixtures_and_a_wrong_request_fails_the_test(tmp_path: Path) -> None:
    done = run_pytest(
        tmp_path,
        """
import json, os, urllib.request
from hermes.testing import text

def test_home_is_clean(hermes_home):
    assert os.environ["HERMES_HOME"] == str(hermes_home)
    assert "SOME_API_KEY" not in os.environ

def test_wrong(scripted):
    scripted.strict = False
    scripted.add(text("x"))
    body = json.dumps({"model": "m", "messages": []}).encode()
    urllib.request.urlopen(scripted.base_url + "/chat/completions", body, timeout=10).close()
""",
    )
    assert "1 error" in done.stdout, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "the scripted model was asked wrongly" in done.stdout
    assert "request 1: messages has a bad value: []" in done.stdout


def test_hermes_home_takes_keys_and_settings_out_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for name in ("OPENAI_API_KEY", "HERMES_MODEL", "https_proxy", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "x")
    home = request.getfixturevalue("hermes_home")
    assert not {"OPENAI_API_KEY", "HERMES_MODEL", "https_proxy", "GITHUB_TOKEN"} & set(os.environ)
    assert os.environ["HERMES_HOME"] == str(home)
    assert list(home.iterdir()) == []
