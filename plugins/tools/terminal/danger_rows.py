"""The tables of dangerous calls: specification of tools 1.2, and the cases of B024 in the list of faults."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from hermes.plugins.tools.terminal.shell_calls import SHELLS, Call, inline_script
from hermes.plugins.tools.terminal.shell_paths import (
    BLOCK_DEVICE,
    SENSITIVE,
    Place,
    is_outside,
    is_system,
    paths,
    written,
)

Fits: TypeAlias = Callable[[Call, Place], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """`reason` is what the person reads and what an answer is remembered by; `names` None fits every call.

    A name is that of the program, or of its family (python for python3.11). A hard-line row forbids, others ask.
    """

    reason: str
    names: frozenset[str] | None
    fits: Fits
    hard_line: bool = False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """How a program is given code: the letters and long options that take it, and those after which it cannot come.

    `valued` are the letters that take another value; `stops` those after which everything belongs to a script.
    """

    letters: str = ""
    long: tuple[str, ...] = ()
    valued: str = ""
    stops: str = ""
    subcommand: str = ""


INTERPRETERS: dict[str, Interpreter] = {
    "python": Interpreter("c", valued="WX", stops="m"),
    "pypy": Interpreter("c", valued="WX", stops="m"),
    "node": Interpreter("ep", ("eval", "print"), valued="rC"),
    "bun": Interpreter("ep", ("eval", "print"), valued="r"),
    "deno": Interpreter(subcommand="eval"),
    "perl": Interpreter("eE", valued="IMmiFxCD"),
    "ruby": Interpreter("e", valued="rICEFiKTWx"),
    "php": Interpreter("rBRE", ("run",), valued="cdfz"),
    "lua": Interpreter("e", valued="l"),
    "Rscript": Interpreter("e"),
    "osascript": Interpreter("e", valued="l"),
}

# ---- Tests of single rows -------------------------------------------------------------------------------------------


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _always(call: Call, place: Place) -> bool:
    return not call.has("", "help", "version")


def _options(short: str, *long: str) -> Fits:
    return lambda call, place: call.has(short, *long)


def _argument(pattern: str) -> Fits:
    compiled = re.compile(pattern)
    return lambda call, place: any(compiled.search(t) for t in call.texts)


def _subcommand(words: str, after_options: str = "") -> Fits:
    """The first operand is one of these, or the second where an option with a value may stand before it."""
    wanted = words.split()

    def fits(call: Call, place: Place) -> bool:
        reach = 2 if after_options and call.has(after_options) else 1
        return any(word in wanted for word in call.operands[:reach])

    return fits


def _among(words: str, reach: int) -> Fits:
    wanted = set(words.split())
    return lambda call, place: bool(wanted & set(call.operands[:reach]))


def _through(wrappers: str) -> Fits:
    wanted = set(wrappers.split())
    return lambda call, place: bool(wanted & set(call.via))


def _deletes_system(call: Call, place: Place) -> bool:
    return call.has("rR", "recursive") and any(map(is_system, paths(call.operands, place)))


def _find_deletes_system(call: Call, place: Place) -> bool:
    starts = [t for t in call.texts if not t.startswith("-")]
    deletes_all = "-delete" in call.texts and len(call.texts) == len(starts) + 1
    return deletes_all and any(map(is_system, paths(starts, place)))


def _writes_device(call: Call, place: Place) -> bool:
    return any(BLOCK_DEVICE.match(path) for path in written(call))


def _writes_sensitive(call: Call, place: Place) -> bool:
    return any(SENSITIVE.search(path) for path in paths(written(call), place))


def _deletes_outside(call: Call, place: Place) -> bool:
    return any(is_outside(p, place) for p in paths(call.operands, place))


def _kills_all(call: Call, place: Place) -> bool:
    texts = call.texts
    if texts == ["-1"]:
        return True
    if texts[:1] in (["-s"], ["-n"]):
        texts = texts[2:]
    elif texts and re.fullmatch(r"-(\d+|[A-Za-z]+\d*)", texts[0]):
        texts = texts[1:]
    return "-1" in texts


def _kills_hard(call: Call, place: Place) -> bool:
    return call.has("9") or any(re.fullmatch(r"(?i)(-|--signal=|-s)?(SIG)?KILL", t) for t in call.texts)


def _kills_found(call: Call, place: Place) -> bool:
    return "xargs" in call.via or any(w.computed and "$(" in w.text for w in call.arguments)


def _gives_to_root(call: Call, place: Place) -> bool:
    return call.has("R", "recursive") and bool(re.match(r"(root|0)\b", (call.operands or [""])[0]))


def _sudo(letters: str, *long: str) -> Fits:
    """One of sudo's own options, not one of the command that it runs."""

    def fits(call: Call, place: Place) -> bool:
        takes_next = False
        for text in call.texts:
            if not text.startswith("-") and not takes_next:
                return False
            bundle = "" if takes_next or text.startswith("--") else text[1:]
            if text.startswith("--") and Call("sudo", [w for w in call.arguments if w.text == text]).has("", *long):
                return True
            takes_next = False
            for at, letter in enumerate(bundle):
                if letter in letters:
                    return True
                if letter in "ugpCThRrUD":
                    takes_next = at == len(bundle) - 1
                    break
        return False

    return fits


