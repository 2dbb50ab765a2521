"""What the strict validators check in the same way: names, pictures, schemas, marks and texts."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

Json = Any
Check = Callable[[Json], bool]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools, as the tool pages of all four references have it."""
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Ids of calls: Anthropic gives the alphabet, OpenAI and Bedrock the length."""
UNIONS = frozenset({"oneOf", "allOf", "anyOf"})
MOST_MARKS = 4

_DATA_URL = re.compile(r"data:image/([a-z0-9.+-]+);base64,(.*)", re.DOTALL)
_PICTURES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF8": "gif",
    b"RIFF": "webp",
}
"""How a file of each kind begins."""
_ENCODED_TWICE = tuple(base64.b64encode(start[:3]) for start in _PICTURES)
PICTURE_KINDS = frozenset(_PICTURES.values())


# ---- Values ---------------------------------------------------------------------------------------------------------


def is_text(value: Json) -> bool:
    """A text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_bool(value: Json) -> bool:
    return isinstance(value, bool)


def is_count(value: Json, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_share(value: Json, most: float = 1) -> bool:
    """A number from 0 to `most`."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def is_object(value: Json) -> bool:
    return isinstance(value, dict)


def is_list(value: Json) -> bool:
    """A list with something in it."""
    return isinstance(value, list) and bool(value)


def is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_object_text(value: Json) -> bool:
    """The text of a JSON object."""
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except ValueError:
        return False


def is_mark(value: Json) -> bool:
    """Anthropic's cache mark, which OpenRouter takes too."""
    if not isinstance(value, dict) or value.get("type") != "ephemeral":
        return False
    return set(value) <= {"type", "ttl"} and value.get("ttl", "5m") in ("5m", "1h")


def as_object(value: Json) -> Mapping[str, Json]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def kind_of(value: Json) -> str:
    """The `type` of a block or an item; "" when it has none."""
    kind = as_object(value).get("type")
    return kind if isinstance(kind, str) else ""


def object_at(data: Json, name: str) -> Mapping[str, Json]:
    """The object under a key; empty when there is none."""
    return as_object(as_object(data).get(name))


def items_at(data: Json, name: str) -> Sequence[Json]:
    """The list under a key; empty when there is none."""
    value = as_object(data).get(name)
    return value if isinstance(value, list) else ()


# ---- Rules ----------------------------------------------------------------------------------------------------------


def fields(where: str, data: Json, known: Mapping[str, Check], needed: Collection[str] = ()) -> Iterator[str]:
    """Unknown, missing and bad fields of an object; `where` is "" for the body itself."""
    dot = f"{where}." if where else ""
    if not isinstance(data, dict):
        yield f"{where} is no object"
        return
    yield from (f"{dot}{name} is missing" for name in needed if name not in data)
    for name, value in data.items():
        check = known.get(name)
        if check is None:
            yield f"{dot}{name} is not known"
        elif not check(value):
            yield f"{dot}{name} has a bad value: {str(value)[:80]}"


def name_problems(where: str, name: Json, seen: set[str] | None = None) -> Iterator[str]:
    """A tool's name: its alphabet, and that no other tool in `seen` has it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"{where}: bad name {name!r}"
    elif seen is not None:
        if name in seen:
            yield f"{where}: the name {name!r} is there twice"
        seen.add(name)


def id_problems(where: str, call_id: Json, used: set[str]) -> Iterator[str]:
    """A call's id: its alphabet, and that no earlier call has it."""
    if not isinstance(call_id, str) or not ID.fullmatch(call_id):
        yield f"{where}: bad id {call_id!r}"
    elif call_id in used:
        yield f"{where}: the id {call_id!r} was used before"
    else:
        used.add(call_id)


def root_problems(where: str, schema: Json) -> Iterator[str]:
    """The root of a schema is an object, and no union: neither OpenAI nor the servers of Claude take one there."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{where} is not the schema of an object"
    elif UNIONS & set(schema):
        yield f"{where} has oneOf, allOf or anyOf at the top level"


def open_objects(where: str, schema: Json, *, all_required: bool = False) -> Iterator[str]:
    """Objects in a schema that are not closed, as constrained output wants them; with every property required too."""
    if isinstance(schema, list):
        for place, item in enumerate(schema):
            yield from open_objects(f"{where}[{place}]", item, all_required=all_required)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        if schema.get("additionalProperties") is not False:
            yield f"{where}: additionalProperties must be false"
        if all_required and set(object_at(schema, "properties")) != set(items_at(schema, "required")):
            yield f"{where}: required must name every property"
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            for name, inner in value.items():
                yield from open_objects(f"{where}.{key}.{name}", inner, all_required=all_required)
        elif key in ("items", *UNIONS):
            yield from open_objects(f"{where}.{key}", value, all_required=all_required)


def picture_problems(where: str, kind: str, data: Json, most_bytes: int) -> Iterator[str]:
    """A picture in base64: its kind ("png"), that it can be decoded, the kind that its beginning tells, and its size.

    `most_bytes` counts the base64 text. A beginning of no known kind is let pass: tests make pictures up.
    """
    if kind not in PICTURE_KINDS:
        yield f"{where}: bad media type {kind!r}"
    if not (decoded := _decoded(data)):
        yield f"{where}: invalid base64 data"
        return
    seen = next((known for start, known in _PICTURES.items() if decoded.startswith(start)), kind)
    if seen != kind:
        yield f"{where}: specified as {kind}, but it appears to be a {seen}"
    if decoded.startswith(_ENCODED_TWICE):
        yield f"{where}: encoded twice, this is base64 of base64"
    if len(data) > most_bytes:
        yield f"{where}: image exceeds {most_bytes} bytes: {len(data)}"


def address_problems(where: str, url: Json) -> Iterator[str]:
    """A picture by its address: http, or a data URL with base64. OpenAI's servers do not mind what its beginning tells,
    and take "jpg" too."""
    if not isinstance(url, str):
        yield f"{where}: bad image address {url!r}"
    elif match := _DATA_URL.fullmatch(url):
        if match[1] not in ("jpg", *PICTURE_KINDS):
            yield f"{where}: bad media type {match[1]!r}"
        if not _decoded(match[2]):
            yield f"{where}: invalid base64 data"
    elif not re.match(r"https?://[^\s]+\Z", url):
        yield f"{where}: bad image address {url[:60]!r}"


def _decoded(data: Json) -> bytes:
    try:
        return base64.b64decode(data, validate=True) if is_text(data) else b""
    except (binascii.Error, ValueError):
        return b""


def lifetime_problems(marks: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Cache marks as (place, lifetime), in the order tools, system, messages: at most four, the longer lived first."""
    if len(marks) > MOST_MARKS:
        yield f"{marks[MOST_MARKS][0]}: a maximum of {MOST_MARKS} cache marks may be provided, found {len(marks)}"
    has_short = False
    for where, lifetime in marks:
        if lifetime == "1h" and has_short:
            yield f"{where}: a mark of 1h comes after a mark of 5m"
        has_short = has_short or lifetime == "5m"


def surrogate_problems(body: Json) -> Iterator[str]:
    try:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        yield "a lone surrogate"
