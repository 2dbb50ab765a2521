"""Tool names as models write them: which offered tool is meant, and what to say when none is.

A name that differs in its form only (case, `-` and `_`, CamelCase, `mcp_` in front, `Tool` behind) is repaired for
every tool. One that is merely similar is repaired for a tool that only reads, and only when no other is similar too:
what a wrong guess would change cannot be taken back, and names with one long prefix are similar to each other (B098).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection

from hermes.kernel.messages import clean

SIMILAR = 0.7
"""Runtime behaviour specification 9.4.1: the cut-off of similarity, as difflib measures it."""

_WORTH_NAMING = 0.5
_NAMES_SHOWN = 40
_NAME_MAX_CHARS = 80
_ATTRIBUTES = re.compile(r"[\"'<>]")
_PREFIX = re.compile(r"(?:mcp_+)+")
_SUFFIX = re.compile(r"(?:_?tool){1,2}$")


def meant_name(written: str, offered: Collection[str], only_read: Collection[str]) -> str:
    """The offered tool that a name means, else the name as it came, without what leaked into it; "" when it is blank.

    `only_read` are those of the offered tools that change nothing.
    """
    name = _ATTRIBUTES.split(written.strip(), maxsplit=1)[0].strip()
    if name in offered or not name:
        return name
    for form in _FORMS:
        for piece in (name, re.split(r"[.:/]", name)[-1]):  # such as functions.read_file
            if (wanted := form(piece)) and len(same := [each for each in offered if form(each) == wanted]) == 1:
                return same[0]
    similar = _near(name, offered, SIMILAR)
    return similar[0] if len(similar) == 1 and similar[0] in only_read else name


def no_such_tool(name: str, offered: Collection[str]) -> str:
    """What the model is told: the nearest names first, then a bounded list of what there is."""
    shown = clean(name if len(name) <= _NAME_MAX_CHARS else f"{name[:_NAME_MAX_CHARS]}…")
    near = _near(name, offered, _WORTH_NAMING)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    names = sorted(offered)
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"there is no tool {shown!r}.{meant} The tools are: {', '.join(names[:_NAMES_SHOWN]) or 'none'}{more}."


def _near(name: str, offered: Collection[str], cutoff: float) -> list[str]:
    """The most similar names first; its cost is bounded, however long a name is made up."""
    return difflib.get_close_matches(name[:_NAME_MAX_CHARS], sorted(offered), cutoff=cutoff)


def _plain(name: str) -> str:
    """Small letters and single underscores: readFile, read-file and Read File are read_file."""
    divided = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", divided.lower()).strip("_")


def _bare(name: str) -> str:
    """Without the words that models put round a name: TodoTool_tool is todo."""
    return _SUFFIX.sub("", _PREFIX.sub("", _plain(name), count=1))


def _squeezed(name: str) -> str:
    return _bare(name).replace("_", "")


_FORMS: tuple[Callable[[str], str], ...] = (_plain, _bare, _squeezed)
"""Looser and looser; each is asked for the whole name first."""