def _git(subcommand: str, short: str = "", *long: str, operand: str = "") -> Fits:
    def fits(call: Call, place: Place) -> bool:
        rest = list(call.arguments)
        while rest and rest[0].text.startswith("-"):
            rest = rest[2:] if rest[0].text in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") else rest[1:]
        if not rest or rest[0].text != subcommand:
            return False
        inner = Call("git", rest[1:])
        return inner.has(short, *long) or (bool(operand) and any(re.match(operand, t) for t in inner.operands))

    return fits


def _git_deletes_branch(call: Call, place: Place) -> bool:
    deletes, forces = _git("branch", "d", "delete"), _git("branch", "f", "force")
    return _git("branch", "D")(call, place) or (deletes(call, place) and forces(call, place))


def _reads_its_script(call: Call, place: Place) -> bool:
    """An interpreter that takes its program from a pipe, a here-document or a substitution."""
    if any(w.substitutes for w in call.arguments):
        return True
    if any(r.operator == "<" and (r.target.substitutes or r.target.computed) for r in call.redirects):
        return True
    fed = call.upstream is not None or any(r.operator.startswith("<<") for r in call.redirects)
    if not fed or inline_script(call) is not None or _is_given_code(call, place) or _is_module(call):
        return False
    if call.has("", "version", "help"):
        return False
    return not [t for t in call.operands if t != "-"] or (call.name in SHELLS and call.has("s"))


def _is_module(call: Call) -> bool:
    return call.family in ("python", "pypy") and any(re.fullmatch(r"-\w*m", t) for t in call.texts)


def _is_given_code(call: Call, place: Place) -> bool:
    known = INTERPRETERS.get(call.family)
    if known is None:
        return False
    if known.subcommand and call.operands[:1] == [known.subcommand]:
        return True
    takes_next = False
    for text in call.texts:
        if takes_next:
            takes_next = False
        elif text.startswith("--"):
            if text[2:].partition("=")[0] in known.long:
                return True
        elif not text.startswith("-") or text == "-":
            return False
        else:
            for at, letter in enumerate(text[1:], 2):
                if letter in known.letters:
                    return True
                if letter in known.stops:
                    return False
                if letter in known.valued:
                    takes_next = at == len(text) and letter != "i"  # -i takes a suffix only when it is attached
                    break
    return False


def _computed_script(call: Call, place: Place) -> bool:
    if call.name == "eval":
        return inline_script(call) is None
    if call.name in ("source", "."):
        return any(w.substitutes or "$(…)" in w.text for w in call.arguments)
    has_script = any(re.fullmatch(r"-\w*c|--command", w.text) for w in call.arguments[:-1])
    return has_script and inline_script(call) is None


def _runs_fetched(call: Call, place: Place) -> bool:
    if not place.fetched:
        return False
    if call.name in SHELLS or call.family in INTERPRETERS or call.name in ("source", "."):
        return any(posixpath.basename(t) in place.fetched for t in call.operands)
    return call.name in place.fetched


