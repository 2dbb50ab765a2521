"""A small HTTP server on loopback that answers paths with JSON, for whatever asks servers about themselves."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Mapping
from typing import Any

Answers = Mapping[str, Any]
"""By path: an object is sent as JSON, bytes as they are, a number is a status without a body."""


class Loopback:
    """A server that answers paths with JSON; `asked` has (method, path with query, body, headers)."""

    def __init__(self, answers: Answers) -> None:
        self.asked: list[tuple[str, str, Any, Mapping[str, str]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                outer.asked.append((self.command, self.path, body, self.headers))
                answer = answers.get(self.path.partition("?")[0])
                if isinstance(answer, int):
                    self.send_response(answer)
                    self.send_header("Location", "/elsewhere")
                    self.end_headers()
                    return
                self.send_response(404 if answer is None else 200)
                self.end_headers()
                self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            do_POST = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
