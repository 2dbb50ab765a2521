"""From an entry point to an object whose hooks may be called: the import, and every reason to refuse."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pluggy

import hermes
from hermes import hookspecs
from hermes.kernel.contract import EVERY_KIND, GROUPS, Group
from hermes.kernel.discovery import OWN, Catalogue, EntryPoint
from hermes.kernel.hookcalls import ON_PURPOSE, MissedDeadline, Threads, cause_of
from hermes.kernel.requirements import meets, requirement_on

HOOK_ARGUMENTS: dict[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(function).parameters)
    for name, function in vars(hookspecs).items()
    if hasattr(function, "hermes_spec")
}
"""Every hook of hookspecs.py and the arguments that an implementation may name."""

_failed_imports: dict[tuple[str, str], str] = {}
"""(distribution, value) → cause. Kept for the life of the process: a module whose import hung holds its import lock, so
that a second import of it would hang as well."""


class Refused(Exception):
    """Why a plugin is not loaded, with what to do about it."""


def find(catalogue: Catalogue, group: str, name: str) -> EntryPoint:
    """The entry point that `name` stands for. Raises Refused when there is none, or several claims on it."""
    entry_point = catalogue.find(group, name)
    if entry_point is None:
        raise Refused(_nothing_called(name, catalogue, group))
    if (claim := catalogue.claim_on(entry_point)) is not None:
        raise Refused(claim.text)
    return entry_point


def load_object(entry_point: EntryPoint, deadline_s: float) -> object:
    """Import what the entry point names, in a thread of its own, and return it. Raises Refused; imports once."""
    for clauses in requirement_on(OWN, entry_point.requires):
        if not meets(hermes.__version__, clauses):
            raise Refused(
                f"it requires {OWN}{clauses}, and this is {hermes.__version__}; "
                f"upgrade one of the two: pip install --upgrade {OWN} {entry_point.distribution}"
            )
    key = (entry_point.distribution, entry_point.value)
    if (cause := _failed_imports.get(key)) is None:
        threads = Threads(f"import {entry_point.label}")
        try:
            return threads.call(lambda: _import(entry_point.value), deadline_s)
        except ON_PURPOSE:
            raise
        except BaseException as error:  # an import may exit, too
            hung = f"its import did not end within {deadline_s:g} s"
            cause = hung if isinstance(error, MissedDeadline) else f"its import failed: {cause_of(error)}"
            _failed_imports[key] = cause
        finally:
            threads.close()
    raise Refused(f"{cause}; mend it, uninstall it, or list it in plugins.disabled")


def _import(value: str) -> object:
    module, _, attributes = value.partition(":")
    found: object = import_module(module.strip())
    for attribute in filter(None, attributes.strip().split(".")):
        found = getattr(found, attribute)
    return found


def check_hooks(plugin: object, entry_point: EntryPoint, manager: pluggy.PluginManager) -> None:
    """Raises Refused for what pluggy would load and what would then be dead, or fail at the call."""
    if inspect.isclass(plugin):
        raise Refused(f"{entry_point.value} is a class; point the entry point to a module or an instance of it")
    marked: dict[str, dict[str, Any]] = {}
    unmarked: list[str] = []
    for attribute in dir(plugin):
        if (options := manager.parse_hookimpl_opts(plugin, attribute)) is not None:
            marked[attribute] = dict(options)
        elif attribute in HOOK_ARGUMENTS and inspect.isroutine(getattr(plugin, attribute, None)):
            unmarked.append(attribute)
    if unmarked:
        raise Refused(f"{', '.join(unmarked)} {'lacks' if len(unmarked) == 1 else 'lack'} hermes' @hookimpl; add it")
    if not marked:
        wanted = " or ".join(GROUPS[entry_point.group].hooks)
        raise Refused(f"{entry_point.value} has no hook; it needs a function {wanted} with @hookimpl")
    for attribute, marks in marked.items():
        _check_hook(marks.get("specname") or attribute, getattr(plugin, attribute), marks, entry_point)


def _check_hook(hook: str, function: Any, options: dict[str, Any], entry_point: EntryPoint) -> None:
    group = GROUPS[entry_point.group]
    if hook not in HOOK_ARGUMENTS:
        raise Refused(f"there is no hook {hook}{_did_you_mean(hook, HOOK_ARGUMENTS)}; rename or remove it")
    if not group.allows(hook):
        raise Refused(
            f"{hook} is no hook of {group.name} (it may have {', '.join(group.hooks) or 'none'}); move it to an object "
            f"with an entry point in {_home_of(hook)}"
        )
    if options.get("wrapper") or options.get("hookwrapper"):
        raise Refused(f"{hook} is a pluggy wrapper, which hermes does not call; write an around_* hook instead")
    if options.get("tryfirst") or options.get("trylast"):
        raise Refused(f"{hook} asks for tryfirst or trylast; the order is by name, or by plugins.order in the settings")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise Refused(f"{hook} is async; write it as an ordinary function")
    _check_arguments(hook, function)


def _check_arguments(hook: str, function: Any) -> None:
    allowed = HOOK_ARGUMENTS[hook]
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Refused(f"{hook} takes *{name}; name the arguments that it wants: {', '.join(allowed) or 'none'}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise Refused(f"{hook} takes {name} by position only; hooks are called by name: remove the `/`")
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise Refused(f"{hook} has no argument {name}{_did_you_mean(name, allowed)}; it may name: {known}")


def _home_of(hook: str) -> str:
    own = [group.name for group in GROUPS.values() if hook in group.hooks]
    return " or ".join([*own, EVERY_KIND])


def _nothing_called(name: str, catalogue: Catalogue, group: str) -> str:
    noun = GROUPS[group].kind if group in GROUPS else group
    names = [entry_point.name for entry_point in catalogue.group(group)]
    there = f"there are: {', '.join(names)}" if names else "none is installed"
    return f"there is no {noun} {name!r}{_did_you_mean(name, names)}; {there}"


def _did_you_mean(word: str, words: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(words), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def group_of(name: str) -> Group:
    """The group of that name. Raises Refused."""
    if (group := GROUPS.get(name)) is None:
        raise Refused(f"there is no entry-point group {name}{_did_you_mean(name, GROUPS)}")
    return group
