"""What a hook may answer: one table for what collect hooks give, one for the answers of the others."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hermes.kernel.effects import CallOpinion, Objection, RecoveryChoice
from hermes.kernel.providers import Profile
from hermes.kernel.roles import Tool

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes as a function's name."""


class Role(NamedTuple):
    """What an item of a collect hook must have: callable attributes, and where its name is."""

    title: str
    methods: tuple[str, ...]
    name_of: Callable[[Any], object] = lambda item: item.name


ROLES: dict[str, Role] = {
    "register_wire_formats": Role("WireFormat", ("prefix", "encode", "envelope", "open", "close")),
    "register_providers": Role("Provider", ("available", "connect", "models", "close"), lambda item: item.profile.name),
    "register_tools": Role("Tool", ("run",), lambda item: item.toolset),
    "register_memory_backends": Role("MemoryBackend", ("snapshot", "apply")),
    "register_prompt_sections": Role("PromptSection", ("build",)),
    "register_context_engines": Role("ContextEngine", ("compress",)),
    "register_session_stores": Role("StoreFactory", ("open_store",)),
    "register_platforms": Role("Platform", ("serve",)),
    "register_batch_engines": Role("BatchEngine", ("run_all",)),
    "register_web_backends": Role("web backend", ()),
}


class WrongItem(Exception):
    """An item or an answer is not what the hook asks for; the message says what it is and what is wanted."""


def checked_items(hook: str, given: object, plugin: str, *, is_named: bool) -> list[Any]:
    """The items that a collect hook gave, each checked. Raises WrongItem for the first that is wrong.

    `is_named`: what is registered must bear the plugin's name. A tool without a toolset gets it.
    """
    if given is None:
        return []
    is_list = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
    items = list(given) if is_list else [given]  # type: ignore[call-overload]
    return [_checked(ROLES[hook], item, plugin, is_named) for item in items]


def _checked(role: Role, item: Any, plugin: str, is_named: bool) -> Any:
    shown = _shown(item)
    if isinstance(item, type):
        raise WrongItem(f"gave the class {item.__name__} where an instance of {role.title} is meant: call it")
    if role.title == "Tool":
        item = _checked_tool(item, plugin)
    missing = [method for method in role.methods if not callable(getattr(item, method, None))]
    if missing:
        raise WrongItem(f"gave {shown} where a {role.title} is meant: it has no method {', '.join(missing)}")
    if role.title == "Provider" and not isinstance(getattr(item, "profile", None), Profile):
        raise WrongItem(f"gave {shown} where a Provider is meant: its `profile` is no Profile")
    try:
        name = role.name_of(item)
    except AttributeError:
        raise WrongItem(f"gave {shown} where a {role.title} is meant: it has no `name`") from None
    if not isinstance(name, str) or not name:
        raise WrongItem(f"gave {shown}, whose name is {name!r}: a text is meant")
    if is_named and name != plugin:
        raise WrongItem(
            f"registered {name!r} under the entry point {plugin!r}: settings load it by that word, so name both alike"
        )
    return item


def _checked_tool(item: Any, plugin: str) -> Tool:
    if not isinstance(item, Tool):
        hint = ": decorate it with @hermes.tool" if callable(item) else ""
        raise WrongItem(f"gave {_shown(item)} where a Tool is meant{hint}")
    if not isinstance(item.name, str) or not TOOL_NAME.fullmatch(item.name):
        raise WrongItem(f"gave a tool named {item.name!r}: a name is 1 to 64 letters, digits, _ or -")
    if not isinstance(item.description, str):
        raise WrongItem(f"tool {item.name}: its description is no text")
    if problem := _schema_problem(item.parameters):
        raise WrongItem(f"tool {item.name}: parameters {problem}")
    return item if item.toolset else dataclasses.replace(item, toolset=plugin)


def _schema_problem(parameters: object) -> str:
    if not isinstance(parameters, Mapping):
        return f"are {_shown(parameters)}: a JSON Schema of type object is meant"
    if parameters.get("type", "object") != "object":
        return f"have type {parameters['type']!r}: only an object can hold arguments"
    if not isinstance(parameters.get("properties", {}), Mapping):
        return "have `properties` that are no mapping"
    try:
        json.dumps(dict(parameters))
    except (TypeError, ValueError) as error:
        return f"are not JSON: {error}"
    return ""


ANSWERS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "provide_turn_context": ("a text", lambda answer: isinstance(answer, str)),
    "provide_compression_notes": ("a text", lambda answer: isinstance(answer, str)),
    "decide_tool_call": ("a CallOpinion", lambda answer: isinstance(answer, CallOpinion)),
    "decide_approval": ('"deny", "once" or "session"', lambda answer: answer in ("deny", "once", "session")),
    "choose_recovery": ("a RecoveryChoice", lambda answer: isinstance(answer, RecoveryChoice)),
    "choose_turn_end": ("an Objection", lambda answer: isinstance(answer, Objection)),
}
"""Hook → what is meant, in words and as a test. None is always allowed: no answer."""


def check_answer(hook: str, answer: object) -> None:
    """Raises WrongItem when the answer of a gather, decide or choose hook is neither None nor what is meant."""
    meant, fits = ANSWERS[hook]
    if answer is not None and not fits(answer):
        raise WrongItem(f"answered {_shown(answer)} where {meant} or None is meant")


def _shown(item: object) -> str:
    return item.__name__ if isinstance(item, type) else f"a {type(item).__name__}"
