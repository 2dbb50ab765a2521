"""Messages as a model that cannot see is sent them. Pure."""

from __future__ import annotations

from dataclasses import replace

from hermes.kernel.messages import Image, Message, Part, Text, ToolResult
from hermes.kernel.providers import Target

UNSEEN = "[an image that you cannot be shown]"


def as_seen(message: Message, target: Target) -> Message:
    """The message itself, or a copy with a note in place of each image where facts say that the target is blind."""
    if not any(map(_has_image, message.parts)) or target.row is None or target.row.images is not False:
        return message
    return replace(message, parts=tuple(map(_noted, message.parts)))


def _has_image(part: Part) -> bool:
    return isinstance(part, Image) or (isinstance(part, ToolResult) and any(isinstance(p, Image) for p in part.parts))


def _noted(part: Part) -> Part:
    if isinstance(part, Image):
        return Text(UNSEEN, "context")
    if isinstance(part, ToolResult) and _has_image(part):
        return replace(part, parts=tuple(Text(UNSEEN) if isinstance(p, Image) else p for p in part.parts))
    return part
