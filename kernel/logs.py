"""The log: `home/logs/hermes.log`, rotated, with secrets taken out, and never a reason for a run to fail."""

from __future__ import annotations

import contextlib
import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path

from hermes.kernel.redact import redact

LOG_BYTES = 1_000_000
LOG_COPIES = 3
_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


def start_logging(home: Path, *, level: str, path: str | None = None, loud: bool = False) -> str | None:
    """Send the records of `hermes` from `level` up, and everybody else's warnings, to the log file.

    `path` None takes `home/logs/hermes.log`. `loud` writes them to stderr too. Returns None, or one line that says why
    there is no log file: the run goes on without. A second call replaces what the first one set up.
    """
    stop_logging()
    logging.raiseExceptions = False  # else a full disk prints a traceback for every record
    hermes, root = logging.getLogger("hermes"), logging.getLogger()
    hermes.setLevel(level.upper())
    problem: str | None = None
    try:
        root.addHandler(_file_handler(Path(path).expanduser() if path else home / "logs" / "hermes.log"))
    except OSError as error:
        problem = f"no log is written: {error.strerror or error}: {error.filename}"
        root.addHandler(_Nowhere())
    if loud:
        root.addHandler(_LoudHandler())
    return problem


def stop_logging() -> None:
    """Flush and close what `start_logging` opened."""
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, (_LogFile, _LoudHandler, _Nowhere))]:
        root.removeHandler(handler)
        with contextlib.suppress(OSError):  # a full disk refuses the last flush; the file is closed all the same
            handler.close()


class _Redacted(logging.Formatter):
    """Redacts the finished line, so that arguments and tracebacks are covered too."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), assignments=True)


class _LogFile(RotatingFileHandler):
    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=LOG_COPIES, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(_Redacted(_FORMAT))


class _LoudHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic in typeshed only
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Redacted("%(levelname)s %(name)s: %(message)s"))


class _Nowhere(logging.NullHandler):
    """Keeps logging's last resort from writing to stderr."""


def _file_handler(path: Path) -> _LogFile:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # made here first: the handler would open it for everybody to read
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    return _LogFile(path)