_DROPS = re.compile(r"(?i)\b(DROP\s+(TABLE|DATABASE|SCHEMA)\b|TRUNCATE\s+(TABLE\s+)?\w)")
_DELETES = re.compile(r"(?i)\bDELETE\s+FROM\b")
_WHERE = re.compile(r"(?i)\bWHERE\b")


def _sql(call: Call, place: Place) -> bool:
    here_strings = (r.target.text for r in call.redirects if r.operator == "<<<")
    upstream = [w.text for w in call.upstream.words] if call.upstream else []
    bodies = [r.body for r in (*call.redirects, *(call.upstream.redirects if call.upstream else ()))]
    return any(_is_destructive_sql(text) for text in chain(call.texts, bodies, here_strings, upstream))


def _is_destructive_sql(text: str) -> bool:
    if _DROPS.search(text):
        return True
    deletes = ((part, _DELETES.search(part)) for part in re.split(r"[;\n]", text))
    return any(found and not _WHERE.search(part, found.end()) for part, found in deletes)


def _opens_connection(call: Call, place: Place) -> bool:
    return any(re.match(r"/dev/(tcp|udp)/", r.target.text) for r in call.redirects)


def _reads_pipe(call: Call, place: Place) -> bool:
    return call.upstream is not None or bool(call.redirects)


_OPEN_MODE = r"^(0?[0-7]?[0-7][0-7][2367]|[ugoa]*[oa][ugoa]*[+=]\w*w\w*|\+\w*w\w*)$"
_GIT_PROGRAM = (
    r"(?i)^(alias\.[\w-]+|core\.(pager|editor|sshcommand|fsmonitor|hookspath|gitproxy|askpass)|pager\.\w+"
    r"|diff\.external|diff\.\w+\.(command|textconv)|credential\.helper|sequence\.editor)"
    r"=(?!(cat|less|more|true|false|never)?$)"
)

# ---- The tables -----------------------------------------------------------------------------------------------------

_SCRIPTED = SHELLS | frozenset(INTERPRETERS)
_ELSEWHERE = "runs a script that comes from another command"
_OTHER_PROGRAM = "makes a tool run another program"
_OFF = "switches the machine off or restarts it"

HARD_LINE: tuple[Row, ...] = (
    Row("deletes a system directory or a home directory", _named("rm"), _deletes_system, True),
    Row("deletes a system directory or a home directory", _named("find"), _find_deletes_system, True),
    Row("makes a file system on a disk", _named("mkfs mke2fs mkswap"), _always, True),
    Row("writes to a raw disk", None, _writes_device, True),
    Row("signals every process", _named("kill"), _kills_all, True),
    Row(_OFF, _named("shutdown reboot halt poweroff"), _always, True),
    Row(_OFF, _named("init telinit"), _argument(r"^[06]$"), True),
    Row(_OFF, _named("systemctl"), _subcommand("poweroff reboot halt kexec", "HMtpno"), True),
    Row("gives sudo a password", _named("sudo"), _sudo("S", "stdin"), True),
)

