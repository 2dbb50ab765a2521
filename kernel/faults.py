"""Name what went wrong at a provider: a WireFault in, one of the closed set of kinds out.

`classify` reads the table in `fault_rows/`; nothing here retries or decides. Structured codes are read from the
usual places of an error body: `error.code`, `error.type`, `error.status`, the same at the top, an error object that is
itself a JSON text inside the message, and the upstream's text in OpenRouter's `error.metadata.raw`.
"""

from __future__ import annotations

import json
import re
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


_CHARS_PER_TOKEN = 3
"""Of a prompt that a server counted in characters: fewer than usual, so that what is left for the output is safe."""

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a fault says, in the forms that rows look at. `window` and `used` are token counts of structured fields."""

    cause: str
    status: int | None
    codes: frozenset[str]
    text: str
    resets: bool
    parameter: str = ""
    window: int | None = None
    used: int | None = None


def classify(fault: WireFault, *, now: float | None = None) -> Fault:
    """Recognise a fault. `now` (seconds since 1970) is for HTTP dates, the clock when None."""
    row, evidence, wait_s = _recognise(fault, now)
    found = row.wording.search(evidence.text) if row and row.wording else None
    counts = {name: _count(text) for name, text in (found.groupdict() if found else {}).items() if name != "subject"}
    kind, window, used, output = _sizes(row.kind if row else _by_status(evidence.status), counts, evidence)
    return Fault(
        kind,
        _detail(fault),
        retry_after_s=wait_s,
        limit_tokens=window,
        row=_name(row, evidence),
        status=evidence.status,
        input_tokens=used,
        output_limit_tokens=output,
        repair=row.repair if row else None,
        subject=_subject(row, found, evidence),
        subject_limit=_subject_limit(counts),
    )


def _name(row: FaultRow | None, evidence: Evidence) -> str:
    """The row's, for the log; "status" or "unknown" when none fits."""
    if row:
        return row.name
    return "unknown" if evidence.status is None else "status"


def _sizes(
    kind: FaultKind, counts: Mapping[str, int | None], evidence: Evidence
) -> tuple[FaultKind, int | None, int | None, int | None]:
    """Kind, window, input and the largest output, in tokens; all None where the fault is about something else.

    A sum that is too large because of the input alone is an overflow of the context: a smaller output does not help.
    """
    if kind not in (FaultKind.CONTEXT_OVERFLOW, FaultKind.OUTPUT_CAP):
        return kind, None, None, None
    window = evidence.window or counts.get("limit")
    used = evidence.used or counts.get("input")
    if chars := counts.get("chars"):
        used = chars // _CHARS_PER_TOKEN
    if kind is FaultKind.OUTPUT_CAP and window and used and used >= window:
        kind = FaultKind.CONTEXT_OVERFLOW
    output = counts.get("output")
    if kind is FaultKind.OUTPUT_CAP and output is None and window and used:
        output = window - used
    return kind, window, used, output


def _subject(row: FaultRow | None, found: re.Match[str] | None, evidence: Evidence) -> str:
    if row is None:
        return ""
    if row.subject == "param":
        return evidence.parameter
    return row.subject or (found.groupdict().get("subject") or "" if found else "")


def _subject_limit(counts: Mapping[str, int | None]) -> int | None:
    megabytes = counts.get("megabytes")
    return counts.get("bytes") or counts.get("count") or (megabytes and megabytes * _MEGABYTE)


def _count(text: str | None) -> int | None:
    return int(text.replace(",", "")) if text else None


def _recognise(fault: WireFault, now: float | None) -> tuple[FaultRow | None, Evidence, float | None]:
    objects = _objects(_parse(fault.body))
    texts = [fault.message, *_texts(objects)] if objects else [fault.message, fault.body[:4000]]
    text = "\n".join(texts)
    codes = frozenset(_codes(objects)) | {fault.code.lower()}
    wait_s = retry_after_s(fault.headers, text.lower(), objects, now)
    evidence = Evidence(
        fault.cause,
        fault.status,
        codes - _GENERIC_CODES,
        text,
        wait_s is not None,
        next((o["param"] for o in objects if isinstance(o.get("param"), str)), ""),
        _tokens(objects, "n_ctx"),
        _tokens(objects, "n_prompt_tokens"),
    )
    return next((row for row in ROWS if _fits(row, evidence)), None), evidence, wait_s


def _tokens(objects: list[Mapping[str, Json]], name: str) -> int | None:
    """A count in a field of llama.cpp's."""
    return next((o[name] for o in objects if isinstance(o.get(name), int)), None)


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
