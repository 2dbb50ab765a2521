"""Wording about images: too large, too many, of a form that cannot be read, or shown to a model that sees none."""

from __future__ import annotations

from hermes.kernel.effects import FaultKind as K
from hermes.kernel.effects import RepairKind as R
from hermes.kernel.fault_rows.row import FaultRow, codes, words

_STATUSES = (400, 404, 413, 415, 422, 500, None)
"""404 is OpenRouter's (21160), 500 llama.cpp's where no projector is loaded."""

PICTURES: tuple[FaultRow, ...] = (
    FaultRow(
        "image_too_large", K.IMAGE_REFUSED, "Anthropic, MiniMax; W1-16, B078",
        "messages.4.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        statuses=_STATUSES, repair=R.IMAGES, subject="too_large",
        wording=words(
            r"image exceeds (?:<megabytes> ?mb|\S+) maximum(?:: \d+ bytes > <bytes> bytes)?"
            r"|image size exceeds|image (?:is )?too large|image_too_large"
        ),
    ),
    FaultRow(
        "media_too_large", K.IMAGE_REFUSED, "MiniMax; W1-16, B078",
        "media exceeds size limit: max 10485760 bytes (2013)",
        statuses=_STATUSES, repair=R.IMAGES, subject="too_large",
        wording=words("media exceeds size limit(?:: max <bytes> bytes)?"),
    ),
    FaultRow(
        "image_dimensions", K.IMAGE_REFUSED, "Anthropic; B078",
        "messages.19.content.27.image.source.base64.data: At least one of the image dimensions exceed max allowed size "
        "for many-image requests: 2000 pixels",
        statuses=_STATUSES, repair=R.IMAGES, subject="too_large",
        wording=words(r"dimensions exceed(?: max allowed size)?|max allowed size: \d+ pixels"),
    ),
    FaultRow(
        "images_too_many", K.IMAGE_REFUSED, "Anthropic, vLLM, Groq",
        "too many images and documents: 120 + 0 > 100",
        statuses=_STATUSES, repair=R.IMAGES, subject="too_many",
        wording=words(
            r"(?:too many images|too much media)[^\n]{0,80}?(?:> |maximum of |supports up to |at most )<count>"
        ),
    ),
    FaultRow(
        "images_at_most", K.IMAGE_REFUSED, "vLLM", "At most 5 image(s) may be provided in one request.",
        statuses=_STATUSES, repair=R.IMAGES, subject="too_many",
        wording=words(r"at most <count> images?(?:\(s\))? may be provided"),
    ),
    FaultRow(
        "image_unsupported", K.IMAGE_REFUSED, "OpenAI, vLLM, OpenRouter, DeepSeek, llama.cpp; 23570, 21160",
        "No endpoints found that support image input",
        statuses=_STATUSES, repair=R.IMAGES, subject="unsupported",
        wording=words(
            r"(?:does not|doesn't) support (?:image|vision|multimodal)"
            r"|(?:multimodal content|multimodal input|image input|vision input|vision) is not supported"
            r"|no endpoints found that support image|is not a multimodal model"
            r"|image_url.{0,40}(?:not supported|is only supported)|image_url'?\. ?expected"
            r"|unknown variant [`']?image_url[`']?, expected [`']?text"
        ),
    ),
    FaultRow(
        "image_invalid", K.IMAGE_REFUSED, "Anthropic, OpenAI", "Could not process image",
        statuses=_STATUSES, repair=R.IMAGES, subject="invalid",
        wording=words("could not process image|not a valid image|unsupported image"),
    ),
    FaultRow(
        "tool_content", K.BAD_REQUEST, "vLLM, DeepSeek and others that take only text there; 27344",
        "Tool message content must be a string", statuses=(400, 422, None), repair=R.TOOL_IMAGES,
        wording=words(
            r"tool (?:message )?content must be a string|tool message must be a string"
            r"|tool_call\.content must be string|expected string, got (?:list|array)|\btext is not set\b"
        ),
    ),
    FaultRow(
        "code_image_too_large", K.IMAGE_REFUSED, "OpenAI", '{"error":{"code":"image_file_too_large"}}',
        codes=codes("image_too_large image_file_too_large"), repair=R.IMAGES, subject="too_large",
    ),
    FaultRow(
        "code_image", K.IMAGE_REFUSED, "OpenAI, ResponseError of the SDK 3.57",
        '{"error":{"code":"image_parse_error","message":"no picture"}}', repair=R.IMAGES, subject="invalid",
        codes=codes(
            "invalid_image invalid_image_url invalid_image_format image_parse_error invalid_base64_image"
            " image_too_small unsupported_image_media_type empty_image_file failed_to_download_image"
            " image_file_not_found invalid_image_mode"
        ),
    ),
)  # fmt: skip
