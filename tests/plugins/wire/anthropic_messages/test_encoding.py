"""What goes out: valid for the strictest server, the same bytes for the same conversation, nothing of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.kernel.messages import Image, Message, Part, Refusal, Replay, Status, Text, Thinking, ToolCall, ToolResult
from hermes.kernel.providers import Parameters, Profile, Target, ToolSchema
from hermes.plugins.wire.anthropic_messages import AnthropicMessages
from hermes.plugins.wire.parts import Fragment
from hermes.plugins.wire.toolnames import own_name
from hermes.testing.strict_messages import problems

WIRE = AnthropicMessages()
TOOL = ToolSchema("read_file", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})
USER = Message("user", (Text("hello"),))
PNG = "iVBORw0KGgoAAAANSUhEUg=="
MARK = {"type": "ephemeral"}


def make(model: str = "claude-sonnet-4-5", host: str = "https://api.anthropic.com", **quirks: Any) -> Target:
    return Target(f"t:{model}", Profile("t", quirks=quirks), model, host, "anthropic_messages")


TARGET = make()


def pieces_of(
    *messages: Message,
    target: Target = TARGET,
    system: str = "sys",
    tools: tuple[ToolSchema, ...] = (TOOL,),
    parameters: Parameters | None = None,
) -> bytes:
    prefix = WIRE.prefix(system, tools, target)
    fragments = [WIRE.encode(m, target) for m in messages]
    return b"".join(WIRE.envelope(prefix, fragments, parameters or Parameters(), target))


def body_of(*messages: Message, **more: Any) -> Any:
    return json.loads(pieces_of(*messages, **more))


def blocks_of(message: Message, target: Target = TARGET) -> list[Any]:
    return list(json.loads(WIRE.encode(message, target))["content"])


def signed(text: str, signature: str = "sig", target: Target = TARGET) -> Thinking:
    return Thinking(text, Replay(target.issuer, "thinking", {"signature": signature} if signature else {}))


# ---- Valid for everybody --------------------------------------------------------------------------------------------

words = st.text(min_size=1, max_size=12).filter(lambda t: bool(t.strip()))
texts = st.builds(Text, words, st.sampled_from(["", "context", "steer", "warning"]))
images = st.builds(Image, st.sampled_from(["image/png", "image/jpeg", "image/bmp", ""]), st.sampled_from([PNG, "aGk="]))
statuses = st.sampled_from(["ok", "error", "blocked", "cancelled", "timeout", "unknown"])


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Histories that the kernel's invariants allow, as they are sent: the last message is user or tool."""
    out: list[Message] = []
    thoughts = st.builds(Thinking, words) | st.builds(signed, words) | st.builds(signed, words, st.just(""))
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        out.append(Message("user", tuple(draw(st.lists(texts | images, min_size=1, max_size=3)))))
        for _ in range(draw(st.integers(0, 2))):
            calls: list[Part] = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                calls += draw(st.lists(thoughts, max_size=1))
                calls.append(ToolCall(f"c_{number}", draw(st.sampled_from(["read_file", "a.b"])), {"a": draw(words)}))
            before: list[Part] = draw(st.lists(thoughts | texts, max_size=2))
            after: list[Part] = draw(st.lists(thoughts | texts, max_size=1))
            said = Message("assistant", (*before, *calls, *after))
            results = [
                ToolResult(c.id, draw(statuses), tuple(draw(st.lists(texts | images, min_size=1, max_size=2))))
                for c in said.calls
            ]
            out += [said, Message("tool", (*results, *draw(st.lists(texts, max_size=1))))]
        out.append(Message("assistant", (draw(st.builds(Text, words) | st.builds(Refusal, words)),)))
    return out[:-1]


@settings(max_examples=120, deadline=None)
@given(
    conversations(),
    st.sampled_from(["claude-opus-5-5", "claude-sonnet-4-5", "claude-3-5-haiku-latest", "claude-new-9"]),
    st.sampled_from([None, "none", "minimal", "high", "xhigh"]),
    st.booleans(),
    st.booleans(),
)
def test_every_valid_conversation_is_a_request_that_the_strictest_server_takes(
    messages: list[Message], model: str, effort: str | None, may_call: bool, has_tools: bool
) -> None:
    parameters = Parameters(may_call=may_call, reasoning_effort=effort, temperature=0.5)
    tools = (TOOL, TOOL) if has_tools else ()
    assert problems(body_of(*messages, target=make(model), tools=tools, parameters=parameters)) == []


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_a_message_is_the_same_bytes_every_time_and_ends_where_its_mark_goes(messages: list[Message]) -> None:
    for message in messages:
        fragment = WIRE.encode(message, TARGET)
        assert isinstance(fragment, Fragment)
        assert fragment == WIRE.encode(message, TARGET)
        assert (fragment.mark_at, fragment[-fragment.mark_at :]) == (3, b"}]}")
        assert json.loads(fragment)["content"][-1]["type"] not in ("thinking", "redacted_thinking")


