"""Text that comes from outside YAML: one place that turns it into what the schema asks for.

Text of a variable, a flag or a `${…}` is never re-typed by YAML's rules, where the key 0123 would become 123: the
schema decides, and where text fits it stays text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.kernel.errors import SettingsError

Schema = Mapping[str, Any]

_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
# Decimal, and without leading zeros: 0123 and 08080 stay text. Longer numbers are no settings, and int() refuses them.
WHOLE_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]{0,299})")
NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_boolean(name: str, environ: Mapping[str, str], default: bool = False) -> bool:
    """Read the switch `name`: true/1/yes/on or false/0/no/off in any case; unset or empty is `default`.

    Raises SettingsError for any other word, so that a slip never switches something on or off unseen.
    """
    word = environ.get(name, "").strip().lower()
    if not word:
        return default
    if word not in _BOOLEANS:
        raise SettingsError(f"{name}: must be true or false (1/0, yes/no, on/off)")
    return _BOOLEANS[word]


def types_of(schema: Schema) -> tuple[str, ...]:
    """The types that a schema allows, those of its alternatives too; () when it allows any."""
    own = schema.get("type", ())
    found = [own] if isinstance(own, str) else list(own)
    for branch in schema.get("anyOf", ()):
        found += [name for name in types_of(branch) if name not in found]
    return tuple(found)


def branches(schema: Schema) -> Iterator[Schema]:
    """The schema itself and its alternatives."""
    yield schema
    for branch in schema.get("anyOf", ()):
        yield from branches(branch)


def from_text(text: str, schema: Schema) -> Any:
    """Turn text into a value that fits `schema`; text that does not fit is given back as it is, for `check` to name."""
    types = types_of(schema)
    if not types or "string" in types:
        return text
    word = text.strip()
    for name, read in _READERS.items():
        if name in types and (value := read(word)) is not _NOT:
            return value
    if "array" in types:
        return [from_text(part, _items(schema)) for part in _parts(word)]
    return text


def _items(schema: Schema) -> Schema:
    return next((branch["items"] for branch in branches(schema) if "items" in branch), {})


def _parts(text: str) -> list[str]:
    """A comma list; nothing, and the one word `none`, are the empty list."""
    parts = [part.strip() for part in text.split(",")]
    return [] if parts == ["none"] else [part for part in parts if part]


_NOT = object()


def _null(word: str) -> Any:
    return None if word.lower() in ("", "null", "none") else _NOT


def _boolean(word: str) -> Any:
    return _BOOLEANS.get(word.lower(), _NOT)


def _integer(word: str) -> Any:
    return int(word) if WHOLE_NUMBER.fullmatch(word) else _NOT


def _number(word: str) -> Any:
    return float(word) if NUMBER.fullmatch(word) and math.isfinite(float(word)) else _NOT


_READERS = {"null": _null, "boolean": _boolean, "integer": _integer, "number": _number}
