"""What stands around the conversation in a request of the Responses API: the frozen head, and the parameters."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from hermes.kernel.messages import Json
from hermes.kernel.providers import Parameters, Target, ToolSchema
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import joined, without
from hermes.plugins.wire.schemas import answer_schema, is_strict_schema, parameters_of
from hermes.plugins.wire.toolnames import wire_name

CACHE_KEY = "prompt_cache_key"
THINKING_BLOCKS = "thinking_blocks"
"""In `Parameters.leave_out`: no reasoning is sent back, after a server has refused to decrypt it (B080)."""
LEAST_OUTPUT_TOKENS = 16
"""OpenAI refuses a smaller `max_output_tokens` (error of the Responses API, November 2026)."""
EFFORTS: Mapping[str, str] = {"minimal": "low"}
"""Efforts that not every model of this API knows, by what is sent in their place; the quirk `effort_map` goes before
(runtime behaviour specification 3.4.8)."""


# ---- The frozen prefix ----------------------------------------------------------------------------------------------


def encode_prefix(system: str, tools: Sequence[ToolSchema], target: Target) -> bytes:
    """`{"prompt_cache_key":…,"model":…,"tools":[…],"instructions":…,"input":[`: what stays for (epoch, target).

    The key is made of the content and not of the session, so that parallel sessions share one cached prefix.
    """
    offered = _offered(tools, target)
    fields: dict[str, Json] = {"model": target.model}
    if offered:  # an empty list is refused by some servers, and null broke an SDK
        fields["tools"] = offered
    if system.strip():
        fields["instructions"] = system
    if CACHE_KEY not in target.quirk("drop_parameters", ()):
        fields = {CACHE_KEY: _cache_key(system, offered), **fields}
    return dumps(fields)[:-1] + b',"input":['


def _cache_key(system: str, offered: Sequence[Mapping[str, Json]]) -> str:
    content = dumps([system, sorted(offered, key=lambda tool: str(tool["name"]))])
    return f"pck_{hashlib.sha256(content).hexdigest()[:24]}"


def _offered(tools: Sequence[ToolSchema], target: Target) -> list[dict[str, Json]]:
    """The tools as they are sent: one of a name, none without a name or a schema that the target takes.

    `strict` must be said: left out, this API takes every schema as a strict one and refuses what does not fit (B141).
    """
    offered: dict[str, dict[str, Json]] = {}
    for tool in tools:
        name, parameters = wire_name(tool.name), parameters_of(tool, target)
        if not tool.name.strip() or name in offered or parameters is None:
            continue
        offered[name] = {
            "type": "function",
            "name": name,
            "description": tool.description,
            "parameters": parameters,
            "strict": False,
        }
    return list(offered.values())


# ---- The body -------------------------------------------------------------------------------------------------------

_HEAD = re.compile(rb'\{(?P<key>"prompt_cache_key":"[^"]*",)?"model":"(?:[^"\\]|\\.)*"(?P<tools>,"tools":)?', re.DOTALL)


def envelope_pieces(prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target) -> list[bytes]:
    """The body as pieces: prefix, fragments with commas between, and what varies from call to call."""
    head = _HEAD.match(prefix)
    assert head is not None, "a prefix that this wire format did not make"
    left_out = {*parameters.leave_out, *target.quirk("drop_parameters", ())}
    tail = dumps(without(_options(parameters, target, has_tools=bool(head["tools"])), left_out))
    if THINKING_BLOCKS in left_out:
        fragments = [_without_reasoning(fragment) for fragment in fragments]
    if CACHE_KEY in left_out and head["key"]:
        prefix = b"{" + prefix[head.end("key") :]
    return joined(prefix, fragments, b"]," + tail[1:] if len(tail) > 2 else b"]}")


def _without_reasoning(fragment: bytes) -> bytes:
    """Items of one message without its reasoning, and without the ids that a server would check against it (B081)."""
    if b'"type":"reasoning"' not in fragment:
        return fragment
    items = [item for item in json.loads(b"[" + fragment + b"]") if item["type"] != "reasoning"]
    return b",".join(dumps({name: value for name, value in item.items() if name != "id"}) for item in items)


def is_streamed(parameters: Parameters, target: Target) -> bool:
    """Whether the reply is asked for as a stream: some backends answer in no other way."""
    return parameters.stream or bool(target.quirk("stream_only"))


def _options(parameters: Parameters, target: Target, *, has_tools: bool) -> dict[str, Json]:
    options: dict[str, Json] = {"store": False}
    if is_streamed(parameters, target):
        options["stream"] = True
    if not _never_reasons(target):  # a model that does not reason refuses to be asked for it
        options["include"] = ["reasoning.encrypted_content"]
    effort = _effort(parameters, target)
    if reasoning := _reasoning(effort, target):
        options["reasoning"] = reasoning
    if parameters.temperature is not None and _takes_temperature(effort, target):
        options["temperature"] = parameters.temperature
    if parameters.output_cap is not None:
        options["max_output_tokens"] = max(parameters.output_cap, LEAST_OUTPUT_TOKENS)
    if has_tools and not parameters.may_call:
        options["tool_choice"] = "none"
    if parameters.schema is not None and (answer := _answer_format(parameters.schema, target)):
        options["text"] = {"format": answer}
    extra: dict[str, Json] = target.quirk("extra_parameters", {})
    return options | extra


def _answer_format(schema: Mapping[str, Json], target: Target) -> dict[str, Json]:
    """The answer's form in the field of this API; empty where there is none for it.

    Strict only where the schema keeps to the rules of strict ones: else the whole request is refused (B141).
    """
    kind = target.quirk("schema_parameter", "json_schema")
    if kind == "json_object":
        return {"type": "json_object"}
    accepted = answer_schema(schema, target) if kind == "json_schema" else None
    if accepted is None:
        return {}
    return {"type": "json_schema", "name": "answer", "schema": accepted, "strict": is_strict_schema(accepted)}


# ---- Reasoning ------------------------------------------------------------------------------------------------------


def _never_reasons(target: Target) -> bool:
    return target.row is not None and target.row.reasoning is False


def _surely_reasons(target: Target) -> bool:
    return target.row is not None and target.row.reasoning is True


def _effort(parameters: Parameters, target: Target) -> str | None:
    """The effort in the provider's word for it; None sends none. `*` in the quirk stands for each that it lacks."""
    asked = parameters.reasoning_effort
    if asked is None or _never_reasons(target):
        return None
    known: Mapping[str, Json] = target.quirk("effort_map", {})
    word = known.get(asked, known.get("*", EFFORTS.get(asked, asked)))
    return word if isinstance(word, str) else None


def _reasoning(effort: str | None, target: Target) -> dict[str, Json]:
    reasoning: dict[str, Json] = {} if effort is None else {"effort": effort}
    summary = target.quirk("reasoning_summary", "auto")
    if summary and effort != "none" and (effort or _surely_reasons(target)):
        reasoning["summary"] = summary
    return reasoning


def _takes_temperature(effort: str | None, target: Target) -> bool:
    """OpenAI's models refuse a temperature while they reason."""
    return not _surely_reasons(target) or effort == "none" or bool(target.quirk("temperature_with_reasoning"))
