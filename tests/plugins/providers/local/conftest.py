"""The real small model for tests: fetched once on this machine by the real fetch, linked into each test's home."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from hermes.kernel.errors import ProviderError
from hermes.plugins.providers.local import weights
from hermes.plugins.providers.local.rows import row_of

SMALL = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def small_weights() -> Path:
    """The GGUF of the small model; kept in `HERMES_TEST_CACHE`, else `~/.cache/hermes-tests`, between runs."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'hermes-kernel[test]'")
    cache = Path(os.environ.get("HERMES_TEST_CACHE") or Path.home() / ".cache" / "hermes-tests")
    before = os.environ.get("HERMES_HOME")
    os.environ["HERMES_HOME"] = str(cache)
    try:
        row = row_of(SMALL)
        there = weights.stored_weights().get(SMALL)
        if row and there and there.stat().st_size == row.size_bytes:
            return there
        return weights.fetch(SMALL, lambda what, share: None)
    except ProviderError as error:
        pytest.skip(f"the small model cannot be fetched here: {error}")
    finally:
        if before is None:
            del os.environ["HERMES_HOME"]
        else:
            os.environ["HERMES_HOME"] = before


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HERMES_HOME."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def home_with_model(home: Path, small_weights: Path) -> Path:
    models = home / "models"
    models.mkdir(parents=True)
    (models / f"{SMALL}.gguf").symlink_to(small_weights)
    return home
