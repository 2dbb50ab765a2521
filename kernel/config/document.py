"""One YAML document → a tree of nodes with their places.

The grammar is YAML's; the meaning of plain words is YAML 1.2's core schema without its surprises: only `true` and
`false` are booleans, whole numbers are decimal without leading zeros, dates and `1:30` are text. PyYAML's own rules are
YAML 1.1, where `off` is False, `017` is 15, `1:30` is 90 and a repeated key silently wins.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

import yaml

from hermes.kernel.config.nodes import Node, Origin, Path, Problem
from hermes.kernel.config.outside import NUMBER, WHOLE_NUMBER
from hermes.kernel.messages import clean

MAX_BYTES = 1_000_000
MAX_NODES = 10_000
"""Nine aliases of nine aliases, six levels deep, are half a million nodes in 200 bytes."""
MAX_DEPTH = 50

_PLAIN = "hermes:plain"
_TEXT = "tag:yaml.org,2002:str"
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_HINT_CHARS = 400  # the patterns below are quadratic on a line of nothing but brackets
_QUOTE = "put the value in quotes"
_HINTS: tuple[tuple[str, str, str], ...] = (
    # parser's complaint, the line at fault, what to do
    (r"cannot start any token|tab|expected <block end>", r"^ *\t", "indent with blanks, not with tabs"),
    (r"", r"[\[{].*\$\{", f"{_QUOTE}: a ${{…}} inside [ ] or {{ }} needs them"),
    (r"mapping values are not allowed|expected <block end>", r"\$\{[^}]*: ", f"{_QUOTE}: it has ': ' inside"),
    (r"mapping values are not allowed", r":.*: ", f"{_QUOTE} if it has ': ' inside, else check the indentation"),
    (r"alias|anchor|alphabetic or numeric|cannot start any token|directive", r"(^|[\s\[{,:-])[*&!%@`]",
     f"{_QUOTE}: it begins with a character that means something in YAML"),
    (r"unknown escape|hexdecimal|hexadecimal", r"\"", "use single quotes: in double quotes a \\ begins an escape"),
    (r"single document", r"", "settings are one document: remove the line ---"),
    (r"nesting depth|nested", r"", "nothing in the settings is that deep"),
)  # fmt: skip


def parse(data: bytes, name: str, problems: list[Problem]) -> Node | None:
    """Parse the bytes of the file `name`; None when it cannot be used. What is wrong is added to `problems`."""
    text = _decode(data, name, problems)
    if text is None:
        return None
    try:
        root = yaml.compose(text, _loader())
    except yaml.MarkedYAMLError as error:
        problems.append(_syntax_problem(error, text, name))
        return None
    except yaml.reader.ReaderError as error:
        what = f"U+{ord(error.character):04X}" if isinstance(error.character, str) else f"U+{error.character:04X}"
        problems.append(_problem_at(text, error.position, name, f"the character {what} is not allowed; remove it"))
        return None
    except RecursionError:
        problems.append(Problem(Origin("file", name, 1, 1), (), "nested too deeply; nothing in the settings is"))
        return None
    start = Origin("file", name, 1, 1)
    if root is None:
        return Node({}, start, start)
    reader = _Reader(name, problems)
    try:
        node = reader.node(root, ())
    except _TooMuch as error:
        problems.append(Problem(reader.place(error.at), error.path, str(error)))
        return None
    if node.value is None:
        return Node({}, start, start)
    if not isinstance(node.value, dict):
        what = "a list" if isinstance(node.value, list) else "a single value"
        problems.append(Problem(node.origin, (), f"the file is {what}; settings are a mapping such as 'model: auto'"))
        return None
    return node


def plain_value(text: str) -> tuple[Any, str | None]:
    """What an unquoted word means, and how it was written when that is a number."""
    if text in _WORDS:
        return _WORDS[text], None
    if WHOLE_NUMBER.fullmatch(text):
        return int(text), text
    if NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number, text
    return text, None


def _decode(data: bytes, name: str, problems: list[Problem]) -> str | None:
    if len(data) > MAX_BYTES:
        text = f"larger than {MAX_BYTES:,} bytes: not a settings file"
        problems.append(Problem(Origin("file", name, 1, 1), (), text))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        place = Origin("file", name, before.count(b"\n") + 1, column)
        kind = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "something else"
        problems.append(Problem(place, (), f"not UTF-8 but {kind} (byte 0x{data[error.start]:02x}); save it as UTF-8"))
        return None


def _problem_at(text: str, index: int, name: str, what: str) -> Problem:
    before = text[:index]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return Problem(Origin("file", name, line, column), (), what)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, name: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    marked = (error.context_mark or mark, mark)
    suspects = [lines[m.line][:_HINT_CHARS] for m in reversed(marked) if m and m.line < len(lines)]
    # The parser's own words may quote a piece of the text, which may be a secret: names in them are dropped.
    complaint = re.sub(r"(['\"])[^\s'\"]{2,}\1", "…", error.problem or "not YAML")
    for pattern, on_line, hint in _HINTS:
        if re.search(pattern, f"{complaint} {error.context or ''}") and any(re.search(on_line, s) for s in suspects):
            complaint += f"; {hint}"
            break
    return Problem(Origin("file", name, line + 1, column + 1), (), complaint)


def _loader() -> type[Any]:
    """PyYAML's fastest safe loader (the C one gives marks as good, 13 times faster), with no rules for plain words."""
    fastest: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    made: Any = type("_Loader", (fastest,), {"yaml_implicit_resolvers": {}})
    made.add_implicit_resolver(_PLAIN, re.compile(""), None)
    return cast("type[Any]", made)


