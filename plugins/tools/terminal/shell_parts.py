"""What a shell command is made of: words, redirections, simple commands."""

from __future__ import annotations

from dataclasses import dataclass, field


class Unparsable(Exception):
    """The command cannot be read; the message says where it broke off."""


@dataclass(slots=True)
class Word:
    """`text` has no quotes; an expansion stands in it as written and makes the word `computed`.

    `substitutes` is true where the word is, or holds, `<(…)`.
    """

    text: str = ""
    computed: bool = False
    quoted: bool = False
    substitutes: bool = False


@dataclass(slots=True)
class Redirect:
    """`body` is the text of a here-document."""

    operator: str
    target: Word
    body: str = ""


@dataclass(slots=True)
class Simple:
    """One simple command. `upstream` is the command whose output it reads through a pipe."""

    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    upstream: Simple | None = None
    in_background: bool = False


@dataclass(slots=True)
class Script:
    """All simple commands in order, those of substitutions before the command that holds them.

    `skeleton` is the text with each quoted part as Q: for the few things that are told by shape.
    """

    commands: list[Simple] = field(default_factory=list)
    skeleton: str = ""
