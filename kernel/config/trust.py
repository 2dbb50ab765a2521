"""What a project's hermes.yaml may do before its user has looked at it.

It comes with somebody else's repository: it could set `approval.mode: allow`, send a known provider's key to another
URL, load plugins, or put a private file into a header. Such keys wait for `hermes config trust`, which notes the
file's path and SHA-256 in trust.json; another content is not trusted any more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from hermes.kernel import paths
from hermes.kernel.config.nodes import Node, Problem, texts
from hermes.kernel.config.references import has_reference
from hermes.kernel.config.writing import update

GUARDED_KEYS = ("approval", "providers", "plugins")
GUARDED_PATHS = (("log", "path"), ("sessions", "path"), ("prompt", "context_files"))
"""Keys that may only name what lies inside the project: a log written to ~/.bashrc is a program run later."""


def needs_trust(root: Node, folder: Path) -> Iterator[Problem]:
    """Everything in a project's file that only a trusted one may say, in the order of the document."""
    for key, node in root.value.items():
        if key in GUARDED_KEYS:
            children = node.value.items() if isinstance(node.value, dict) else ()
            for name, child in children:
                yield Problem(child.key, (key, name), "not allowed here")
            if not isinstance(node.value, dict) and node.value is not None:
                yield Problem(node.key, (key,), "not allowed here")
    for path, node in texts(root):
        if has_reference(node.value):
            if path[0] not in GUARDED_KEYS:
                yield Problem(node.origin, path, "a ${…} is not allowed here")
        elif path[:2] in GUARDED_PATHS and _leaves(node.value, folder):
            yield Problem(node.origin, path, "a path out of the project is not allowed here")


def is_trusted(path: Path, content: bytes) -> bool:
    return _read().get(_name(path)) == _digest(content)


def was_trusted(path: Path) -> bool:
    """Whether the file was trusted with some content."""
    return _name(path) in _read()


def trust(path: Path, content: bytes) -> None:
    """Note that the user trusts this file as it is now. Raises OSError when it cannot be written."""
    _change(path, _digest(content))


def distrust(path: Path) -> None:
    _change(path, None)


def _change(path: Path, digest: str | None) -> None:
    def change(old: bytes | None) -> bytes:
        files = _parse(old)
        if digest is None:
            files.pop(_name(path), None)
        else:
            files[_name(path)] = digest
        return (json.dumps({"version": 1, "files": files}, indent=1, sort_keys=True) + "\n").encode()

    update(_store(), change)


def _store() -> Path:
    return paths.home() / "trust.json"


def _read() -> dict[str, str]:
    try:
        return _parse(_store().read_bytes())
    except (OSError, RuntimeError):
        return {}


def _parse(data: bytes | None) -> dict[str, str]:
    """The digests by path; an unreadable file trusts nothing."""
    try:
        files = json.loads(data or b"{}")["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _name(path: Path) -> str:
    return os.path.realpath(path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _leaves(text: str, folder: Path) -> bool:
    if text.startswith("~") or os.path.isabs(text) or ".." in text.replace("\\", "/").split("/"):
        return True
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(folder / text)]) != inside
