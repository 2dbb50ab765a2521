"""Pictures as the Messages API takes them."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.kernel.messages import Image, Json

_BEGINNINGS: Mapping[str, str] = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGO": "image/gif",
    "UklGR": "image/webp",
}
"""How base64 of each accepted kind begins: a label that says otherwise is refused by the server."""
_ALIASES: Mapping[str, str] = {"": "image/png", "image/jpg": "image/jpeg"}
_ACCEPTED = frozenset(_BEGINNINGS.values())


def image_block(part: Image) -> Json:
    """An image block, or a text that says what cannot be shown: one such picture makes the server refuse everything."""
    media_type, data, url = part.media_type, part.data, part.url
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        media_type, url = head.removeprefix("data:").partition(";")[0], ""
    if data:
        kind = next((known for begin, known in _BEGINNINGS.items() if data.startswith(begin)), media_type.lower())
        kind = _ALIASES.get(kind, kind)
        if kind in _ACCEPTED:
            return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
        return _note(kind)
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return _note(media_type or "unknown type")


def _note(kind: str) -> Json:
    return {"type": "text", "text": f"[an image ({kind}) is here that this model cannot be shown]"}
