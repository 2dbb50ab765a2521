"""Checked settings → the dataclasses of `settings`."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def build(cls: type[T], values: Mapping[str, Any]) -> T:
    """Make one dataclass; keys that are not there keep the class's default. The values were checked before."""
    if not any(isinstance(value, (list, dict)) for value in values.values()):
        return cls(**values)  # resolving the hints of a class costs more than all the rest
    hints = typing.get_type_hints(cls)
    return cls(**{name: _shaped(hints[name], value) for name, value in values.items()})


def _shaped(hint: Any, value: Any) -> Any:
    """Turn a JSON value into what a field's type says: dataclasses, tuples, mappings of them."""
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return build(typing.cast("type[Any]", hint), value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and isinstance(value, (list, dict)):
        return next((_shaped(part, value) for part in inner if _takes(part, value)), value)
    if origin is tuple and isinstance(value, list):
        return tuple(_shaped(inner[0], item) for item in value)
    if isinstance(value, dict) and len(inner) == 2:
        return {key: _shaped(inner[1], item) for key, item in value.items()}
    return value


def _takes(hint: Any, value: Any) -> bool:
    if isinstance(value, list):
        return typing.get_origin(hint) is tuple
    return dataclasses.is_dataclass(hint) or typing.get_origin(hint) is not None
