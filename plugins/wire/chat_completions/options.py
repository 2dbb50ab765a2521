"""The body of a request: its pieces, and the parameters that vary from call to call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hermes.kernel.messages import Json
from hermes.kernel.providers import Parameters, Target
from hermes.plugins.wire.caching import MOST_MARKS, cache_control, layout
from hermes.plugins.wire.jsontext import dumps
from hermes.plugins.wire.parts import joined, with_marks, without
from hermes.plugins.wire.schemas import answer_schema, is_strict_schema

from .encoding import is_grammar, offers_tools

THINKING_BLOCKS = "thinking_blocks"
"""In `Parameters.leave_out`: no signed thoughts are sent back, after a signature was refused (B080)."""
_SAID = b'{"role":"assistant"'
_DETAILS = b'"reasoning_details":'


def envelope_pieces(prefix: bytes, fragments: Sequence[bytes], parameters: Parameters, target: Target) -> list[bytes]:
    """The body as pieces: prefix, fragments with commas between, and what varies from call to call."""
    if THINKING_BLOCKS in parameters.leave_out:
        fragments = [_without_details(fragment) for fragment in fragments]
    if layout(target) == "envelope":
        has_system = not prefix.endswith(b"[")
        fragments = with_marks(fragments, cache_control(target), MOST_MARKS - has_system)
    tail = dumps(_options(parameters, target, offers_tools(prefix, target)))
    return joined(prefix, fragments, b"]," + tail[1:] if len(tail) > 2 else b"]}")


def _without_details(fragment: bytes) -> bytes:
    """The message of a model without the signed thoughts that a router gave with it."""
    if not fragment.startswith(_SAID) or _DETAILS not in fragment:
        return fragment
    return dumps({name: value for name, value in json.loads(fragment).items() if name != "reasoning_details"})


def _options(parameters: Parameters, target: Target, has_tools: bool) -> dict[str, Json]:
    options: dict[str, Json] = {}
    if parameters.stream:
        options["stream"] = True
        if target.quirk("stream_usage", True):
            options["stream_options"] = {"include_usage": True}
    if parameters.temperature is not None:
        options["temperature"] = parameters.temperature
    if parameters.output_cap is not None:
        options[str(target.quirk("output_cap_parameter", "max_tokens"))] = parameters.output_cap
    if has_tools and not parameters.may_call:
        options.update(_no_calls(parameters.schema, target))
    if parameters.schema is not None and not (has_tools and is_grammar(target)):
        options.update(_answer_format(parameters.schema, target))
    _put_in(options, target.quirk("extra_parameters", {}))
    if parameters.reasoning_effort is not None:
        _put_in(options, _effort(parameters.reasoning_effort, target))
    left_out = {*parameters.leave_out, *target.quirk("drop_parameters", ())}
    return without(options, left_out)


def _effort(effort: str, target: Target) -> Mapping[str, Json]:
    """How this target is told how long to think: a word for a parameter, parameters of its own, or nothing."""
    words: Mapping[str, Json] = target.quirk("effort_map", {})
    said = words.get(effort, words.get("*", effort))
    if said is None:
        return {}
    path = [] if isinstance(said, Mapping) else str(target.quirk("effort_parameter", "reasoning_effort")).split(".")
    for name in reversed(path):
        said = {name: said}
    return dict(said)


def _answer_format(schema: Mapping[str, Json], target: Target) -> dict[str, Json]:
    """The schema that the answer must fit; a model is held to it word for word where the schema allows that."""
    kind = target.quirk("schema_parameter", "json_schema")
    if kind == "json_object":
        return {"response_format": {"type": kind}}
    sent = answer_schema(schema, target)
    if kind != "json_schema" or sent is None:
        return {}
    named = {"name": "answer", "schema": sent, "strict": is_strict_schema(sent)}
    return {"response_format": {"type": kind, kind: named}}


def _no_calls(schema: Mapping[str, Json] | None, target: Target) -> dict[str, Json]:
    """What forbids calls. The last of two equal names wins: this grammar, without calls, replaces the first."""
    if not is_grammar(target):
        return {"tool_choice": "none"}
    from .grammar import grammar_for, grammar_for_answer

    return {"grammar": grammar_for(()) if schema is None else grammar_for_answer(schema)}


def _put_in(options: dict[str, Json], more: Mapping[str, Json]) -> None:
    """Add parameters, object by object: what two say inside one parameter is sent together."""
    for name, value in more.items():
        held = options.get(name)
        if isinstance(held, Mapping) and isinstance(value, Mapping):
            options[name] = inner = dict(held)
            _put_in(inner, value)
        else:
            options[name] = value
