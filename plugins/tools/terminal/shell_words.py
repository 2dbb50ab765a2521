"""Divide a shell command into simple commands and words, as bash does, without running or expanding anything.

Quotes are taken off, operators told apart, and what is inside `$(…)`, backquotes, `<(…)` and here-documents is read as
well. This is no whole grammar: what it cannot read raises Unparsable, and the caller asks a person.
"""

from __future__ import annotations

import re

from hermes.plugins.tools.terminal.shell_parts import Redirect, Script, Simple, Unparsable, Word

COMMAND_MAX_CHARS = 128_000
_DEPTH_MAX = 20
_COMMANDS_MAX = 5_000

_OPERATOR = re.compile(r"<<<|<<-|&>>|;;&|&&|\|\||;;|;&|\|&|&>|<<|>>|>&|<&|<>|>\||<\(|>\(|[;&|()<>\n]")
_REDIRECTS = frozenset({"<<<", "<<-", "&>>", "&>", "<<", ">>", ">&", "<&", "<>", ">|", "<", ">"})
_ENDS_WORD = " \t\n;&|()<>"
_PLAIN = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_PLAIN_IN_DOUBLE = re.compile(r'[^"\\$`]+')
_EXPANDS = re.compile(r"\\.|\$\(|\$\{|`", re.DOTALL)
_PARENTHESIS = re.compile(r"[()]")
_OPENING = frozenset({"{", "while", "until", "for", "if", "select"})
_CLOSING = frozenset({"}", "done", "fi"})
_BETWEEN = frozenset({"do", "then", "elif", "else", "!", "time"})
_NAMED = re.compile(r"\$\{\w+\}")
_VARIABLE = re.compile(r"\$(\w+|[@*#?$!-])")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b.|\0")


def parse(command: str) -> Script:
    """Read a whole command; raises Unparsable."""
    import unicodedata

    if len(command) > COMMAND_MAX_CHARS:
        raise Unparsable(f"it is longer than {COMMAND_MAX_CHARS} characters")
    text = _ANSI.sub("", command)
    if not text.isascii():  # full-width letters are letters to some tools, and to a reader
        text = unicodedata.normalize("NFKC", text)
    reader = _Reader(text.replace("\r\n", "\n").replace("\\\n", ""), 0, 0)
    reader.read_script("")
    return reader.finished()


