"""From chunks, or one whole completion, to the neutral reply."""

from __future__ import annotations

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

from .blocks import add_details, block_text, detail_text
from .calltags import CallTagFilter
from .encoding import FIELDS, REASONING, is_grammar
from .errors import no_reply, raise_error
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
        self._call_tags = CallTagFilter()
        self._slots = Slots()
        self._legacy = Slots()
        self._details: list[Json] = []
        self._google: dict[str, Json] = {}
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

    def feed(self, event: Json) -> Iterator[Delta]:
        """Take one chunk; raises WireFault for an error object and for what is no chunk."""
        if not isinstance(event, Mapping):
            raise WireFault("invalid", f"a chunk that is no object: {str(event)[:120]}", phase="stream")
        raise_error(event)
        self.was_fed = True
        if usage := event.get("usage") or inner(event, "x_groq").get("usage"):
            self._usage = usage
        if model := event.get("model"):
            self._model = str(model)
        for choice in entries(event.get("choices")):
            if isinstance(choice, Mapping):
                yield from self._choice(choice)

    def whole(self, reply: Json) -> Iterator[Delta]:
        """Take a completion that came as one object; raises WireFault when it is none."""
        if not isinstance(reply, Mapping) or not (reply.get("choices") or reply.get("error")):
            raise no_reply(reply)
        yield from self.feed(reply)

    def rest(self) -> Iterator[Delta]:
        """What was held back until the end, such as half a tag."""
        for kind, piece in self._splitter.rest():
            yield from self._show(kind, piece)
        if not is_grammar(self._target):
            yield from self._emit("text", self._call_tags.rest())
        text = self._texts["text"].whole()
        shown, calls = self._written(text) if self._is_hiding else ("", [])
        if self._is_hiding and not calls:
            yield Delta("text", shown)  # it only looked like a call, or it was the answer

    def _choice(self, choice: Mapping[str, Json]) -> Iterator[Delta]:
        """Any index counts as the one choice: a proxy puts block numbers there (B053)."""
        raise_error(choice)
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
        google = dict(inner(inner(delta, "extra_content"), "google"))
        is_thought = google.pop("thought", False) is True
        self._google |= google
        details = entries(delta.get("reasoning_details"))
        add_details(self._details, details)
        for thinking in (*map(delta.get, _REASONING_FIELDS), "".join(map(detail_text, details))):
            if isinstance(thinking, str) and thinking:
                yield from self._show("thinking", thinking)
                break
        if content := delta.get("content"):
            yield from self._content(content, is_thought)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._refusal.append(refusal)
            yield Delta("text", clean(refusal))
        for entry in entries(delta.get("tool_calls")):
            if begun := self._slots.add(entry):
                yield Delta("call", own_name(begun))
        old = delta.get("function_call")
        if isinstance(old, Mapping) and (begun := self._legacy.add({"index": 0, **old})):
            yield Delta("call", own_name(begun))

    def _content(self, content: Json, is_thought: bool) -> Iterator[Delta]:
        """Content is a text, or a list of typed blocks (Mistral, DeepSeek).

        Gemini says of a text that it is a thought, and puts tags around it as well; where there are none, its word
        counts.
        """
        if isinstance(content, str):
            if is_thought and not self._splitter.is_in_tags and not content.lstrip().startswith("<"):
                yield from self._show("thinking", content)
            else:
                yield from self._text(content)
            return
        for block in entries(content):
            if isinstance(block, str):
                yield from self._text(block)
            elif isinstance(block, Mapping) and str(block.get("type")) in ("thinking", "reasoning"):
                yield from self._show("thinking", block_text(block))
            elif isinstance(block, Mapping):
                yield from self._text(block_text(block))

    def _text(self, text: str) -> Iterator[Delta]:
        for kind, piece in self._splitter.feed(text):
            yield from self._show(kind, piece)

    def _show(self, kind: Literal["text", "thinking"], piece: str) -> Iterator[Delta]:
        if kind == "text" and not is_grammar(self._target):
            piece = self._call_tags.feed(piece)
        yield from self._emit(kind, piece)

    def _emit(self, kind: Literal["text", "thinking"], piece: str) -> Iterator[Delta]:
        shown = self._texts[kind]
        if not piece or not (piece := shown.add(piece)):
            return
        if kind == "text" and is_grammar(self._target) and shown.whole().lstrip().startswith(_WRITTEN_CALL):
            self._is_hiding = True
            return
        yield Delta(kind, piece)

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
        return ModelReply(tuple(parts), self._stop(parts), read_usage(self._usage), self._model, self._replay())

    def _replay(self) -> Replay | None:
        """What goes back with the message: OpenRouter's reasoning, Gemini's signature of a text."""
        fields: dict[str, Json] = {}
        if self._details:
            fields["reasoning_details"] = self._details
        if self._google:
            fields["extra_content"] = {"google": self._google}
        return Replay(self._target.issuer, FIELDS, clean_json(fields)) if fields else None

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
