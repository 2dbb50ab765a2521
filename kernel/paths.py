"""Where hermes keeps its own files: `home()` for state, `user_settings()` for the user's hermes.yaml."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`HERMES_HOME`, else `~/.hermes`. Not created here."""
    if given := os.environ.get("HERMES_HOME"):
        return Path(given).expanduser()
    return Path.home() / ".hermes"


def user_settings() -> Path:
    return home() / "hermes.yaml"
