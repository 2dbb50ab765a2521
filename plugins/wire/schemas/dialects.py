"""Which JSON Schemas each kind of server takes, one row each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hermes.kernel.providers import Target

from .walking import keywords


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs from plain JSON Schema; what nobody takes (such as a union at the root) is no field here.

    `keywords`: the only ones sent (None: all but `refused`). `root_keywords`: the only ones sent at the root.
    `keeps_references`: `$ref` to `$defs` may stay. `null`: a union with null stays ("keep"), loses it ("collapse": the
    argument may be left out as well), or is marked `nullable` ("mark"). `plain_unions`: `anyOf` stands alone beside
    the description, and `type` is one word. `any_value`: the types that a schema without a type is told as; empty:
    it may have none. `bare_arrays`: an array of anything says nothing of its items. `enums`: "any" values, texts that
    are not empty ("texts"), or texts or numbers of one kind ("plain"). `enum_refuses`: what no value of an enum may
    hold. `formats`: the only ones sent, by type (None: all). `property_name`: what each argument's name must match.
    `sends_no_properties`: a tool without arguments has a schema.
    """

    refused: frozenset[str] = frozenset()
    keywords: frozenset[str] | None = None
    root_keywords: frozenset[str] | None = None
    keeps_references: bool = True
    null: Literal["keep", "collapse", "mark"] = "keep"
    plain_unions: bool = False
    any_value: tuple[str, ...] = ()
    bare_arrays: bool = False
    enums: Literal["any", "texts", "plain"] = "any"
    enum_refuses: str = ""
    formats: Mapping[str, frozenset[str]] | None = None
    property_name: re.Pattern[str] | None = None
    sends_no_properties: bool = True


_CLAUDE_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

DIALECTS: Mapping[str, Dialect] = {
    # OpenAI's function calling guide; refusals in public reports: langchain-ai/langchainjs#9804
    "openai": Dialect(),
    # Anthropic's tool use guide; "property keys should match pattern" of its API; nullable unions: specification 3.3.10
    "anthropic": Dialect(null="collapse", property_name=_CLAUDE_NAME),
    # Amazon Nova's user guide (tool use): at the root only these; Claude on Bedrock as above
    "bedrock": Dialect(
        root_keywords=keywords("type properties required"),
        keeps_references=False,
        null="collapse",
        property_name=_CLAUDE_NAME,
    ),
    # Gemini API reference, Schema; "when using any_of, it must be the only field set"; "enum: only allowed for STRING"
    "gemini": Dialect(
        keywords=keywords(
            "type format description nullable enum items properties required anyOf minItems maxItems minimum maximum "
            "minLength maxLength pattern minProperties maxProperties"
        ),
        keeps_references=False,
        null="mark",
        plain_unions=True,
        any_value=("string", "number", "boolean"),
        enums="texts",
        formats={
            "string": keywords("date-time enum"),
            "number": keywords("float double"),
            "integer": keywords("int32 int64"),
        },
        sends_no_properties=False,
    ),
    # Moonshot Flavored JSON Schema and its validator: github.com/MoonshotAI/walle, docs/mfjs-spec.md and docs/walle.md
    "moonshot": Dialect(
        keywords=keywords("type description properties required additionalProperties items enum anyOf"),
        keeps_references=False,
        null="collapse",
        plain_unions=True,
        any_value=("string", "number", "boolean", "object", "array"),
        bare_arrays=True,
        enums="plain",
        property_name=re.compile(r"(?!(?:\$defs|\$ref|anyOf|required|additionalProperties)$).+", re.DOTALL),
    ),
    # Runtime behaviour specification 3.4.7 (27197, 28490)
    "xai": Dialect(refused=keywords("pattern format"), enum_refuses="/"),
}

_BY_API_MODE = {"anthropic_messages": "anthropic", "bedrock_converse": "bedrock"}


def dialect_of(target: Target) -> Dialect:
    """By the quirk `schema_dialect`, else by the wire format; a name that is not known is OpenAI's."""
    name = target.quirk("schema_dialect") or _BY_API_MODE.get(target.api_mode, "openai")
    return DIALECTS.get(str(name), DIALECTS["openai"])
