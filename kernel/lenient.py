"""Read JSON as models write it: what has one reading is read, what ends in the middle or is open to doubt is refused.

Mended: trailing and missing commas, comments, single quotes, bare keys, None/True/False, NaN, `.5` and `0x10`, raw
control characters, backslashes that begin no escape, closing brackets that are missing after a whole value or stand
there twice, code fences and tags around the object. Refused are quotes inside quotes, also where they make a comment of
the rest; a text in which some backslashes begin an escape and others do not; an object that is a part of a broken one;
and brackets that are missing, where it is in doubt between which members. Linear in the length of the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import NoReturn

from hermes.kernel.messages import Json


class Malformed(ValueError):
    """The text has no reading, or more than one; the message says what and where."""


class Cut(Malformed):
    """The text ends inside a string, number, literal or key, or before a value."""


_NESTING_MAX = 100
_SPACE = re.compile(r"(?:\s++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/|#[^\n]*+)*+")
_DOUBLE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SINGLE = re.compile(r"'[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL)
_IN_SINGLE = re.compile(r"\\.|\"", re.DOTALL)
_ESCAPE = re.compile(r'\\[^"]', re.DOTALL)
_ESCAPES = frozenset("\\/bfnrtuxavUN01234567'\n")
"""What a backslash may stand before in JSON, JavaScript or Python: before anything else it is a backslash (B060)."""
_WORD = re.compile(r"[^\s,:{}\[\]\"'/#]++")
_BARE_KEY = re.compile(r"[A-Za-z_$][\w$-]*+")
_DECIMAL = re.compile(r"[-+]?(?:(?:0|[1-9]\d*+)(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?")
_HEXADECIMAL = re.compile(r"([-+]?)0[xX]([0-9a-fA-F]++)")
_WORDS: dict[str, Json] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "None": None, "undefined": None,
    "NaN": None, "Infinity": None, "+Infinity": None, "-Infinity": None,
}  # fmt: skip
"""Numbers that JSON cannot say are null, as JavaScript's JSON.stringify writes them."""
_AFTER = re.compile(r"[\s}\])]*+(?:$|</?\w|```|<\|)")
"""What may follow an object that stood alone: surplus brackets, the end of a tag or of a fence."""
_OPEN_BEFORE = re.compile(r"[,\[\"']\s*$|[\"']\s*:\s*$")
"""What stands before an object that is the value of a member, or an item, or a text: the object is not the whole."""
_OPEN_AFTER = re.compile(r"\s*[}\]),\"']")


def read_lenient(text: str, *, may_close: bool = True) -> Json:
    """The value of a text. Raises Cut or Malformed.

    `may_close` adds brackets that are missing at the end, after a whole value; not for a reply that was cut.
    """
    begin = text.find("{")
    first = text[:1]
    if first and (first in '"[' or begin < 0):
        begin, is_wrapped = 0, False
    else:
        is_wrapped = bool(text[:begin].strip())
        if is_wrapped and _OPEN_BEFORE.search(text[max(0, begin - 200) : begin]):
            raise Malformed("the object is a part of something that cannot be read")
    reader = _Reader(text, begin, may_close)
    value = reader.value()
    reader.end(value, is_wrapped)
    return value


