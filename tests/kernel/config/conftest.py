from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.config import load
from hermes.kernel.config.loading import Loaded
from hermes.kernel.errors import SettingsError


class Desk:
    """A home, a working directory, and a way to load settings there."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd = root / "home", root / "work"
        self.cwd.mkdir()
        self.home.mkdir()

    def write(self, text: str | bytes, name: str = "given.yaml") -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def load(
        self,
        text: str | bytes | None = None,
        *,
        flags: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        catalogue: Any = None,
    ) -> Loaded:
        """Load with `text` as a --config file; None: with none."""
        files = [] if text is None else [self.write(text)]
        return load(flags or {}, files, cwd or self.cwd, environ or {}, catalogue=catalogue)

    def problems(self, text: str | bytes | None = None, **more: Any) -> list[str]:
        """What is wrong, without the folder's name."""
        with pytest.raises(SettingsError) as caught:
            self.load(text, **more)
        return [line.replace(f"{self.cwd}/", "").replace(f"{self.home}/", "~") for line in caught.value.problems]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(tmp_path)
    monkeypatch.setenv("HERMES_HOME", str(made.home))
    return made
