"""The tool read_file: a range of lines, numbered, within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hermes import ToolContext, ToolError, tool
from hermes.plugins.tools.files.access import check_read, shown
from hermes.plugins.tools.files.ledger import ledger_of, stamp_of

LIMIT_DEFAULT = 500
LIMIT_MAX = 2000
LINE_MAX_CHARS = 2000
RESULT_MAX_CHARS = 100_000
_SNIFFED_BYTES = 8192
_PIECE_BYTES = 65536
_COUNTED_BYTES = 256_000_000
_LARGE_BYTES = 512_000

UNCHANGED = "unchanged: these lines are as you read them above"
"""How the answer to a repeated read begins; write_file refuses it as the contents of a file."""

# Found by their first bytes; a NUL in the first 8 KB says the same of the rest.
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"), (b"PK\x03\x04", "a ZIP archive or office document"), (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3", "an SQLite database"),
)  # fmt: skip


@tool(reads="path:{path}", idempotent=True, result_max_chars=0)
def read_file(path: str, context: ToolContext, offset: int = 1, limit: int = LIMIT_DEFAULT) -> str:
    """Read a text file. Lines come as `N|text`; long files come in parts that say where to go on.

    Args:
        path: the file, absolute or relative to the working directory
        offset: first line, from 1
        limit: how many lines, at most 2000
    """
    offset, limit = max(1, offset), min(max(1, limit), LIMIT_MAX)
    real = check_read(path, context)
    stamp = stamp_of(real)
    if stamp is None:
        raise ToolError(_not_found(path, real, context))
    if real.is_dir():
        raise ToolError(f"{path} is a directory; use search_files with target files to list it")
    ledger = ledger_of(context.session_id)
    again = _repeated(ledger.repeats(real, offset, limit, stamp))
    if again:
        return again
    in_a_row = ledger.row((str(real), offset, limit))
    try:
        part = read_part(real, offset, limit, int(context.settings.get("read_max_chars") or RESULT_MAX_CHARS))
    except (OSError, ToolError) as problem:
        ledger.forget_repeats(real, offset, limit)
        if isinstance(problem, ToolError):
            raise
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from problem
    ledger.saw(real, stamp)
    ledger.failures.pop(str(real), None)
    notes = list(_notes(part, offset, stamp[1], limit))
    if in_a_row >= 3:
        notes.append(f"this range was read {in_a_row} times in a row: the file keeps changing, waiting may help more")
    return "\n".join([*part.lines, *(f"[{note}]" for note in notes)])


def _repeated(times: int) -> str:
    """Answer a read of what has not changed. Not for ever: the lines may have left the conversation since."""
    if times % 3 == 1:
        return f"{UNCHANGED}. Use them; reading again gives nothing new."
    if times % 3 == 2:
        raise ToolError(
            "already read twice and unchanged. Go on with what you know, or read another range if these lines are no "
            "longer in the conversation."
        )
    return ""


@dataclass(frozen=True, slots=True)
class Part:
    """`total` is the number of lines, None when the file is too long to count; `after` the next line, None at the end;
    `clipped` how many lines were cut at LINE_MAX_CHARS.
    """

    lines: list[str]
    total: int | None
    after: int | None
    clipped: int = 0
    undecodable: bool = False
    out_of_budget: bool = False


def read_part(path: Path, offset: int, limit: int, budget_chars: int) -> Part:
    """Read lines `offset` to `offset + limit` in bounded memory, whatever the size of the file and of its lines."""
    with path.open("rb") as file:
        head = file.read(_SNIFFED_BYTES)
        kind = next((words for start, words in _BINARY if head.startswith(start)), "")
        wide = next((e for e, m in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")) if head.startswith(m)), "")
        if not wide and (kind or b"\0" in head):
            raise ToolError(f"{path} is {kind or 'a binary file'}, not text; nothing was read")
        if wide:
            return _wide_part(head + file.read(20_000_000), wide, offset, limit, budget_chars)
        file.seek(3 if head.startswith(b"\xef\xbb\xbf") else 0)
        number, at_start, counted = 1, True, 0
        lines: list[str] = []
        clipped, undecodable, used, full_at = 0, False, 0, 0
        while piece := file.readline(_PIECE_BYTES):
            counted += len(piece)
            if at_start and offset <= number < offset + limit and not full_at:
                line, is_clipped, is_bad = _line(piece)
                line = f"{number}|{line}"
                if used + len(line) > budget_chars and lines:
                    full_at = number
                else:
                    lines.append(line[:budget_chars])
                    used += len(line) + 1
                    clipped, undecodable = clipped + is_clipped, undecodable or is_bad
            at_start = piece.endswith(b"\n")
            number += at_start
            if counted > _COUNTED_BYTES and number >= offset + limit:
                return Part(lines, None, full_at or offset + limit, clipped, undecodable, bool(full_at))
        total = number - 1 if at_start else number
    after = full_at or (offset + limit if offset + limit <= total else None)
    return Part(lines, total, after, clipped, undecodable, bool(full_at))


def _line(piece: bytes) -> tuple[str, bool, bool]:
    whole = piece.rstrip(b"\r\n") if piece.endswith(b"\n") else piece
    try:
        text, bad = whole.decode("utf-8"), False
    except UnicodeDecodeError:  # at the end of a piece it is only a character that was divided
        text, bad = whole.decode("utf-8", "replace"), len(piece) < _PIECE_BYTES
    if len(text) > LINE_MAX_CHARS or len(piece) >= _PIECE_BYTES:
        return text[:LINE_MAX_CHARS] + " … [line cut]", True, bad
    return text, False, bad


def _wide_part(data: bytes, encoding: str, offset: int, limit: int, budget_chars: int) -> Part:
    all_lines = data[2:].decode(encoding, "replace").splitlines()
    lines: list[str] = []
    for number, text in enumerate(all_lines[offset - 1 : offset - 1 + limit], offset):
        budget_chars -= len(text)
        if budget_chars < 0 and lines:
            return Part(lines, len(all_lines), number, out_of_budget=True)
        lines.append(f"{number}|{text[:LINE_MAX_CHARS]}")
    after = offset + limit if offset + limit <= len(all_lines) else None
    return Part(lines, len(all_lines), after)


def _notes(part: Part, offset: int, size_bytes: int, limit: int) -> list[str]:
    notes: list[str] = []
    total = "many" if part.total is None else str(part.total)
    if not part.lines:
        empty = part.total == 0
        return ["the file is empty"] if empty else [f"the file has {total} lines: nothing at offset {offset}"]
    if part.after is not None:
        last = part.lines[-1].partition("|")[0]
        why = ", as much as one result may hold" if part.out_of_budget else ""
        notes.append(f"lines {offset} to {last} of {total}{why}; go on with offset={part.after}")
        if size_bytes > _LARGE_BYTES and limit > 200:
            notes.append(f"a large file ({size_bytes} bytes): search_files finds the lines that matter")
    if part.clipped:
        notes.append(f"{part.clipped} lines are longer than {LINE_MAX_CHARS} characters and were cut")
    if part.undecodable:
        notes.append("not UTF-8: bytes that cannot be decoded are shown as �")
    return notes


def _not_found(path: str, real: Path, context: ToolContext) -> str:
    from difflib import get_close_matches

    if not real.parent.is_dir():
        return f"{path} does not exist, nor does its directory; the working directory is {context.cwd}"
    try:
        names = sorted(p.name for p in real.parent.iterdir())[:5000]
    except OSError:
        names = []
    alike = get_close_matches(real.name, names, 5, 0.5)
    alike += [n for n in names if n.casefold() == real.name.casefold() and n not in alike]
    hint = f"; there is {', '.join(shown(real.parent / n, context) for n in alike)}" if alike else ""
    return f"{path} does not exist{hint}"
