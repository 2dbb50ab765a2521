"""Read when a provider wants to be asked again, in the many forms in which providers say so."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hermes.kernel.messages import Json

_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PIECE = re.compile(
    r"(\d+(?:\.\d+)?)\s*(milliseconds?|msec|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h|days?|d)(?![a-z])"
)
_SPAN = re.compile(rf"(?:{_PIECE.pattern}[\s,]*(?:and\s+)?)+")
_IN_TEXT = re.compile(
    r"(?:try again|retry|retrying|available again|resets?|wait)(?:\s+(?:in|after|for|at least|about))*"
    r"[\s:=]+(?=\d)"
)


def retry_after_s(
    headers: Mapping[str, str], text: str = "", objects: Sequence[Mapping[str, Json]] = (), now: float | None = None
) -> float | None:
    """Seconds to wait (never negative, not capped), or None when nobody said.

    `text` is the error's text in lower case, `objects` the objects of its body; `now` in seconds since 1970. Order:
    retry-after-ms, Retry-After, fields of the body, wording, the reset of a used-up rate limit. A form that cannot be
    read counts as not given.
    """
    now = time.time() if now is None else now
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for found in _sources(lower, text, objects, now):
        if found is not None and math.isfinite(found):
            return max(found, 0.0)
    return None


def _sources(
    headers: Mapping[str, str], text: str, objects: Sequence[Mapping[str, Json]], now: float
) -> Iterator[float | None]:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    yield None if milliseconds is None else milliseconds / 1000
    yield _duration(headers.get("retry-after", ""), now)
    for item in objects:
        yield _field(item, now)
    if found := _IN_TEXT.search(text):
        yield _span(text[found.end() :])
    yield _rate_limit_reset(headers, now)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _duration(text: str, now: float) -> float | None:
    """`30`, `1.5`, `2m59.56s`, `370ms`, or an HTTP date."""
    if (seconds := _number(text)) is not None:
        return seconds
    if (seconds := _span(text.lower())) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now


def _span(text: str) -> float | None:
    """The duration at the beginning of a text: `6hr 29min`, `6.2s`, `20 seconds`."""
    whole = _SPAN.match(text)
    if whole is None:
        return None
    return sum(float(count) * _unit_s(unit) for count, unit in _PIECE.findall(whole.group()))


def _unit_s(unit: str) -> float:
    return _UNIT_S["ms"] if unit.startswith(("ms", "milli")) else _UNIT_S[unit[0]]


def _field(item: Mapping[str, Json], now: float) -> float | None:
    """Google's `retryDelay` ("34s"), Codex's `resets_in_seconds` and `resets_at` (epoch), others' `retry_after`."""
    for name in ("retryDelay", "retry_after", "resets_in_seconds", "retry_after_seconds"):
        value = item.get(name)
        if isinstance(value, str) and (seconds := _duration(value, now)) is not None:
            return seconds
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    moment = item.get("resets_at")
    return moment - now if isinstance(moment, (int, float)) and moment > 1e9 else None


def _rate_limit_reset(headers: Mapping[str, str], now: float) -> float | None:
    """`…ratelimit…reset…` headers whose `remaining` is used up: a duration, an epoch (s or ms), or an ISO date.

    The longest counts: a request must fit under all limits. A limit that has something left is not the reason.
    """
    waits = []
    for name, value in headers.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        remaining = _number(headers.get(name.replace("reset", "remaining"), "0"))
        if remaining is None or remaining <= 0:
            waits.append(_reset_moment(value, now))
    known = [wait for wait in waits if wait is not None]
    return max(known) if known else None


def _reset_moment(text: str, now: float) -> float | None:
    if (number := _number(text)) is not None:
        if number > 1e11:
            return number / 1000 - now
        return number - now if number > 1e9 else number
    if (seconds := _span(text.lower())) is not None:
        return seconds
    try:
        return datetime.fromisoformat(text).timestamp() - now
    except ValueError:
        return None
