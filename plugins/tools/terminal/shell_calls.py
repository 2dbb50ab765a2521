"""Which programs a command calls, looking through `sudo`, `env`, `xargs`, `find -exec`, `sh -c` and the like."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hermes.plugins.tools.terminal.shell_parts import Redirect, Script, Simple, Unparsable, Word
from hermes.plugins.tools.terminal.shell_words import parse

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh", "csh", "tcsh"})

_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "coproc", "fi", "done", "esac"}
)
_NO_COMMAND = frozenset({"for", "select", "case", "function"})
_ASSIGNMENT = re.compile(r"\w+(\[[^\]]*\])?\+?=")
_DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that runs the command in its arguments.

    `with_value` lists the short options that take a value, `long_with_value` the long ones; `positionals` is the number
    of its own arguments before the command.
    """

    with_value: str = ""
    long_with_value: tuple[str, ...] = ()
    positionals: int = 0


# From the manual pages of Debian 12 (coreutils 9.1, sudo 1.9.13, findutils 4.9, util-linux 2.38).
WRAPPERS: dict[str, Wrapper] = {
    "sudo": Wrapper("ugpCThRrUD", ("user", "group", "prompt", "chdir", "host", "role", "type", "chroot", "close-from")),
    "doas": Wrapper("uC"),
    "env": Wrapper("uCS", ("unset", "chdir", "split-string")),
    "nice": Wrapper("n", ("adjustment",)),
    "ionice": Wrapper("cnpPu", ("class", "classdata")),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "time": Wrapper("fo", ("format", "output")),
    "timeout": Wrapper("ks", ("kill-after", "signal"), 1),
    "stdbuf": Wrapper("ioe", ("input", "output", "error")),
    "xargs": Wrapper("aEILnPsd", ("arg-file", "max-lines", "max-args", "max-procs", "max-chars", "delimiter")),
    "parallel": Wrapper("jaIn", ("jobs", "arg-file")),
    "exec": Wrapper("a"),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "watch": Wrapper("n", ("interval",)),
    "strace": Wrapper("eopsuEPabOSIX"),
    "ltrace": Wrapper("eopsual"),
    "unbuffer": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "chroot": Wrapper("", ("userspec", "groups"), 1),
    "flock": Wrapper("wE", ("timeout", "conflict-exit-code"), 1),
    "chrt": Wrapper("TPD", (), 1),
    "taskset": Wrapper("", (), 1),
    "caffeinate": Wrapper("tw"),
}  # fmt: skip


@dataclass(slots=True)
class Call:
    """One program called. `name` is without its directory; `via` are the wrappers around it, outermost first.

    `arguments` are its words after the name. `computed` says that the name cannot be told before the command runs.
    """

    name: str
    arguments: list[Word]
    redirects: list[Redirect] = field(default_factory=list)
    upstream: Simple | None = None
    via: tuple[str, ...] = ()
    computed: bool = False
    in_background: bool = False

    @property
    def family(self) -> str:
        """The name without a version or a variant: python3.11 and python3 are python, mkfs.ext4 is mkfs."""
        return self.name.partition(".")[0].rstrip("0123456789") or self.name

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.arguments]

    def has(self, short: str = "", *long: str) -> bool:
        """Say whether one of the short letters, alone or in a bundle, or a long option, also shortened, is given."""
        for text in self.texts:
            if text == "--":
                return False
            if text.startswith("--"):
                name = text[2:].partition("=")[0]
                if any(full == name or (len(name) >= 3 and full.startswith(name)) for full in long):
                    return True
            elif text.startswith("-") and any(letter in text[1:] for letter in short):
                return True
        return False

    @property
    def operands(self) -> list[str]:
        """The arguments that are no options; everything after `--`."""
        texts = self.texts
        if "--" in texts:
            cut = texts.index("--")
            return [t for t in texts[:cut] if not t.startswith("-")] + texts[cut + 1 :]
        return [t for t in texts if not t.startswith("-") or t == "-"]


def calls_of(command: str) -> tuple[list[Call], str]:
    """Every call in a command, in order, and its skeleton with those of the scripts in it; raises Unparsable."""
    script = parse(command)
    skeletons: list[str] = []
    calls = list(_calls_in(script, 0, (), skeletons))
    return calls, "\n".join(skeletons)


