"""Tool names as providers accept them, and back."""

from __future__ import annotations

import hashlib
import re

_ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""OpenAI's pattern; other routes allow more (B026)."""
_originals: dict[str, str] = {}


def wire_name(name: str) -> str:
    """The name itself when it is accepted, else a cut and cleaned form with a hash, the same in every process.

    The hash keeps `a.b` and `a_b` apart, and two long names with one beginning.
    """
    if _ACCEPTED.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    mapped = f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:55]}_{digest}"
    _originals[mapped] = name
    return mapped


def own_name(wire: str) -> str:
    """Undo `wire_name` for every name that this process has sent; others stay."""
    return _originals.get(wire, wire)
