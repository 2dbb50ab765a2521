"""Where settings come from: which files are read for a working directory, and what the environment says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hermes.kernel import paths
from hermes.kernel.config.nodes import Node, Origin, Problem
from hermes.kernel.config.schema import variables
from hermes.kernel.messages import clean

FILE_NAME = "hermes.yaml"
_PACKAGE_FOLDER = Path(__file__).parents[2]


def project_file(cwd: Path) -> Path | None:
    """The nearest hermes.yaml from `cwd` upward to the root of its repository; only in `cwd` where there is none.

    The shipped defaults and the user's own file are never a project's, wherever one works: they would rank too high.
    """
    for folder in _up_to_repository(cwd):
        path = folder / FILE_NAME
        if os.path.isfile(path) and not _are_defaults(path) and not is_same(path, user_file()):
            return path
    return None


def _are_defaults(path: Path) -> bool:
    """Whether it is the shipped file: the one of this installation, a copy of it, or that of a checkout of hermes."""
    ours = _PACKAGE_FOLDER / FILE_NAME
    if is_same(path, ours):
        return True
    try:
        if path.stat().st_size == ours.stat().st_size and path.read_bytes() == ours.read_bytes():
            return True
        return 'name = "hermes-kernel"' in (path.parent / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def user_file() -> Path | None:
    """The user's own file, whether it exists or not; None when this user has no home."""
    try:
        return paths.user_settings()
    except RuntimeError:
        return None


def shipped_defaults() -> str:
    """The text of the shipped hermes.yaml; read through the package's loader, so that it works in a zip."""
    import pkgutil

    data = pkgutil.get_data("hermes", FILE_NAME)
    if data is None:
        raise FileNotFoundError(f"{FILE_NAME} is missing from the installed package hermes; install it again")
    return data.decode("utf-8")


def is_there(path: Path) -> bool:
    """Whether there is such a file; also when it cannot be told, so that reading it gives an error, never silence."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def is_same(path: Path, other: Path | None) -> bool:
    """Whether both are one existing file."""
    try:
        return other is not None and os.path.samefile(path, other)
    except OSError:
        return False


def read_bytes(path: Path, problems: list[Problem]) -> bytes | None:
    """The content of a settings file; None, with a problem, when it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise IsADirectoryError(0, "it is not a regular file")
        return path.read_bytes()
    except OSError as error:
        where = Origin("file", str(path), 1, 1)
        problems.append(Problem(where, (), f"cannot be read: {error.strerror or error}"))
        return None


def from_environment(environ: Mapping[str, str]) -> Node:
    """The HERMES_* variables that name a key, as a tree. Others are not ours and never an error.

    An empty variable is an unset one, except for a list, where it is the empty list.
    """
    root = Node({}, Origin("variable"), Origin("variable"))
    known = variables() if any(name.startswith("HERMES_") for name in environ) else {}
    for name, (path, schema) in known.items():
        text = environ.get(name)
        if text is not None and (text.strip() or schema.get("type") == "array"):
            origin = Origin("variable", name)
            put(root, path, Node(clean(text), origin, origin, outside=True))
    return root


def from_flags(flags: Mapping[str, object]) -> Node:
    """Flags by dotted key as a tree; None is a flag that was not given."""
    root = Node({}, Origin("flag"), Origin("flag"))
    for key, value in flags.items():
        if value is not None:
            put(root, tuple(key.split(".")), Node.of(value, Origin("flag", key), outside=True))
    return root


def put(root: Node, path: tuple[str, ...], node: Node) -> None:
    """Set one value in a tree of mappings, making the mappings on the way."""
    for name in path[:-1]:
        root = root.value.setdefault(name, Node({}, node.origin, node.key))
    root.value[path[-1]] = node


def _up_to_repository(cwd: Path) -> Iterator[Path]:
    folders = [cwd, *cwd.parents]
    for index, folder in enumerate(folders):
        if os.path.lexists(folder / ".git"):
            yield from folders[: index + 1]
            return
    yield cwd