class _TooMuch(Exception):
    def __init__(self, text: str, at: Any, path: Path) -> None:
        self.at, self.path = at, path
        super().__init__(text)


class _Reader:
    """Turns PyYAML's nodes into ours, and counts them."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self._name, self._problems, self._count = name, problems, 0

    def place(self, node: Any) -> Origin:
        return Origin("file", self._name, node.start_mark.line + 1, node.start_mark.column + 1)

    def node(self, source: Any, path: Path, key: Origin | None = None) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise _TooMuch(f"more than {MAX_NODES:,} values once its aliases (*name) are filled in", source, path[:1])
        if len(path) > MAX_DEPTH:
            raise _TooMuch("nested too deeply, or an alias (*name) inside itself", source, path[:1])
        origin = self.place(source)
        key = key or origin
        if isinstance(source, yaml.MappingNode):
            return Node(self._mapping(source, path), origin, key)
        if isinstance(source, yaml.SequenceNode):
            items = [self.node(item, (*path, index)) for index, item in enumerate(source.value)]
            return Node(items, origin, key)
        if source.tag == _TEXT:
            return Node(clean(source.value), origin, key)
        if source.tag != _PLAIN:
            self._add(origin, path, "tags such as !name are not used in settings; remove it")
            return Node(None, origin, key, broken=True)
        value, raw = plain_value(source.value)
        return Node(clean(value) if isinstance(value, str) else value, origin, key, raw)

    def _mapping(self, source: Any, path: Path) -> dict[str, Node]:
        items: dict[str, Node] = {}
        for key_node, value_node in source.value:
            origin = self.place(key_node)
            key = self._key(key_node, origin, path)
            if key is None:
                continue
            node = self.node(value_node, (*path, key), origin)
            if key in items:
                first = items[key].key.line
                self._add(origin, (*path, key), f"this key is already on line {first}; remove one of the two")
            else:
                items[key] = node
        return items

    def _key(self, node: Any, origin: Origin, path: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._add(origin, path, "a key must be text, not a list or a mapping; put the value in quotes if it has {")
            return None
        text = clean(node.value)
        if node.tag == _PLAIN and text == "<<":
            self._add(origin, path, "merging with << is not supported; write the keys out")
            return None
        if node.tag == _PLAIN and not isinstance(plain_value(text)[0], str):
            self._add(origin, path, f"the key {text or 'null'} is not text; put it in quotes")
            return None
        if "${" in text:
            self._add(origin, path, "a ${…} is filled in only in values, not in keys")
            return None
        return text

    def _add(self, origin: Origin, path: Path, text: str) -> None:
        self._problems.append(Problem(origin, path, text))
