"""Messages as a model that cannot see, or cannot be shown all images, is sent them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.kernel.messages import ALL_IMAGES, Image, ImageRule, Message, ModelRequest, Part, Text, ToolResult
from hermes.kernel.providers import Target

UNSEEN = "[an image that you cannot be shown]"

NOTHING_HIDDEN: frozenset[int] = frozenset()


def as_seen(message: Message, target: Target, hidden: frozenset[int] = NOTHING_HIDDEN) -> Message:
    """The message itself, or a copy with a note in place of images: of all where facts say that the target is blind.

    `hidden` are places among the images of this message.
    """
    is_blind = target.row is not None and target.row.images is False
    if not (is_blind or hidden) or not any(map(_has_image, message.parts)):
        return message
    places = iter(range(sum(1 for _ in _images(message))))

    def seen(part: Part) -> Part:
        if isinstance(part, Image):
            return Text(UNSEEN, "context") if next(places) in hidden or is_blind else part
        if isinstance(part, ToolResult) and _has_image(part):
            return replace(part, parts=tuple(_in_result(part.parts)))
        return part

    def _in_result(parts: Iterable[Text | Image]) -> Iterator[Text | Image]:
        for part in parts:
            is_hidden = isinstance(part, Image) and (next(places) in hidden or is_blind)
            yield Text(UNSEEN) if is_hidden else part

    return replace(message, parts=tuple(map(seen, message.parts)))


def _has_image(part: Part) -> bool:
    return isinstance(part, Image) or (isinstance(part, ToolResult) and any(isinstance(p, Image) for p in part.parts))


def _images(message: Message) -> Iterator[tuple[Image, bool]]:
    """Each image of a message, and whether it stands in a tool result."""
    for part in message.parts:
        if isinstance(part, Image):
            yield part, False
        elif isinstance(part, ToolResult):
            yield from ((p, True) for p in part.parts if isinstance(p, Image))


# ---- A rule of what is shown ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """An image that is sent: where its message stands, and its size as base64 text (0 for one that is a URL)."""

    message: int
    in_result: bool
    size_bytes: int


def shown_images(request: ModelRequest) -> list[Shown]:
    """The images of a request that its rule lets through, oldest first."""
    found = []
    hidden = hidden_images(request.messages, request.images)
    for index, message in enumerate(request.messages):
        for place, (image, in_result) in enumerate(_images(message)):
            if place not in hidden.get(index, NOTHING_HIDDEN):
                found.append(Shown(index, in_result, len(image.data)))
    return found


def hidden_images(messages: Sequence[Message], rule: ImageRule) -> Mapping[int, frozenset[int]]:
    """By place of the message, the places among its images of those that the rule leaves out."""
    if rule == ALL_IMAGES:
        return {}
    hidden: dict[int, frozenset[int]] = {}
    left = rule.most
    for index in range(len(messages) - 1, -1, -1):
        out = set()
        for place, (image, in_result) in reversed(list(enumerate(_images(messages[index])))):
            too_large = rule.max_bytes is not None and len(image.data) > rule.max_bytes
            if index < rule.start or too_large or left == 0 or (in_result and not rule.in_results):
                out.add(place)
            elif left is not None:
                left -= 1
        if out:
            hidden[index] = frozenset(out)
    return hidden
