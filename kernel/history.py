"""The invariants of a conversation, and the functions that make or mend its messages.

Always: roles alternate (an assistant message stands between any two others, the first is from the user); a message with
calls is followed by one tool message with exactly one result a call, in their order; call ids are unique and fit
`[A-Za-z0-9_-]{1,40}`; an assistant message has a text that is not blank or a call; nothing is empty, blank or has a
lone surrogate. Open ends (calls without results, a partial text, a user or tool message) stand only at the end.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hermes.kernel.messages import (
    Image,
    Message,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    clean,
    clean_json,
)

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
"""What every known provider accepts: OpenAI caps ids at 40 characters, Anthropic allows this alphabet."""


class InvalidConversation(ValueError):
    """An invariant does not hold; the message names the place and the rule."""


# ---- The checker ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Seen:
    role: str
    open_calls: tuple[str, ...]
    origin: str


class Checker:
    """Check a conversation message by message; a check costs what is new, a rewrite from its start."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._trail: list[_Seen] = []
        self._ids: set[str] = set()
        for message in messages:
            self.feed(message)

    def __len__(self) -> int:
        return len(self._trail)

    def back_to(self, index: int) -> None:
        """Forget the messages from `index` on."""
        for seen in self._trail[index:]:
            self._ids.difference_update(seen.open_calls)
        del self._trail[index:]

    def feed(self, message: Message) -> None:
        """Take one more message; raises InvalidConversation and takes nothing when a rule is broken."""
        last = self._trail[-1] if self._trail else None
        where = f"message {len(self._trail)} ({message.role})"
        _check_order(where, last, message)
        _check_parts(where, message)
        ids = tuple(c.id for c in message.calls)
        if len(set(ids)) != len(ids) or not self._ids.isdisjoint(ids):
            raise InvalidConversation(f"{where}: a call id is used twice: {ids}")
        self._ids.update(ids)
        self._trail.append(_Seen(message.role, ids, message.origin))

    def check_rest(self) -> None:
        """At rest: the last message is from the assistant and has no calls."""
        last = self._trail[-1] if self._trail else None
        if last is None or last.role != "assistant" or last.open_calls:
            raise InvalidConversation(f"the conversation is not at rest: it ends with {last}")

    def check_sendable(self) -> None:
        """Sent: no open call, and the last message is from user or tool."""
        last = self._trail[-1] if self._trail else None
        if last is None or last.role == "assistant":
            raise InvalidConversation(f"the conversation cannot be sent: it ends with {last}")


def _check_order(where: str, last: _Seen | None, message: Message) -> None:
    if last is None:
        if message.role != "user":
            raise InvalidConversation(f"{where}: the first message must be from the user")
    elif last.open_calls:
        if message.role != "tool":
            raise InvalidConversation(f"{where}: the calls {last.open_calls} have no results")
        found = tuple(r.call_id for r in message.results)
        if found != last.open_calls:
            raise InvalidConversation(f"{where}: results {found} do not answer the calls {last.open_calls}")
    elif message.role == "tool":
        raise InvalidConversation(f"{where}: a tool message without calls before it")
    elif (message.role == "assistant") == (last.role == "assistant"):
        raise InvalidConversation(f"{where}: follows a message of {last.role}")


_ALLOWED: dict[str, tuple[type, ...]] = {
    "user": (Text, Image),
    "assistant": (Text, Image, Thinking, Refusal, ToolCall),
    "tool": (ToolResult, Text),
}


def _check_parts(where: str, message: Message) -> None:
    if not message.parts:
        raise InvalidConversation(f"{where}: is empty")
    for part in message.parts:
        if not isinstance(part, _ALLOWED[message.role]):
            raise InvalidConversation(f"{where}: has a part {type(part).__name__}")
        _check_part(where, part)
    if message.role == "assistant" and not message.calls and not message.text.strip():
        raise InvalidConversation(f"{where}: has neither text nor call")
    if message.role == "user" and not any(isinstance(p, (Text, Image)) for p in message.parts):
        raise InvalidConversation(f"{where}: has no text")


def _check_part(where: str, part: Part) -> None:
    match part:
        case Text(text=text) | Refusal(text=text):
            if not text.strip():
                raise InvalidConversation(f"{where}: has a blank text")
            _check_text(where, text)
        case Thinking(text=text, replay=replay):
            if not text.strip() and not replay:
                raise InvalidConversation(f"{where}: has a blank thought")
            _check_text(where, text)
        case ToolCall(id=id_):
            if not CALL_ID.match(id_):
                raise InvalidConversation(f"{where}: call id {id_!r} does not fit {CALL_ID.pattern}")
            if not isinstance(part.arguments, dict):
                raise InvalidConversation(f"{where}: arguments of {id_} are not an object")
            if not part.name.strip():
                raise InvalidConversation(f"{where}: the call {id_} has no name")
            _check_text(where, part.name)
            _check_text(where, part.problem or "")
            if clean_json(part.arguments) is not part.arguments:
                raise InvalidConversation(f"{where}: arguments of {id_} have a lone surrogate")
        case ToolResult(parts=parts):
            if not parts:
                raise InvalidConversation(f"{where}: the result of {part.call_id} is empty")
            for inner in parts:
                _check_part(where, inner)
        case _:
            pass