class _Reader:
    def __init__(self, text: str, place: int, may_close: bool) -> None:
        self._text, self._place, self._may_close = text, place, may_close
        self._depth = 0
        self._has_comment = False
        self._is_doubtful = False  # a bracket too many may have moved members from one object to another
        self._ended = ""  # the bracket that the last value ended with, when it had several members

    # ---- Values -----------------------------------------------------------------------------------------------------

    def value(self) -> Json:
        match self._next():
            case "{":
                return self._nested(self._object)
            case "[":
                return self._nested(self._array)
            case '"' | "'":
                return self._string()
            case "":
                raise Cut("the text ends before a value")
            case _:
                return self._scalar()

    def _nested(self, read: Callable[[], Json]) -> Json:
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise Malformed("nested too deeply")
        self._place += 1
        value = read()
        self._depth -= 1
        return value

    def _object(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        members, after_comma, follows_object = 0, False, False
        while not self._closes("}", may_end=bool(found) and not after_comma):
            key = self._key()
            if self._next() != ":":
                self._refuse_or_cut("a colon is missing after a key")
            self._place += 1
            self._is_doubtful |= follows_object or key in found
            found[key] = self._member()
            members, follows_object = members + 1, self._text[self._place - 1] == "}"
            after_comma = self._separate(is_object=True)
        self._ended = "}" if members > 1 and self._text[self._place - 1] == "}" else ""
        return found

    def _member(self) -> Json:
        self._ended = ""
        return self.value()

    def _array(self) -> list[Json]:
        found: list[Json] = []
        after_comma = False
        while not self._closes("]", may_end=bool(found) and not after_comma):
            found.append(self._member())
            after_comma = self._separate(is_object=False)
        return found

    def _closes(self, bracket: str, *, may_end: bool) -> bool:
        """Step over the bracket; also true at the end of the text, where it may be missing after a value."""
        char = self._next()
        if char == bracket:
            self._place += 1
            return True
        if char:
            return False
        if not (may_end and self._may_close and not self._has_comment):
            raise Cut("the text ends before its last bracket")
        if bracket == self._ended:
            self._refuse("a bracket is missing, there or before")
        return True

    def _separate(self, *, is_object: bool) -> bool:
        """Step over the comma; was there one? A missing one between members of an object is forgiven where no text is
        in doubt: after a text only across a line break, for else its quotes may be quotes inside quotes."""
        begin = self._place
        is_text = self._text[begin - 1] in "\"'"
        char = self._next()
        if char == ",":
            self._place += 1
            return True
        if char not in ("", "}", "]"):
            is_apart = not is_text or "\n" in self._text[begin : self._place]
            if not (is_object and is_apart and char in "\"'"):
                self._refuse("a comma is missing")
        return False

    # ---- Texts and words --------------------------------------------------------------------------------------------

    def _key(self) -> str:
        if self._next() in "\"'":
            return self._string()
        if (bare := _BARE_KEY.match(self._text, self._place)) is None:
            self._refuse("no key")
        self._place = bare.end()
        return bare.group()

    def _string(self) -> str:
        pattern = _DOUBLE if self._text[self._place] == '"' else _SINGLE
        token = pattern.match(self._text, self._place)
        if token is None:
            raise Cut("the text ends inside a string")
        written = token.group()
        if pattern is _SINGLE:
            written = f'"{_IN_SINGLE.sub(_from_single, written[1:-1])}"'
        if "\\" in written and all(found[1] not in _ESCAPES for found in _ESCAPE.findall(written)):
            written = _ESCAPE.sub(r"\\\g<0>", written)  # such as "\d+"
        try:
            value: str = json.loads(written, strict=False)
        except ValueError as error:
            self._refuse(f"in a string: {getattr(error, 'msg', error)}")
        self._place = token.end()
        return value

    def _scalar(self) -> Json:
        token = _WORD.match(self._text, self._place)
        if token is None:
            self._refuse("no value")
        if token.end() == len(self._text) and self._depth:
            raise Cut("the text ends in a number or a literal, which may go on")
        word = token.group()
        if word in _WORDS:
            value = _WORDS[word]
        elif _DECIMAL.fullmatch(word):
            value = self._number(word)
        elif found := _HEXADECIMAL.fullmatch(word):
            value = int(found.group(1) + found.group(2), 16)
        else:
            self._refuse(f"{word[:40]!r} is no value")
        self._place = token.end()
        return value

    def _number(self, word: str) -> int | float:
        plain = word.lstrip("+")
        if plain.lstrip("-").isdigit():
            if len(plain) > 4000:  # int() refuses more, for its cost grows with the square
                self._refuse("a number is too large")
            return int(plain)
        number = float(plain)
        if not math.isfinite(number):
            self._refuse("a number is too large")
        return number

    # ---- Around -----------------------------------------------------------------------------------------------------

    def end(self, value: Json, is_wrapped: bool) -> None:
        """Refuse what follows the value, unless it is dressing, or the same once more."""
        rest = self._text[self._place :]
        if "{" in rest and isinstance(value, dict):
            again = _Reader(self._text, self._place + rest.index("{"), may_close=False)
            if again.value() != value:
                self._refuse("there is more than one object")
            return again.end(value, is_wrapped)
        if _OPEN_AFTER.match(rest) if is_wrapped else not _AFTER.match(rest):
            self._refuse("something follows the value")
        if self._is_doubtful and rest.lstrip()[:1] == "}":
            self._refuse("a bracket is too many, there or before")
        return None

    def _next(self) -> str:
        """The next character that is neither blank nor comment; "" at the end."""
        space = _SPACE.match(self._text, self._place)
        if space and space.end() > self._place:
            self._has_comment = self._has_comment or not space.group().isspace()
            if self._has_comment and '"' in space.group():
                self._refuse("a comment has quotes: it may be a part of a text, or a member,")
            self._place = space.end()
        return self._text[self._place : self._place + 1]

    def _refuse_or_cut(self, what: str) -> NoReturn:
        if self._place == len(self._text):
            raise Cut("the text ends before a value")
        self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        line = self._text.count("\n", 0, self._place) + 1
        column = self._place - self._text.rfind("\n", 0, self._place)
        raise Malformed(f"{what} at line {line} column {column}")


def _from_single(escape: re.Match[str]) -> str:
    """Of a text in single quotes, what JSON writes in another way."""
    return {"\\'": "'", '"': '\\"'}.get(escape.group(), escape.group())
