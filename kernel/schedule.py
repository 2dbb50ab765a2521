"""Which calls of a batch may run together: steps from declared resources, equivalent to one after the other."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from hermes.kernel.messages import Json
from hermes.kernel.roles import Resources, Tool

PATH = "path:"
_ALONE = Resources(exclusive=True)
_FIELD = re.compile(r"\{(\w+)\}")


def plan(calls: Sequence[tuple[str, Resources]], workers: int = 8) -> list[list[str]]:
    """Divide calls (id, what it touches) into steps that run one after the other, the calls of a step together.

    A call goes into the first step behind every earlier call that it conflicts with; so no call crosses an earlier one
    with which the order matters. At most `workers` calls are in one step.
    """
    steps: list[list[str]] = []
    placed: list[tuple[Resources, int]] = []
    for call_id, touched in calls:
        step = max((at + 1 for other, at in placed if conflict(touched, other)), default=0)
        while step < len(steps) and len(steps[step]) >= max(1, workers):
            step += 1
        if step == len(steps):
            steps.append([])
        steps[step].append(call_id)
        placed.append((touched, step))
    return steps


def conflict(one: Resources, other: Resources) -> bool:
    """Say whether the order of two calls can matter: one is exclusive, or writes what the other reads or writes."""
    return (
        one.exclusive
        or other.exclusive
        or _meet(one.writes, other.writes)
        or _meet(one.writes, other.reads)
        or _meet(one.reads, other.writes)
    )


def _meet(some: Iterable[str], others: Iterable[str]) -> bool:
    return any(a == b or _nested(a, b) or _nested(b, a) for a in some for b in others)


def _nested(inner: str, outer: str) -> bool:
    return (
        outer.startswith(PATH)
        and inner.startswith(PATH)
        and inner.startswith(outer if outer.endswith(os.sep) else outer + os.sep)
    )


def resources_of(tool: Tool, arguments: Mapping[str, Json], cwd: Path) -> Resources:
    """Expand what a tool declares for the arguments of one call; paths are resolved against `cwd`.

    Runs alone what declares nothing, and whatever cannot be told from these arguments.
    """
    if tool.exclusive or not (tool.resources or tool.reads or tool.writes):
        return _ALONE
    try:
        if tool.resources is not None:
            declared = tool.resources(arguments)
            reads, writes, exclusive = declared.reads, declared.writes, declared.exclusive
        else:
            reads, writes = _expanded(tool, tool.reads, arguments), _expanded(tool, tool.writes, arguments)
            exclusive = False
        return Resources(_resolved(reads, cwd), _resolved(writes, cwd), exclusive)
    except (LookupError, TypeError, ValueError, AttributeError, OSError):
        return _ALONE


def _expanded(tool: Tool, templates: Sequence[str], arguments: Mapping[str, Json]) -> frozenset[str]:
    return frozenset(resource for template in templates for resource in _expand(tool, template, arguments))


def _expand(tool: Tool, template: str, arguments: Mapping[str, Json]) -> Iterator[str]:
    """Yield the template with its one field filled in; a list gives one resource an item."""
    field = _FIELD.search(template)
    if field is None:
        yield template
        return
    value = arguments.get(field.group(1))
    if value is None:
        value = tool.parameters["properties"][field.group(1)]["default"]
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, (str, int)):
            raise TypeError("a resource is named by a text")
        yield from _expand(
            tool, template.replace(field.group(), str(item).replace("{", "").replace("}", "")), arguments
        )


def _resolved(resources: Iterable[str], cwd: Path) -> frozenset[str]:
    return frozenset(
        PATH + real_path(resource.removeprefix(PATH), cwd) if resource.startswith(PATH) else resource
        for resource in resources
    )


def real_path(path: str, cwd: Path) -> str:
    """Name a file as the file system does: home and `cwd` applied, symlinks followed, case folded where it has none."""
    real = os.path.normcase(os.path.realpath(os.path.join(cwd, os.path.expanduser(path))))
    return real.casefold() if sys.platform == "darwin" else real