def _calls_in(script: Script, depth: int, via: tuple[str, ...], skeletons: list[str]) -> Iterator[Call]:
    skeletons.append(script.skeleton)
    if depth > _DEPTH_MAX:
        raise Unparsable("scripts are nested too deeply")
    for simple in script.commands:
        words = _without_prefix(simple.words)
        if words:
            yield from _calls_from(words, simple, via, depth, skeletons)
        elif simple.redirects:
            yield Call("", [], simple.redirects, simple.upstream)


def _without_prefix(words: Sequence[Word]) -> list[Word]:
    at = 0
    while at < len(words):
        word = words[at]
        if word.text in _NO_COMMAND and not word.quoted:
            return []
        if not ((word.text in _KEYWORDS and not word.quoted) or _ASSIGNMENT.match(word.text)):
            break
        at += 1
    return list(words[at:])


def _calls_from(
    words: list[Word], simple: Simple, via: tuple[str, ...], depth: int, skeletons: list[str]
) -> Iterator[Call]:
    first = words[0]
    name = posixpath.basename(first.text).removesuffix(".exe")
    computed = first.substitutes or (first.computed and "$" in name) or (not first.quoted and _has_pattern(name))
    call = Call(name, words[1:], simple.redirects, simple.upstream, via, computed, simple.in_background)
    yield call
    if depth > _DEPTH_MAX or len(via) > _DEPTH_MAX:
        raise Unparsable("commands are nested too deeply")
    if name in WRAPPERS and not (name == "command" and call.has("vV")):
        inner = _inner(WRAPPERS[name], words[1:])
        if inner and inner[0].quoted and re.search(r"\s", inner[0].text) and not inner[0].computed:
            yield from _calls_in(parse(inner[0].text), depth + 1, (*via, name), skeletons)  # watch 'cd x; make'
        elif inner:
            yield from _calls_from(inner, simple, (*via, name), depth, skeletons)
    elif name == "find":
        for inner in _find_commands(words[1:]):
            yield from _calls_from(inner, simple, (*via, name), depth, skeletons)
    if (script := inline_script(call)) is not None:
        yield from _calls_in(parse(script), depth + 1, via, skeletons)


def _has_pattern(name: str) -> bool:
    """Say whether bash would look for files to find out what this word is."""
    return any(c in name for c in "*?") or ("{" in name and "," in name) or ("[" in name[:-1] and "]" in name)


def _inner(wrapper: Wrapper, words: list[Word]) -> list[Word]:
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("--"):
            name, equals, _ = text[2:].partition("=")
            at += 2 if not equals and name in wrapper.long_with_value else 1
        elif len(text) > 1 and text[0] == "-":
            takes_next = text[-1] in wrapper.with_value and not any(c in wrapper.with_value for c in text[1:-1])
            at += 2 if takes_next else 1
        elif _ASSIGNMENT.match(text):
            at += 1
        else:
            break
    return _without_prefix(words[at + wrapper.positionals :])


def _find_commands(words: list[Word]) -> Iterator[list[Word]]:
    at = 0
    while at < len(words):
        if words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n in range(at + 1, len(words)) if words[n].text in (";", "+")), len(words))
            if inner := words[at + 1 : end]:
                yield inner
            at = end
        at += 1


def inline_script(call: Call) -> str | None:
    """The script that a shell, `su`, `eval` or `trap` gets as an argument, when it can be told."""
    if call.name == "eval":
        return " ".join(call.texts) if all(_is_told(w) for w in call.arguments) else None
    if call.name == "trap" and len(call.arguments) > 1 and _is_told(call.arguments[0]):
        return call.texts[0]
    if call.name in SHELLS or call.name in ("su", "script", "flock"):
        for at, word in enumerate(call.arguments[:-1]):
            if re.fullmatch(r"-\w*c|--command", word.text):
                script = call.arguments[at + 1]
                return script.text if _is_told(script) else None
    if call.name == "env" and "-S" in call.texts[:-1]:
        return call.texts[call.texts.index("-S") + 1]
    return None


def _is_told(word: Word) -> bool:
    """Say whether all of a script is in the word: a variable in it is read as one, what a command puts out is not."""
    return not word.computed or not ("$(…)" in word.text or "${…}" in word.text)
