"""Is the new text of a file well-formed? JSON, YAML and TOML are refused when not, Python is only warned about.

Only what is new counts: a file that was not well-formed before may be one of a dialect that we do not know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

_CHECKED_MAX_CHARS = 1_000_000
_one_at_a_time = threading.Lock()

# JSON in name only: these may hold comments.
_WITH_COMMENTS = (
    "tsconfig*.json", "jsconfig*.json", "devcontainer.json", ".eslintrc.json", ".swcrc", "settings.json",
    "launch.json", "tasks.json", "extensions.json", "keybindings.json", "*.code-workspace", "renovate.json",
)  # fmt: skip


def refusal(path: Path, before: str | None, after: str) -> str | None:
    """Why this text must not be written to a data file; None when it may."""
    check = _GATES.get(path.suffix.lower())
    if check is None or any(fnmatchcase(path.name, p) for p in _WITH_COMMENTS):
        return None
    return _new_problem(check, before, after)


def warning(path: Path, before: str | None, after: str) -> str | None:
    """What is wrong with a program text that was written; None when nothing is."""
    check = _WARNINGS.get(path.suffix.lower())
    return None if check is None else _new_problem(check, before, after)


def _new_problem(check: Callable[[str], str | None], before: str | None, after: str) -> str | None:
    if not after.strip() or len(after) > _CHECKED_MAX_CHARS:
        return None
    problem = check(after)
    if problem is None or (before is not None and before.strip() and check(before) is not None):
        return None
    return problem


def _json(text: str) -> str | None:
    import json

    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as problem:
        return f"not valid JSON: {problem.msg} at line {problem.lineno} column {problem.colno}"
    except (ValueError, RecursionError) as problem:
        return f"not valid JSON: {problem}"
    return None


def _yaml(text: str) -> str | None:
    """Check the syntax alone, so that tags and several documents pass; a template is not YAML yet."""
    import yaml

    if "{{" in text or "{%" in text:
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(text, Loader=loader):
            pass
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        where = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        return f"not valid YAML: {problem.problem}{where}"
    except (yaml.YAMLError, RecursionError) as problem:
        return f"not valid YAML: {problem}"
    return None


def _toml(text: str) -> str | None:
    import tomllib

    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        return f"not valid TOML: {problem}"
    return None


def _python(text: str) -> str | None:
    import ast
    import warnings

    try:
        with _one_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as problem:
        return f"Python syntax error at line {problem.lineno}: {problem.msg}"
    except (ValueError, RecursionError, MemoryError) as problem:
        return f"Python cannot read this: {problem}"
    return None


_GATES: dict[str, Callable[[str], str | None]] = {".json": _json, ".yaml": _yaml, ".yml": _yaml, ".toml": _toml}
_WARNINGS: dict[str, Callable[[str], str | None]] = {".py": _python, ".pyi": _python}