# ---- The prefix -----------------------------------------------------------------------------------------------------


def test_the_system_prompt_stands_beside_the_messages_and_is_marked_where_the_target_caches() -> None:
    assert body_of(USER)["system"] == [{"type": "text", "text": "sys", "cache_control": MARK}]
    assert body_of(USER, target=make("glm-5", "https://api.z.ai/api/anthropic"))["system"] == "sys"
    assert "system" not in body_of(USER, system=" \n")


def test_without_a_system_prompt_the_last_tool_carries_the_mark() -> None:
    other = ToolSchema("b", "B.", {"type": "object"})
    tools = body_of(USER, system="", tools=(TOOL, other))["tools"]
    assert ["cache_control" in tool for tool in tools] == [False, True]


def test_spec_18478_17335_47707_equal_and_nameless_tools_are_sent_once_or_never() -> None:
    nameless = ToolSchema(" ", "Nothing.", {"type": "object"})
    tools = (TOOL, ToolSchema("read_file", "Again.", {"type": "object"}), nameless)
    assert [t["name"] for t in body_of(USER, tools=tools)["tools"]] == ["read_file"]
    assert body_of(USER, tools=(TOOL,))["tools"][0]["input_schema"] == TOOL.parameters


def test_B025_a_tool_whose_schema_cannot_be_sent_is_left_out_and_the_others_stay() -> None:
    body = body_of(USER, tools=(ToolSchema("odd", "Odd.", {"type": "string"}), TOOL))
    assert [t["name"] for t in body["tools"]] == ["read_file"]


@pytest.mark.parametrize("parameters", [{}, {"type": "object"}, {"type": "object", "properties": None}])
def test_B110_a_tool_without_parameters_has_the_schema_of_an_empty_object(parameters: dict[str, Any]) -> None:
    body = body_of(USER, tools=(ToolSchema("noop", "Do nothing.", parameters),))
    assert body["tools"][0]["input_schema"]["type"] == "object"
    assert problems(body) == []


@pytest.mark.parametrize("name", ["calendar.respondToEvent", "user-profile/update", "a" * 90, "工具", "a b"])
def test_B026_odd_tool_names_are_mapped_and_come_back(name: str) -> None:
    history = (USER, Message("assistant", (ToolCall("c1", name, {}),)),
               Message("tool", (ToolResult("c1", "ok", (Text("x"),)),)))  # fmt: skip
    body = body_of(*history, tools=(ToolSchema(name, "T.", {"type": "object"}),))
    sent = body["tools"][0]["name"]
    assert problems(body) == []
    assert body["messages"][1]["content"][0]["name"] == sent
    assert own_name(sent) == name


@pytest.mark.parametrize(
    ("model", "host", "sent"),
    [
        ("claude-opus-4.6", "https://api.anthropic.com", "claude-opus-4-6"),
        ("claude-opus-4.6", "https://proxy.example/anthropic", "claude-opus-4.6"),
        ("gpt-5.4", "https://api.anthropic.com", "gpt-5.4"),
        ("anthropic.claude-3-5-sonnet-v2:0", "https://api.anthropic.com", "anthropic.claude-3-5-sonnet-v2:0"),
        ("glm-4.7", "https://api.z.ai/api/anthropic", "glm-4.7"),
        ("MiniMax-M2.5", "https://api.minimax.io/anthropic", "MiniMax-M2.5"),
    ],
)
def test_spec_12295_11976_17171_5211_only_claude_at_anthropic_gets_hyphens(model: str, host: str, sent: str) -> None:
    assert body_of(USER, target=make(model, host))["model"] == sent


# ---- Messages -------------------------------------------------------------------------------------------------------