def _check_text(where: str, text: str) -> None:
    if not text.isascii() and clean(text) is not text:
        raise InvalidConversation(f"{where}: has a lone surrogate")


# ---- Making messages ------------------------------------------------------------------------------------------------


def fresh_id(wanted: str, used: Collection[str]) -> str:
    """`wanted` when it fits and is new, else a near name that is; the suffix `_2` stays in every alphabet."""
    base = re.sub(r"[^A-Za-z0-9_-]", "_", wanted)[:40] or "call"
    if base not in used:
        return base
    number = 2
    while (name := f"{base[: 39 - len(str(number))]}_{number}") in used:
        number += 1
    return name


def tidy(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Clean texts of lone surrogates and drop the blank ones; a result left empty says so."""
    out: list[Part] = []
    for part in parts:
        match part:
            case Text(text=text) | Thinking(text=text) | Refusal(text=text):
                if text.strip() or (isinstance(part, Thinking) and part.replay):
                    out.append(part if (cleaned := clean(text)) is text else replace(part, text=cleaned, replay=None))
            case ToolResult():
                out.append(tidy_result(part))
            case _:
                out.append(part)
    return tuple(out)


def tidy_result(result: ToolResult) -> ToolResult:
    parts = tuple(p for p in tidy(result.parts) if isinstance(p, (Text, Image)))
    if not parts:
        parts = (Text("(no output)"),)
    return result if parts == result.parts else replace(result, parts=parts)


def closing(text: str) -> Message:
    """A message by the kernel with which a conversation can rest."""
    return Message("assistant", (Text(clean(text).strip() or "The turn ended here."),), "closing")


def user_message(parts: Iterable[Text | Image], origin: str = "") -> Message:
    kept = tidy(parts) or (Text("(empty message)"),)
    return Message("user", kept, "steer" if origin == "steer" else "nudge" if origin == "nudge" else "")


def result_text(call_id: str, status: str, text: str) -> ToolResult:
    """A result that the kernel writes itself; `status` is one of the Status words."""
    return ToolResult(call_id, status, (Text(clean(text).strip() or "(no output)"),))  # type: ignore[arg-type]


def joined(first: Message, reply: Message) -> Message:
    """A cut-off text and its continuation as one message; the thinking and the replay of the first are dropped."""
    kept = [p for p in first.parts if not isinstance(p, Thinking)]
    rest = list(reply.parts)
    if kept and isinstance(kept[-1], Text):
        at = next((i for i, p in enumerate(rest) if isinstance(p, Text)), None)
        if at is not None and all(isinstance(p, Thinking) for p in rest[:at]):
            following = rest.pop(at)
            assert isinstance(following, Text)
            kept[-1] = Text(_without_overlap(kept[-1].text, following.text))
    return Message(
        "assistant", (*(p for p in rest if isinstance(p, Thinking)), *kept, *_unthinking(rest)), reply.origin
    )


def _unthinking(parts: Iterable[Part]) -> list[Part]:
    return [p for p in parts if not isinstance(p, Thinking)]


_OVERLAP_MIN_CHARS = 12
"""A shorter repeat may be the text's own ("the the"); a model that resumes repeats at least a few words."""
_OVERLAP_MAX_CHARS = 2000
"""Of a longer repeat that is not the whole text, nothing is taken away: the search costs the square of its length."""


def _without_overlap(first: str, second: str) -> str:
    """Join two texts without what the second repeats of the first's end."""
    if len(first) >= _OVERLAP_MIN_CHARS and second.startswith(first):
        return second  # it began anew
    for size in range(min(len(first), len(second), _OVERLAP_MAX_CHARS), _OVERLAP_MIN_CHARS - 1, -1):
        if first.endswith(second[:size]):
            return first + second[size:]
    return first + second


def with_note(messages: Sequence[Message], note: str) -> tuple[Message, ...]:
    """Place a note that is sent and not stored: in the last tool result, else the last user message, else a new one."""
    if not note.strip():
        return tuple(messages)
    if not messages or messages[-1].role == "assistant":
        return (*messages, Message("user", (Text(note, "warning"),), "nudge"))
    last = messages[-1]
    parts = last.parts
    if last.role == "tool":
        index = max(i for i, p in enumerate(parts) if isinstance(p, ToolResult))
        result = parts[index]
        assert isinstance(result, ToolResult)
        result = replace(result, parts=(*result.parts, Text(note, "warning")))
        parts = (*parts[:index], result, *parts[index + 1 :])
    else:
        parts = (*parts, Text(note, "warning"))
    return (*messages[:-1], replace(last, parts=parts))


# ---- Repair on load -------------------------------------------------------------------------------------------------


def repair(messages: Iterable[Message]) -> list[Message]:
    """Any list of messages as a valid conversation: total, idempotent; a valid one comes back object for object."""
    out: list[Message] = []
    used: set[str] = set()
    asked: tuple[str, ...] = ()
    for message in _behind_calls(_one_a_batch(messages)):
        asked = _repair_one(out, used, asked, message)
    return out


def _behind_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """Texts that other programs wrote between calls and their results go into the message with the calls."""
    held: list[Message] = []
    for message in messages:
        if held and message.role == "assistant" and not message.calls:
            held.append(message)
            continue
        if len(held) > 1 and {r.call_id for r in message.results} & {c.id for c in held[0].calls}:
            late = _unthinking(part for text in held[1:] for part in text.parts)
            held = [replace(held[0], parts=(*held[0].parts, *late), replay=None)]
        yield from held
        held = [message] if message.role == "assistant" and message.calls else []
        if not held:
            yield message
    yield from held


def _one_a_batch(messages: Iterable[Message]) -> Iterator[Message]:
    """Tool messages in a row as one: other programs write one for each result."""
    waiting: Message | None = None
    for message in messages:
        if waiting and message.role == "tool":
            waiting = replace(waiting, parts=(*waiting.parts, *message.parts), replay=None)
            continue
        if waiting:
            yield waiting
        waiting = message if message.role == "tool" else None
        if not waiting:
            yield message
    if waiting:
        yield waiting


def _repair_one(out: list[Message], used: set[str], asked: tuple[str, ...], message: Message) -> tuple[str, ...]:
    """Add one message to `out`. `asked`, and what is given back: the ids of the last calls, as their results know them.

    A call whose id was taken gets another, and its result still has the old one.
    """
    open_calls = out[-1].calls if out else ()
    if message.role == "tool":
        if open_calls:
            out.append(_answering(open_calls, asked, message))
        return asked
    valid = _valid_alone(message, used)
    if valid is None:
        return asked
    asked = tuple(c.id for c in message.calls) if valid.calls else ()
    message = valid
    if open_calls:
        out.append(_answering(open_calls, (), None))
    last_role = out[-1].role if out else ""
    if message.role == "assistant" and last_role in ("", "assistant"):
        if last_role == "":
            out.append(Message("user", (Text("(the beginning of this conversation is missing)"),), "nudge"))
        else:
            out.append(Message("user", (Text("(continue)"),), "nudge"))
    elif message.role == "user" and last_role in ("user", "tool"):
        out.append(closing("(no reply was recorded here)"))
    used.update(c.id for c in message.calls)
    out.append(message)
    return asked


def _answering(calls: Sequence[ToolCall], asked: tuple[str, ...], message: Message | None) -> Message:
    """A tool message with exactly one result for each call: those of `message`, else one that says "unknown"."""
    if message is None:
        return Message("tool", tuple(_unknown(c) for c in calls))
    parts = tidy(p for p in message.parts if isinstance(p, _ALLOWED["tool"]))
    if parts == message.parts and tuple(r.call_id for r in message.results) == tuple(c.id for c in calls):
        return message
    found: dict[str, list[ToolResult]] = {}
    for result in parts:
        if isinstance(result, ToolResult):
            found.setdefault(result.call_id, []).append(result)
    results = [
        replace(found[id_].pop(0), call_id=call.id) if found.get(id_) else _unknown(call)
        for call, id_ in zip(calls, asked, strict=True)
    ]
    return Message("tool", (*results, *(p for p in parts if isinstance(p, Text))))


def _unknown(call: ToolCall) -> ToolResult:
    return result_text(call.id, "unknown", f"No result of {call.name} was recorded; it may or may not have run.")


def _valid_alone(message: Message, used: set[str]) -> Message | None:
    """The message with parts that fit its role, cleaned; None when nothing is left of it."""
    allowed = _ALLOWED[message.role]
    parts: list[Part] = []
    ids: set[str] = set()
    for part in tidy(p for p in message.parts if isinstance(p, allowed)):
        if isinstance(part, ToolCall):
            part = _valid_call(part, used | ids)
            ids.add(part.id)
        parts.append(part)
    if message.role == "assistant" and not ids and not any(isinstance(p, (Text, Refusal)) for p in parts):
        return None
    if not parts:
        return None
    return message if tuple(parts) == message.parts else replace(message, parts=tuple(parts), replay=None)


def _valid_call(call: ToolCall, used: Collection[str]) -> ToolCall:
    """The call as the invariants want it. One that has lost its arguments gets a problem: it must not run with `{}`."""
    problem = clean(call.problem) if call.problem else call.problem
    arguments = call.arguments
    if not isinstance(arguments, dict):
        arguments, problem = {}, problem or "its arguments were damaged: they are not a JSON object."
    valid = replace(
        call,
        id=fresh_id(call.id, used),
        name=clean(call.name) if call.name.strip() else "invalid_tool_call",
        arguments=clean_json(arguments),
        problem=problem,
    )
    return call if valid == call else valid