class _Reader:
    """Reads one level of a script from `at`; what is nested is read by readers over the same text."""

    def __init__(self, text: str, at: int, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise Unparsable("substitutions are nested too deeply")
        self.text, self.at, self.depth = text, at, depth
        self.commands: list[Simple] = []
        self._skeleton: list[str] = []
        self._inside: list[str] = []  # the skeletons of what is nested
        self._documents: list[Redirect] = []
        self._fed: list[Simple | None] = []  # what each open group reads through a pipe
        self._cases, self._in_pattern = 0, False

    def finished(self) -> Script:
        return Script(self.commands, "\n".join(["".join(self._skeleton), *self._inside]))

    def _take(self, nested: _Reader) -> None:
        script = nested.finished()
        self.commands.extend(script.commands)
        self._inside.append(script.skeleton)

    # ---- Commands ----

    def read_script(self, end: str) -> None:
        """Read commands up to `end` at this level (")" of a substitution), or to the end of the text."""
        current, opened = Simple(), 0
        while self.at < len(self.text):
            char = self.text[self.at]
            match = _OPERATOR.match(self.text, self.at)
            operator = match.group() if match else ""
            if char in " \t":
                self.at += 1
            elif char == "#" and self._at_word_start():
                self._skip_comment()
            elif self._in_pattern:
                self._read_pattern(operator)
            elif operator in ("<(", ">(") or not operator:
                current.words.append(self.read_word())
                if [w.text for w in current.words[-3::2]] == ["case", "in"]:
                    self._cases, self._in_pattern, current = self._cases + 1, True, Simple()
            elif operator in _REDIRECTS:
                self._read_redirect(current, operator)
            else:
                self.at += len(operator)
                self._skeleton.append(operator)
                if operator == ")" and opened == 0 and end == ")":
                    self._close(current, operator)
                    return
                opened += {"(": 1, ")": -1}.get(operator, 0)
                current = self._close(current, operator)
                self._in_pattern = bool(self._cases) and operator in (";;", ";&", ";;&")
                if operator == "\n":
                    self._read_documents()
        self._close(current, "")
        if end or opened > 0:
            raise Unparsable("a ) is missing")
        if opened < 0:
            raise Unparsable("a ( is missing")

    def _at_word_start(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in _ENDS_WORD

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _read_pattern(self, operator: str) -> None:
        """Pass over one piece of `pattern | pattern )` in a case, or its `esac`."""
        if operator and operator not in ("<(", ">("):
            self.at += len(operator)
            self._in_pattern = operator != ")"
        elif self.read_word().text == "esac":
            self._cases, self._in_pattern = self._cases - 1, False

    def _close(self, current: Simple, operator: str) -> Simple:
        """Put the command away; returns the next one, which reads this one, or the group that ended, after a pipe."""
        is_empty = not (current.words or current.redirects)
        if is_empty and operator == "\n":
            return current  # what stands after a pipe may stand on the next line
        if is_empty and operator == "&" and self.commands:
            self.commands[-1].in_background = True
        if not is_empty:
            current.in_background = operator == "&"
            self._follow_keywords(current)
            self.commands.append(current)
            if len(self.commands) > _COMMANDS_MAX:
                raise Unparsable(f"it has more than {_COMMANDS_MAX} commands")
        if operator == "(":
            self._fed.append(current.upstream or self._fed_group())
        elif operator == ")" and self._fed:
            self._fed.pop()
        if operator in ("|", "|&") and self.commands:
            return Simple(upstream=self.commands[-1] if is_empty else current)
        return Simple(upstream=self._fed_group())

    def _fed_group(self) -> Simple | None:
        return self._fed[-1] if self._fed else None

    def _follow_keywords(self, current: Simple) -> None:
        """Keep count of what reads the pipe in `… | while read x; do bash; done` and `… | { cd x; bash; }`."""
        for word in current.words:
            if word.quoted:
                return
            if word.text == "esac" and self._cases:
                self._cases -= 1
            elif word.text in _OPENING:
                self._fed.append(current.upstream)
            elif word.text in _CLOSING and self._fed:
                self._fed.pop()
            elif word.text not in _BETWEEN:
                return

    def _read_redirect(self, current: Simple, operator: str) -> None:
        if current.words and current.words[-1].text.isdigit() and self.text[self.at - 1].isdigit():
            current.words.pop()  # the number of a descriptor, as in 2>&1
        self.at += len(operator)
        self._skeleton.append(operator)
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.at >= len(self.text) or (self.text[self.at] in _ENDS_WORD and self.text[self.at] not in "<>"):
            raise Unparsable(f"nothing stands after {operator}")
        redirect = Redirect(operator, self.read_word())
        current.redirects.append(redirect)
        if operator in ("<<", "<<-"):
            self._documents.append(redirect)

    def _read_documents(self) -> None:
        for redirect in self._documents:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                if (line.lstrip("\t") if redirect.operator == "<<-" else line) == redirect.target.text:
                    break
                lines.append(line)
            redirect.body = "\n".join(lines)
            if not redirect.target.quoted:
                inside = _Reader(redirect.body, 0, self.depth + 1)
                inside.read_expansions()
                self._take(inside)
        self.at = min(self.at, len(self.text))
        self._documents.clear()

    def read_expansions(self) -> None:
        """Read the substitutions of a here-document, whose text is else no command."""
        while found := _EXPANDS.search(self.text, self.at):
            self.at = found.end() if found.group().startswith("\\") else found.start()
            if found.group()[0] in "$`":
                self._read_expansion([], Word())

    # ---- Words ----

    def read_word(self) -> Word:
        word, parts = Word(), list[str]()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "<>" and not parts and self.text.startswith(("<(", ">("), self.at):
                self.at += 2
                self._read_nested(parts, word)
                word.substitutes = True
            elif char in _ENDS_WORD:
                break
            elif char == "'":
                self._quote(parts, word, self._until("'", self.at + 1))
            elif self.text.startswith("$'", self.at):
                self._quote(parts, word, _unescaped(self._until_unescaped("'", self.at + 2)))
            elif char == '"' or self.text.startswith('$"', self.at):
                self.at += 1 if char == '"' else 2
                self._read_double(parts, word)
            elif char == "\\":
                self._quote(parts, word, self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char in "$`":
                self._read_expansion(parts, word)
            else:
                plain = _PLAIN.match(self.text, self.at)
                run = plain.group() if plain else char
                parts.append(run)
                self._skeleton.append(run)
                self.at += len(run)
        word.text = "".join(parts)
        self._skeleton.append(" ")
        return word

    def _until(self, end: str, start: int) -> str:
        stop = self.text.find(end, start)
        if stop < 0:
            raise Unparsable(f"a {end} is missing")
        self.at = stop + 1
        return self.text[start:stop]

    def _until_unescaped(self, end: str, start: int) -> str:
        stop = start
        while stop < len(self.text) and self.text[stop] != end:
            stop += 2 if self.text[stop] == "\\" else 1
        if stop >= len(self.text):
            raise Unparsable(f"a {end} is missing")
        self.at = stop + 1
        return self.text[start:stop]

    def _quote(self, parts: list[str], word: Word, text: str) -> None:
        parts.append(text)
        word.quoted = True
        self._skeleton.append("Q")

    def _read_double(self, parts: list[str], word: Word) -> None:
        self._quote(parts, word, "")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\"):
                parts.append(self.text[self.at + 1])
                self.at += 2
            elif char in "$`":
                self._read_expansion(parts, word)
            else:
                plain = _PLAIN_IN_DOUBLE.match(self.text, self.at)
                run = plain.group() if plain else char
                parts.append(run)
                self.at += len(run)
        raise Unparsable('a " is missing')

    def _read_expansion(self, parts: list[str], word: Word) -> None:
        if self.text.startswith("$((", self.at) and (end := self._arithmetic_end()):
            parts.append("$((…))")
            word.computed = True
            inside = _Reader(self.text[self.at + 3 : end - 2], 0, self.depth + 1)
            inside.read_expansions()
            self._take(inside)
            self.at = end
        elif self.text.startswith("$(", self.at):
            self.at += 2
            self._read_nested(parts, word)
        elif self.text[self.at] == "`":
            inner = _Reader(self._until_unescaped("`", self.at + 1).replace("\\`", "`"), 0, self.depth + 1)
            inner.read_script("")
            self._take_nested(parts, word, inner)
        elif self.text.startswith("${", self.at):
            self._read_braced(parts, word)
        elif variable := _VARIABLE.match(self.text, self.at):
            parts.append(variable.group())
            word.computed = True
            self.at = variable.end()
        else:
            parts.append("$")
            self.at += 1

    def _arithmetic_end(self) -> int:
        """Where `$((…))` ends; 0 when it is a substitution that begins with a subshell, as bash would read it."""
        depth, at = 2, self.at + 3
        while found := _PARENTHESIS.search(self.text, at):
            at = found.end()
            depth += 1 if found.group() == "(" else -1
            if depth == 1:
                return at + 1 if self.text.startswith(")", at) else 0
        raise Unparsable("a )) is missing")

    def _read_braced(self, parts: list[str], word: Word) -> None:
        """Read `${…}`; what stands in it may substitute commands."""
        start, inside = self.at, list[str]()
        if self.depth > _DEPTH_MAX:
            raise Unparsable("expansions are nested too deeply")
        self.at, self.depth = self.at + 2, self.depth + 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "}":
                self.at, self.depth = self.at + 1, self.depth - 1
                whole = self.text[start : self.at]
                parts.append(whole if _NAMED.fullmatch(whole) else "${…}")
                word.computed = True
                return
            if char in "$`":
                self._read_expansion(inside, Word())
            else:
                self.at += 2 if char == "\\" else 1
        raise Unparsable("a } is missing")

    # ---- Substitutions ----

    def _read_nested(self, parts: list[str], word: Word) -> None:
        """Read `$(…)` or `<(…)`, whose opening was passed."""
        nested = _Reader(self.text, self.at, self.depth + 1)
        nested.read_script(")")
        self.at = nested.at
        self._take_nested(parts, word, nested)

    def _take_nested(self, parts: list[str], word: Word, nested: _Reader) -> None:
        self._take(nested)
        printed = _printed(nested.commands)
        if printed is None or re.search(r"\s", printed):
            word.computed = True
            parts.append("$(…)")
        else:
            parts.append(printed)


def _printed(commands: list[Simple]) -> str | None:
    """What a substitution puts out, where that is plain to see: `$(echo rm)`; else None."""
    if len(commands) != 1 or commands[0].redirects:
        return None
    words = commands[0].words
    if not words or any(w.computed for w in words) or words[0].text not in ("echo", "printf"):
        return None
    if words[0].text == "printf" and (len(words) != 2 or "%" in words[1].text or "\\" in words[1].text):
        return None
    return " ".join(w.text for w in words[1:])


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] in "xuU" and len(code) > 1:
            return chr(min(int(code[1:], 16), 0x10FFFF))
        return chr(int(code, 8) & 0xFF) if code[0] in "01234567" else _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", one, text, flags=re.DOTALL)
