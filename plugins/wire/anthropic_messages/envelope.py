"""The body of a request: prefix, messages with their cache marks, and what varies from call to call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hermes.kernel.errors import ProviderError
from hermes.kernel.messages import Json
from hermes.kernel.providers import Parameters, Target
from hermes.plugins.wire.caching import MOST_MARKS
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import NO_OUTPUT, Fragment, begins_tool_loop, joined, with_marks
from hermes.plugins.wire.schemas.constrained import constrained

from .encoding import cache_mark, offers_tools
from .families import Family, family_of, is_native
from .thoughts import REDACTED, THINKING

THINKING_BLOCKS = "thinking_blocks"
"""In `Parameters.leave_out`: no thinking is sent back, after a server has refused a signature (B080)."""

_ROOM_TOKENS = 4_096
"""What is left for the answer beside a thinking budget."""
_LEAST_BUDGET_TOKENS = 1_024
_BUDGETS: Mapping[str, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Thinking budgets in tokens (runtime behaviour specification 3.3.13; the least is the API's own)."""
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")

_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"

_RESULTS = b'{"role":"user","content":[{"type":"tool_result"'
_SAID = b'{"role":"assistant"'
_THOUGHT = tuple(_SAID + b',"content":[{"type":"' + kind.encode() for kind in (THINKING, REDACTED))

_NO_TOOL = {
    "name": "no_tool",
    "description": "Stands for the tools of earlier messages, which are not there any more. Never call it.",
    "input_schema": {"type": "object", "properties": {}},
}
"""Calls and results without any tool in the request are refused."""


def body_pieces(prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target) -> list[bytes]:
    """The body as pieces; fragments that carry no mark are the same objects as they were given.

    Raises ProviderError when the output cap is no number of tokens.
    """
    omitted = _omitted(parameters, target)
    if THINKING_BLOCKS in omitted:
        fragments = [_without_thinking(fragment) for fragment in fragments]
    options = _options(parameters, target)
    if options.get("thinking", {}).get("type") == "enabled" and _is_turn_of_another(fragments):
        del options["thinking"]
    choice = _tool_choice(offers_tools(prefix, target), fragments, parameters)
    options.update({name: value for name, value in choice.items() if name not in omitted})
    if mark := cache_mark(target):
        fragments = with_marks(fragments, mark, MOST_MARKS - prefix.count(mark))
    return joined(prefix, fragments, b"]," + dumps(options)[1:])


def betas(parameters: Parameters, target: Target) -> list[str]:
    """The beta names that a request needs, and those of the quirk `betas`."""
    config = _options(parameters, target).get("thinking", {})
    named = [_BINDING_BETA] if "block_binding" in config else []
    if config.get("type") == "enabled" and is_native(target):
        named.append(_INTERLEAVED_BETA)
    more = target.quirk("betas", ())
    return [*named, *(str(name) for name in (more if isinstance(more, list) else ()))]


# ---- Parameters -----------------------------------------------------------------------------------------------------


def _omitted(parameters: Parameters, target: Target) -> set[str]:
    """What is left out of the request; the output cap never, for every server needs it."""
    return {*parameters.leave_out, *target.quirk("drop_parameters", ())} - {"max_tokens"}


def _options(parameters: Parameters, target: Target) -> dict[str, Json]:
    family = family_of(target)
    omitted = _omitted(parameters, target)
    cap = _output_cap(parameters, target, family)
    effort = None if "reasoning_effort" in omitted else parameters.reasoning_effort
    options: dict[str, Json] = {"max_tokens": cap}
    if parameters.stream:
        options["stream"] = True
    thinking = _thinking(effort, family, target, cap)
    if thinking:
        options["thinking"] = thinking
    if output := _output_config(effort, parameters.schema, family):
        options["output_config"] = output
    if parameters.temperature is not None and family.samples and thinking.get("type") not in ("adaptive", "enabled"):
        options["temperature"] = min(parameters.temperature, 1.0)
    extra = target.quirk("extra_parameters", {})
    options.update(extra if isinstance(extra, Mapping) else {})
    _check_cap(options["max_tokens"])
    return {name: value for name, value in options.items() if name not in omitted}


