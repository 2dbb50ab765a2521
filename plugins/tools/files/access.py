"""Which paths these tools may touch: devices, protected paths, credentials and system directories are refused.

This keeps a model from harm by mistake. It is no boundary against a hostile one: the terminal reaches every file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from hermes import ToolContext, ToolError

# Reading one of these blocks, never ends, or shows the secrets of a process (hermes-agent #4427).
_DEVICES = (
    "/dev/*", "/proc/*/environ", "/proc/*/cmdline", "/proc/*/maps", "/proc/*/smaps", "/proc/*/mem", "/proc/*/fd/*",
    "/proc/kcore", "/proc/kmsg", "/proc/*/pagemap", "/proc/*/auxv",
)  # fmt: skip
_NO_DEVICES = ("/dev/shm/*",)

# Written only by a person, or by the tool that they belong to. "~" is the user's home, "@" is that of hermes.
_NEVER_WRITTEN = (
    "~/.ssh", "~/.aws", "~/.gnupg", "~/.kube", "~/.docker", "~/.azure", "~/.config/gh", "~/.config/gcloud",
    "~/.netrc", "~/.pgpass", "~/.npmrc", "~/.pypirc", "~/.git-credentials",
    "/etc", "/private/etc", "/private/var/db", "/boot", "/usr/lib/systemd", "/lib/systemd", "/var/run/docker.sock",
    "/run/docker.sock", "@/hermes.yaml", "@/.env", "@/*.db", "@/*.db-*", "@/trusted*",
)  # fmt: skip
_NEVER_READ = ("@/.env", "@/auth*")


def resolve(path: str, context: ToolContext) -> Path:
    """The real path that a model's path means; relative ones start at the session's working directory."""
    if not path.strip() or "\0" in path:
        raise ToolError("path is empty: give the path of a file" if not path.strip() else "path holds a NUL character")
    return Path(os.path.realpath(context.cwd / os.path.expanduser(path)))


def shown(path: Path, context: ToolContext) -> str:
    """The shortest true name for the model: relative below the working directory, else absolute."""
    root = os.path.realpath(context.cwd)
    return os.path.relpath(path, root) if path.is_relative_to(root) else str(path)


def check_read(path: str, context: ToolContext) -> Path:
    """Resolve a path that is to be read; raises ToolError that says why it may not be."""
    real = resolve(path, context)
    _refuse_devices(path, real, context)
    if pattern := protecting(real, context, path):
        raise ToolError(f"{path} is protected by approval.protect_paths ({pattern}); ask the user for what you need")
    if any(_matches(str(real), p) for p in _placed(_NEVER_READ, context)):
        raise ToolError(f"{path} holds hermes's own credentials and is never read")
    return real


def check_write(path: str, context: ToolContext) -> Path:
    """Resolve a path that is to be written; raises ToolError that says why it may not be."""
    real = check_read(path, context)
    if pattern := next((p for p in _placed(_NEVER_WRITTEN, context) if _matches(str(real), p)), None):
        raise ToolError(f"{path} is not written by this tool ({pattern} belongs to the system or holds credentials)")
    roots = context.settings.get("write_roots") or ()
    if roots and not any(_matches(str(real), os.path.realpath(os.path.expanduser(r))) for r in roots):
        raise ToolError(f"{path} is outside of the directories that may be written: {', '.join(roots)}")
    if real.is_dir():
        raise ToolError(f"{path} is a directory; give the path of a file in it")
    return real


def protecting(real: Path, context: ToolContext, given: str = "") -> str | None:
    """The pattern of approval.protect_paths that this path falls under, by its real name or by the one given."""
    names = {str(real)} | ({os.path.abspath(context.cwd / os.path.expanduser(given))} if given else set())
    for pattern in context.settings.get("protect_paths") or ():
        expanded = os.path.expanduser(str(pattern))
        wanted = {expanded, os.path.realpath(expanded)} if "*" not in expanded else {expanded}
        if any(_matches(name, p) for name in names for p in wanted):
            return str(pattern)
    return None


def _matches(path: str, pattern: str) -> bool:
    """Say whether the path is what the pattern names, or lies below it; case counts for nothing, as on some disks."""
    path, pattern = path.casefold(), pattern.casefold().rstrip("/") or "/"
    if "*" not in pattern:
        return path == pattern or path.startswith(pattern + os.sep)
    return fnmatchcase(path, pattern) or fnmatchcase(path, pattern + "/*")


def _placed(patterns: tuple[str, ...], context: ToolContext) -> Iterator[str]:
    for pattern in patterns:
        if pattern.startswith("@"):
            yield os.path.realpath(context.home) + pattern[1:]
        else:
            yield os.path.expanduser(pattern)


def _refuse_devices(path: str, real: Path, context: ToolContext) -> None:
    for hop in _hops(str(context.cwd / os.path.expanduser(path))):
        if any(fnmatchcase(hop, p) for p in _DEVICES) and not any(fnmatchcase(hop, p) for p in _NO_DEVICES):
            raise ToolError(f"{path} is a device or shows a process from inside: it is not read or written here")
    try:
        mode = real.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ToolError(f"{path} is not an ordinary file (a device, pipe or socket)")


def _hops(path: str) -> Iterator[str]:
    """Each name on the way through symbolic links: /dev/stdin may end at an ordinary file and is still a device."""
    path = os.path.normpath(path)
    for _ in range(40):
        yield path
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        yield path
        if not os.path.islink(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
