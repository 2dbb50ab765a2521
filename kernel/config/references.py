"""`${env:X}`, `${env:X:-default}`, `${env:X:?message}`, `${file:path}`, and `$${` for a literal `${`.

Filled in after parsing, so that a value with a quote or a line break in it cannot change the document; what comes out
is text, marked as hidden, and the schema decides what it becomes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hermes.kernel.config.nodes import Node, Problem, texts
from hermes.kernel.messages import clean

MAX_FILE_BYTES = 1_000_000

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)", re.DOTALL)
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)(?::([-?])(.*))?", re.DOTALL)


class _Unfilled(Exception):
    """Says what is wrong with a reference, without any value."""


def has_reference(text: str) -> bool:
    return any(match[0] != "$${" for match in _REFERENCE.finditer(text))


def fill_in(root: Node, folder: Path, environ: Mapping[str, str]) -> list[Problem]:
    """Replace every reference below `root` in place; relative files are looked for in `folder`."""
    problems = []
    for path, node in texts(root):
        if "${" not in node.value:
            continue
        if not has_reference(node.value):
            node.value = node.value.replace("$${", "${")
            continue
        node.hidden = node.outside = True
        try:
            node.value = _filled(node.value, folder, environ)
        except _Unfilled as error:
            problems.append(Problem(node.origin, path, str(error)))
            node.value, node.outside, node.broken = None, False, True
    return problems


def _filled(text: str, folder: Path, environ: Mapping[str, str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        return _value(match[1], bool(match[2]), folder, environ)

    return _REFERENCE.sub(one, text)


def _value(body: str, is_closed: bool, folder: Path, environ: Mapping[str, str]) -> str:
    if not is_closed:
        raise _Unfilled("a ${…} has no closing }, or another ${…} inside, which is not supported; $${ is a literal ${")
    if match := _ENV.fullmatch(body):
        return _from_variable(match[1], match[2], match[3], environ)
    if body.startswith("file:"):
        return _from_file(body[len("file:") :], folder)
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", body):
        raise _Unfilled(f"${{{body}}} is not a reference; did you mean ${{env:{body}}}")
    raise _Unfilled(
        "this ${…} is not one of ${env:NAME}, ${env:NAME:-default}, ${env:NAME:?message}, ${file:path}; "
        "$${ is a literal ${"
    )


def _from_variable(name: str, kind: str | None, rest: str | None, environ: Mapping[str, str]) -> str:
    # A key pasted with its line break is sent as a header that no server takes.
    if value := clean(environ.get(name, "")).strip():
        return value
    if kind == "-":
        return rest or ""
    state = "is empty" if name in environ else "is not set"
    if kind == "?" and rest:
        raise _Unfilled(f"the variable {name} {state}: {rest}")
    raise _Unfilled(f"the variable {name} {state}; set it, or give a default: ${{env:{name}:-…}}")


def _from_file(name: str, folder: Path) -> str:
    if not name.strip():
        raise _Unfilled("${file:} names no file")
    try:
        path = folder / Path(name.strip()).expanduser()
        if path.exists() and not path.is_file():
            raise _Unfilled(f"{path} is not a regular file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _Unfilled(f"the file {path} is larger than {MAX_FILE_BYTES:,} bytes")
        data = path.read_bytes()
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _Unfilled(f"cannot read the file {name.strip()}: {reason}") from None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n")
    except UnicodeDecodeError:
        raise _Unfilled(f"the file {path} is not UTF-8; save it as UTF-8") from None
