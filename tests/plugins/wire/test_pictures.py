"""Pictures as OpenAI's servers take them."""

from __future__ import annotations

import pytest

from hermes.kernel.messages import Image
from hermes.plugins.wire.pictures import address_of, note_of


@pytest.mark.parametrize("media_type", ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "IMAGE/PNG"])
def test_a_picture_of_a_kind_that_is_taken_is_a_data_url(media_type: str) -> None:
    assert address_of(Image(media_type, "aGk=")) == f"data:{media_type};base64,aGk="


def test_a_picture_without_a_kind_is_a_png() -> None:
    assert address_of(Image("", "aGk=")) == "data:image/png;base64,aGk="


def test_an_address_stays_as_it_is() -> None:
    assert address_of(Image(url="https://x.example/a.bmp")) == "https://x.example/a.bmp"
    assert address_of(Image(url="data:image/png;base64,aGk=")) == "data:image/png;base64,aGk="


@pytest.mark.parametrize("image", [Image("image/bmp", "Qk0="), Image(url="data:image/bmp;base64,Qk0=")])
def test_a_picture_that_would_make_the_server_refuse_everything_is_told_of_in_words(image: Image) -> None:
    assert address_of(image) is None
    assert "image/bmp" in note_of(image)
