"""hermes.yaml and its company: from files, variables and flags to typed settings.

The way through: `sources` finds the files, `document` parses one, `references` fills in `${…}`, `check` compares it
with `schema`, `loading` merges everything by precedence, `build` makes the dataclasses of `settings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.kernel.config.loading import Loaded
    from hermes.kernel.discovery import Catalogue


def load(
    flags: Mapping[str, Any],
    config_files: Sequence[Path],
    cwd: Path,
    environ: Mapping[str, str],
    *,
    catalogue: Catalogue | None = None,
) -> Loaded:
    """Read the settings of every source and merge them; see `loading.load`."""
    from hermes.kernel.config.loading import load as load_all

    return load_all(flags, config_files, cwd, environ, catalogue=catalogue)


def read_boolean(name: str, environ: Mapping[str, str], default: bool = False) -> bool:
    """Read a switch from a variable: true/false/1/0/yes/no/on/off; see `outside.read_boolean`."""
    from hermes.kernel.config.outside import read_boolean as read

    return read(name, environ, default)
