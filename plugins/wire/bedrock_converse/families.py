"""What the families of models behind Converse take and refuse: data, read by `family_of`.

Sources: the service model of bedrock-runtime in botocore 1.44; the Bedrock user guide's tables of model features,
prompt caching and extended thinking; what the service answered to others (public bug reports named in the rows). All
read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from hermes.kernel.providers import Target

_FIVE = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_THREE = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a family is told to think.

    `budget`: Claude's `thinking` with a number of tokens. `adaptive`: Claude's `thinking` with an effort beside it.
    `nova`: `reasoningConfig`. `flat`: `reasoning_effort`. `nested`: `reasoning.effort`.
    `efforts` gives their word for each of ours; a word that is not in it sends nothing. `unasked`: it thinks when
    nothing is said; `off` is the `thinking.type` that keeps it from that, "" when nothing does.
    """

    shape: Literal["budget", "adaptive", "nova", "flat", "nested"]
    efforts: Mapping[str, str] = field(default_factory=lambda: _FIVE)
    unasked: bool = False
    off: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """What the models that fit one of `models` (patterns in lower case) take. The defaults are those of an unknown one.

    `streams_tools`: ConverseStream with tools is not refused; `words_beside_calls`: nor is text in a message with
    calls. `result_status`, `result_images`: fields of a tool result that only some take; `result_json`: results must
    be objects. `samples`: takes a temperature. `marks_tools`: a cache point may stand among the tools. `long_cache`:
    a cache point may ask for an hour.
    """

    models: tuple[str, ...] = ("*",)
    thinking: Thinking | None = None
    tools: bool = True
    streams_tools: bool = True
    words_beside_calls: bool = True
    result_status: bool = False
    result_images: bool = False
    result_json: bool = False
    samples: bool = True
    marks_tools: bool = False
    long_cache: bool = False


def _claude(*models: str, thinking: Thinking | None = None, samples: bool = True, long_cache: bool = True) -> Family:
    return Family(
        models,
        thinking,
        result_status=True,
        result_images=True,
        samples=samples,
        marks_tools=True,
        long_cache=long_cache,
    )


_NO_TOOLS = (
    "*deepseek.r1*",
    "*anthropic.claude-v2*",
    "*anthropic.claude-instant*",
    "*meta.llama3-8b*",
    "*meta.llama3-70b*",
    "*meta.llama3-2-1b*",
    "*meta.llama3-2-3b*",
    "*mistral.mistral-7b*",
    "*mistral.mixtral*",
    "*amazon.titan*",
    "*cohere.command-text*",
    "*cohere.command-light*",
    "*ai21.jamba-instruct*",
)
"""The user guide's column "Tool use" (its rows of Llama and Mistral from memory, not read again); deepseek.r1 answers
"This model doesn't support tool use" (langchain-aws#447). `ModelRow.tools` overrules a row."""

FAMILIES: tuple[Family, ...] = (
    Family(_NO_TOOLS, tools=False),
    _claude("*claude-3-haiku*", "*claude-3-sonnet*", "*claude-3-opus*", "*claude-3-5-*", long_cache=False),
    _claude(
        "*claude-3-7-*", "*claude-sonnet-4-2*", "*claude-opus-4-2*", "*claude-opus-4-1*",
        thinking=Thinking("budget"), long_cache=False,
    ),
    _claude("*claude-*-4-5*", thinking=Thinking("budget")),
    _claude("*claude-*-4-6*", thinking=Thinking("adaptive", {**_FIVE, "xhigh": "max"})),
    _claude("*claude-opus-4-[78]*", thinking=Thinking("adaptive"), samples=False),
    _claude("*claude-sonnet-5-5*", thinking=Thinking("adaptive", unasked=True, off="between_tools"), samples=False),
    _claude(
        "*claude-opus-5*", "*claude-sonnet-5*", "*claude-haiku-5*",
        thinking=Thinking("adaptive", unasked=True, off="disabled"), samples=False,
    ),
    _claude("*claude-*", thinking=Thinking("adaptive", unasked=True), samples=False),  # Fable, Mythos, newer ones
    Family(("*amazon.nova-2*",), Thinking("nova", _THREE), result_status=True, result_images=True),
    Family(("*amazon.nova*",), result_status=True, result_images=True),
    # Each refuses the other's field: langchain-ai/docs#5239, stdapi.ai#283 (probed in September 2026).
    Family(("*openai.gpt-oss*", "*moonshot*kimi-k2*"), Thinking("flat", _THREE)),
    Family(("*openai.*",), Thinking("nested", {**_FIVE, "none": "none"})),
    # "This model doesn't support tool use in streaming mode" (pi#3739, n8n#14206); "Conversation blocks and tool use
    # blocks cannot be provided in the same turn" (quarkus-langchain4j#1983, strands-agents#1223).
    Family(("*meta.llama*",), streams_tools=False, words_beside_calls=False),
    Family(("*mistral.*-24*", "*mistral.pixtral-large*"), streams_tools=False, result_json=True),
    Family(("*writer.palmyra*",), streams_tools=False),
)  # fmt: skip
"""Read from the top, first fit wins."""


def family_of(target: Target) -> Family:
    """By the model's id, or by the quirk `model_family` for ids that do not tell (application inference profiles)."""
    return _family(str(target.quirk("model_family") or target.model).lower())


@lru_cache(maxsize=64)
def _family(model: str) -> Family:
    return next((row for row in FAMILIES if any(fnmatchcase(model, p) for p in row.models)), Family())


def takes_tools(target: Target) -> bool:
    """False where toolConfig and blocks of calls are refused (7920); what is known of the model itself comes first."""
    known = target.row.tools if target.row is not None else None
    return family_of(target).tools if known is None else known
