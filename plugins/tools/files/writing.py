"""The tool write_file, and the one way in which any of these tools changes a file."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from hermes import ToolContext, ToolError, tool
from hermes.plugins.tools.files import syntax
from hermes.plugins.tools.files.access import check_write, shown
from hermes.plugins.tools.files.ledger import locked, note_write, warn_if_changed
from hermes.plugins.tools.files.reading import UNCHANGED
from hermes.plugins.tools.files.textfile import Form, decode, encode, load, save

_NUMBERED = re.compile(r"^\s*(\d+)\|", re.MULTILINE)


@tool(writes="path:{path}")
def write_file(path: str, content: str, context: ToolContext) -> str:
    """Write a whole text file, new or in place of the old one; directories are made. Use patch for a small change.

    Args:
        path: the file, absolute or relative to the working directory
        content: the whole new text
    """
    real = check_write(path, context)
    refuse_own_display(content)
    with locked([real]):
        data = load(real)
        before, form = ("", Form()) if data is None else decode(data, real)
        if data is not None and encode(content, form) == data:
            return f"{path} has exactly this text already; nothing was written"
        warnings = [w] if (w := warn_if_changed(context.session_id, real)) else []
        after = content.replace("\r\n", "\n") if form.newline == "\r\n" else content
        made, more = put(real, None if data is None else before, after, form, context)
    warnings += more
    size = len(encode(content, form))
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    verb = "wrote" if data is None else "replaced"
    text = f"{verb} {shown(real, context)} ({lines} lines, {size} bytes)"
    if made:
        text += f", made {made} director{'y' if made == 1 else 'ies'}"
    return "\n".join([text, *(f"[warning: {w}]" for w in warnings)])


def put(path: Path, before: str | None, after: str, form: Form, context: ToolContext) -> tuple[int, list[str]]:
    """Write one file whose lock is held; returns (directories made, warnings).

    Raises ToolError, before the disk is touched, for a data file that would not be well-formed.
    """
    if problem := syntax.refusal(path, before, after):
        raise ToolError(f"{path.name} was not written: it would be {problem}. Correct the text and try again.")
    made = save(path, encode(after, form))
    note_write(context.session_id, path)
    warning = syntax.warning(path, before, after)
    return made, [warning] if warning else []


def refuse_own_display(content: str) -> None:
    """Refuse what read_file showed instead of what the file holds: written back, it destroys the file."""
    if UNCHANGED in content and len(content) < len(UNCHANGED) + 200:
        raise ToolError("content is the note of read_file about an unchanged file, not its text; nothing was written")
    lines = [line for line in content.splitlines() if line.strip()]
    numbers = [int(n) for n in _NUMBERED.findall(content)]
    in_order = sum(b == a + 1 for a, b in pairwise(numbers))
    if len(lines) >= 3 and len(numbers) >= 0.8 * len(lines) and in_order >= 0.8 * (len(numbers) - 1):
        raise ToolError("content has the line numbers that read_file shows (N|text); write the text without them")
