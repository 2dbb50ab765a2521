"""A stored session as text: for people, as JSON, and in the formats of `hermes sessions export`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from hermes.kernel.cli.display import harmless
from hermes.kernel.messages import Image, Json, Message, Refusal, Text, ToolCall, ToolResult, message_to_json
from hermes.kernel.sessions import SessionInfo, Snapshot, StoredMessage


def info_to_json(info: SessionInfo) -> dict[str, Json]:
    """Times as ISO 8601 in UTC; `end_reason` null while the last turn runs or there was none."""
    return {
        "id": info.id,
        "title": info.title,
        "created": _utc(info.created),
        "updated": _utc(info.updated),
        "end_reason": info.end_reason or None,
        "directory": info.directory,
        "model": info.model,
        "source": info.source,
        "parent": info.parent,
        "parent_call": info.parent_call,
        "turns": info.turns,
        "messages": info.messages,
    }


def session_to_json(snapshot: Snapshot) -> dict[str, Json]:
    """`messages` is the conversation here, where `info_to_json` has their number."""
    messages = [message_to_json(message) for message in snapshot.messages]
    return info_to_json(snapshot.info) | {"messages": messages, "system": _system(snapshot), "open": _is_open(snapshot)}


def readable(snapshot: Snapshot, *, result_max_lines: int | None) -> str:
    """For a terminal: control characters taken out, long tool results shortened to so many lines."""
    info = snapshot.info
    state = info.end_reason or ("not finished" if _is_open(snapshot) else "no turn yet")
    lines = [info.title or "(no title)", f"{info.id}  {_utc(info.created)}  {info.model}  {info.directory}  {state}"]
    for message in snapshot.messages:
        lines += ["", f"{message.role}{f' ({message.origin})' if message.origin else ''}:"]
        for block in _blocks(message, result_max_lines):
            lines += [f"  {line}" for line in block.splitlines() or [""]]
    return harmless("\n".join(lines))


def _blocks(message: Message, result_max_lines: int | None) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text() | Refusal():
                yield part.text
            case Image():
                yield f"[image {part.url or part.media_type}]"
            case ToolCall():
                yield f"-> {part.name} {json.dumps(dict(part.arguments), ensure_ascii=False)}"
            case ToolResult():
                yield f"<- {part.status}: {_shortened(part.text, result_max_lines)}"


def _shortened(text: str, max_lines: int | None) -> str:
    lines = text.splitlines()
    if max_lines is None or len(lines) <= max_lines:
        return text
    return "\n".join([*lines[:max_lines], f"[{len(lines) - max_lines} more lines; --full shows them]"])


def _jsonl(snapshot: Snapshot, stored: Sequence[StoredMessage]) -> str:
    head: Json = {"type": "session", "v": 1, **info_to_json(snapshot.info), "system": _system(snapshot)}
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *map(_stored_to_json, stored)))


def _stored_to_json(row: StoredMessage) -> dict[str, Json]:
    return {
        "type": "message",
        "id": row.id,
        "turn": row.turn,
        "time": _utc(row.time),
        "superseded": row.superseded,
        "message": message_to_json(row.message),
    }


def _markdown(snapshot: Snapshot, _stored: Sequence[StoredMessage]) -> str:
    info = snapshot.info
    lines = [f"# {info.title or info.id}", "", f"{info.id}, {_utc(info.created)}, {info.model}, `{info.directory}`"]
    for message in snapshot.messages:
        lines += ["", f"## {message.role}"]
        for part in message.parts:
            match part:
                case Text() | Refusal():
                    lines += ["", part.text]
                case Image():
                    lines += ["", f"![image]({part.url or f'data:{part.media_type};base64,{part.data}'})"]
                case ToolCall():
                    arguments = json.dumps(dict(part.arguments), ensure_ascii=False, indent=2)
                    lines += ["", f"Call of `{part.name}`:", "", *_fenced(arguments, "json")]
                case ToolResult():
                    lines += ["", f"Result ({part.status}):", "", *_fenced(part.text, "")]
    return "\n".join(lines) + "\n"


def _fenced(text: str, language: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", text, fence]


def _openai(snapshot: Snapshot, _stored: Sequence[StoredMessage]) -> str:
    """As https://platform.openai.com/docs/api-reference/chat/create (2025-09) has `messages` and `tools`."""
    system = _system(snapshot)
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    for message in snapshot.messages:
        messages += _openai_messages(message)
    body: dict[str, Json] = {"model": snapshot.info.model.partition(":")[2] or snapshot.info.model}
    body["messages"] = messages
    if snapshot.epoch and snapshot.epoch.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
            }
            for t in snapshot.epoch.tools
        ]
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"


def _openai_messages(message: Message) -> list[dict[str, Json]]:
    if message.role == "tool":
        return [{"role": "tool", "tool_call_id": r.call_id, "content": r.text} for r in message.results]
    pictures = [part for part in message.parts if isinstance(part, Image)]
    content: Json = "\n".join(p.text for p in message.parts if isinstance(p, (Text, Refusal)))
    if pictures and message.role == "user":
        urls = [p.url or f"data:{p.media_type};base64,{p.data}" for p in pictures]
        content = [{"type": "text", "text": content}] if content else []
        content += [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    out: dict[str, Json] = {"role": message.role, "content": content}
    if message.calls:
        out["tool_calls"] = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(dict(c.arguments), ensure_ascii=False)},
            }
            for c in message.calls
        ]
    return [out]


FORMATS: Mapping[str, Callable[[Snapshot, Sequence[StoredMessage]], str]] = {
    "jsonl": _jsonl,
    "markdown": _markdown,
    "openai": _openai,
}
"""By the word that `--format` takes; each gives the whole text, ending with a line end."""


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _system(snapshot: Snapshot) -> str | None:
    return snapshot.epoch.system if snapshot.epoch else None


def _is_open(snapshot: Snapshot) -> bool:
    return snapshot.open_turn is not None