def _output_cap(parameters: Parameters, target: Target, family: Family) -> int:
    """The cap of the call or the user, else the most that the model gives; always less than its window."""
    most = target.row.output_tokens if target.row else None
    asked = parameters.output_cap if parameters.output_cap is not None else target.output_cap
    if asked is not None:
        _check_cap(asked)
    cap = min(asked, most) if asked is not None and most else asked or most or family.output_tokens
    return min(cap, target.window_tokens - 1) if target.window_tokens else cap


def _check_cap(cap: Json) -> None:
    if isinstance(cap, bool) or not isinstance(cap, int) or cap <= 0:
        text = f"max_tokens must be a whole number above zero, not {cap!r}: look at model_options.max_output_tokens"
        raise ProviderError(text, kind="bad_request")


def _thinking(effort: str | None, family: Family, target: Target, cap: int) -> dict[str, Json]:
    """The `thinking` parameter; empty where it is left to the server. The budget gives way to the cap."""
    if family.way == "none":
        return {}
    if effort == "none" and family.off:
        return {"type": family.off} if family.thinks_unasked or not family.is_claude else {}
    if family.way == "adaptive":
        return _adaptive(family, target) if effort is not None or family.thinks_unasked else {}
    budget = min(_BUDGETS.get(effort or "", 0), cap - _ROOM_TOKENS)
    return {"type": "enabled", "budget_tokens": budget} if budget >= _LEAST_BUDGET_TOKENS else {}


def _adaptive(family: Family, target: Target) -> dict[str, Json]:
    """Claude shows no thinking unless it is asked to. What it thought before something in front of it changed (a
    note that is not stored, a new epoch, a compression) is to be dropped there, else the request is refused."""
    config: dict[str, Json] = {"type": "adaptive"}
    if family.is_claude:
        config["display"] = "summarized"
    if family.binds and is_native(target):
        config["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return config


def _output_config(effort: str | None, schema: Mapping[str, Json] | None, family: Family) -> dict[str, Json]:
    config: dict[str, Json] = {}
    if effort is not None and family.efforts and not (effort == "none" and family.off):
        config["effort"] = _level(effort, family.efforts)
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": constrained(schema)}
    return config


def _level(effort: str, efforts: Sequence[str]) -> str:
    """The asked level, else the next above it, else the highest."""
    asked = _LEVELS.index(effort) if effort in _LEVELS else 0
    return next((level for level in efforts if _LEVELS.index(level) >= asked), efforts[-1])


def _tool_choice(has_tools: bool, fragments: Sequence[bytes], parameters: Parameters) -> dict[str, Json]:
    if has_tools:
        return {} if parameters.may_call else {"tool_choice": {"type": "none"}}
    if any(fragment.startswith(_RESULTS) for fragment in fragments):
        return {"tools": [_NO_TOOL], "tool_choice": {"type": "none"}}
    return {}


# ---- Thinking in the messages ---------------------------------------------------------------------------------------


def _is_turn_of_another(fragments: Sequence[bytes]) -> bool:
    """True in the middle of a tool loop that began without thinking, such as on another model: with a budget, the
    server refuses it."""
    first = begins_tool_loop(fragments, _SAID, _RESULTS)
    return bool(first) and not first.startswith(_THOUGHT)


def _without_thinking(fragment: bytes) -> bytes:
    if not fragment.startswith(_SAID):
        return fragment
    message = json.loads(fragment)
    blocks = [block for block in message["content"] if block["type"] not in (THINKING, REDACTED)]
    message["content"] = blocks or [{"type": "text", "text": NO_OUTPUT}]
    return Fragment.of(dumps(message), getattr(fragment, "mark_at", 0))
