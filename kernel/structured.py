"""An answer as JSON that fits a JSON Schema: the schema as it is asked for, and a text held against it. Pure.

A schema whose root is no object is asked for inside an object with the one property `answer`, since providers take
objects only, and taken out of it again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hermes.kernel.errors import UsageError
from hermes.kernel.messages import Json, ModelRequest, clean_json
from hermes.kernel.providers import Target, ToolSchema

_WRAP = "answer"
_DEFINITIONS = ("$defs", "definitions")
_FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_MOST_PROBLEMS = 5
_PROBLEM_MAX_CHARS = 300

BESIDE_TOOLS = "When you give your final answer, give it as one JSON value that fits this JSON Schema, and nothing else"
ALONE = "Answer with one JSON value that fits this JSON Schema, and nothing else"
_MISFIT = (
    "Your answer does not fit the JSON Schema that it must fit: {problem}. Give the whole answer again as one JSON "
    "value that fits, and nothing else, no fence and no words around it. The schema: {schema}"
)


# ---- The schema -----------------------------------------------------------------------------------------------------


def checked_schema(schema: Json) -> dict[str, Json]:
    """A copy as plain JSON; raises UsageError for what is no JSON Schema that an answer could be held against."""
    import jsonschema
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, SchemaRegistry

    if not isinstance(schema, Mapping):
        raise UsageError(f"a JSON Schema is an object, not {type(schema).__name__}")
    try:
        plain: dict[str, Json] = json.loads(json.dumps(schema, allow_nan=False))
        validator = _validator(plain)
        validator.check_schema(plain)
        resolver = SchemaRegistry().resolver_with_root(Resource.from_contents(plain, DRAFT202012))
        for reference in _references(plain):
            resolver.lookup(reference)
        next(validator.iter_errors({}), None)
    except jsonschema.SchemaError as error:
        raise UsageError(f"not a valid JSON Schema: {error.json_path}: {error.message}") from None
    except Unresolvable as error:
        raise UsageError(f"the schema refers to {error.ref!r}, which is not in it") from None
    except RecursionError:
        raise UsageError("the schema refers to itself without an end") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the schema is not JSON: {error}") from None
    return plain


def as_object(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema of an object that is asked for: itself, or an object around it."""
    if _is_object(schema):
        return {"type": "object", **schema}
    inner = {key: _moved(value) for key, value in schema.items() if key not in (*_DEFINITIONS, "$schema")}
    around: dict[str, Json] = {
        "type": "object",
        "properties": {_WRAP: inner},
        "required": [_WRAP],
        "additionalProperties": False,
    }
    return around | {key: _moved(schema[key]) for key in ("$schema", *_DEFINITIONS) if key in schema}


def _is_object(schema: Mapping[str, Json]) -> bool:
    return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)


def _moved(value: Json) -> Json:
    """The same with its references to the old root pointing to the new place; definitions stay at the root."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    moved = {key: _moved(item) for key, item in value.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#") and not reference.startswith(("#/$d", "#/definitions")):
        moved["$ref"] = f"#/properties/{_WRAP}{reference[1:]}"
    return moved


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                yield item
            yield from _references(item)


def _validator(schema: Mapping[str, Json]) -> Any:
    """Of the draft that the schema names, else the newest; nothing is ever fetched for it."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import SchemaRegistry

    return validator_for(schema, default=Draft202012Validator)(schema, registry=SchemaRegistry())


# ---- The request ----------------------------------------------------------------------------------------------------


def for_target(request: ModelRequest, target: Target, *, has_tools: bool) -> ModelRequest:
    """The request as this target is asked: its schema where there is a field for it, else told in the note.

    Local servers hold a reply to a schema by a grammar, which leaves no room for a call: beside tools that may be
    called they are told.
    """
    if request.schema is None:
        return request
    parameter = target.quirk("schema_parameter", "json_schema")
    known = parameter != "none" and "schema" not in request.leave_out
    fits = known and (target.row is None or target.row.schemas is not False)
    if has_tools and request.may_call and not target.quirk("schema_beside_tools", not target.profile.local):
        fits = False
    if fits and parameter != "json_object":
        return request
    note = f"{request.note}\n{instruction(request.schema, has_tools and request.may_call)}".lstrip()
    return replace(request, note=note, schema=request.schema if fits else None)


def instruction(schema: Mapping[str, Json], may_call: bool) -> str:
    return f"{BESIDE_TOOLS if may_call else ALONE}: {json.dumps(schema, ensure_ascii=False)}"


SCHEMA_KEYWORDS = "schema_keywords"
"""In `ModelRequest.leave_out`: tools are offered without keywords that a grammar cannot express."""

_GRAMMARLESS = ("pattern", "format")
"""What llama.cpp's conversion of a schema to a grammar fails at (runtime behaviour specification 8.8.13)."""

_NAMED = ("properties", "patternProperties", *_DEFINITIONS)
"""Keywords whose value holds schemas by names of the author's, which may be those of keywords."""


def plain_tool(tool: ToolSchema) -> ToolSchema:
    """The tool with a schema that says less, and so is taken by more servers."""
    return replace(tool, parameters=_plain(tool.parameters))


def _plain(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if key not in _GRAMMARLESS}
    return {
        key: {name: _plain(inner) for name, inner in value.items()}
        if key in _NAMED and isinstance(value, Mapping)
        else _plain(value)
        for key, value in kept.items()
    }


def misfit_note(problem: str, schema: Mapping[str, Json]) -> str:
    """What the model is told of an answer that does not fit; with the schema, which not every wire can send."""
    return _MISFIT.format(problem=problem, schema=json.dumps(as_object(schema), ensure_ascii=False))


# ---- The answer -----------------------------------------------------------------------------------------------------


def fitted(text: str, schema: Mapping[str, Json]) -> tuple[Json, str]:
    """The value that an answer holds and "", or None and what is wrong with it."""
    asked = as_object(schema)
    try:
        value = clean_json(_parsed(text))
        errors = sorted(_validator(asked).iter_errors(value), key=lambda error: error.json_path)
    except ValueError as error:
        return None, f"it is not JSON ({error})"
    except RecursionError:
        return None, "it is nested too deeply"
    if errors:
        told = [f"{error.json_path}: {error.message}"[:_PROBLEM_MAX_CHARS] for error in errors[:_MOST_PROBLEMS]]
        return None, ", ".join(told)
    return (value if _is_object(schema) else value[_WRAP]), ""


def _parsed(text: str) -> Json:
    """The JSON of a text, or of the one fenced block in it; raises ValueError with the reason for the text itself."""
    try:
        return _strict(text)
    except ValueError:
        blocks = _FENCED.findall(text)
        if len(blocks) != 1:
            raise
    return _strict(blocks[0])


def _strict(text: str) -> Json:
    """JSON as it is written down in RFC 8259: Python would also take NaN, and numbers that are too large."""
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")
