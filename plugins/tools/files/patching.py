"""The tool patch: replace a text in one file, or apply a V4A patch to several, all or none."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any, Literal

from hermes import Resources, ToolContext, ToolError, tool
from hermes.plugins.tools.files import syntax, v4a
from hermes.plugins.tools.files.access import check_write, shown
from hermes.plugins.tools.files.ledger import ledger_of, locked, note_write, warn_if_changed
from hermes.plugins.tools.files.replacing import replace
from hermes.plugins.tools.files.textfile import Form, decode, load, save
from hermes.plugins.tools.files.writing import put, refuse_own_display

DIFF_MAX_CHARS = 6000
_FAILURES_BEFORE_ADVICE = 3


def touched(arguments: Mapping[str, Any]) -> Resources:
    """What a call of patch writes: its path, or every path that its patch names."""
    patch = arguments.get("patch") or ""
    paths = set(v4a.targets(patch)) if patch else {arguments["path"]}
    return Resources(writes=frozenset(f"path:{path}" for path in paths))


@tool(resources=touched)
def patch(
    context: ToolContext,
    mode: Literal["replace", "patch"] = "replace",
    path: str = "",
    old_string: str = "",
    new_string: str = "",
    replace_all: bool = False,
    patch: str = "",
) -> str:
    """Change part of a text file. mode=replace puts new_string in the place of old_string, which must be there once.
    mode=patch applies a V4A patch to one or more files ("*** Begin Patch", "*** Update File: path", "@@ line before",
    lines with " ", "-" or "+", "*** End Patch"), all of it or nothing.

    Args:
        path: the file (replace)
        old_string: text to find, with enough lines around it to be unique (replace)
        new_string: text to put there (replace)
        replace_all: replace every occurrence (replace)
        patch: the patch (patch)
    """
    if mode == "patch" or (patch and not old_string):
        if not patch.strip():
            raise ToolError("mode patch needs the argument patch")
        return _apply_patch(patch, context)
    if not path:
        raise ToolError("mode replace needs the arguments path, old_string and new_string")
    return _replace_in(path, old_string, new_string, replace_all, context)


def _replace_in(path: str, old: str, new: str, replace_all: bool, context: ToolContext) -> str:
    real = check_write(path, context)
    refuse_own_display(new)
    with locked([real]):
        data = load(real)
        if data is None:
            raise ToolError(f"{path} does not exist; use write_file to make it")
        before, form = decode(data, real)
        if form.newline == "\r\n":
            old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        try:
            replaced = replace(before, old, new, replace_all)
        except ToolError as problem:
            raise ToolError(f"{path}: {problem}{_advice(real, context)}") from None
        if replaced.text == before:
            raise ToolError(f"{path}: the file has new_string there already; nothing was changed")
        changed = warn_if_changed(context.session_id, real)
        _, warnings = put(real, before, replaced.text, form, context)
    times = f"{replaced.count} places" if replaced.count > 1 else "1 place"
    how = "" if replaced.matcher == "exact" else f" (found with: {replaced.matcher}; check the change)"
    notes = [f"[warning: {w}]" for w in (changed, *warnings) if w]
    return "\n".join([f"changed {times} in {shown(real, context)}{how}", _diff(before, replaced.text), *notes])


def _advice(path: Path, context: ToolContext) -> str:
    if ledger_of(context.session_id).failed(path) < _FAILURES_BEFORE_ADVICE:
        return ""
    return f"\nThis failed {_FAILURES_BEFORE_ADVICE} times or more: stop varying the text, read the file again first."


# ---- Patches --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Step:
    """What is to become of one file: `after` None deletes it; `before` None: it is not there yet.

    `moved_from` is the file whose mode it takes over.
    """

    path: Path
    data: bytes | None
    before: str | None
    after: str | None
    form: Form
    moved_from: Path | None = None


def _apply_patch(text: str, context: ToolContext) -> str:
    changes = v4a.parse(text)
    paths = {name: check_write(name, context) for c in changes for name in (c.path, c.move_to) if name}
    with locked(paths.values()):
        steps: dict[Path, _Step] = {}
        matchers: set[str] = set()
        for change in changes:
            matchers |= _plan(change, paths, steps)
        for step in steps.values():
            if step.after is not None and (problem := syntax.refusal(step.path, step.before, step.after)):
                raise ToolError(f"nothing was changed: {step.path.name} would be {problem}")
        warnings = [w for path in steps if (w := warn_if_changed(context.session_id, path))]
        warnings += _perform(list(steps.values()), context)
    return _report(list(steps.values()), matchers, warnings, context)


def _plan(change: v4a.FileChange, paths: Mapping[str, Path], steps: dict[Path, _Step]) -> set[str]:
    source = _step(paths[change.path], steps)
    if change.kind == "Add":
        if source.after is not None:
            raise ToolError(f"{change.path} is there already: use '*** Update File'; nothing was changed")
        source.after = v4a.added_text(change)
        return set()
    if source.after is None:
        raise ToolError(f"{change.path} does not exist; nothing was changed")
    if change.kind == "Delete":
        source.after = None
        return set()
    try:
        after, matchers = v4a.apply(source.after, change)
    except ToolError as problem:
        raise ToolError(f"{problem}; nothing was changed") from None
    if not change.move_to or paths[change.move_to] == source.path:
        source.after = after
        return matchers
    goal = _step(paths[change.move_to], steps)
    if goal.after is not None:
        raise ToolError(f"{change.move_to} is there already, {change.path} cannot be moved to it; nothing was changed")
    goal.after, goal.form, goal.moved_from, source.after = after, source.form, source.path, None
    return matchers


def _step(path: Path, steps: dict[Path, _Step]) -> _Step:
    if path not in steps:
        data = load(path)
        text, form = (None, Form()) if data is None else decode(data, path)
        steps[path] = _Step(path, data, text, text, form)
    return steps[path]


def _perform(steps: list[_Step], context: ToolContext) -> list[str]:
    """Write all files; when one cannot be written, put those before it back and raise."""
    warnings: list[str] = []
    done: list[_Step] = []
    try:
        for step in sorted(steps, key=lambda s: s.after is None):  # delete last: what was moved is in its new place
            if step.after is not None and step.after != step.before:
                warnings += put(step.path, step.before, step.after, step.form, context)[1]
                done.append(step)
                if step.moved_from is not None:
                    shutil.copymode(step.moved_from, step.path)
            elif step.after is None and step.before is not None:
                _delete(step.path, context)
                done.append(step)
    except ToolError as problem:
        for step in reversed(done):
            if step.data is None:
                _delete(step.path, context)
            else:
                save(step.path, step.data)
                note_write(context.session_id, step.path)
        raise ToolError(f"{problem}; the other files of the patch were put back as they were") from None
    return warnings


def _delete(path: Path, context: ToolContext) -> None:
    try:
        path.unlink()
    except OSError as problem:
        raise ToolError(f"{path} cannot be deleted: {problem.strerror}") from problem
    note_write(context.session_id, path)


def _report(steps: list[_Step], matchers: set[str], warnings: list[str], context: ToolContext) -> str:
    lines: list[str] = []
    for step in steps:
        verb = "deleted" if step.after is None else "added" if step.before is None else "changed"
        if step.after != step.before:
            lines.append(f"{verb} {shown(step.path, context)}")
        if verb == "changed":
            lines.append(_diff(step.before or "", step.after or ""))
    if fuzzy := sorted(matchers - {"exact"}):
        lines.append(f"[found with: {', '.join(fuzzy)}; check the change]")
    return "\n".join([*lines, *(f"[warning: {w}]" for w in warnings)]) or "the patch changes nothing"


def _diff(before: str, after: str) -> str:
    lines = unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2)
    text = "\n".join(line for line in lines if not line.startswith(("--- ", "+++ ")))
    return text if len(text) <= DIFF_MAX_CHARS else f"{text[:DIFF_MAX_CHARS]}\n[the rest of the change is not shown]"
