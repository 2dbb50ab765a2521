"""What `hermes run` is given beside the prompt: images, and the schema that the answer must fit."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.kernel.cli.run_settings import RunOptions
from hermes.kernel.errors import UsageError
from hermes.kernel.messages import Image, Json
from hermes.kernel.structured import checked_schema

IMAGE_BYTES = 5_000_000
"""What most providers take in one image (Anthropic's guide "Vision", November 2026; OpenAI and Gemini take more)."""
SCHEMA_BYTES = 1_000_000
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""How files of the types begin that every provider with images takes; WebP is told apart by two places."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the user says with one run."""

    prompt: str = ""
    images: tuple[Image, ...] = ()
    schema: Mapping[str, Json] | None = None


def read_given(options: RunOptions) -> Given:
    """All but the prompt; raises UsageError for a file that cannot be used."""
    schema = None if options.schema is None else read_schema(options.schema)
    return Given("", tuple(map(read_image, options.images)), schema)


def read_image(path: str) -> Image:
    """The image in a file; raises UsageError for what no provider would take."""
    data = _read("--image", path, IMAGE_BYTES, "make it smaller first, such as: magick IN -resize 2000x2000 OUT.jpg")
    media_type = media_type_of(data)
    if not media_type:
        raise UsageError(f"--image {path}: is no PNG, JPEG, GIF or WebP file; convert it first")
    return Image(media_type, base64.b64encode(data).decode("ascii"))


def media_type_of(data: bytes) -> str:
    """By its first bytes, since names lie; "" when it is none of the types that providers take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), "")


def read_schema(path: str) -> dict[str, Json]:
    """The JSON Schema in a file of JSON or YAML; raises UsageError that says what is wrong with it."""
    import yaml

    data = _read("--schema", path, SCHEMA_BYTES, "a schema is a small thing; is it the right file?")
    try:
        return checked_schema(yaml.safe_load(data))
    except yaml.YAMLError as error:
        raise UsageError(f"--schema {path}: neither JSON nor YAML: {' '.join(str(error).split())}") from None
    except (UsageError, RecursionError) as error:
        raise UsageError(f"--schema {path}: {error}") from None


def _read(option: str, path: str, limit_bytes: int, advice: str) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as stream:
            data = stream.read(limit_bytes + 1)
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be read: {error.strerror or error}") from error
    if len(data) > limit_bytes:
        raise UsageError(f"{option} {path}: holds more than {limit_bytes // 1_000_000} MB; {advice}")
    return data
