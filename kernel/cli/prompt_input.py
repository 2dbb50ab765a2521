"""Where the prompt of `hermes run` comes from: the words of the command, a file, standard input."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.kernel.errors import UsageError
from hermes.kernel.messages import clean

INPUT_BYTES = 10_000_000
"""More than this is a mistake: no model reads it."""
_HINT_AFTER_S = 3.0
_SOCKET_GRACE_S = 0.2


def read_prompt(words: Sequence[str], file: str | None, tell: Callable[[str], None]) -> str:
    """The text for the model; "" when nobody gave one.

    Words and file make the prompt; what a pipe or a redirected file brings beside them is context, put after it
    between marks. `tell` gets one line when a pipe keeps silent. Raises UsageError for a file that cannot be read.
    """
    parts = [clean(" ".join(words)).strip()]
    piped = ""
    if file == "-":
        parts.append(_read_stdin(tell, alone=True))
    else:
        if file is not None:
            parts.append(_read_file(Path(file)))
        piped = _read_stdin(tell, alone=not any(parts))
    prompt = "\n\n".join(part for part in parts if part.strip())
    if not piped.strip():
        return prompt
    if not prompt:
        return piped.rstrip("\n")
    end = "" if piped.endswith("\n") else "\n"
    return f"{prompt}\n\n<stdin>\n{piped}{end}</stdin>"


def _read_file(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as stream:
            data = stream.read(INPUT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"-f {path}: cannot be read: {error.strerror or error}") from error
    if len(data) > INPUT_BYTES:
        raise UsageError(f"-f {path}: holds more than {INPUT_BYTES // 1_000_000} MB; give the model the path instead")
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise UsageError(f"-f {path}: not UTF-8 at byte {error.start}; convert it first (iconv -t UTF-8)") from error


def _read_stdin(tell: Callable[[str], None], *, alone: bool) -> str:
    """What standard input holds, "" when it is a terminal, closed, or a device.

    `alone`: there is no other prompt, so that a socket is read to its end; beside a prompt only when it speaks at
    once (Node gives its children an open socket for standard input and never closes it).
    """
    try:
        descriptor = sys.stdin.fileno() if sys.stdin is not None else -1
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return ""  # closed by whoever started us
    is_pipe, is_socket = stat.S_ISFIFO(mode), stat.S_ISSOCK(mode)
    if not (is_pipe or is_socket or stat.S_ISREG(mode)):
        return ""
    if is_socket and not alone and not _ready(descriptor, _SOCKET_GRACE_S):
        return ""
    if (is_pipe or is_socket) and not _ready(descriptor, _HINT_AFTER_S):
        tell("waiting for standard input to end; `< /dev/null` goes without it")
    return _read_all(descriptor)


def _ready(descriptor: int, seconds: float) -> bool:
    if os.name == "nt":
        return True  # select knows sockets only
    return bool(select.select([descriptor], [], [], seconds)[0])


def _read_all(descriptor: int) -> str:
    pieces: list[bytes] = []
    size_bytes = 0
    while piece := os.read(descriptor, 1 << 16):
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > INPUT_BYTES:
            raise UsageError(
                f"standard input holds more than {INPUT_BYTES // 1_000_000} MB; save it and give the model the path"
            )
    return b"".join(pieces).decode("utf-8-sig", "replace")
