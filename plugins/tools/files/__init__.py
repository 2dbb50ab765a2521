"""The toolset `files`: read_file, write_file, patch and search_files."""

from __future__ import annotations

from collections.abc import Sequence

from hermes import Tool, hookimpl


@hookimpl
def register_tools() -> Sequence[Tool]:
    from hermes.plugins.tools.files.patching import patch
    from hermes.plugins.tools.files.reading import read_file
    from hermes.plugins.tools.files.searching import search_files
    from hermes.plugins.tools.files.writing import write_file

    return [read_file, write_file, patch, search_files]
