"""What holds for every response: however it streams, whatever is damaged, and when it is sent back."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from hermes.kernel.messages import Message, ModelReply, Text, ToolResult, message_from_json, message_to_json
from hermes.kernel.providers import Parameters, WireFault
from hermes.plugins.wire.codex_responses import CodexResponses
from hermes.plugins.wire.codex_responses.decoding import Assembler
from hermes.testing.strict_responses import problems

RUNS = 400
WORDS = ("", " ", "a", "Hello, ", "ä😀", "\n\n", "to=functions", "</think>", "}{", "x" * 200)


def words(rng: random.Random, least: int = 0) -> str:
    return "".join(rng.choices(WORDS, k=rng.randint(least, 4)))


def item(rng: random.Random, number: int) -> dict[str, Any]:
    match rng.choice(("message", "reasoning", "function_call")):
        case "message":
            kinds = [rng.choice(("output_text", "output_text", "refusal")) for _ in range(rng.randint(1, 2))]
            fields = {"output_text": "text", "refusal": "refusal"}
            content = [{"type": kind, fields[kind]: f"w{words(rng)}"} for kind in kinds]
            phase = rng.choice(({}, {"phase": "commentary"}, {"phase": "final_answer"}))
            return {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content, **phase}
        case "reasoning":
            summary = [{"type": "summary_text", "text": f"t{words(rng)}"} for _ in range(rng.randint(0, 2))]
            return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": f"seal{number}"}
        case _:
            arguments = json.dumps({"path": words(rng), "n": number})
            head = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
            return head | {"name": rng.choice(("read_file", "noop")), "arguments": arguments}


def response(rng: random.Random) -> dict[str, Any]:
    output = [item(rng, number) for number in range(rng.randint(1, 5))]
    return {"status": "completed", "model": "m", "output": output, "error": None, "usage": {"input_tokens": 7}}


# ---- Streaming ------------------------------------------------------------------------------------------------------


def pieces(rng: random.Random, kind: str, text: str, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    while text:
        size = rng.randint(1, max(1, len(text)))
        yield {"type": f"response.{kind}.delta", "delta": text[:size], **place}
        text = text[size:]


def streamed(rng: random.Random, made: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The events of one item; some servers leave out this, some that."""
    place: dict[str, Any] = {"output_index": number, "item_id": made["id"]}
    if rng.random() < 0.3:  # Copilot: another id in each event
        place["item_id"] = "z" * rng.randint(300, 400)
    if rng.random() < 0.8 or "phase" in made:  # without its phase, narration is shown as text until it is done
        begun = {**made, "content": [], "summary": [], "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": number, "item": begun}
    if rng.random() < 0.8:
        for part, block in enumerate(made.get("content", ())):
            kind = "output_text" if block["type"] == "output_text" else "refusal"
            text = block.get("text") or block.get("refusal")
            yield from pieces(rng, kind, text, place | {"content_index": part})
        for part, block in enumerate(made.get("summary", ())):
            yield from pieces(rng, "reasoning_summary_text", block["text"], place | {"summary_index": part})
        yield from pieces(rng, "function_call_arguments", made.get("arguments", ""), place)
    for _ in range(rng.choice((1, 1, 2))):
        yield {"type": "response.output_item.done", "output_index": number, "item": made}


def events(rng: random.Random, whole: dict[str, Any]) -> list[dict[str, Any]]:
    found = [event for number, made in enumerate(whole["output"]) for event in streamed(rng, made, number)]
    last = {**whole, "output": rng.choice((None, [], whole["output"]))}
    found += [{"type": "response.completed", "response": last}]
    for _ in range(rng.randint(0, 2)):
        found.insert(rng.randint(0, len(found)), {"type": rng.choice(("keepalive", "response.queued", "odd"))})
    return [{**event, "sequence_number": number} for number, event in enumerate(found, 1)]


def read(target: Any, found: Any, *, is_whole: bool = False) -> tuple[ModelReply, dict[str, str]]:
    assembler = Assembler(target)
    deltas = list(assembler.whole(found)) if is_whole else [d for event in found for d in assembler.feed(event)]
    shown = {kind: "".join(d.text for d in deltas if d.kind == kind) for kind in ("text", "thinking", "call")}
    return assembler.reply(), shown


