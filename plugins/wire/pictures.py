"""Pictures as OpenAI's servers take them, and those that speak its formats."""

from __future__ import annotations

from hermes.kernel.messages import Image

ACCEPTED = frozenset({"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"})
"""Any other picture makes the server refuse the whole request, wherever in the history it stands ("You uploaded an
unsupported image", OpenAI's page on vision, November 2026)."""


def address_of(part: Image) -> str | None:
    """The picture as an address, most often a data URL; None when no server takes its kind."""
    url = part.url or f"data:{part.media_type or 'image/png'};base64,{part.data}"
    return url if not url.startswith("data:") or kind_of(url) in ACCEPTED else None


def note_of(part: Image) -> str:
    """What is said in place of a picture that cannot be shown."""
    kind = kind_of(part.url) if part.url else part.media_type
    return f"[an image of the type {kind or 'unknown'} is here, which this provider does not take]"


def kind_of(url: str) -> str:
    """The media type of a data URL."""
    return url.removeprefix("data:").partition(";")[0].lower()
