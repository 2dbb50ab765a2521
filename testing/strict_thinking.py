"""What the servers of Claude check of thinking, on Messages and on Converse alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .strict_values import is_count

Json = Any

_FIELDS: Mapping[str, set[str]] = {
    "enabled": {"budget_tokens", "display", "block_binding"},
    "adaptive": {"display", "block_binding"},
    "disabled": set(),
    "between_tools": set(),
}
_LEAST_BUDGET = 1024


@dataclass(frozen=True, slots=True)
class Said:
    """One message: where it is, its role, whether its first block is thinking, whether it holds results."""

    where: str
    role: str
    begins_with_thinking: bool
    has_results: bool


def thinking_problems(
    config: Mapping[str, Json], *, most: Json, temperature: Json, is_forced: bool, said: Sequence[Said]
) -> Iterator[str]:
    """The `thinking` object of a request; `most` is its output limit, `is_forced`: it demands a call."""
    kind = config.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        yield f"thinking.type: {kind!r} is not known"
        return
    yield from (f"thinking.{name} is not known" for name in set(config) - _FIELDS[kind] - {"type"})
    if kind == "enabled":
        budget = config.get("budget_tokens")
        if not is_count(budget, _LEAST_BUDGET):
            yield f"thinking.budget_tokens: {budget!r} is not {_LEAST_BUDGET} or more"
        elif is_count(most) and budget >= most:
            yield f"the output limit {most} is not more than thinking.budget_tokens {budget}"
        yield from _beginning(said)
    if kind in ("enabled", "adaptive"):
        if temperature not in (None, 1):
            yield "temperature may only be 1 when thinking is on"
        if is_forced:
            yield "the choice of tools may not force a call when thinking is on"


def _beginning(said: Sequence[Said]) -> Iterator[str]:
    """With a budget, the assistant's turn that the last results belong to must begin with its thinking."""
    first: Said | None = None
    for message in said:
        if message.role == "assistant":
            first = first or message
        elif not message.has_results:
            first = None
    if first and not first.begins_with_thinking:
        yield f"{first.where}.content[0]: expected thinking or redacted_thinking"
