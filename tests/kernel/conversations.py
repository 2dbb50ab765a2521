"""Hypothesis strategies for conversations: valid ones, and any list of messages at all."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hermes.kernel.history import fresh_id
from hermes.kernel.messages import Image, Message, Refusal, Replay, Text, Thinking, ToolCall, ToolResult

STATUSES: tuple[Any, ...] = ("ok", "error", "blocked", "cancelled", "timeout", "unknown")

some = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How much of a property a test run looks at."""

json_leaves = st.sampled_from([None, True, 0, -7, 2.5, "", "word", "ä"]) | st.text(max_size=5)
json_values = (
    json_leaves | st.lists(json_leaves, max_size=2) | st.dictionaries(st.text(max_size=3), json_leaves, max_size=2)
)
objects = st.dictionaries(st.sampled_from(["path", "n", "ü"]), json_values, max_size=2)
WORDS = ["a", "word ", "näïve", "\U0001f600", "x\ny", "the same again and again"]
plain = st.sampled_from(WORDS)
broken = st.sampled_from(["", " ", "\n\t", "\ud800", "a\udfff", "\ud83d\ude00", " ", "\ufeff"])
any_texts = plain | broken | st.text(alphabet=st.characters(), max_size=6)
replays = st.none() | st.builds(Replay, st.just("wire host scope"), st.just("kind"), json_values)


# ---- Any list of messages -------------------------------------------------------------------------------------------

few_ids = st.sampled_from(["", "call_0", "c1", "c2", "call 0", "x" * 50, "é"])
few_names = st.sampled_from(["read", "", " ", "a\ud800"])
texts = st.builds(Text, any_texts, st.sampled_from(["", "context", "steer", "warning"]), replays)
images = st.builds(Image, st.just("image/png"), st.just("AAAA"), st.just(""), replays)
broken_arguments = objects | st.just({"k": "\ud800"}) | st.just("{not json") | st.none()
calls: Any = st.builds(
    ToolCall,
    few_ids,
    few_names,
    broken_arguments,
    st.none() | any_texts,
    replays,
)
results = st.builds(
    ToolResult,
    few_ids,
    st.sampled_from(STATUSES),
    st.lists(texts | images, max_size=2).map(tuple),
    st.none() | objects,
    replays,
)
any_parts = (
    texts | images | st.builds(Thinking, any_texts, replays) | st.builds(Refusal, any_texts, replays) | calls | results
)
origins = st.sampled_from(["", "steer", "nudge", "summary", "partial", "closing"])
any_messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool"]),
    st.lists(any_parts, max_size=4).map(tuple),
    origins,
    replays,
)
good_messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool"]),
    st.lists(
        st.builds(Text, plain, st.sampled_from(["", "context"]), replays)
        | images
        | st.builds(Thinking, plain, replays)
        | st.builds(Refusal, plain, replays)
        | st.builds(ToolCall, plain, plain, objects, st.none() | plain, replays)
        | st.builds(
            ToolResult,
            plain,
            st.sampled_from(STATUSES),
            st.lists(plain.map(Text) | images, max_size=2).map(tuple),
            st.none() | objects,
            replays,
        ),
        max_size=3,
    ).map(tuple),
    origins,
    replays,
)
"""Messages of any form that hold nothing which cannot be encoded; not every one fits the invariants."""

any_lists = st.lists(any_messages, max_size=6)


# ---- Valid conversations --------------------------------------------------------------------------------------------


def conversations(*, at_rest: bool = False) -> st.SearchStrategy[list[Message]]:
    """Conversations that hold every invariant; the end is open unless `at_rest`. Drawn by a seed, which is quick."""
    return st.integers(0, 2**32).map(lambda seed: _conversation(Random(seed), at_rest=at_rest))


def _conversation(rng: Random, *, at_rest: bool) -> list[Message]:
    used: set[str] = set()
    messages: list[Message] = []
    for _ in range(rng.randint(1, 3)):
        parts = (Text(rng.choice(WORDS)), *([Image("image/png", "AAAA")] if rng.random() < 0.2 else []))
        messages.append(Message("user", parts, rng.choice(("", "steer", "nudge", "summary"))))
        for _ in range(rng.randint(0, 2)):
            messages += _step(rng, used)
        origin: Any = rng.choice(("", "", "partial", "closing"))
        messages.append(Message("assistant", (*_said(rng), Text(rng.choice(WORDS))), origin))
    return messages if at_rest else messages[: rng.randint(1, len(messages))]


def _said(rng: Random) -> list[Any]:
    choices = (Text("a"), Refusal("no"), Thinking("hm"), Thinking("", Replay("w h", "k", 1)))
    return rng.sample(choices, rng.randint(0, 2))


def _step(rng: Random, used: set[str]) -> list[Message]:
    made: list[ToolCall] = []
    for _ in range(rng.randint(1, 3)):
        call_id = fresh_id(rng.choice(("call_0", "c1", "toolu_7")), used)
        used.add(call_id)
        arguments: dict[str, Any] = rng.choice(({}, {"path": "x"}, {"n": [1, None, "ü"]}))
        made.append(ToolCall(call_id, "read", arguments, rng.choice((None, None, "cut: it ends early"))))
    answers: list[Any] = [ToolResult(c.id, rng.choice(STATUSES), (Text(rng.choice(WORDS)),)) for c in made]
    extra = [Text("the user says", "steer")] if rng.random() < 0.3 else []
    return [Message("assistant", (*_said(rng), *made)), Message("tool", (*answers, *extra))]


some_parts = st.sampled_from([Text("a"), Refusal("no "), Thinking("hm"), Thinking("", Replay("w h", "k", 1))])
assistant_texts = st.lists(some_parts, max_size=2)