ASKED: tuple[Row, ...] = (
    Row("runs a program whose name is computed", None, lambda call, place: call.computed),
    # files
    Row("deletes directories with all they hold", _named("rm"), _options("rR", "recursive")),
    Row("deletes files outside of the working directory", _named("rm unlink rmdir"), _deletes_outside),
    Row("deletes what another command lists", _named("rm rmdir unlink shred"), _through("xargs find parallel")),
    Row("deletes what it finds", _named("find"), _argument(r"^-delete$")),
    Row("overwrites files so that they cannot be restored", _named("shred wipefs blkdiscard"), _always),
    Row("copies raw data", _named("dd"), _argument(r"^if=")),
    Row("writes to a file of the system, of credentials or of settings", None, _writes_sensitive),
    Row("lets everybody write", _named("chmod"), _argument(_OPEN_MODE)),
    Row("gives files to root", _named("chown chgrp"), _gives_to_root),
    # databases
    Row("drops or empties tables of a database", _named("psql mysql mariadb sqlite sqlcmd duckdb clickhouse-client"
        " cockroach"), _sql),
    # services and processes
    Row("stops or restarts a service", _named("systemctl"), _subcommand("stop restart disable mask", "HMtpno")),
    Row("stops or restarts a service", _named("service rc-service"), _among("stop restart", 2)),
    Row("stops or restarts a service", _named("launchctl"), _subcommand("unload bootout remove stop kickstart")),
    Row("stops containers", _named("docker podman docker-compose"), _among("restart stop kill down rm prune", 3)),
    Row("kills processes by name", _named("pkill"), _kills_hard),
    Row("kills processes by name", _named("killall"), lambda call, place: call.has("r", "regexp")
        or _kills_hard(call, place)),
    Row("kills hermes itself", _named("pkill killall"), _argument("hermes")),
    Row("changes hermes itself", _named("hermes hermes-kernel"), _among("set unset edit trust gateway update enable "
        "disable", 2)),
    Row("kills processes that another command finds", _named("kill"), _kills_found),
    Row("changes scheduled jobs", _named("crontab"), lambda call, place: call.has("r") or "-" in call.texts),
    Row("changes scheduled jobs", _named("at batch"), _reads_pipe),
    # code from elsewhere
    Row(_ELSEWHERE, _SCRIPTED, _reads_its_script),
    Row(_ELSEWHERE, SHELLS | _named("eval source . su"), _computed_script),
    Row("runs what was just downloaded or made executable", None, _runs_fetched),
    Row("runs code given on the command line", frozenset(INTERPRETERS), _is_given_code),
    Row("runs code given on the command line", _named("powershell pwsh cmd"), _argument(r"(?i)^[-/](e|c)")),
    Row("runs code given on the command line", _named("awk gawk mawk nawk"), _argument(r"\bsystem\s*\(|\|\s*\"")),
    Row("opens a connection from the shell", None, _opens_connection),
    Row("gives a shell to the network", _named("nc ncat netcat"), _options("ec", "exec", "sh-exec")),
    Row("gives a shell to the network", _named("socat"), _argument(r"(?i)\b(exec|system):")),
    Row(_OTHER_PROGRAM, _named("sort"), _options("", "compress-program")),
    Row(_OTHER_PROGRAM, _named("rg"), _options("", "pre", "hostname-bin")),
    Row(_OTHER_PROGRAM, _named("ag ack"), _options("", "pager")),
    Row(_OTHER_PROGRAM, _named("man"), _options("PH", "pager", "html")),
    Row(_OTHER_PROGRAM, _named("tar bsdtar"), _options("", "checkpoint-action", "to-command", "use-compress-program",
        "rsh-command")),
    Row(_OTHER_PROGRAM, _named("git"), _argument(_GIT_PROGRAM)),
    # git
    Row("throws away changes (git reset --hard)", _named("git"), _git("reset", "", "hard")),
    Row("rewrites the remote branch (git push --force)", _named("git"),
        _git("push", "f", "force", "force-with-lease", "mirror", "delete", operand=r"[+:]")),
    Row("deletes files that git does not know (git clean)", _named("git"), _git("clean", "f", "force")),
    Row("deletes a branch with its commits (git branch -D)", _named("git"), _git_deletes_branch),
    # other users
    Row("asks sudo for a shell, a password program or a list", _named("sudo"),
        _sudo("Asil", "askpass", "shell", "login", "list")),
    Row("becomes another user", _named("su doas"), _always),
)  # fmt: skip

ROWS: tuple[Row, ...] = HARD_LINE + ASKED

_FOR_ALL = tuple(row for row in ROWS if row.names is None)
_BY_NAME: dict[str, Sequence[Row]] = {
    name: tuple(row for row in ROWS if row.names is None or name in row.names)
    for name in chain.from_iterable(row.names or () for row in ROWS)
}


def rows_for(call: Call) -> Iterator[Row]:
    """The rows that may fit a call, those of the hard line first."""
    return iter(_BY_NAME.get(call.name) or _BY_NAME.get(call.family) or _FOR_ALL)
