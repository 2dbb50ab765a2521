"""Tool schemas as each kind of server accepts them, on a copy."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Json
from hermes.kernel.providers import Target, ToolSchema


def parameters_of(tool: ToolSchema, target: Target) -> Mapping[str, Json] | None:
    """The schema of a tool's arguments as the target takes it; None when it cannot be made acceptable."""
    return dict(tool.parameters) or {"type": "object", "properties": {}}
