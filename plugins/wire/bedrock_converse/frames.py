"""The AWS event stream: bytes in, events out, exceptions as faults. Imported only by a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError

from hermes.kernel.messages import Json, clean
from hermes.kernel.providers import WireFault

_STATUSES: Mapping[str, int] = {
    "internalServerException": 500,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
}
"""The statuses that the service model (botocore 1.44) gives to the exceptions of a stream."""


def events_of(pieces: Iterable[bytes], where: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Name and payload of each event, both checksums checked; raises WireFault for an exception and for a broken frame.

    A frame that the end of the bytes cuts off is dropped: what it would have said is missed elsewhere.
    """
    buffer = EventStreamBuffer()
    for piece in pieces:
        buffer.add_data(piece)
        try:
            messages = list(buffer)
        except ParserError as error:
            text = f"{where} sent a broken event stream: {error}"
            raise WireFault("invalid", text, phase="stream") from error
        for message in messages:
            yield _event(message)


def _event(message: EventStreamMessage) -> tuple[str, Mapping[str, Json]]:
    headers, payload = message.headers, _object(message.payload)
    if headers.get(":message-type") == "event":
        return str(headers.get(":event-type", "")), payload
    name = str(headers.get(":exception-type") or headers.get(":error-code") or "")
    said = payload.get("message") or payload.get("originalMessage") or headers.get(":error-message") or name
    raise WireFault(
        "http",
        clean(str(said)),
        status=_STATUSES.get(name),
        code=name,
        body=message.payload.decode("utf-8", "replace"),
        phase="stream",
    )


def _object(payload: bytes) -> Mapping[str, Json]:
    try:
        value = json.loads(payload or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
