"""Name what went wrong at a provider: a WireFault in, one of the closed set of kinds out.

`classify` reads the table in `fault_rows.py`; nothing here retries or decides. Structured codes are read from the
usual places of an error body: `error.code`, `error.type`, `error.status`, the same at the top, an error object that is
itself a JSON text inside the message, and the upstream's text in OpenRouter's `error.metadata.raw`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hermes.kernel.effects import Fault, FaultKind
from hermes.kernel.fault_rows import ROWS, FaultRow
from hermes.kernel.messages import Json
from hermes.kernel.providers import WireFault
from hermes.kernel.redact import redact
from hermes.kernel.retry_after import retry_after_s

DETAIL_MAX_CHARS = 400

_GENERIC_CODES = frozenset({"", "error", "invalid_request_error", "bad_request", "none", "null", "invalid_argument"})
"""Codes that say nothing beyond "no"."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a fault says, in the forms that rows look at: `text` in lower case, `limits` from structured fields."""

    cause: str
    status: int | None
    codes: frozenset[str]
    text: str
    resets: bool
    window_tokens: int | None = None


def classify(fault: WireFault, *, now: float | None = None) -> Fault:
    """Recognise a fault. `now` (seconds since 1970) is for HTTP dates, the clock when None."""
    row, evidence, wait_s = _recognise(fault, now)
    kind = row.kind if row else _by_status(evidence.status)
    limit = evidence.window_tokens or _group(row, evidence, "limit")
    shown = limit if kind in (FaultKind.CONTEXT_OVERFLOW, FaultKind.OUTPUT_CAP) else None
    return Fault(kind, _detail(fault), retry_after_s=wait_s, limit_tokens=shown)


def matched_row(fault: WireFault) -> str:
    """The name of the row that recognised it, for the log; "status" or "unknown" when none did."""
    row, evidence, _ = _recognise(fault, None)
    if row:
        return row.name
    return "unknown" if evidence.status is None else "status"


def output_limit(fault: WireFault) -> int | None:
    """The largest output, in tokens, that would have passed, as far as the provider says so; None when it does not.

    From a stated output limit, or from window less input. Never the window itself.
    """
    row, evidence, _ = _recognise(fault, None)
    if row is None or row.kind is not FaultKind.OUTPUT_CAP:
        return None
    if stated := _group(row, evidence, "output"):
        return stated
    window, used = _group(row, evidence, "limit"), _group(row, evidence, "input")
    return max(window - used, 0) if window and used else None


def _recognise(fault: WireFault, now: float | None) -> tuple[FaultRow | None, Evidence, float | None]:
    objects = _objects(_parse(fault.body))
    texts = [fault.message, *_texts(objects)] if objects else [fault.message, fault.body[:4000]]
    text = "\n".join(texts).lower()
    codes = frozenset(_codes(objects)) | {fault.code.lower()}
    wait_s = retry_after_s(fault.headers, text, objects, now)
    window = next((o["n_ctx"] for o in objects if isinstance(o.get("n_ctx"), int)), None)
    evidence = Evidence(fault.cause, fault.status, codes - _GENERIC_CODES, text, wait_s is not None, window)
    return next((row for row in ROWS if _fits(row, evidence)), None), evidence, wait_s


def _fits(row: FaultRow, evidence: Evidence) -> bool:
    if evidence.cause not in (row.causes or ("http",)):
        return False
    if row.statuses and evidence.status not in row.statuses:
        return False
    if row.codes and not row.codes & evidence.codes:
        return False
    if row.reset != "any" and (row.reset == "stated") is not evidence.resets:
        return False
    return row.wording is None or row.wording.search(evidence.text) is not None


def _by_status(status: int | None) -> FaultKind:
    if status is None:
        return FaultKind.UNKNOWN
    return FaultKind.SERVER_ERROR if status >= 500 else FaultKind.BAD_REQUEST


def _group(row: FaultRow | None, evidence: Evidence, name: str) -> int | None:
    """A count of tokens that the row's wording captured."""
    found = row.wording.search(evidence.text) if row and row.wording else None
    value = found.groupdict().get(name) if found else None
    return int(value.replace(",", "")) if value else None


# ---- Reading a body -------------------------------------------------------------------------------------------------


def _parse(body: str) -> Json:
    try:
        return json.loads(body) if body[:1] in "{[ \n" else None
    except ValueError:
        return None


def _objects(value: Json, depth: int = 0) -> list[Mapping[str, Json]]:
    """Every object of an error body that may hold a code or a message, outermost first."""
    if depth > 4:
        return []
    if isinstance(value, list):  # Google answers with a list of one
        return [found for item in value[:4] for found in _objects(item, depth + 1)]
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        return _objects(_parse(value.strip()), depth + 1)
    if not isinstance(value, dict):
        return []
    inner = [value.get(name) for name in ("error", "message", "metadata", "raw", "details", "detail")]
    return [value, *(found for item in inner for found in _objects(item, depth + 1))]


def _texts(objects: list[Mapping[str, Json]]) -> Iterator[str]:
    for item in objects:
        for name in ("message", "error", "detail", "raw", "error_description", "msg"):
            if isinstance(text := item.get(name), str):
                yield text


def _codes(objects: list[Mapping[str, Json]]) -> Iterator[str]:
    for item in objects:
        for name in ("code", "type", "status", "error_code", "reason"):
            if isinstance(text := item.get(name), str):
                yield text.lower()


# ---- One line for a person ------------------------------------------------------------------------------------------


def _detail(fault: WireFault) -> str:
    """The provider's own words on one line, with the status in front and without keys."""
    objects = _objects(_parse(fault.body))
    words = next((t for t in (_upstream(objects), *_texts(objects), fault.message) if t and t.strip()), fault.cause)
    if fault.cause != "http" and fault.message:
        words = fault.message
    line = " ".join(redact(words).split())
    prefix = "" if fault.status is None else f"HTTP {fault.status}: "
    if fault.status == 404 and fault.message and fault.message not in words:
        line = f"{line} ({' '.join(redact(fault.message).split())})"
    return prefix + (line if len(line) <= DETAIL_MAX_CHARS else line[: DETAIL_MAX_CHARS - 1] + "…")


def _upstream(objects: list[Mapping[str, Json]]) -> str:
    """The text of the provider behind a router, where the router's own says only that something came back."""
    raw = [o for o in objects if isinstance(o.get("raw"), str)]
    return next(iter(_texts(_objects(raw[0]["raw"]))), str(raw[0]["raw"])) if raw else ""
