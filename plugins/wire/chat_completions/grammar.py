"""Offer tools by a grammar: GBNF (llama.cpp) for "one call or plain text", made from the tools' schemas.

A model that is too small to choose well under the usual offering does better when it can write nothing but a call that
is right in form, or plain text. A call is one line of JSON: bare, in a fence (as Qwen2.5-Coder likes it) or in
the tags of its chat template. Plain text begins with none of their first characters, so a call begun must be finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hermes.kernel.messages import Json
from hermes.kernel.providers import ToolSchema

ANSWER = ToolSchema(
    "answer",
    "Answer the user in words: greetings, general knowledge, sums, explanations, or what a result has told you",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
"""Offered beside the tools and read back as plain text: a model that likes to write calls answers "hello" by reading a
file, unless answering is a call too (the 1.5B: 2 of 4 questions that need no tool without it)."""

MOST_DEPTH = 6
"""A schema nested deeper is offered as any JSON value from there on."""

_BASICS = r"""
text ::= [^`{<[ \t\r\n] any*
any ::= [^\x00]
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?
boolean ::= "true" | "false"
null ::= "null"
value ::= string | number | boolean | null | array | object
array ::= "[" (value (", " value)*)? "]"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
""".strip()


def grammar_for(tools: Sequence[ToolSchema]) -> str:
    """The whole grammar; without tools it allows plain text alone."""
    if not tools:
        return f"root ::= text\n{_BASICS}\n"
    tools = with_answer(tools)
    rules = _Rules()
    calls = [rules.call(tool) for tool in tools]
    lines = [
        "root ::= call | text",
        r'call ::= "<tool_call>\n" json "\n</tool_call>" | "```json\n" json "\n```" | json',
        "json ::= " + " | ".join(calls),
        *rules.lines,
        _BASICS,
    ]
    return "\n".join(lines) + "\n"


def grammar_for_answer(schema: Mapping[str, Json]) -> str:
    """The grammar of JSON that fits a schema, for a request that has the grammar of tools (a server takes one)."""
    rules = _Rules()
    root = rules.answer(schema)
    return "\n".join((f"root ::= {root}", *rules.lines, _BASICS)) + "\n"


def with_answer(tools: Sequence[ToolSchema]) -> Sequence[ToolSchema]:
    """The tools and the way to answer, unless one of them has that name."""
    return tools if any(tool.name == ANSWER.name for tool in tools) else (*tools, ANSWER)


class _Rules:
    """Rules as they are made; every name is `t` and a number, so that no property name can break the grammar."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def call(self, tool: ToolSchema) -> str:
        head = '{"name": ' + json.dumps(tool.name) + ', "arguments": '
        schema: dict[str, Json] = {"type": "object", **tool.parameters}
        definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
        return self._rule(f"{_literal(head)} {self._schema(schema, definitions, 0)} {_literal('}')}")

    def answer(self, schema: Mapping[str, Json]) -> str:
        return self._schema(schema, {**schema.get("definitions", {}), **schema.get("$defs", {})}, 0)

    def _rule(self, body: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} ::= {body}")
        return name

    def _schema(self, schema: Json, definitions: Mapping[str, Json], depth: int) -> str:
        """The expression for one schema; what is not understood is any JSON value (the tool checks it later)."""
        if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
            return "value"
        if isinstance(reference := schema.get("$ref"), str):
            return self._schema(definitions.get(reference.rsplit("/", 1)[-1]), definitions, depth + 1)
        if "const" in schema:
            return _literal(json.dumps(schema["const"], ensure_ascii=False))
        if values := schema.get("enum"):
            return "(" + " | ".join(_literal(json.dumps(value, ensure_ascii=False)) for value in values) + ")"
        for key in ("anyOf", "oneOf"):
            if choices := schema.get(key):
                return "(" + " | ".join(self._schema(choice, definitions, depth + 1) for choice in choices) + ")"
        kind = schema.get("type")
        if isinstance(kind, list):
            return "(" + " | ".join(self._schema({**schema, "type": one}, definitions, depth + 1) for one in kind) + ")"
        if kind == "object":
            return self._object(schema, definitions, depth)
        if kind == "array":
            item = self._rule(self._schema(schema.get("items"), definitions, depth + 1))
            few = f'{item} (", " {item})*'
            return f'"[" {few} "]"' if schema.get("minItems") else f'"[" ({few})? "]"'
        return kind if kind in {"string", "integer", "number", "boolean", "null"} else "value"

    def _object(self, schema: Mapping[str, Json], definitions: Mapping[str, Json], depth: int) -> str:
        """Properties in a fixed order, the required ones first: the order is free in JSON and costs a choice here."""
        properties = schema.get("properties")
        if not properties:
            return "object"
        required = [name for name in properties if name in schema.get("required", ())]
        optional = [name for name in properties if name not in schema.get("required", ())]
        pair = {}
        for name, inner in properties.items():
            key = _literal(json.dumps(name, ensure_ascii=False) + ": ")
            pair[name] = f"{key} {self._schema(inner, definitions, depth + 1)}"
        tail = "".join(f' (", " {pair[name]})?' for name in optional)
        if required:
            return '"{" ' + ' ", " '.join(pair[name] for name in required) + tail + ' "}"'
        # Nothing is required: each optional one may be the first.
        starts = []
        for number, name in enumerate(optional):
            later = "".join(f' (", " {pair[other]})?' for other in optional[number + 1 :])
            starts.append(self._rule(pair[name] + later))
        return '"{" (' + " | ".join(starts) + ')? "}"'


def _literal(text: str) -> str:
    """A GBNF literal that stands for exactly this text."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(c) or (c if c.isprintable() else f"\\U{ord(c):08X}") for c in text) + '"'


# ---- the tools in the system prompt ---------------------------------------------------------------------------------


def render_tools_prompt(tools: Sequence[ToolSchema]) -> str:
    """What the system prompt says about the tools, one short line each; "" without tools."""
    if not tools:
        return ""
    lines = [f"- {tool.name}({_signature(tool.parameters)}): {_brief(tool.description)}" for tool in with_answer(tools)]
    return (
        "# Tools\n"
        + "\n".join(lines)
        + "\n\nTo use a tool, answer with its call as one JSON object and nothing else:\n"
        '```json\n{"name": <tool>, "arguments": {<argument>: <value>}}\n```\n'
        "You know nothing about the files until a tool has shown them: for whatever is asked about files, to read, "
        "find, write or change them, answer with the JSON of a call. Answer anything else, and whatever a result has "
        "told you, in plain text. Never repeat a call."
    )


def _signature(parameters: Mapping[str, Json]) -> str:
    required = parameters.get("required", ())
    parts = []
    for name, schema in (parameters.get("properties") or {}).items():
        kind = schema.get("type", "") if isinstance(schema, Mapping) else ""
        if isinstance(schema, Mapping) and schema.get("enum"):
            kind = "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        elif isinstance(kind, list):
            kind = "|".join(kind)
        parts.append(f"{name}{'' if name in required else '?'}: {kind or 'any'}")
    return ", ".join(parts)


def _brief(description: str, most_chars: int = 160) -> str:
    """The first sentence, or as much of it as fits."""
    first = description.strip().split("\n", 1)[0]
    sentence = first.split(". ", 1)[0].rstrip(".")
    return sentence if len(sentence) <= most_chars else sentence[: most_chars - 1] + "…"
