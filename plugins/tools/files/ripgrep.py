"""Search by ripgrep, in a process of its own that ends with the deadline or the turn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from hermes.plugins.tools.files.walking import Line, Stop

_LINE_MAX_BYTES = 1_000_000


class CannotSearch(Exception):
    """ripgrep does not take this pattern (it knows no look-around, for one), or failed before it found anything."""


def program() -> str | None:
    return shutil.which("rg")


def files(rg: str, root: Path, stop: Stop) -> Iterator[str]:
    """The paths of all files below `root` that are not hidden, ignored or over a link."""
    for raw in _run([rg, "--no-config", "--no-messages", "--files", "--null", "--", str(root)], stop, b"\0"):
        yield os.fsdecode(raw.rstrip(b"\0"))


def lines(rg: str, pattern: str, root: Path, glob: str, around: int, stop: Stop) -> Iterator[Line]:
    """The lines that fit the pattern, and those around them, file by file in the order of their paths."""
    command = [rg, "--no-config", "--no-messages", "--json", "--sort", "path", "--context", str(around)]
    command += ["--glob", glob] if glob else []
    for raw in _run([*command, "--regexp", pattern, "--", str(root)], stop, b"\n"):
        try:
            event = json.loads(raw)
        except ValueError:  # a line too long to be read whole
            continue
        if event["type"] in ("match", "context"):
            data = event["data"]
            yield Line(_text(data["path"]), data["line_number"] or 0, _text(data["lines"]), event["type"] == "match")


def _text(value: dict[str, str]) -> str:
    """ripgrep gives bytes that are not UTF-8 in base64."""
    if "text" in value:
        return value["text"].rstrip("\r\n")
    from base64 import b64decode

    return b64decode(value["bytes"]).decode("utf-8", "replace").rstrip("\r\n")


def _run(command: list[str], stop: Stop, divider: bytes) -> Iterator[bytes]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if process.stdout is None or process.stderr is None:  # cannot be: both were asked for
            return
        timer = threading.Timer(stop.left_s(), process.kill)
        timer.daemon = True
        timer.start()
        forget = stop.cancelled.on_cancel(process.kill)
        found = False
        try:
            rest = b""
            while chunk := os.read(process.stdout.fileno(), 65536):
                *whole, rest = (rest + chunk).split(divider)
                rest = rest[:_LINE_MAX_BYTES]
                for raw in whole:
                    found = True
                    yield raw
            if rest:
                yield rest
            trouble = process.stderr.read(4000)
            if process.wait() == 2 and not found and trouble and not stop():
                raise CannotSearch(trouble.decode("utf-8", "replace").strip())
        finally:
            timer.cancel()
            forget()
            process.kill()
