"""What `hermes --version` prints: one function for the fast path and for click."""

from __future__ import annotations

import sys

import hermes


def version_line() -> str:
    major, minor, micro = sys.version_info[:3]
    return f"hermes {hermes.__version__} (Python {major}.{minor}.{micro})"
