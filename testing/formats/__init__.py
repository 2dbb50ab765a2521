"""The wire formats that the scripted server speaks: one module each, with the functions of `format.Format`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hermes.testing.formats import chat, converse, messages, responses
from hermes.testing.formats.format import Asked as Asked
from hermes.testing.formats.format import Format as Format
from hermes.testing.formats.format import issued_by as issued_by

FORMATS: Final[Mapping[str, Format]] = {
    chat.api_mode: chat,
    responses.api_mode: responses,
    messages.api_mode: messages,
    converse.api_mode: converse,
}

_PATHS = (
    (re.compile(r".*/chat/completions"), chat.api_mode),
    (re.compile(r".*/responses"), responses.api_mode),
    (re.compile(r".*/v1/messages"), messages.api_mode),
    (re.compile(r"/model/[^/]+/converse(-stream)?"), converse.api_mode),
)

BASE_PATHS: Final[Mapping[str, str]] = {
    chat.api_mode: "/v1",
    responses.api_mode: "/v1",
    messages.api_mode: "",
    converse.api_mode: "",
}
"""What stands after the host in a base URL as each SDK wants it."""


def format_of(path: str) -> Format | None:
    """The format that is spoken at a path; the query does not count."""
    bare = path.partition("?")[0]
    return next((FORMATS[api_mode] for pattern, api_mode in _PATHS if pattern.fullmatch(bare)), None)
