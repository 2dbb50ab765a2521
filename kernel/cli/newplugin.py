"""Write the project of `plugin-template/` under another name; its files are read through the package's loader."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

from hermes.kernel.errors import HermesError, UsageError

TEMPLATE_NAME = "wordcount"
TEMPLATE_FILES = (
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "hermes_plugin_wordcount.py",
    "tests/test_wordcount.py",
)
"""Every file of plugin-template/; a zip has no directory to list, and a test holds this against the tree."""

_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")


def write_project(name: str, directory: Path | None) -> Path:
    """Write the project and return its directory. Raises UsageError for a bad name or files in the way."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a plugin: use lower-case letters, digits, - or _")
    target = Path(f"hermes-plugin-{name.replace('_', '-')}") if directory is None else directory
    files = {target / _renamed(file, name): _renamed(_template(file), name) for file in TEMPLATE_FILES}
    in_the_way = [str(path) for path in files if path.exists()]
    if in_the_way:
        raise UsageError(f"{', '.join(in_the_way)} exists; choose another name or --directory")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return target


def _renamed(text: str, name: str) -> str:
    """The template's own name in its three forms: distribution, module, and the toolset that settings name."""
    module = name.replace("-", "_")
    text = text.replace(f"hermes_plugin_{TEMPLATE_NAME}", f"hermes_plugin_{module}")
    text = text.replace(f"hermes-plugin-{TEMPLATE_NAME}", f"hermes-plugin-{name.replace('_', '-')}")
    return text.replace(f"test_{TEMPLATE_NAME}", f"test_{module}").replace(TEMPLATE_NAME, name)


def _template(file: str) -> str:
    try:
        data = pkgutil.get_data("hermes", f"plugin-template/{file}")
    except OSError as error:
        raise HermesError(f"the template is missing in this installation ({error}); reinstall hermes-kernel") from error
    return (data or b"").decode()
