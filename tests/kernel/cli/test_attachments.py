"""Images and the schema of `hermes run`: what is taken, and what is refused with what to do."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from hermes.kernel.cli.attachments import IMAGE_BYTES, read_given, read_image, read_schema
from hermes.kernel.cli.run_settings import RunOptions
from hermes.kernel.errors import UsageError

BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n....",
    "image/jpeg": b"\xff\xd8\xff\xe0....",
    "image/gif": b"GIF89a....",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
}


@pytest.mark.parametrize("media_type", BEGINNINGS)
def test_an_image_is_known_by_its_first_bytes_whatever_its_name(tmp_path: Path, media_type: str) -> None:
    file = tmp_path / "picture.txt"
    file.write_bytes(BEGINNINGS[media_type])
    image = read_image(str(file))
    assert image.media_type == media_type
    assert base64.b64decode(image.data) == BEGINNINGS[media_type]


@pytest.mark.parametrize(
    "data", [b"", b"%PDF-1.7", b"<svg/>", b"RIFF\x10\x00\x00\x00WAVE", b"GIF88a", b"BM....", b"\x89PNG\n\x1a\n"]
)
def test_anything_else_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(data)
    with pytest.raises(UsageError, match="no PNG, JPEG, GIF or WebP"):
        read_image(str(file))


def test_an_image_that_no_provider_takes_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "large.png"
    file.write_bytes(BEGINNINGS["image/png"].ljust(IMAGE_BYTES + 1, b"."))
    with pytest.raises(UsageError, match="more than 5 MB; make it smaller first"):
        read_image(str(file))
    file.write_bytes(BEGINNINGS["image/png"].ljust(IMAGE_BYTES, b"."))
    assert read_image(str(file)).media_type == "image/png"


def test_a_file_that_is_not_there_is_named_with_its_option(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--image .*absent.png: cannot be read: No such file"):
        read_image(str(tmp_path / "absent.png"))
    with pytest.raises(UsageError, match=r"--schema .*: cannot be read: Is a directory"):
        read_schema(str(tmp_path))


def test_a_schema_may_be_json_or_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"type": "object", "required": ["n"]}', encoding="utf-8")
    (tmp_path / "a.yaml").write_text("type: object\nrequired: [n]\n", encoding="utf-8")
    schemas = [read_schema(str(tmp_path / name)) for name in ("a.json", "a.yaml")]
    assert schemas[0] == schemas[1] == {"type": "object", "required": ["n"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"type": ', "neither JSON nor YAML"),
        ("type: objct", "not a valid JSON Schema"),
        ("", "an object, not NoneType"),
        ("- a\n- b\n", "an object, not list"),
        ("const: 2026-11-30", "not JSON"),
        ("a: &a {b: *a}", "not JSON"),
        ("\x00", "neither JSON nor YAML"),
    ],
)
def test_a_schema_that_is_none_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "schema.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=says) as caught:
        read_schema(str(file))
    assert str(caught.value).startswith(f"--schema {file}: ")


def test_a_run_without_either_reads_nothing() -> None:
    given = read_given(RunOptions())
    assert (given.images, given.schema) == ((), None)