def test_however_a_response_streams_it_is_the_same_reply_and_is_shown_whole(target: Any) -> None:
    for seed in range(RUNS):
        rng = random.Random(seed)
        whole = response(rng)
        reply, shown = read(target, whole, is_whole=True)
        again, streamed_shown = read(target, events(rng, whole))
        assert again == reply, f"seed {seed}"
        assert (streamed_shown["text"], streamed_shown["call"]) == (shown["text"], shown["call"]), f"seed {seed}"
        assert shown["text"] == reply.text, f"seed {seed}"


# ---- Damage ---------------------------------------------------------------------------------------------------------

JUNK = (None, True, 0, -1, 10**30, 1.5, "", "x", [], [None], {}, {"type": "message"}, ["text"], [[]], "\ud800")


def damaged(rng: random.Random, value: Any) -> Any:
    """The same with one to three values anywhere in it replaced by something else, or gone."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        node = value
        while True:
            keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.7:
                node = node[key]
            elif rng.random() < 0.2:
                del node[key]
                break
            else:
                node[key] = copy.deepcopy(rng.choice(JUNK))
                break
    return value


@pytest.mark.parametrize("is_whole", [True, False])
def test_B066_whatever_is_null_or_of_another_type_is_a_reply_or_a_wire_fault(target: Any, is_whole: bool) -> None:
    for seed in range(RUNS * 3):
        rng = random.Random(seed)
        whole = response(rng)
        sent = damaged(rng, whole if is_whole else events(rng, whole))
        try:
            reply, _ = read(target, sent, is_whole=is_whole)
        except WireFault:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r} for {sent}") from error
        stored = Message("assistant", reply.parts or (Text("."),), replay=reply.replay)
        json.dumps(message_to_json(stored), ensure_ascii=False).encode("utf-8")
        CodexResponses().encode(stored, target)


# ---- Sent back ------------------------------------------------------------------------------------------------------


def test_B080_B081_what_the_model_wrote_goes_back_as_it_was_and_is_taken_by_a_strict_server(target: Any) -> None:
    wire = CodexResponses()
    for seed in range(RUNS):
        whole = response(random.Random(seed))
        reply, _ = read(target, whole, is_whole=True)
        if not reply.calls and not reply.text.strip():
            continue  # the kernel stores no such message
        user = Message("user", (Text("hello"),))
        said = Message("assistant", reply.parts)
        said = message_from_json(json.loads(json.dumps(message_to_json(said))))
        results = tuple(ToolResult(c.id, "ok", (Text("out"),)) for c in reply.calls)
        history = (user, said, Message("tool", results) if results else user)
        fragments = [wire.encode(message, target) for message in history]
        assert fragments == [wire.encode(message, target) for message in history], f"seed {seed}"
        body = json.loads(b"".join(wire.envelope(wire.prefix("s", (), target), fragments, Parameters(), target)))
        seals = {made["encrypted_content"] for made in whole["output"] if made["type"] == "reasoning"}
        assert problems(body, issued=seals) == [], f"seed {seed}"
        assert sent_back(body["input"]) == as_sent_back(whole["output"]), f"seed {seed}"


def sent_back(sent: list[Any]) -> list[Any]:
    return [made for made in sent if made["type"] != "function_call_output" and made.get("role") != "user"]


def as_sent_back(output: list[Any]) -> list[Any]:
    """The items that a server gave, as it wants them back: thinking without its id, and not at the end."""
    wanted = []
    for made in output:
        if made["type"] == "reasoning":
            wanted.append({name: value for name, value in made.items() if name != "id"})
        elif made["type"] == "message":
            blocks = [block | ({"annotations": []} if "text" in block else {}) for block in made["content"]]
            wanted.append({**made, "content": blocks, "status": "completed"})
        else:
            arguments = json.dumps(json.loads(made["arguments"]), ensure_ascii=False, separators=(",", ":"))
            wanted.append({**{name: made[name] for name in ("type", "call_id", "name")}, "arguments": arguments})
    while wanted and wanted[-1]["type"] == "reasoning":
        wanted.pop()
    return wanted
