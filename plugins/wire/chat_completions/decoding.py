"""From chunks, or one whole completion, to the neutral reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from hermes.kernel.messages import (
    Json,
    ModelReply,
    Part,
    Refusal,
    Replay,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    clean,
    clean_json,
)
from hermes.kernel.providers import Delta, Target, WireFault
from hermes.plugins.wire.jsontext import entries, inner, read_arguments
from hermes.plugins.wire.shown import Shown
from hermes.plugins.wire.toolnames import own_name

from .encoding import FIELDS, REASONING, is_grammar
from .slots import Slot, Slots
from .thinktags import ThinkSplitter
from .usage import read_usage, stop_reason

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
"""Where servers put reasoning text (DeepSeek, OpenRouter, others); one that sends two sends the same text twice."""
_WRITTEN_CALL = ("{", "[", "<tool_call", "```")
"""How a text may begin that is a call offered by grammar: it is not shown while it streams."""


class Assembler:
    """Collects one reply. `feed` takes the chunks in order, `reply` what they come to.

    `tool_names` are the tools offered by grammar, of which calls in the text are taken.
    """

    def __init__(self, target: Target, tool_names: Sequence[str] = ()) -> None:
        self._target = target
        self._tool_names = tool_names
        self._texts: dict[Literal["text", "thinking"], Shown] = {"text": Shown(), "thinking": Shown()}
        self._refusal: list[str] = []
        self._splitter = ThinkSplitter()
        self._slots = Slots()
        self._legacy = Slots()
        self._details: list[Json] = []
        self._finish: StopReason | None = None
        self._usage: Json = None
        self._model = ""
        self._is_hiding = False
        self.was_fed = False
        self.is_done = False
        """True after `[DONE]`, or for a reply that came whole."""

    @property
    def is_finished(self) -> bool:
        return self._finish is not None

    @property
    def has_output(self) -> bool:
        return bool(self._refusal or self._slots.in_order() or self._legacy.in_order()) or any(
            shown.pieces for shown in self._texts.values()
        )

    def feed(self, chunk: Json) -> Iterator[Delta]:
        """Take one chunk; raises WireFault for an error object and for what is no chunk."""
        if not isinstance(chunk, Mapping):
            raise WireFault("invalid", f"a chunk that is no object: {str(chunk)[:120]}", phase="stream")
        _raise_error(chunk)
        self.was_fed = True
        if usage := chunk.get("usage") or inner(chunk, "x_groq").get("usage"):
            self._usage = usage
        if model := chunk.get("model"):
            self._model = str(model)
        for choice in entries(chunk.get("choices")):
            if isinstance(choice, Mapping):
                yield from self._choice(choice)

    def whole(self, reply: Json) -> Iterator[Delta]:
        """Take a completion that came as one object; raises WireFault when it is none."""
        if not isinstance(reply, Mapping) or not (reply.get("choices") or reply.get("error")):
            raise _no_reply(reply)
        yield from self.feed(reply)

    def rest(self) -> Iterator[Delta]:
        """What was held back until the end, such as half a tag."""
        for kind, piece in self._splitter.rest():
            yield from self._show(kind, piece)
        text = self._texts["text"].whole()
        shown, calls = self._written(text) if self._is_hiding else ("", [])
        if self._is_hiding and not calls:
            yield Delta("text", shown)  # it only looked like a call, or it was the answer

    def _choice(self, choice: Mapping[str, Json]) -> Iterator[Delta]:
        """Any index counts as the one choice: a proxy puts block numbers there (B053)."""
        _raise_error(choice)
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            delta = choice.get("message")
            if self.has_output or not isinstance(delta, Mapping):  # a summary of what has been streamed
                delta = {}
        if delta:
            yield from self._delta(delta)
        if isinstance(text := choice.get("text"), str) and not delta:
            yield from self._text(text)
        if (finish := stop_reason(choice.get("finish_reason"))) is not None:
            self._finish = finish

    def _delta(self, delta: Mapping[str, Json]) -> Iterator[Delta]:
        for name in _REASONING_FIELDS:
            if isinstance(thinking := delta.get(name), str) and thinking:
                yield from self._show("thinking", thinking)
                break
        if content := delta.get("content"):
            yield from self._content(content)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._refusal.append(refusal)
            yield Delta("text", clean(refusal))
        if details := delta.get("reasoning_details"):
            self._add_details(details)
        for entry in entries(delta.get("tool_calls")):
            if begun := self._slots.add(entry):
                yield Delta("call", own_name(begun))
        old = delta.get("function_call")
        if isinstance(old, Mapping) and (begun := self._legacy.add({"index": 0, **old})):
            yield Delta("call", own_name(begun))

    def _content(self, content: Json) -> Iterator[Delta]:
        """Content is a text, or a list of typed blocks (Mistral, DeepSeek)."""
        if isinstance(content, str):
            yield from self._text(content)
            return
        for block in entries(content):
            if isinstance(block, str):
                yield from self._text(block)
            elif isinstance(block, Mapping) and str(block.get("type")) in ("thinking", "reasoning"):
                yield from self._show("thinking", _block_text(block))
            elif isinstance(block, Mapping):
                yield from self._text(_block_text(block))

    def _text(self, text: str) -> Iterator[Delta]:
        for kind, piece in self._splitter.feed(text):
            yield from self._show(kind, piece)

    def _show(self, kind: Literal["text", "thinking"], piece: str) -> Iterator[Delta]:
        shown = self._texts[kind]
        if not (piece := shown.add(piece)):
            return
        if kind == "text" and is_grammar(self._target) and shown.whole().lstrip().startswith(_WRITTEN_CALL):
            self._is_hiding = True
            return
        yield Delta(kind, piece)

    def _add_details(self, details: Json) -> None:
        """OpenRouter streams reasoning blocks in pieces and wants the whole sequence back."""
        for item in entries(details):
            last = self._details[-1] if self._details else None
            if not isinstance(item, Mapping):
                continue
            if last is None or (last.get("type"), last.get("index")) != (item.get("type"), item.get("index")):
                self._details.append(dict(item))
                continue
            for key, value in item.items():
                if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str):
                    last[key] += value
                elif value is not None:
                    last[key] = value

    # ---- The whole ------------------------------------------------------------------------------------------------

    def reply(self) -> ModelReply:
        """What the chunks come to. Raises WireFault("invalid") when nothing came that could be a reply."""
        if not self.was_fed or (self._finish is None and not self.has_output):
            raise WireFault("invalid", "the reply was empty: no text, no call and no finish reason", phase="stream")
        text = self._texts["text"].whole()
        calls = self._calls()
        if self._tool_names and not calls:
            text, calls = self._written(text)
        issuer = self._target.issuer
        parts: list[Part] = []
        if thinking := self._texts["thinking"].whole().strip():
            parts.append(Thinking(thinking, Replay(issuer, REASONING, None)))
        if text.strip():
            parts.append(Text(text))
        if refusal := clean("".join(self._refusal)).strip():
            parts.append(Refusal(refusal))
        parts.extend(calls)
        replay = Replay(issuer, FIELDS, {"reasoning_details": clean_json(self._details)}) if self._details else None
        return ModelReply(tuple(parts), self._stop(parts), read_usage(self._usage), self._model, replay)

    def _stop(self, parts: Sequence[Part]) -> StopReason:
        has_calls = any(isinstance(p, ToolCall) for p in parts)
        finish = self._finish
        if finish is None:
            finish = StopReason.OTHER if self.is_done else StopReason.CUT
        if has_calls and finish in (StopReason.STOP, StopReason.OTHER, StopReason.TOOL_CALLS):
            return StopReason.TOOL_CALLS
        if finish is StopReason.TOOL_CALLS:  # announced, but none came
            return StopReason.OTHER
        if finish is StopReason.STOP and any(isinstance(p, Refusal) for p in parts) and not self._has_text(parts):
            return StopReason.REFUSAL
        return finish

    @staticmethod
    def _has_text(parts: Sequence[Part]) -> bool:
        return any(isinstance(p, Text) for p in parts)

    def _calls(self) -> list[ToolCall]:
        slots = self._slots.in_order() or self._legacy.in_order()
        is_cut = self._finish is StopReason.LENGTH or self._finish is StopReason.CUT
        is_cut = is_cut or (self._finish is None and not self.is_done)
        return [self._call(slot, is_cut and slot is slots[-1]) for slot in slots]

    def _call(self, slot: Slot, is_cut: bool) -> ToolCall:
        name = own_name(clean(slot.name))
        arguments, problem = read_arguments(name, slot.arguments, is_cut)
        replay = Replay(self._target.issuer, FIELDS, clean_json(slot.fields)) if slot.fields else None
        return ToolCall(clean(slot.id), name, arguments, problem, replay)

    def _written(self, text: str) -> tuple[str, list[ToolCall]]:
        """Calls that a model without native calls wrote as text."""
        from hermes.kernel.textcalls import calls_in

        from .grammar import ANSWER

        rest, written = calls_in(text, (*self._tool_names, ANSWER.name))
        calls = []
        if len(written) == 1 and written[0][0] == ANSWER.name and ANSWER.name not in self._tool_names:
            answer = read_arguments(ANSWER.name, written[0][1], False)[0].get("text")
            return (f"{rest}{answer}" if isinstance(answer, str) else text), []
        for name, raw in written:
            arguments, problem = read_arguments(name, raw, False)
            calls.append(ToolCall("", name, arguments, problem))
        return (rest, calls) if calls else (text, [])


def _raise_error(data: Mapping[str, Json]) -> None:
    """An error inside a reply, also with status 200 (B056)."""
    error = data.get("error")
    if not error and data.get("object") == "error":
        error = data
    if not error:
        return
    inner = error if isinstance(error, Mapping) else {"message": str(error)}
    code = inner.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    raise WireFault(
        "http",
        clean(str(inner.get("message") or "the provider reported an error inside the reply")),
        status=status,
        code=str(code if isinstance(code, str) and code else inner.get("type") or ""),
        body=json.dumps({"error": inner}),
        phase="stream",
    )


def _no_reply(completion: Json) -> WireFault:
    text = json.dumps(completion)
    if isinstance(completion, Mapping) and completion.get("object") == "error":
        return WireFault("http", str(completion.get("message")), body=text, phase="stream")
    return WireFault("invalid", f"the reply has no choices: {text[:200]}", body=text[:4000], phase="stream")


def _block_text(block: Mapping[str, Json]) -> str:
    for name in ("text", "thinking", "output", "content"):
        value = block.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(_block_text(item) for item in value if isinstance(item, Mapping))
    return ""
