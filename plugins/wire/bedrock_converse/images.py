"""Pictures as Converse takes them: bytes in one of four formats, never an address."""

from __future__ import annotations

from hermes.kernel.messages import Image, Json

_BEGINNINGS = {"iVBORw": "png", "/9j/": "jpeg", "R0lGOD": "gif", "UklGR": "webp"}
"""How base64 of each format begins. What the bytes say is sent, for a wrong name is refused."""
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_UNNAMED = "image/png"


def image_block(part: Image) -> Json:
    """The block of a picture, or a text that says what cannot be shown.

    Its bytes go as the base64 that they are: the body is JSON already, so that nothing encodes them again (33317).
    """
    media_type, data = part.media_type, part.data
    if part.url.startswith("data:"):
        head, _, data = part.url.partition(",")
        media_type = head[len("data:") :].partition(";")[0]
    if not data:
        return {"text": f"[an image at {part.url}: this provider takes no addresses]"}
    known = next((name for begin, name in _BEGINNINGS.items() if data.startswith(begin)), None)
    if (kind := known or _FORMATS.get((media_type or _UNNAMED).lower())) is None:
        return {"text": f"[an image of the type {media_type}, which this provider does not take]"}
    return {"image": {"format": kind, "source": {"bytes": data}}}
