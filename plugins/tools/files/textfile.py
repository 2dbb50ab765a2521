"""A text file as bytes and as text: BOM, encoding and line endings are kept through an edit, and writes are atomic."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hermes import ToolError

_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
EDIT_MAX_BYTES = 20_000_000
"""What is edited is held in memory several times over; a larger file is edited with other means."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a file's text is written. `newline` is "\\r\\n" only where every line ends so, else "\\n" (left as it is)."""

    mark: bytes = b""
    encoding: str = "utf-8"
    newline: str = "\n"


def decode(data: bytes, path: Path) -> tuple[str, Form]:
    """The text with "\\n" for line ends, and its form. Bytes that are not UTF-8 become lone surrogates, which
    `encode` turns back into the same bytes: an edit never harms what it does not touch. Raises ToolError for binary.
    """
    mark, encoding = next(((m, e) for m, e in _MARKS if data.startswith(m)), (b"", "utf-8"))
    body = data[len(mark) :]
    if encoding == "utf-8" and b"\0" in body[:65536]:
        raise ToolError(f"{path} is a binary file ({len(data)} bytes): it cannot be edited as text")
    text = body.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    crlf = text.count("\r\n")
    if crlf and text.count("\n") == crlf:
        return text.replace("\r\n", "\n"), Form(mark, encoding, "\r\n")
    return text, Form(mark, encoding)


def encode(text: str, form: Form) -> bytes:
    """Undo `decode`; a text that brings its own BOM gets no second one."""
    if form.mark:
        text = text.removeprefix("\ufeff")
    if form.newline == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return form.mark + text.encode(form.encoding, "surrogateescape" if form.encoding == "utf-8" else "replace")


def load(path: Path) -> bytes | None:
    """The bytes of a file that is to be edited; None when there is none. Raises ToolError when it is no such file."""
    try:
        status = path.stat()
        if path.is_dir():
            raise ToolError(f"{path} is a directory")
        if status.st_size > EDIT_MAX_BYTES:
            raise ToolError(f"{path} has {status.st_size} bytes, too many to edit here; use the terminal")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from problem


def save(path: Path, data: bytes) -> int:
    """Put `data` in the place of the file in one step; returns how many directories were made for it.

    A new file beside it is renamed over it, so that no reader and no crash ever sees half of it. Mode and owner are
    kept. `path` is resolved: a link stays a link.
    """
    made = _make_directories(path.parent)
    try:
        old = path.stat() if path.exists() else None
        if old is not None and not os.access(path, os.W_OK):
            raise ToolError(f"{path} is read-only")
        spare = path.parent / f".hermes-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with open(os.open(spare, flags, 0o666), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if old is not None:
                with suppress(OSError, AttributeError):  # only root may give a file away
                    os.chown(spare, old.st_uid, old.st_gid)
                os.chmod(spare, old.st_mode & 0o7777)
            os.replace(spare, path)
        finally:
            with suppress(FileNotFoundError):
                spare.unlink()
    except OSError as problem:
        raise ToolError(f"{path} cannot be written: {problem.strerror}; nothing was changed") from problem
    return made


def _make_directories(directory: Path) -> int:
    missing = [d for d in (directory, *directory.parents) if not d.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ToolError(f"the directory {directory} cannot be made: {problem.strerror}") from problem
    return len(missing)