def test_B005_blank_texts_are_left_out_and_a_message_with_nothing_says_so() -> None:
    call = ToolCall("c1", "read_file", {})
    assert [b["type"] for b in blocks_of(Message("assistant", (Text(""), Text(" \n"), call)))] == ["tool_use"]
    for role in ("user", "assistant"):
        assert blocks_of(Message(role, (Text(" "),))) == [{"type": "text", "text": "(no output)"}]  # type: ignore[arg-type]
    result = blocks_of(Message("tool", (ToolResult("c1", "ok", (Text(" "),)),)))[0]
    assert result["content"] == [{"type": "text", "text": "(no output)"}]


def test_parallel_results_are_one_message_of_the_user_in_the_order_of_the_calls_with_texts_behind() -> None:
    results = [ToolResult(f"c{n}", "ok", (Text(f"out {n}"),)) for n in (2, 1)]
    blocks = blocks_of(Message("tool", (Text("stop it", "steer"), *results, Text("careful", "warning"))))
    assert [b.get("tool_use_id") for b in blocks] == ["c2", "c1", None, None]
    assert [b["text"] for b in blocks[2:]] == [
        "<user_message_while_working>\nstop it\n</user_message_while_working>", "careful"]  # fmt: skip


def test_B044_a_result_names_its_call_by_the_same_id_and_ids_stay_as_the_kernel_made_them() -> None:
    ids = ["call_1", "fc_1", "toolu_01D7FLrfh4GYq7yT1ULFeyMV", "x" * 40]
    said = Message("assistant", tuple(ToolCall(i, "read_file", {}) for i in ids))
    results = Message("tool", tuple(ToolResult(i, "ok", (Text("x"),)) for i in ids))
    assert [b["id"] for b in blocks_of(said)] == ids == [b["tool_use_id"] for b in blocks_of(results)]
    assert problems(body_of(USER, said, results)) == []


@pytest.mark.parametrize("status", ["error", "blocked", "cancelled", "timeout", "unknown"])
def test_a_result_that_is_not_ok_is_marked_as_an_error_unless_it_shows_a_picture(status: Status) -> None:
    plain, picture = ToolResult("a", status, (Text("no"),)), ToolResult("b", status, (Image("image/png", PNG),))
    fine = ToolResult("c", "ok", (Text("yes"),))
    blocks = blocks_of(Message("tool", (plain, picture, fine)))
    assert [b.get("is_error") for b in blocks] == [True, None, None]


def test_pictures_are_shown_in_user_messages_and_in_results() -> None:
    base64 = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    url = {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}
    shown = (Image("image/png", PNG), Image(url="https://x.example/a.png"), Image(url=f"data:image/png;base64,{PNG}"))
    assert blocks_of(Message("user", shown)) == [base64, url, base64]
    assert blocks_of(Message("tool", (ToolResult("c1", "ok", shown),)))[0]["content"] == [base64, url, base64]


@pytest.mark.parametrize(
    ("stated", "data", "sent"),
    [
        ("image/png", "/9j/4AAQ", "image/jpeg"),
        ("", "R0lGODlh", "image/gif"),
        ("application/octet-stream", "UklGRiQAAABXRUJQ", "image/webp"),
        ("image/jpg", "aGk=", "image/jpeg"),
        ("", "aGk=", "image/png"),
    ],
)
def test_the_kind_of_a_picture_is_read_from_its_bytes(stated: str, data: str, sent: str) -> None:
    assert blocks_of(Message("user", (Image(stated, data),)))[0]["source"]["media_type"] == sent


@pytest.mark.parametrize("image", [Image("image/tiff", "SUkqAA=="), Image(url="file:///a.png"), Image()])
def test_B078_a_picture_that_the_server_would_refuse_is_told_in_words(image: Image) -> None:
    assert [b["type"] for b in blocks_of(Message("user", (Text("see"), image)))] == ["text", "text"]


def test_a_refusal_is_a_text_and_a_lone_surrogate_never_reaches_the_wire() -> None:
    said = blocks_of(Message("assistant", (Refusal("No."), ToolCall("c1", "f", {"a": "\ud800"}))))
    assert said[0] == {"type": "text", "text": "No."}
    assert said[1]["input"] == {"a": "�"}


def test_spec_36071_a_replayed_call_has_the_stored_arguments() -> None:
    message = Message("assistant", (signed("hm"), ToolCall("c1", "read_file", {"key": "[redacted]"})))
    assert blocks_of(message)[1]["input"] == {"key": "[redacted]"}


# ---- Thinking -------------------------------------------------------------------------------------------------------


