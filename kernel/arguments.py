"""Tool-call arguments: read what the model wrote, and tell cut text from malformed text (`coerce` fits it to a schema).

Nothing here completes or guesses: a call whose text was cut must never run with half of its arguments.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

from hermes.kernel.coercion import coerce as coerce
from hermes.kernel.lenient import Cut, read_lenient
from hermes.kernel.messages import Json, clean, clean_json

CUT = "cut: "
"""How the problem of a call begins whose text ended early: more output or a smaller call mends it, a retry does not."""

_QUOTED_CHARS = 200
_NESTING_MAX = 100

# ---- Reading --------------------------------------------------------------------------------------------------------


def parse_arguments(name: str, raw: str | None, cut: bool = False) -> tuple[dict[str, Json], str | None]:
    """Read the arguments of one call: (arguments, None), or ({}, what is wrong in words for the model).

    None and blank text are `{}`. `cut` says that the reply ended while this call was being written: then only a whole
    object is taken. A problem that begins with `CUT` says that the text ends in the middle.
    """
    text = (raw or "").strip()
    if not text:
        return ({}, f"{CUT}the reply ended before the arguments of {name} came; nothing was run") if cut else ({}, None)
    is_cut, error = cut, ""
    try:
        value = clean_json(_bounded(_read(text, may_close=not cut), text))
    except Cut:
        is_cut = True
    except (ValueError, RecursionError, MemoryError) as problem:
        error = _reason(problem)
    else:
        if isinstance(value, dict):
            return value, None
        if value is None and not cut:
            return {}, None
        error = f"must be one JSON object, not {_kind(value)}"
    if is_cut:
        return {}, (
            f"{CUT}the arguments of {name} end after {len(text)} characters, before they are complete; nothing was "
            f"run. Send the call again with less text, or divide the work over several calls. Received: {_quote(text)}"
        )
    return {}, (
        f"the arguments of {name} cannot be read ({error}); nothing was run. Send the call again with one valid JSON "
        f"object. Received: {_quote(text)}"
    )


def _read(text: str, *, may_close: bool) -> Json:
    """The value by strict JSON, else by the lenient reading; an object that was encoded twice is decoded twice."""
    try:
        value = _strict(text)
    except ValueError:
        if text.startswith('{\\"'):  # the inner half of an object that was encoded twice
            text = _strict(f'"{text}"')
        value = read_lenient(text, may_close=may_close)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _read(value.strip(), may_close=False)
    return value


def _strict(text: str) -> Json:
    return json.loads(text, strict=False, parse_constant=_refuse_constant, parse_float=_finite)


def _bounded(value: Json, text: str) -> Json:
    """Refuse what is nested so deeply that walking it could end the process's stack."""
    if text.count("[") + text.count("{") > _NESTING_MAX:
        level, depth = [value], 0
        while level := [
            c for v in level if isinstance(v, (list, dict)) for c in (v.values() if isinstance(v, dict) else v)
        ]:
            depth += 1
            if depth > _NESTING_MAX:
                raise RecursionError
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _reason(problem: BaseException) -> str:
    if isinstance(problem, json.JSONDecodeError):
        return f"{problem.msg} at line {problem.lineno} column {problem.colno}"
    return "nested too deeply" if isinstance(problem, RecursionError) else str(problem).partition(";")[0]


def _quote(text: str) -> str:
    text = clean(text)
    if len(text) > _QUOTED_CHARS:
        text = f"{text[: _QUOTED_CHARS - 63]} … {text[-60:]}"
    return text


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
