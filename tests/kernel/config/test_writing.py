"""Files of ours are replaced whole, under a lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes.kernel.config import writing


def test_an_update_keeps_mode_and_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"1")
    real.chmod(0o640)
    link.symlink_to(real)
    writing.update(link, lambda old: (old or b"") + b"2")
    assert (real.read_bytes(), real.stat().st_mode & 0o777, link.is_symlink()) == (b"12", 0o640, True)


def test_a_change_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1")

    def fail(old: bytes | None) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        writing.update(path, fail)
    assert path.read_bytes() == b"1"
    writing.update(path, lambda old: b"2")
    assert sorted(os.listdir(tmp_path)) == ["file", "file.lock"]


def test_create_never_writes_over_a_file_or_a_dangling_link(tmp_path: Path) -> None:
    path = tmp_path / "file"
    writing.create(path, b"1")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            writing.create(tmp_path / name, b"2")
    assert path.read_bytes() == b"1"
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]