def test_own_thinking_goes_back_word_for_word_and_in_the_models_order_in_every_message() -> None:
    redacted = Thinking("", Replay(TARGET.issuer, "redacted_thinking", {"data": "opaque"}))
    omitted = signed("", "sig-2")
    said = Message("assistant", (signed(" a "), Text("t"), redacted, ToolCall("c1", "read_file", {}), omitted,
                                 ToolCall("c2", "read_file", {})))  # fmt: skip
    results = Message("tool", tuple(ToolResult(c.id, "ok", (Text("x"),)) for c in said.calls))
    body = body_of(USER, said, results, Message("assistant", (signed("b"), Text("u"))), USER)
    assert [b["type"] for b in body["messages"][1]["content"]] == [
        "thinking", "text", "redacted_thinking", "tool_use", "thinking", "tool_use"]  # fmt: skip
    content = body["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": " a ", "signature": "sig"}
    assert content[2] == {"type": "redacted_thinking", "data": "opaque"}
    assert content[4] == {"type": "thinking", "thinking": "", "signature": "sig-2"}
    assert body["messages"][3]["content"][0]["thinking"] == "b"


@pytest.mark.parametrize("issuer", ["anthropic_messages https://api.kimi.com/coding k", "chat_completions http://x m"])
def test_B080_thinking_of_another_server_is_never_sent_in_any_form(issuer: str) -> None:
    foreign = Thinking("secret thought", Replay(issuer, "thinking", {"signature": "kimi"}))
    said = Message("assistant", (foreign, Thinking("bare"), Text("t")))
    assert blocks_of(said) == [{"type": "text", "text": "t"}]
    assert b"secret" not in pieces_of(USER, said, USER)


def test_B080_own_thinking_without_a_signature_is_not_sent_to_anthropic() -> None:
    assert blocks_of(Message("assistant", (signed("cut", ""), Text("t")))) == [{"type": "text", "text": "t"}]


KIMI = make("kimi-for-coding", "https://api.kimi.com/coding")
DEEPSEEK = make("deepseek-v4-pro", "https://api.deepseek.com/anthropic")
MINIMAX = make("MiniMax-M3", "https://api.minimax.io/anthropic")


def _kinds(target: Target, *parts: Part) -> list[tuple[str, Any]]:
    return [(b["type"], b.get("thinking")) for b in blocks_of(Message("assistant", parts), target)]


def test_spec_13848_kimi_coding_gets_its_thinking_back_and_one_in_every_message_with_calls() -> None:
    call = ToolCall("c1", "read_file", {})
    assert _kinds(KIMI, signed("own", "s", KIMI), call) == [("thinking", "own"), ("tool_use", None)]
    assert _kinds(KIMI, signed("own", "", KIMI), call) == [("thinking", "own"), ("tool_use", None)]
    assert _kinds(KIMI, signed("claude's"), call) == [("thinking", " "), ("tool_use", None)]
    assert _kinds(KIMI, Text("no call")) == [("text", None)]
    proxied = make("moonshotai/kimi-k2.6", "https://gateway.example/v1")
    assert _kinds(proxied, call) == [("thinking", " "), ("tool_use", None)]


def test_spec_16748_deepseek_keeps_unsigned_thinking_and_drops_signed() -> None:
    call = ToolCall("c1", "read_file", {})
    assert _kinds(DEEPSEEK, signed("own", "", DEEPSEEK), call) == [("thinking", "own"), ("tool_use", None)]
    assert _kinds(DEEPSEEK, signed("own", "s", DEEPSEEK), Text("t")) == [("text", None)]
    elsewhere = make("deepseek-v4-pro", "https://api.deepseek.com/v1")
    assert _kinds(elsewhere, signed("own", "s", elsewhere), Text("t")) == [("thinking", "own"), ("text", None)]


def test_other_servers_get_their_own_thinking_back_as_it_came_unless_a_quirk_says_otherwise() -> None:
    own = (signed("a", "s", MINIMAX), signed("b", "", MINIMAX), Text("t"))
    assert _kinds(MINIMAX, *own) == [("thinking", "a"), ("thinking", "b"), ("text", None)]
    quirks = {"never": [], "signed": ["a"], "unsigned": ["b"], "no such word": ["a", "b"]}
    for word, kept in quirks.items():
        target = make(MINIMAX.model, MINIMAX.base_url, thinking_replay=word)
        assert [text for _, text in _kinds(target, *own)][:-1] == kept
    needy = make(MINIMAX.model, MINIMAX.base_url, reasoning_required=True)
    assert _kinds(needy, ToolCall("c1", "f", {})) == [("thinking", " "), ("tool_use", None)]
