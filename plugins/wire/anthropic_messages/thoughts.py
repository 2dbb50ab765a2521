"""Which thinking goes back to the server that wrote it, and in what form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from hermes.kernel.messages import Json, Thinking
from hermes.kernel.providers import Target
from hermes.plugins.wire.parts import is_own

THINKING = "thinking"
"""Kind of a Replay that holds `{"signature": …}` of a thinking block, or `{}` of one that came without."""
REDACTED = "redacted_thinking"
"""Kind of a Replay that holds `{"data": …}`: thinking that only its issuer can read."""

Kept = Literal["as_is", "signed", "unsigned", "never"]
_KEPT = get_args(Kept)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a server wants back of its own thinking; host, path and model are patterns in lower case.

    `required`: it refuses a message with calls that has no thinking, whoever wrote that message.
    """

    kept: Kept
    required: bool = False
    host: str = "*"
    path: str = "*"
    model: str = "*"


RULES: tuple[Rule, ...] = (
    Rule("signed", host="api.anthropic.com"),
    Rule("as_is", required=True, host="api.kimi.com", path="/coding*"),
    Rule("unsigned", required=True, host="api.deepseek.com", path="/anthropic*"),
    Rule("signed", model="*claude*"),
    Rule("as_is", required=True, model="*kimi*"),
    Rule("as_is"),
)
"""Read from the top, first fit wins; the quirks `thinking_replay` and `reasoning_required` win over it. Runtime
behaviour specification 3.3.8 and 13.2 (13848, 16748); MiniMax wants all blocks back (its page on the Anthropic API,
November 2026); Kimi behind a gateway asks for the same as its own host (hermes-agent#17057)."""

_BLANK: Mapping[str, Json] = {"type": "thinking", "thinking": " "}


def rule_of(target: Target) -> Rule:
    url = urlsplit(target.base_url.lower())
    facts = (url.hostname or "", url.path, target.model.lower())
    rule = next(r for r in RULES if all(map(fnmatchcase, facts, (r.host, r.path, r.model))))
    stated = target.quirk("thinking_replay")
    kept = cast("Kept", stated) if stated in _KEPT else rule.kept
    return Rule(kept, bool(target.quirk("reasoning_required", rule.required)))


def thinking_block(part: Thinking, rule: Rule, target: Target) -> Json | None:
    """The block as its issuer wrote it; None for thinking of others, and for what the rule leaves out."""
    replay = part.replay
    if replay is None or not is_own(replay, target) or rule.kept == "never":
        return None
    if replay.kind == REDACTED:
        return {"type": REDACTED, **replay.payload} if rule.kept in ("as_is", "signed") else None
    is_signed = bool(replay.payload.get("signature"))
    if rule.kept in ("signed", "unsigned") and is_signed is not (rule.kept == "signed"):
        return None
    return {"type": THINKING, "thinking": part.text, **replay.payload}


def with_required(blocks: list[Json], rule: Rule) -> list[Json]:
    """The blocks of an assistant message, with a blank thinking in front where the server refuses calls without."""
    kinds = {block["type"] for block in blocks}
    if rule.required and "tool_use" in kinds and not kinds & {THINKING, REDACTED}:
        return [dict(_BLANK), *blocks]
    return blocks
