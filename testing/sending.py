"""Send one reply of a scripted server, with all that can go wrong on the way."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hermes.testing.formats import Asked, Format
from hermes.testing.loopback_http import head, send_json
from hermes.testing.script import Reply

Json = Any
PATIENCE_S = 30.0
"""How long any wait of the server takes at most: a test that hangs should fail, not stop the suite."""


@dataclass(frozen=True, slots=True)
class Sender:
    """`gone` is set when the client left; `closing` ends every wait, `releases` is what a held reply waits for."""

    sock: socket.socket
    format: Format
    asked: Asked
    gone: threading.Event
    closing: threading.Event
    releases: threading.Semaphore

    def send(self, reply: Reply) -> bool:
        """False when the connection is to be closed."""
        try:
            return self._go_on(reply, 0) and self._send(reply)
        except OSError:
            self.gone.set()
            raise

    def _send(self, reply: Reply) -> bool:
        is_stream = self.format.wants_stream(self.asked)
        if reply.body is not None:
            send_json(self.sock, reply.status, reply.body, reply.headers)
        elif reply.fault is not None and (reply.fault_after is None or not is_stream):
            body, headers = self.format.refusal(reply.fault)
            send_json(self.sock, reply.fault.status, body, {**headers, **reply.headers})
        elif reply.status != 200:
            send_json(self.sock, reply.status, None, reply.headers)
        elif reply.chunks is None and not is_stream:
            send_json(self.sock, 200, self.format.whole(reply, self.asked), reply.headers)
        else:
            return self._stream(reply)
        return True

    def _stream(self, reply: Reply) -> bool:
        named = {"Content-Type": self.format.stream_type, **reply.headers, "Transfer-Encoding": "chunked"}
        self.sock.sendall(head(200, named))
        number = 0
        for number, event in enumerate(self._events(reply)):
            if number and not self._go_on(reply, number):
                return False
            self.sock.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            if reply.piece_delay_s:
                self.closing.wait(reply.piece_delay_s)
        if not self._go_on(reply, number + 1):
            return False
        self.sock.sendall(b"0\r\n\r\n")
        return True

    def _events(self, reply: Reply) -> Iterator[bytes]:
        events = self.format.events(reply, self.asked) if reply.chunks is None else iter(reply.chunks)
        for event in islice(events, reply.fault_after):
            yield event if isinstance(event, bytes) else self.format.frame(event)
        if reply.fault is not None:
            yield self.format.frame(self.format.error_event(reply.fault))

    def _go_on(self, reply: Reply, number: int) -> bool:
        """What happens before event `number`: hold, stall, cut. False ends the connection."""
        if reply.hold_after == number:
            self._hold()
        if reply.stall_after == number:
            self._wait_until_gone()
            return False
        return reply.cut_after != number

    def _hold(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.releases.acquire(timeout=0.02):
            if self.closing.is_set() or time.monotonic() > deadline or self._is_gone():
                return

    def _wait_until_gone(self) -> None:
        while not self.closing.wait(0.005) and not self._is_gone():
            pass

    def _is_gone(self) -> bool:
        readable, _, _ = select.select([self.sock], [], [], 0)
        if readable and not self.sock.recv(1, socket.MSG_PEEK):
            self.gone.set()
            return True
        return False
