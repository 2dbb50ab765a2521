"""What varies from call to call: output cap, thinking by family, cache marks that move, betas, what is left out."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from hermes.kernel.errors import ProviderError
from hermes.kernel.messages import Message, Replay, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import ModelRow, Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.anthropic_messages import AnthropicMessages
from hermes.plugins.wire.anthropic_messages.envelope import betas
from hermes.plugins.wire.anthropic_messages.families import FAMILIES, family_of
from hermes.testing.strict_messages import problems

WIRE = AnthropicMessages()
TOOL = ToolSchema("read_file", "Read.", {"type": "object", "properties": {}})
USER = Message("user", (Text("hello"),))
NATIVE = "https://api.anthropic.com"
PROXY = "https://gateway.example/anthropic"


def make(model: str = "claude-opus-5-5", host: str = NATIVE, more: Any = None, **quirks: Any) -> Target:
    return Target(f"t:{model}", Profile("t", quirks=quirks), model, host, "anthropic_messages", **(more or {}))


def body_of(target: Target, *messages: Message, tools: tuple[ToolSchema, ...] = (TOOL,), **parameters: Any) -> Any:
    fragments = [WIRE.encode(m, target) for m in messages or (USER,)]
    pieces = WIRE.envelope(WIRE.prefix("sys", tools, target), fragments, Parameters(**parameters), target)
    return json.loads(b"".join(pieces))


def loop(*turns: tuple[str, ...], target: Target | None = None) -> list[Message]:
    """A user message and one tool step for each turn; a turn is its thinking (signed), or nothing."""
    out = [USER]
    for number, thoughts in enumerate(turns):
        own = [Thinking(t, Replay((target or make()).issuer, "thinking", {"signature": "s"})) for t in thoughts]
        out.append(Message("assistant", (*own, ToolCall(f"c{number}", "read_file", {}))))
        out.append(Message("tool", (ToolResult(f"c{number}", "ok", (Text("x"),)),)))
    return out


# ---- The output cap -------------------------------------------------------------------------------------------------

LIMITS = {
    "claude-fable-5-2": 128_000,
    "claude-opus-5-5": 128_000,
    "claude-haiku-5-5": 128_000,
    "claude-sonnet-5": 128_000,
    "claude-opus-4-8": 128_000,
    "claude-opus-4-6": 128_000,
    "claude-sonnet-4-6": 64_000,
    "claude-opus-4-5-20251101": 64_000,
    "claude-haiku-4-5": 64_000,
    "claude-opus-4-1-20250805": 32_000,
    "claude-opus-4-20250514": 32_000,
    "claude-sonnet-4-20250514": 64_000,
    "claude-3-7-sonnet-latest": 64_000,
    "claude-3-5-haiku-20241022": 8_192,
    "claude-3-opus-20240229": 4_096,
    "claude-something-new": 128_000,
    "anthropic/claude-sonnet-4.5": 64_000,
    "MiniMax-M2.5": 131_072,
    "qwen3-coder-plus": 65_536,
    "who-knows": 128_000,
}


@pytest.mark.parametrize("model", LIMITS)
def test_max_tokens_is_always_sent_and_by_family_where_nothing_else_is_known(model: str) -> None:
    assert body_of(make(model))["max_tokens"] == LIMITS[model]


def test_the_cap_of_the_call_wins_over_the_users_and_that_over_the_models_row() -> None:
    row = {"row": ModelRow("m", output_tokens=50_000)}
    assert body_of(make(more=row))["max_tokens"] == 50_000
    assert body_of(make(more={**row, "output_cap": 9_000}))["max_tokens"] == 9_000
    assert body_of(make(more={**row, "output_cap": 9_000}), output_cap=70)["max_tokens"] == 70
    assert body_of(make(more=row), output_cap=60_000)["max_tokens"] == 50_000
    assert body_of(make(more={"window_tokens": 8_192}))["max_tokens"] == 8_191


@pytest.mark.parametrize("cap", [-1, 0, 0.5, math.nan, "many", True])
def test_spec_66664_a_cap_that_is_no_number_of_tokens_is_refused_before_it_is_sent(cap: Any) -> None:
    for target, asked in ((make(), cap), (make(more={"output_cap": cap}), None)):
        with pytest.raises(ProviderError, match="max_tokens must be a whole number above zero"):
            body_of(target, output_cap=asked)
    with pytest.raises(ProviderError, match="max_output_tokens"):
        body_of(make(extra_parameters={"max_tokens": cap}))


# ---- Thinking -------------------------------------------------------------------------------------------------------

SHOWN = {"type": "adaptive", "display": "summarized"}
BOUND = {**SHOWN, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def _said(model: str, effort: str | None, host: str = NATIVE, **more: Any) -> tuple[Any, Any]:
    body = body_of(make(model, host), reasoning_effort=effort, **more)
    assert problems(body) == []
    return body.get("thinking"), (body.get("output_config") or {}).get("effort")


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "level"),
    [
        # always on; `none` is the lowest effort
        ("claude-opus-5-5", None, BOUND, None),
        ("claude-opus-5-5", "none", BOUND, "low"),
        ("claude-fable-5-1", "xhigh", BOUND, "xhigh"),
        ("claude-fable-5", "minimal", SHOWN, "low"),
        # on unless it is switched off
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "none", {"type": "disabled"}, None),
        ("claude-opus-5", None, SHOWN, None),
        ("claude-opus-5", "none", {"type": "disabled"}, None),
        # off unless it is switched on
        ("claude-opus-4-8", None, None, None),
        ("claude-opus-4-8", "none", None, None),
        ("claude-opus-4-7", "medium", SHOWN, "medium"),
        ("claude-opus-4-6", "xhigh", SHOWN, "max"),
        ("claude-sonnet-4-6", "high", SHOWN, "high"),
        # by a budget
        ("claude-opus-4-5", "xhigh", {"type": "enabled", "budget_tokens": 32_768}, "high"),
        ("claude-sonnet-4-5", "high", {"type": "enabled", "budget_tokens": 16_384}, None),
        ("claude-haiku-4-5", "minimal", {"type": "enabled", "budget_tokens": 1_024}, None),
        ("claude-opus-4-1", "xhigh", {"type": "enabled", "budget_tokens": 27_904}, None),
        ("claude-3-7-sonnet-latest", "low", {"type": "enabled", "budget_tokens": 4_096}, None),
        ("claude-sonnet-4-5", None, None, None),
        # not at all
        ("claude-3-5-sonnet-latest", "high", None, None),
        # newer than the table
        ("claude-omega-9", "medium", BOUND, "medium"),
    ],
)
def test_each_family_of_claude_is_told_to_think_in_its_own_way(
    model: str, effort: str | None, thinking: Any, level: str | None
) -> None:
    assert _said(model, effort) == (thinking, level)


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "level"),
    [
        ("kimi-for-coding", "high", {"type": "adaptive"}, "high"),
        ("kimi-for-coding", None, None, None),
        ("MiniMax-M2.5", "medium", {"type": "enabled", "budget_tokens": 8_192}, None),
        ("deepseek-v4-pro", "low", {"type": "enabled", "budget_tokens": 4_096}, "high"),
        ("deepseek-v4-pro", "none", {"type": "disabled"}, None),
        ("who-knows", None, None, None),
    ],
)
def test_models_of_others_are_told_in_theirs(model: str, effort: str | None, thinking: Any, level: str | None) -> None:
    assert _said(model, effort, PROXY) == (thinking, level)


@pytest.mark.parametrize(("cap", "budget"), [(5_119, None), (5_120, 1_024), (12_288, 8_192), (50_000, 16_384)])
def test_the_budget_gives_way_to_the_cap_and_leaves_room_for_the_answer(cap: int, budget: int | None) -> None:
    thinking, _ = _said("claude-sonnet-4-5", "high", output_cap=cap)
    assert (thinking or {}).get("budget_tokens") == budget


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("claude-sonnet-4-5", None, 0.3),
        ("claude-sonnet-4-5", "none", 0.3),
        ("claude-sonnet-4-5", "high", None),
        ("claude-opus-4-6", "high", None),
        ("claude-opus-4-6", None, 0.3),
        ("claude-opus-4-7", None, None),
        ("claude-haiku-5-5", "none", None),
        ("MiniMax-M2.5", None, 0.3),
    ],
)
def test_a_temperature_goes_only_to_models_that_take_one_and_do_not_think(
    model: str, effort: str | None, sent: float | None
) -> None:
    body = body_of(make(model), temperature=0.3, reasoning_effort=effort)
    assert body.get("temperature") == sent


def test_a_temperature_above_one_is_one() -> None:
    assert body_of(make("claude-sonnet-4-5"), temperature=1.7)["temperature"] == 1


def test_a_budget_is_left_out_in_the_middle_of_a_turn_that_another_model_began() -> None:
    target = make("claude-sonnet-4-5")
    foreign, own = loop(()), loop(("hm",), target=target)
    assert "thinking" not in body_of(target, *foreign, reasoning_effort="high")
    assert "thinking" in body_of(target, *own, reasoning_effort="high")
    assert "thinking" in body_of(target, *loop(("hm",), (), target=target), reasoning_effort="high")
    done = [*foreign, Message("assistant", (Text("done"),)), USER]
    assert "thinking" in body_of(target, *done, reasoning_effort="high")
    assert "thinking" in body_of(make("claude-opus-4-6"), *foreign, reasoning_effort="high")


def test_every_row_of_the_table_is_the_first_that_fits_some_model() -> None:
    plain = str.maketrans({"[": None, "]": None})
    for family in FAMILIES:
        example = family.model.replace("[78]", "7").replace("*", "x").translate(plain)
        if family.model in ("*claude*", "*"):
            example = {"*claude*": "claude-new", "*": "other"}[family.model]
        assert family_of(make(example)) is family


# ---- Betas ----------------------------------------------------------------------------------------------------------


def test_betas_are_named_only_where_they_are_needed_and_only_to_anthropic() -> None:
    high = Parameters(reasoning_effort="high")
    binding, interleaved = "thinking-binding-controls-2026-08-01", "interleaved-thinking-2025-05-14"
    assert betas(high, make("claude-opus-5-5")) == [binding]
    assert betas(high, make("claude-sonnet-4-5")) == [interleaved]
    for model in ("claude-opus-4-6", "claude-opus-5", "claude-3-5-haiku-latest"):
        assert betas(high, make(model)) == []
    assert betas(Parameters(), make("claude-sonnet-4-5")) == []
    for model in ("claude-opus-5-5", "claude-sonnet-4-5"):
        assert betas(high, make(model, PROXY)) == []
        assert betas(high, make(model, PROXY, anthropic_native=True)) != []
    assert betas(Parameters(), make("claude-sonnet-4-5", PROXY, betas=["context-1m-2025-08-07"])) == [
        "context-1m-2025-08-07"
    ]
    assert "block_binding" not in body_of(make("claude-opus-5-5", PROXY))["thinking"]


# ---- Tools and schemas ----------------------------------------------------------------------------------------------


def test_calls_are_forbidden_without_touching_the_tools() -> None:
    free, forbidden = body_of(make()), body_of(make(), may_call=False)
    assert "tool_choice" not in free
    assert forbidden["tool_choice"] == {"type": "none"}
    assert forbidden["tools"] == free["tools"]
    assert "tool_choice" not in body_of(make(), tools=(), may_call=False)


def test_a_history_with_calls_and_no_tools_offers_one_that_is_never_to_be_called() -> None:
    body = body_of(make(), *loop(()), tools=())
    assert problems(body) == []
    assert (len(body["tools"]), body["tool_choice"]) == (1, {"type": "none"})
    assert "tools" not in body_of(make(), tools=())


def test_an_answer_that_must_fit_a_schema_is_asked_for_by_the_native_field() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    body = body_of(make(), schema=schema, reasoning_effort="low")
    assert problems(body) == []
    assert body["output_config"]["effort"] == "low"
    sent = body["output_config"]["format"]
    assert sent["type"] == "json_schema"
    assert sent["schema"]["properties"]["n"] == {"type": "integer", "description": '{"minimum": 1}'}
    assert schema["properties"]["n"] == {"type": "integer", "minimum": 1}  # type: ignore[index]


# ---- Left out, added, dropped ---------------------------------------------------------------------------------------


def test_what_the_target_refused_is_left_out_and_the_output_cap_never() -> None:
    target = make("claude-opus-4-6")
    asked: dict[str, Any] = {"reasoning_effort": "high", "may_call": False}
    assert {"thinking", "output_config", "tool_choice"} <= set(body_of(target, **asked))
    refused = ("thinking", "output_config", "tool_choice", "max_tokens")
    body = body_of(target, **asked, leave_out=refused)
    assert not {"thinking", "output_config", "tool_choice"} & set(body)
    assert "max_tokens" in body
    assert betas(Parameters(reasoning_effort="high", leave_out=refused), make()) == []
    assert not {"thinking", "output_config"} & set(body_of(target, **asked, leave_out=("reasoning_effort",)))


def test_quirks_add_and_drop_parameters() -> None:
    target = make("m", PROXY, extra_parameters={"metadata": {"user_id": "u"}}, drop_parameters=["temperature"])
    body = body_of(target, temperature=0.5)
    assert body["metadata"] == {"user_id": "u"}
    assert "temperature" not in body


def test_B080_after_a_signature_was_refused_no_thinking_is_sent_and_all_else_is() -> None:
    target = make("claude-sonnet-4-5")
    history = loop(("hm",), target=target)
    body = body_of(target, *history, leave_out=("thinking_blocks",), reasoning_effort="high")
    assert problems(body) == []
    assert [b["type"] for b in body["messages"][1]["content"]] == ["tool_use"]
    assert "thinking" not in body  # the turn begins without, so a budget would be refused


def test_a_request_that_is_not_streamed_says_nothing_of_streams() -> None:
    assert body_of(make())["stream"] is True
    assert "stream" not in body_of(make(), stream=False)


# ---- Cache marks ----------------------------------------------------------------------------------------------------


def _marked(body: Any) -> list[str]:
    """Where the marks are: system, tools, and the numbers of messages (always on their last block)."""
    places = ["system"] if "cache_control" in str(body.get("system")) else []
    places += ["tools"] if "cache_control" in str(body.get("tools")) else []
    for number, message in enumerate(body["messages"]):
        marks = ["cache_control" in block for block in message["content"]]
        assert not any(marks[:-1])
        places += [str(number)] if marks[-1] else []
    return places


def test_the_system_prompt_and_the_last_three_messages_are_marked() -> None:
    target = make()
    history = loop(("a",), ("b",), ("c",), target=target)
    assert _marked(body_of(target, *history)) == ["system", "4", "5", "6"]
    assert _marked(body_of(target, USER)) == ["system", "0"]


@pytest.mark.parametrize(("tools", "places"), [((TOOL,), ["tools", "4", "5", "6"]), ((), ["3", "4", "5", "6"])])
def test_without_a_system_prompt_all_four_marks_are_used(tools: Any, places: list[str]) -> None:
    target = make()
    prefix = WIRE.prefix("", tools, target)
    fragments = [WIRE.encode(m, target) for m in loop((), (), ())]
    body = json.loads(b"".join(WIRE.envelope(prefix, fragments, Parameters(), target)))
    assert _marked(body) == places


@pytest.mark.parametrize(
    ("target", "mark"),
    [
        (make(more={"cache_ttl": "5m"}), {"type": "ephemeral"}),
        (make(more={"cache_ttl": "1h"}), {"type": "ephemeral", "ttl": "1h"}),
        (make(more={"cache_ttl": ""}), None),
        (make("MiniMax-M3", "https://api.minimax.io/anthropic"), {"type": "ephemeral"}),
        (make("glm-5", PROXY), None),
    ],
)
def test_a_mark_lives_as_long_as_the_target_says_and_is_sent_only_where_marks_are_taken(
    target: Target, mark: Any
) -> None:
    body = body_of(target)
    assert body["messages"][0]["content"][0].get("cache_control") == mark
    assert problems(body) == []


def test_marks_move_and_nothing_else_does() -> None:
    target = make()
    history = loop(("a",), ("b",), ("c",), ("d",), target=target)
    prefix = WIRE.prefix("sys", (TOOL,), target)
    fragments = [WIRE.encode(m, target) for m in history]
    kept = list(fragments)
    mark = b',"cache_control":{"type":"ephemeral"}'
    before = b""
    for count in range(1, len(history) + 1, 2):
        body = b"".join(WIRE.envelope(prefix, fragments[:count], Parameters(), target))
        assert body.startswith(prefix)
        bare = body.removeprefix(prefix).replace(mark, b"").partition(b'],"max_tokens"')[0]
        assert bare == b",".join(kept[:count])
        assert bare.startswith(before)
        before = bare
    assert all(a is b for a, b in zip(fragments, kept, strict=True))
    assert all(mark not in fragment for fragment in fragments)
