"""How a mistake in the settings is told: what is wrong, what was meant, and never a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hermes.kernel.config.nodes import Node, Path, key_of

_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_OTHER_NAMES = {
    "api_key_env": "write api_key: ${env:NAME}",
    "key_env": "write api_key: ${env:NAME}",
    "token": "did you mean api_key",
    "url": "did you mean base_url",
    "max_turns": "did you mean limits.iterations",
    "max_iterations": "did you mean limits.iterations",
    "fallback_providers": "did you mean fallback",
    "yolo": "did you mean approval.mode: allow",
}
"""Words of other programs and of older ones, which no likeness of letters would find."""


def shown(node: Node, is_secret: bool) -> str:
    if is_secret or node.hidden or node.origin.kind == "variable":
        return "the value"
    if isinstance(node.value, (dict, list)):
        return "a mapping" if isinstance(node.value, dict) else "a list"
    if isinstance(node.value, str):
        return repr(node.value if len(node.value) <= 60 else node.value[:57] + "…")
    if node.value is None or isinstance(node.value, bool):
        return json.dumps(node.value)
    return node.raw or str(node.value)


def wrong_type(node: Node, types: tuple[str, ...], is_secret: bool) -> str:
    wanted = " or ".join(_NAMES[name] for name in types)
    if is_secret or node.hidden or node.origin.kind == "variable":
        return f"must be {wanted}"
    text = f"must be {wanted}, not {shown(node, is_secret)}"
    if isinstance(node.value, str):
        word = node.value.strip().lower()
        if "boolean" in types and word in ("true", "false"):
            return f"{text}; remove the quotes" if node.value in ("true", "false") else f"{text}; write {word}"
        if "boolean" in types and word in _YES_NO:
            return f"{text}; did you mean {_YES_NO[word]}"
        if ("integer" in types or "number" in types) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", word):
            plain = re.sub(r"^(-?)0+(?=[0-9])", r"\1", word)
            return f"{text}; write {plain}" if plain != word else f"{text}; remove the quotes"
    if "array" in types and isinstance(node.value, str):
        return f"{text}; did you mean [{node.value}]" if len(node.value) <= 60 else text
    if "array" in types and node.value is None:
        return f"{text}; [] is the empty list"
    if isinstance(node.value, (bool, type(None))) and "string" in types:
        return f"{text}; if the word is meant, put it in quotes"
    return text


_YES_NO = {"on": "true", "yes": "true", "off": "false", "no": "false"}


def not_allowed(node: Node, allowed: list[Any], is_secret: bool) -> str:
    words = ", ".join("null" if value is None else str(value) for value in allowed)
    return f"{shown(node, is_secret)} is not one of {words}{_nearest_word(node, allowed, is_secret)}"


def _nearest_word(node: Node, allowed: list[Any], is_secret: bool) -> str:
    if is_secret or node.origin.kind == "variable" or not isinstance(node.value, str):
        return ""
    import difflib

    near = difflib.get_close_matches(node.value.lower(), [str(v) for v in allowed if v is not None], 1, 0.6)
    return f"; did you mean {near[0]}" if near else ""


def unknown_key(key: str, path: Path, known: Mapping[str, Any]) -> str:
    """The nearest key beside it, else where such a key stands elsewhere, else what there is."""
    import difflib

    from hermes.kernel.config.schema import leaf_schemas

    if key.lower() in _OTHER_NAMES:
        return f"unknown key, {_OTHER_NAMES[key.lower()]}"
    if near := difflib.get_close_matches(key.lower(), known, 1, 0.6):
        return f"unknown key, did you mean {key_of((*path, near[0]))}"
    everywhere = {leaf[-1]: key_of(leaf) for leaf, _ in leaf_schemas()}
    if near := difflib.get_close_matches(key.lower(), everywhere, 1, 0.8):
        return f"unknown key, did you mean {everywhere[near[0]]}"
    return f"unknown key; there is {', '.join(known)}" if 0 < len(known) <= 12 else "unknown key"
