"""Fit arguments to a tool's JSON Schema: lossless changes of type only, then a check in words for the model.

A small checker of the keywords that tool schemas use. What it does not know passes: the tool itself is the last word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping

from hermes.kernel.messages import Json, clean, clean_json

_PROBLEMS_SHOWN = 5

Schema = Mapping[str, Json]

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_NUMBER_MAX_CHARS = 300


def coerce(arguments: Mapping[str, Json], schema: Schema) -> tuple[dict[str, Json], str | None]:
    """Make lossless changes of type that the schema asks for, then check; the problem is a text for the model.

    Only what the schema names is touched, and never a string where it wants one. An explicit null for an optional
    property that allows none is the same as leaving it out.
    """
    value = _fit(dict(arguments), {"type": "object", **schema}, schema)
    problems: list[str] = []
    for problem in _check(value, {"type": "object", **schema}, schema, ""):
        if len(problems) == _PROBLEMS_SHOWN:
            problems.append("and more")
            break
        problems.append(problem)
    if problems:
        return value, f"wrong arguments: {'; '.join(problems)}. Nothing was run: correct them and call again."
    return value, None


def _fit(value: Json, schema: Json, root: Schema) -> Json:
    schema = _resolved(schema, root)
    if branches := _branches(schema):
        return _fit_one_of(value, branches, root)
    fit = _FITS.get(str(schema.get("type", "")))
    return value if fit is None else fit(value, schema, root)


def _fit_one_of(value: Json, branches: list[Json], root: Schema) -> Json:
    if any(_fits(value, branch, root) for branch in branches):
        return value
    for branch in branches:
        changed = _fit(value, branch, root)
        if _fits(changed, branch, root):
            return changed
    return value


def _fit_integer(value: Json, _schema: Schema, _root: Schema) -> Json:
    number = _fit_number(value, _schema, _root)
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**53:
        return int(number)
    return number if isinstance(number, int) else value


def _fit_number(value: Json, _schema: Schema, _root: Schema) -> Json:
    if not isinstance(value, str) or len(value) > _NUMBER_MAX_CHARS or not _NUMBER.fullmatch(text := value.strip()):
        return value
    number = json.loads(text)
    return number if math.isfinite(number) else value


def _fit_boolean(value: Json, _schema: Schema, _root: Schema) -> Json:
    words = {"true": True, "false": False}
    return words.get(value.strip().lower(), value) if isinstance(value, str) else value


def _fit_null(value: Json, _schema: Schema, _root: Schema) -> Json:
    return None if isinstance(value, str) and value.strip().lower() in ("null", "none") else value


def _fit_array(value: Json, schema: Schema, root: Schema) -> Json:
    items = schema.get("items", {})
    if isinstance(value, list):
        return [_fit(item, items, root) for item in value]
    if value is None or value == "":
        return value
    if isinstance(decoded := _decoded(value), list):
        return [_fit(item, items, root) for item in decoded]
    wrapped = [_fit(value, items, root)]
    return wrapped if _fits(wrapped, schema, root) else value


def _fit_object(value: Json, schema: Schema, root: Schema) -> Json:
    if isinstance(value, str) and isinstance(decoded := _decoded(value), dict):
        value = decoded
    if not isinstance(value, dict):
        return value
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    required = schema.get("required") or ()
    out: dict[str, Json] = {}
    for key, item in value.items():
        wanted = properties.get(key, rest if isinstance(rest, Mapping) else None)
        if wanted is None:
            out[key] = item
        elif item is not None or key in required or _fits(None, wanted, root):
            out[key] = _fit(item, wanted, root)
    return out


_FITS: dict[str, Callable[[Json, Schema, Schema], Json]] = {
    "integer": _fit_integer,
    "number": _fit_number,
    "boolean": _fit_boolean,
    "null": _fit_null,
    "array": _fit_array,
    "object": _fit_object,
}


def _decoded(value: Json) -> Json:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return clean_json(json.loads(value))
    except (ValueError, RecursionError):
        return None


def _resolved(schema: Json, root: Schema) -> Schema:
    """Follow a local `$ref`; what cannot be followed wants nothing."""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root
        for step in reference.removeprefix("#").strip("/").split("/"):
            schema = schema.get(step) if isinstance(schema, Mapping) and step else None
    return {}


def _branches(schema: Schema) -> list[Json]:
    union = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(union, list):
        return union
    if isinstance(kinds := schema.get("type"), list):
        return [{**schema, "type": kind} for kind in kinds]
    return []


def _fits(value: Json, schema: Json, root: Schema) -> bool:
    return next(_check(value, schema, root, ""), None) is None


def _check(value: Json, schema: Json, root: Schema, where: str) -> Iterator[str]:
    """Yield what is wrong, in words; keywords that are not in the tables pass."""
    schema = _resolved(schema, root)
    if branches := _branches(schema):
        if not any(_fits(value, branch, root) for branch in branches):
            kinds = " or ".join(sorted({str(_resolved(b, root).get("type", "value")) for b in branches}))
            yield f"{where or 'arguments'}: must be {kinds}, not {_shown(value)}"
        return
    kind = schema.get("type")
    if isinstance(kind, str) and not _IS_KIND.get(kind, lambda _: True)(value):
        yield f"{where or 'arguments'}: must be {_KIND_WORDS.get(kind, kind)}, not {_shown(value)}"
        return
    for keyword, (passes, words) in _BOUNDS.items():
        if keyword in schema and not passes(value, schema[keyword]):
            yield f"{where or 'arguments'}: must be {words} {_shown(schema[keyword])}, not {_shown(value)}"
    if isinstance(value, dict):
        yield from _check_object(value, schema, root, where)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _check(item, schema["items"], root, f"{where}[{number}]")


def _check_object(value: Mapping[str, Json], schema: Schema, root: Schema, where: str) -> Iterator[str]:
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    prefix = f"{where}." if where else ""
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{prefix}{name}: is missing"
    for key, item in value.items():
        if key in properties:
            yield from _check(item, properties[key], root, prefix + key)
        elif rest is False:
            yield f"{prefix}{key}: is unknown; known are {', '.join(properties) or 'none'}"
        elif isinstance(rest, Mapping):
            yield from _check(item, rest, root, prefix + key)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_IS_KIND: dict[str, Callable[[Json], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: _is_number(v) and (isinstance(v, int) or v.is_integer()),
    "number": _is_number,
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}
_KIND_WORDS = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "an object",
}  # fmt: skip
_BOUNDS: dict[str, tuple[Callable[[Json, Json], bool], str]] = {
    "enum": (lambda v, allowed: any(v == a and type(v) is type(a) for a in allowed), "one of"),
    "const": (lambda v, wanted: bool(v == wanted), "exactly"),
    "minimum": (lambda v, bound: not _is_number(v) or v >= bound, "at least"),
    "maximum": (lambda v, bound: not _is_number(v) or v <= bound, "at most"),
    "minLength": (lambda v, bound: not isinstance(v, str) or len(v) >= bound, "a text of length at least"),
    "maxLength": (lambda v, bound: not isinstance(v, str) or len(v) <= bound, "a text of length at most"),
    "minItems": (lambda v, bound: not isinstance(v, list) or len(v) >= bound, "a list of length at least"),
    "maxItems": (lambda v, bound: not isinstance(v, list) or len(v) <= bound, "a list of length at most"),
}


def _shown(value: Json) -> str:
    text = clean(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 80 else text[:77] + "…"
