"""Tool-call arguments: read what the model wrote, and tell cut text from malformed text (`coerce` fits it to a schema).

Nothing here closes, completes or guesses: a call whose text was cut must never run with half of its arguments.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable
from typing import NoReturn

from hermes.kernel.coercion import coerce as coerce
from hermes.kernel.messages import Json, clean, clean_json

CUT = "cut: "
"""How the problem of a call begins whose text ended early: more output or a smaller call mends it, a retry does not."""

_QUOTED_CHARS = 200
_LITERAL_MAX_CHARS = 100_000
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
    error = ""
    for read in _READERS:
        try:
            value = clean_json(_bounded(read(text), text))
        except (ValueError, SyntaxError, RecursionError, MemoryError) as problem:
            error = error or _reason(problem)
            continue
        if isinstance(value, dict):
            return value, None
        error = f"must be one JSON object, not {_kind(value)}"
        break
    if cut or _ends_early(text):
        return {}, (
            f"{CUT}the arguments of {name} end after {len(text)} characters, before they are complete; nothing was "
            f"run. Send the call again with less text, or divide the work over several calls. Received: {_quote(text)}"
        )
    return {}, (
        f"the arguments of {name} cannot be read ({error}); nothing was run. Send the call again with one valid JSON "
        f"object. Received: {_quote(text)}"
    )


def _strict(text: str) -> Json:
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)


def _with_raw_controls(text: str) -> Json:
    """Accept tabs and line feeds inside strings, which local models write unescaped; nothing is changed by it."""
    return json.loads(text, strict=False, parse_constant=_refuse_constant, parse_float=_finite)


def _python_literal(text: str) -> Json:
    """Read `{'a': None, 'b': True}`. Not with backslashes: Python's escapes mean something else than JSON's."""
    if not text.startswith("{") or "\\" in text or len(text) > _LITERAL_MAX_CHARS:
        raise ValueError("not a literal")
    value = ast.literal_eval(text)
    if not _only_json(value):
        raise ValueError("not JSON values")
    return value


def _unwrapped(read: Callable[[str], Json]) -> Callable[[str], Json]:
    """Read an object that was encoded twice, as some gateways send it."""

    def twice(text: str) -> Json:
        value = read(text)
        return read(value) if isinstance(value, str) and value.lstrip().startswith("{") else value

    return twice


# The first reader that gives a value decides. Repairs (trailing commas, invalid escapes) are further rows at the end.
_READERS: tuple[Callable[[str], Json], ...] = (_unwrapped(_strict), _unwrapped(_with_raw_controls), _python_literal)


def _only_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _only_json(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(_only_json, value))
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


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


_TOKEN = re.compile(r"""\s+|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[{}\[\],:]|[^\s"'{}\[\],:]+""", re.DOTALL)
_UNFINISHED = re.compile(r"-?\d*\.?\d*([eE][+-]?\d*)?|t|tr|tru|true|f|fa|fal|fals|false|n|nu|nul|null|N|No|Non|None")


def _ends_early(text: str) -> bool:
    """Say whether the text ends inside a string, number, literal or key, or before a value.

    Closing brackets that are missing after a whole value are a slip of the model, not a cut.
    """
    opened: list[str] = []
    before = last = ""
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:  # a quote that is never closed
            return True
        place = token.end()
        word = token.group()
        if word.isspace():
            continue
        if word in "{[":
            opened.append(word)
        elif word in "}]" and opened:
            opened.pop()
        before, last = last, word
    if not opened or last in "}]":
        return False
    if last in "{[,:":
        return True
    if last[0] in "\"'":
        return opened[-1] == "{" and before in "{,"  # a key without its value
    return _UNFINISHED.fullmatch(last) is not None


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
