"""Memory as two text files that a person can read and edit: `memories/MEMORY.md` and `memories/USER.md`.

Entries are divided by a line that holds only `§`. Every write takes the lock of its file, reads it again, applies the
change to what is there now, and replaces the file at once: two processes never lose each other's entries (case B033).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes import hookimpl
from hermes.kernel.config.settings import MemorySettings
from hermes.kernel.errors import HermesError
from hermes.kernel.messages import clean
from hermes.kernel.roles import MemoryOperation, MemoryOutcome, MemoryTarget
from hermes.kernel.untrusted import mark
from hermes.plugins.memory.entry_file import (
    DELIMITER,
    Refused,
    Seal,
    back_up,
    locked,
    read,
    read_entries,
    size,
    write_atomically,
)

FILE_NAMES: dict[MemoryTarget, str] = {"memory": "MEMORY.md", "user": "USER.md"}
TITLES: dict[MemoryTarget, str] = {"memory": "Notes", "user": "About the user"}
PREVIEW_CHARS = 80


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One of the two files with its limit, in characters of the entries and their delimiters."""

    path: Path
    title: str
    limit_chars: int

    def usage(self, entries: Sequence[str]) -> str:
        used = size(entries)
        return f"{used * 100 // max(1, self.limit_chars)}% — {used:,}/{self.limit_chars:,} chars"


class FilesMemory:
    """The backend `files`. Safe against other threads and processes; keeps nothing between calls."""

    name = "files"

    def __init__(self, directory: Path, settings: MemorySettings) -> None:
        limits: dict[MemoryTarget, int] = {"memory": settings.memory_max_chars, "user": settings.user_max_chars}
        self._files = {
            target: MemoryFile(directory / FILE_NAMES[target], TITLES[target], limit)
            for target, limit in limits.items()
        }

    def snapshot(self) -> str:
        """Both files as blocks with a heading; an entry that looks like an attack shows only what was found in it.

        Raises HermesError naming the file when one cannot be read.
        """
        return "\n\n".join(block for file in self._files.values() if (block := _block(file)))

    def apply(self, target: MemoryTarget, operations: Sequence[MemoryOperation]) -> MemoryOutcome:
        file = self._files[target]
        entries: list[str] = []
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(file.path, file.limit_chars) as seal:
                entries = read_entries(file.path)
                _guard_against_drift(file, seal, operations)
                message = _write(file, seal, entries, operations)
        except Refused as refusal:
            shown = tuple(entries) if refusal.with_entries else ()
            return MemoryOutcome(False, str(refusal), file.usage(entries), shown)
        except OSError as error:
            return MemoryOutcome(False, f"{file.path} was not written: {error.strerror or error}. Nothing is lost.")
        return MemoryOutcome(True, message, file.usage(entries))


def _write(file: MemoryFile, seal: Seal, entries: list[str], operations: Sequence[MemoryOperation]) -> str:
    """Apply the operations to `entries` in place and write them; returns the message, raises Refused.

    On a refusal `entries` are the old ones.
    """
    before = list(entries)
    notes = []
    try:
        for number, operation in enumerate(operations, 1):
            where = f"operation {number} of {len(operations)}: " if len(operations) > 1 else ""
            notes.append(_apply_one(entries, operation, where))
        _check_size(file, before, entries)
    except Refused:
        entries[:] = before
        raise
    if entries != before:
        text = DELIMITER.join(entries) + "\n" if entries else ""
        write_atomically(file.path, text)
        seal.acknowledge(text)
    return notes[0] if len(notes) == 1 else f"{len(notes)} operations applied."


def _apply_one(entries: list[str], operation: MemoryOperation, where: str) -> str:
    if operation.action == "remove":
        entries.pop(_find(entries, operation.old_text, where))
        return "Removed."
    content = tidy(operation.content)
    if not content:
        raise Refused(f"{where}content is empty; say what to remember.")
    if findings := mark(content, "memory").findings:
        raise Refused(
            f"{where}this would come back in every session, and it looks like prompt injection "
            f"({', '.join(findings)}). Save the plain fact without that wording."
        )
    if operation.action == "replace":
        entries[_find(entries, operation.old_text, where)] = content
        entries[:] = dict.fromkeys(entries)
        return "Replaced."
    if content in entries:
        return "It was there already; nothing to do."
    entries.append(content)
    return "Added."


def _find(entries: Sequence[str], old_text: str, where: str) -> int:
    """The index of the one entry that holds `old_text`; when only its white space differs, that one."""
    wanted = clean(old_text).strip()
    if not wanted:
        raise Refused(f"{where}old_text is missing: give a part of the entry that is meant.", with_entries=True)
    hits = [i for i, entry in enumerate(entries) if wanted in entry]
    if not hits:
        words = " ".join(wanted.split())
        hits = [i for i, entry in enumerate(entries) if words in " ".join(entry.split())]
    if not hits:
        raise Refused(f"{where}no entry holds {_preview(wanted)!r}; these are the entries.", with_entries=True)
    if len(hits) > 1:
        previews = "; ".join(repr(_preview(entries[i])) for i in hits)
        raise Refused(f"{where}{len(hits)} entries hold {_preview(wanted)!r}: {previews}. Give more of the one meant.")
    return hits[0]


def _check_size(file: MemoryFile, before: Sequence[str], after: Sequence[str]) -> None:
    """Refuse what ends over the limit, but never what makes a file that is over it smaller."""
    if after != before and file.limit_chars < size(after) >= size(before):
        raise Refused(
            f"{file.path.name} would have {size(after):,} characters; its limit is {file.limit_chars:,}. In one call, "
            "replace or remove what matters least, or join entries, and add the new one.",
            with_entries=True,
        )


def tidy(content: str) -> str:
    """An entry as it is stored: clean text that cannot be taken for two entries."""
    text = clean(content).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return re.sub(r"^[ \t]*§[ \t]*$", "(§)", text.strip(), flags=re.MULTILINE).strip()


def _preview(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= PREVIEW_CHARS else flat[: PREVIEW_CHARS - 1] + "…"


def _block(file: MemoryFile) -> str:
    try:
        entries = read_entries(file.path)
    except OSError as error:
        raise HermesError(f"{file.path} cannot be read: {error.strerror or error}") from error
    if not entries:
        return ""
    lines = [f"## {file.title} ({file.usage(entries)})"]
    for entry in entries:
        if findings := mark(entry, "memory").findings:
            entry = f"[BLOCKED: {', '.join(findings)}; the user can see it in {file.path}]"
        lines.append("- " + entry.replace("\n", "\n  "))
    return "\n".join(lines)


def _guard_against_drift(file: MemoryFile, seal: Seal, operations: Sequence[MemoryOperation]) -> None:
    """Refuse once to replace or remove in a file that was edited by hand, after a backup; adding harms nothing.

    A line that a shell appended is part of the entry before it, and would go with that entry. The refusal shows the
    model what is there now, and the same call goes through when it is made again.
    """
    if not seal.edited or all(operation.action == "add" for operation in operations):
        return
    backup = back_up(file.path)
    seal.acknowledge(read(file.path), seen=True)
    raise Refused(
        f"{file.path} was changed outside hermes, so nothing was written (a copy is in {backup}). Look at the entries "
        "as they are now, and make the call again if it is still right.",
        with_entries=True,
    )


@hookimpl
def register_memory_backends(settings: MemorySettings, home: Path) -> list[FilesMemory]:
    return [FilesMemory(home / "memories", settings)]
