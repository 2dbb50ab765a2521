"""What the words of a command mean as paths, and which files a call writes."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hermes.plugins.tools.terminal.shell_calls import Call


@dataclass(slots=True)
class Place:
    """Where a command is when a call is made, as far as it can be told, and what was fetched before.

    `start` is where the whole command began: what is below it is the work that the user asked for.
    """

    cwd: str | None = None
    start: str | None = None
    fetched: set[str] = field(default_factory=set)
    home: str = field(default_factory=lambda: os.path.expanduser("~").rstrip("/"))


SYSTEM = frozenset(
    [
        "/",
        "/home",
        "/root",
        "/etc",
        "/usr",
        "/var",
        "/bin",
        "/sbin",
        "/boot",
        "/lib",
        "/lib64",
        "/opt",
        "/dev",
        "/proc",
        "/sys",
        "/private",
        "/private/etc",
        "/private/var",
        "/Users",
        "/System",
        "/Library",
        "/Applications",
    ]
)  # specification of tools 1.2, and those of macOS
BLOCK_DEVICE = re.compile(r"/dev/(sd|nvme|hd|mmcblk|vd|xvd|r?disk|dm-|mapper/)\w*")
SENSITIVE = re.compile(
    r"^(/private)?/(etc|boot|usr/lib/systemd|lib/systemd)(/|$)|^/(var/)?run/docker\.sock"
    r"|^~/\.(ssh|aws|gnupg|kube|docker|hermes|config/hermes|local/share/hermes|config/gh|config/gcloud)(/|$)"
    r"|^~/\.(bashrc|bash_profile|bash_login|profile|zshrc|zshenv|zprofile|netrc|pgpass|npmrc|pypirc|gitconfig"
    r"|git-credentials)$"
    r"|(^|/)\.env(\.(?!example$|sample$|template$|dist$)[\w.-]+)?$|(^|/)hermes\.yaml$|(^|/)\.git/(hooks/|config$)"
)  # specification of tools 1.2, sensitive writes

_HOME_NAMES = re.compile(r"^(~|\$HOME|\$\{HOME\})(?=/|$)")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_BRACES_MAX, _CHOICES_MAX, _EXPANDED_MAX = 6, 8, 64


def absolute(text: str, place: Place) -> str:
    """The path that a word means: home as ~, without . and .., from the directory where the command is."""
    text = _HOME_NAMES.sub("~", text)
    if place.home and (text == place.home or text.startswith(place.home + "/")):
        text = "~" + text[len(place.home) :]
    if text.startswith(("/", "~")):
        return re.sub(r"^/+", "/", posixpath.normpath(text))
    if not place.cwd:
        return text
    joined = posixpath.join(place.cwd, text)
    return absolute(joined, place) if joined.startswith(("/", "~")) else posixpath.normpath(joined)


def paths(texts: Iterable[str], place: Place) -> Iterator[str]:
    for text in texts:
        for one in expand_braces(text) if "{" in text else (text,):
            yield absolute(one, place)


def expand_braces(text: str) -> Iterator[str]:
    """Expand `a{b,c}d`: at most 6 groups of 8 choices, at most 64 words. Nested groups are expanded from the inside."""
    waiting, given = [text], 0
    while waiting and given < _EXPANDED_MAX:
        word = waiting.pop()
        match = _BRACES.search(word) if word.count("{") <= _BRACES_MAX else None
        if match is None:
            given += 1
            yield word
        else:
            waiting += [word[: match.start()] + c + word[match.end() :] for c in match[1].split(",")[:_CHOICES_MAX]]


def is_system(path: str) -> bool:
    """A directory of the system or a home directory, or all that is in it."""
    bare = re.sub(r"/[*.]+$", "", path) or "/"
    return bare in SYSTEM or bool(re.fullmatch(r"~[\w.-]*|/(home|Users)/[^/]+", bare))


def is_outside(path: str, place: Place) -> bool:
    """From the root, and neither below the working directory nor in a directory for temporary files."""
    if not path.startswith(("/", "~")):
        return False
    here = absolute(place.start, place) if place.start else "/"
    roots = ("/tmp", "/var/tmp", "/private/tmp", *(() if is_system(here) else (here,)))
    return not any(path.startswith(root + "/") for root in roots)


def written(call: Call) -> Iterator[str]:
    """The files that a call writes, as far as its arguments tell."""
    yield from (r.target.text for r in call.redirects if ">" in r.operator)
    if call.name == "tee":
        yield from call.operands
    if call.name in ("cp", "mv", "install", "ln", "rsync", "scp"):
        yield from _destination(call)
    if call.family in ("sed", "perl", "ruby") and call.has("i", "in-place"):
        yield from call.operands
    if call.name == "dd":
        yield from (t[3:] for t in call.texts if t.startswith("of="))
    if call.name in ("curl", "wget"):
        yield from downloaded(call)
    if call.name in ("truncate", "shred", "wipefs", "blkdiscard"):
        yield from call.operands


def _destination(call: Call) -> Iterator[str]:
    texts = call.texts
    for at, text in enumerate(texts):
        if text in ("-t", "--target-directory") and at + 1 < len(texts):
            yield texts[at + 1]
        elif text.startswith("--target-directory="):
            yield text.partition("=")[2]
    if len(call.operands) > 1:
        yield call.operands[-1]


def downloaded(call: Call) -> Iterator[str]:
    """The files that curl or wget leaves behind."""
    texts = call.texts
    for at, text in enumerate(texts):
        if re.fullmatch(r"-\w*[oO]|--output|--output-document", text) and at + 1 < len(texts):
            yield texts[at + 1]
        elif match := re.match(r"(?:-\w*?[oO]|--output(?:-document)?=)(.+)", text):
            yield match[1]
    if call.name == "wget" or call.has("O", "remote-name"):
        yield from (t for t in call.operands if "/" in t)
