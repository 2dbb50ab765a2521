"""From a Python annotation to a JSON Schema, and from the JSON that fits it to the value that the annotation means."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Literal, Union, get_args, get_origin

from hermes.kernel.messages import Json

_NESTING_MAX = 8

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_LISTS = (list, set, frozenset, tuple, Sequence, typing.Iterable)


class CannotDescribe(Exception):
    """An annotation has no JSON Schema; the message says which and is completed by the caller."""


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolve annotations one by one: a name that only a type checker imports stays a text and spoils no other."""
    target = inspect.unwrap(function)
    if not hasattr(target, "__annotations__"):
        target = vars(type(target)).get("__call__", target)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError):
        pass
    hints: dict[str, Any] = {}
    names = getattr(target, "__globals__", {})
    for name, annotation in getattr(target, "__annotations__", {}).items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(holder, names, include_extras=True)
        except (NameError, TypeError, AttributeError):
            hints[name] = annotation
    return hints


def schema_of(hint: Any, definitions: dict[str, Json], *, optional: bool = False, depth: int = 0) -> dict[str, Json]:
    """Describe one annotation; `definitions` takes the `$defs` that a model class brings.

    `optional` leaves null out of `X | None`: a parameter with a default is left out instead. Raises CannotDescribe.
    """
    if depth > _NESTING_MAX:
        raise CannotDescribe("the type refers to itself or is nested too deeply")
    if hint in (Any, inspect.Parameter.empty, object):
        return {}
    if isinstance(hint, str):
        raise CannotDescribe(f"the annotation {hint!r} cannot be resolved when the module is loaded")
    if get_origin(hint) is typing.Annotated:
        schema = schema_of(hint.__origin__, definitions, optional=optional, depth=depth)
        texts = [m for m in hint.__metadata__ if isinstance(m, str)]
        return schema | ({"description": texts[0]} if texts else {})
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if get_origin(hint) in (Union, types.UnionType):
        return _union(get_args(hint), definitions, optional, depth)
    if get_origin(hint) is Literal:
        return _enumeration(get_args(hint))
    return _container(hint, definitions, depth) or _class(hint, definitions, depth)


def _union(members: tuple[Any, ...], definitions: dict[str, Json], optional: bool, depth: int) -> dict[str, Json]:
    wanted = [m for m in members if not (optional and m is type(None))]
    schemas = [schema_of(m, definitions, depth=depth + 1) for m in wanted]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _enumeration(values: Sequence[Any]) -> dict[str, Json]:
    kinds = {_PLAIN.get(type(v)) for v in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    return ({"type": kind} if kind else {}) | {"enum": list(values)}


def _container(hint: Any, definitions: dict[str, Json], depth: int) -> dict[str, Json] | None:
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in _LISTS or origin is typing.get_origin(typing.Sequence[int]):
        items = [a for a in arguments if a is not Ellipsis]
        if len(items) > 1:
            return {"type": "array", "items": {}, "minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "items": schema_of(items[0], definitions, depth=depth + 1) if items else {}}
    if origin in (dict, Mapping):
        values = schema_of(arguments[1], definitions, depth=depth + 1) if len(arguments) == 2 else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return None


def _class(hint: Any, definitions: dict[str, Json], depth: int) -> dict[str, Json]:
    if not isinstance(hint, type):
        raise CannotDescribe(f"the type {hint} has no JSON Schema")
    if issubclass(hint, enum.Enum):
        return _enumeration([member.value for member in hint])
    if issubclass(hint, PurePath):
        return {"type": "string"}
    if callable(describe := getattr(hint, "model_json_schema", None)):
        described: Any = describe()
        schema: dict[str, Json] = dict(described)
        definitions |= schema.pop("$defs", {})
        return schema
    if typing.is_typeddict(hint):
        required: frozenset[str] = getattr(hint, "__required_keys__", frozenset())
        names = [n for n in annotations_of(hint) if n in required]
        return _object({n: _unmarked(h) for n, h in annotations_of(hint).items()}, names, definitions, depth)
    if dataclasses.is_dataclass(hint):
        fields = [f for f in dataclasses.fields(hint) if f.init]
        hints = annotations_of(hint)
        names = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        return _object({f.name: hints[f.name] for f in fields}, names, definitions, depth)
    raise CannotDescribe(f"the type {hint.__name__} has no JSON Schema")


def _unmarked(hint: Any) -> Any:
    marked = get_origin(hint) in (typing.Required, typing.NotRequired)
    return get_args(hint)[0] if marked else hint


def _object(hints: Mapping[str, Any], required: list[str], definitions: dict[str, Json], depth: int) -> dict[str, Json]:
    properties = {
        name: schema_of(hint, definitions, optional=name not in required, depth=depth + 1)
        for name, hint in hints.items()
    }
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


# ---- Back to values -------------------------------------------------------------------------------------------------


def needs_conversion(hint: Any) -> bool:
    """Say whether JSON that fits the annotation is not yet the value that it means."""
    if get_origin(hint) is Literal:
        return False
    if isinstance(hint, type) and not get_args(hint):
        return (
            issubclass(hint, (enum.Enum, PurePath, set, frozenset, tuple))
            or dataclasses.is_dataclass(hint)
            or hasattr(hint, "model_validate")
        )
    return get_origin(hint) in (set, frozenset, tuple) or any(map(needs_conversion, get_args(hint)))


def convert(value: Json, hint: Any) -> Any:
    """Make of JSON the value that the annotation means; raises ValueError, TypeError or KeyError when it cannot."""
    origin, arguments = get_origin(hint), get_args(hint)
    if not needs_conversion(hint):
        return value
    if origin is typing.Annotated:
        return convert(value, hint.__origin__)
    if origin in (Union, types.UnionType):
        return _convert_union(value, arguments)
    if isinstance(value, list):
        return _convert_list(value, origin or hint, arguments)
    if isinstance(value, dict) and origin in (dict, Mapping):
        return {key: convert(item, arguments[1]) for key, item in value.items()}
    return _convert_class(value, hint) if isinstance(hint, type) else value


def _convert_union(value: Json, members: tuple[Any, ...]) -> Any:
    if value is None and type(None) in members:
        return None
    problems: list[str] = []
    for member in members:
        plain = isinstance(member, type) and member in _PLAIN
        if plain and not isinstance(value, member):
            continue
        try:
            return convert(value, member)
        except (TypeError, ValueError, KeyError) as problem:
            problems.append(str(problem))
    raise ValueError("; ".join(problems) or f"{value!r} fits none of the types")


def _convert_list(value: list[Json], kind: Any, arguments: tuple[Any, ...]) -> Any:
    item_hints = [a for a in arguments if a is not Ellipsis]
    if len(item_hints) > 1:
        items = [convert(item, hint) for item, hint in zip(value, item_hints, strict=True)]
    else:
        items = [convert(item, item_hints[0]) for item in value] if item_hints else list(value)
    return kind(items) if kind in (set, frozenset, tuple) else items


def _convert_class(value: Json, hint: type[Any]) -> Any:
    if isinstance(value, hint):
        return value
    if issubclass(hint, PurePath):
        return hint(value) if hint is not PurePath else Path(value)
    if callable(validate := getattr(hint, "model_validate", None)):
        return validate(value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = annotations_of(hint)
        return hint(**{name: convert(item, hints.get(name, Any)) for name, item in value.items()})
    if issubclass(hint, enum.Enum):
        return hint(value)
    raise TypeError(f"{value!r} is not a {hint.__name__}")
