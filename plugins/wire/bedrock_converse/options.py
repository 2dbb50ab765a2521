"""What varies from call to call: limits, thinking, the form of the answer, cache points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hermes.kernel.messages import Json
from hermes.kernel.providers import Parameters, Target
from hermes.plugins.wire.caching import MOST_MARKS, layout
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, begins_tool_loop, joined, with_marks
from hermes.plugins.wire.schemas.constrained import constrained

from .encoding import cache_point
from .families import Thinking, family_of

_TOOLS = b'"toolConfig":'
_TOOL_BLOCKS = (b'{"toolUse":', b'{"toolResult":')
"""In a text their quotes would be escaped, so that nothing but such a block holds these bytes."""
_SAID = b'{"role":"assistant","content":['
_RESULTS = b'{"role":"user","content":[{"toolResult":'
THINKING_BLOCKS = "thinking_blocks"
"""In `Parameters.leave_out`: no reasoning is sent back, after a signature was refused (B080)."""
_UNUSED_TOOL: Json = {
    "toolSpec": {
        "name": "unavailable",
        "description": "Stands for tools that were used before and are gone; never call it.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
"""Converse wants a toolConfig as soon as the history has a call, and none may be empty."""

_BUDGETS = {"low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768}
_BUDGET_LEAST = 1024
_ANSWER_TOKENS = 4096
"""What is kept free for the answer when the output is capped (runtime behaviour specification 3.3)."""


def has_tools(body: Sequence[bytes]) -> bool:
    """Whether a body offers tools: those of its prefix, or the placeholder in its tail."""
    return _offers_tools(body[0]) or _TOOLS in body[-1]


def _offers_tools(prefix: bytes) -> bool:
    return prefix.startswith(b"{" + _TOOLS)


def envelope_pieces(prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target) -> list[bytes]:
    """The body as pieces: prefix, messages with commas between, and what varies."""
    left_out = {*parameters.leave_out, *target.quirk("drop_parameters", ())}
    if THINKING_BLOCKS in left_out:
        fragments = [_without_reasoning(fragment) for fragment in fragments]
    if "reasoning_effort" in left_out:
        parameters = replace(parameters, reasoning_effort=None)
    options = _options(parameters, target, _is_turn_of_another(fragments))
    if not _offers_tools(prefix) and _uses_tools(fragments):
        options["toolConfig"] = {"tools": [_UNUSED_TOOL]}
    if layout(target) == "points":
        fragments = with_marks(fragments, b"," + dumps(cache_point(target)), MOST_MARKS - 1)
    options = _without(options, left_out)
    return joined(prefix, fragments, b"]," + dumps(options)[1:] if options else b"]}")


def _uses_tools(fragments: Iterable[bytes]) -> bool:
    return any(block in fragment for fragment in fragments for block in _TOOL_BLOCKS)


def _options(parameters: Parameters, target: Target, is_turn_of_another: bool) -> dict[str, Json]:
    """Objects at the top of the request; a field that is None says nothing."""
    family = family_of(target)
    cap = parameters.output_cap if parameters.output_cap is not None else target.output_cap
    fields = _thinking(family.thinking, parameters.reasoning_effort, cap)
    if is_turn_of_another and "budget_tokens" in fields.get("thinking", {}):
        del fields["thinking"]
    inference: dict[str, Json] = {"maxTokens": cap}
    if parameters.temperature is not None and family.samples and "thinking" not in fields:
        # Converse takes no more than 1, and Claude none while it thinks.
        inference["temperature"] = min(parameters.temperature, 1.0)
    output: dict[str, Json] = {"effort": fields.pop("effort", None), "textFormat": _text_format(parameters, target)}
    if _is_unlimited(fields):
        inference.clear()
    options = {"inferenceConfig": inference, "additionalModelRequestFields": fields, "outputConfig": output}
    extra = target.quirk("extra_parameters", {})
    for name, value in (extra if isinstance(extra, Mapping) else {}).items():
        options[name] = {**options.get(name, {}), **value} if isinstance(value, Mapping) else value
    return options


def _without(options: Mapping[str, Json], left_out: set[str]) -> dict[str, Json]:
    """What is said and not left out; a name may be of an object, of a field in one, or `object.field`."""
    kept: dict[str, Json] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            value = {
                key: inner
                for key, inner in value.items()
                if inner is not None and key not in left_out and f"{name}.{key}" not in left_out
            }
        if value and name not in left_out:
            kept[name] = value
    return kept


def _text_format(parameters: Parameters, target: Target) -> Json:
    """The schema of the answer, as a text that holds JSON; None where the model is known not to keep to one."""
    if parameters.schema is None or (target.row is not None and target.row.schemas is False):
        return None
    schema = dumps(constrained(parameters.schema)).decode("utf-8")
    return {"type": "json_schema", "structure": {"jsonSchema": {"name": "answer", "schema": schema}}}


# ---- Thinking -------------------------------------------------------------------------------------------------------


def _thinking(thinking: Thinking | None, asked: str | None, cap: int | None) -> dict[str, Json]:
    """Fields of the family's own; `effort` stands for the one that Converse has for Claude, in `outputConfig`."""
    if thinking is None:
        return {}
    if asked == "none" and thinking.off:
        return {"thinking": {"type": thinking.off}}
    effort = thinking.efforts.get(asked or "")
    if effort is None and not thinking.unasked:
        return {}
    match thinking.shape:
        case "budget":
            return _budget(str(effort), cap)
        case "adaptive":
            # Without `display` the newest models give a signature and no text.
            return {"thinking": {"type": "adaptive", "display": "summarized"}, "effort": effort}
        case "nova":
            return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort}}
        case "flat":
            return {"reasoning_effort": effort}
        case "nested":
            return {"reasoning": {"effort": effort}}


def _budget(effort: str, cap: int | None) -> dict[str, Json]:
    """Less than the cap on the output, which it counts towards; none where too little would be left."""
    budget = _BUDGETS[effort] if cap is None else min(_BUDGETS[effort], cap - _ANSWER_TOKENS)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _BUDGET_LEAST else {}


def _is_unlimited(fields: Mapping[str, Json]) -> bool:
    """Nova takes neither a cap nor a temperature at its highest effort (Nova 2 user guide; inspect_ai#3767)."""
    config = fields.get("reasoningConfig")
    return isinstance(config, Mapping) and config.get("maxReasoningEffort") == "high"


# ---- Reasoning in the messages --------------------------------------------------------------------------------------


def _is_turn_of_another(fragments: Sequence[bytes]) -> bool:
    """True in the middle of a tool loop that began without reasoning, such as on another model: Claude refuses that
    when it thinks by a budget."""
    first = begins_tool_loop(fragments, _SAID, _RESULTS)
    return bool(first) and not first.startswith(_SAID + b'{"reasoningContent":')


def _without_reasoning(fragment: bytes) -> bytes:
    if not fragment.startswith(_SAID) or b'{"reasoningContent":' not in fragment:
        return fragment
    message = json.loads(fragment)
    blocks = [block for block in message["content"] if "reasoningContent" not in block]
    return dumps({**message, "content": blocks or [{"text": NO_OUTPUT}]})
