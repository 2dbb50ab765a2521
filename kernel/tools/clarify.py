"""The tool `clarify`: ask the person one question."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.kernel.errors import ToolError
from hermes.kernel.messages import Json
from hermes.kernel.roles import Tool, ToolContext, ToolReturn
from hermes.kernel.tools.reading import as_list, as_text, compact, cut

CHOICES_MAX = 4
CHOICE_MAX_CHARS = 200
GO_ON = "Go on with your best guess, and say in your answer what you assumed."
CHOICE_FIELDS = ("label", "description", "text", "title")
"""Where the words of a choice that came as an object are; `name` and `value` are raw words for programs."""


def run(context: ToolContext, question: Json = None, choices: Json = None) -> ToolReturn:
    """Ask, and wait for the answer as long as it takes; no answer is an error that tells the model to go on."""
    asked = as_text(question)
    if not asked:
        raise ToolError("question is missing: say what you want to know")
    offered = _choices(choices)
    answer = context.ask(asked, offered)
    if answer is None:
        return ToolReturn(f"There is no one to ask. {GO_ON}", failed=True)
    if not answer.strip():
        return ToolReturn(f"The person gave no answer. {GO_ON}", failed=True)
    shown = {"question": asked, "choices_offered": offered or None, "user_response": as_text(answer)}
    return ToolReturn(compact({key: value for key, value in shown.items() if value is not None}))


def _choices(value: Json) -> list[str]:
    """At most four different texts; none, for an open question, when what came is no list."""
    given = value if isinstance(value, list) else as_list(value, "choices") if _is_list_text(value) else None
    texts = dict.fromkeys(cut(text, CHOICE_MAX_CHARS) for text in map(_words, given or ()) if text)
    return list(texts)[:CHOICES_MAX]


def _is_list_text(value: Json) -> bool:
    return isinstance(value, str) and value.lstrip().startswith("[")


def _words(choice: Json) -> str:
    if isinstance(choice, list):
        return " ".join(word for word in map(_words, choice) if word)
    if isinstance(choice, dict):
        return next(_filled(choice), "")
    return as_text(choice)


def _filled(choice: dict[str, Json]) -> Iterator[str]:
    for field in CHOICE_FIELDS:
        if isinstance(choice.get(field), str) and (text := as_text(choice[field])):
            yield text


TOOL = Tool(
    name="clarify",
    description=(
        "Ask the user one question, with up to 4 choices when the answers are known. Only when you cannot find out "
        "yourself and a wrong guess would cost much; never to confirm what was already asked for."
    ),
    parameters={
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "choices": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
        },
        "required": ["question"],
    },
    run=run,
    toolset="kernel",
    exclusive=True,
    idempotent=True,
    deadline_s=0,
)
