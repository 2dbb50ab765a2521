"""Run a llama.cpp server until the parent goes away. Started by server.py as a script; imports nothing of hermes.

The first line of stdin is the order (JSON, see `server.Launch`); stdin then stays open as long as the parent lives.
On stdout comes one line of JSON, `{"url": "http://127.0.0.1:PORT"}`, once the server answers. The log is stderr.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent_pid: int) -> None:
    """Let the kernel kill us when the parent's keeper thread ends: while weights load, no thread of ours can run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if sys.platform != "win32" and os.getppid() != parent_pid:
        os._exit(0)  # it went before the signal was asked for


def leave_with_stdin() -> None:
    """Second string, for systems without the signal: end of file on stdin means that the parent is gone."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    status = os.dup(1)
    os.dup2(2, 1)  # the library prints to stdout, too
    order = json.loads(_line(0))
    threading.Thread(target=leave_with_stdin, daemon=True).start()
    server = _serve(order)
    os.write(status, json.dumps({"url": server.listening_address}).encode() + b"\n")
    os.close(status)
    threading.Event().wait()


def _line(descriptor: int) -> bytes:
    """Read one line, byte by byte: a buffered reader would hold what `leave_with_stdin` waits for."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            os._exit(0)
        line += byte
    return line


def _serve(order: dict[str, Any]) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types, and need not be there for a type check
    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.hostname = "127.0.0.1"
    params.port = 0  # the system picks a free one, and nobody can take it in between
    params.api_keys = [order["api_key"]]
    params.n_ctx = order["window_tokens"]
    params.n_predict = order["output_tokens"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = order["batch_tokens"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    params.cache_ram_mib = order["prompt_cache_mib"]
    params.sampling.temp = order["temperature"]
    params.use_jinja = True
    params.chat_template = order["chat_template"] or ""
    params.webui = params.endpoint_slots = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
