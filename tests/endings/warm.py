"""Start `hermes` commands quickly: this process has everything imported and forks one real process for each.

Importing the SDK costs more than a second of CPU, and the endings need dozens of runs. Reads one JSON object a line
from stdin (`arguments`, `environ`, `cwd`, `stdin`, `stdout`, `stderr` as paths), answers `{"pid": …}` at once and
`{"code": …}` when that process has ended. It has one thread, so that a fork is safe.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

PRELOADED = (
    "openai", "openai.resources.chat.completions", "httpx2", "sqlite3", "hermes.__main__", "hermes.kernel.cli.app",
    "hermes.kernel.cli.run", "hermes.kernel.cli.front", "hermes.kernel.cli.signals", "hermes.kernel.cli.sessions",
    "hermes.kernel.agent", "hermes.kernel.config.loading", "hermes.plugins.stores.sqlite", "hermes.plugins.tools.files",
    "hermes.plugins.tools.terminal", "hermes.plugins.wire.chat_completions", "hermes.plugins.memory.files",
)  # fmt: skip


def become(order: Mapping[str, Any]) -> None:
    """Turn this forked process into the command; never returns."""
    os.setsid()  # a group of its own, as a shell gives it
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        path = order[("stdin", "stdout", "stderr")[number]]
        descriptor = os.open(path, mode | (os.O_CREAT | os.O_APPEND if number else 0), 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (open(n, "r" if not n else "w", encoding="utf-8") for n in range(3))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["cwd"])
    sys.argv = ["hermes", *order["arguments"]]
    from hermes.__main__ import main

    code = 1
    try:
        code = main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    for name in PRELOADED:
        import_module(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            become(order)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    serve()
