"""The log keeps secrets out, rotates, and never makes a run fail."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.kernel import logs
from hermes.kernel.logs import start_logging, stop_logging


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    hermes = logging.getLogger("hermes")
    level, raising = hermes.level, logging.raiseExceptions
    yield
    stop_logging()
    hermes.setLevel(level)
    logging.raiseExceptions = raising


def text_of(home: Path) -> str:
    return (home / "logs" / "hermes.log").read_text(encoding="utf-8")


def test_secrets_are_taken_out_of_messages_arguments_and_tracebacks(tmp_path: Path) -> None:
    start_logging(tmp_path, level="info")
    log = logging.getLogger("hermes.test")
    log.info("key %s in an argument", "sk-abcdefghijklmnop")
    try:
        raise ValueError("Authorization: Bearer abcdefghijklmnop1234")
    except ValueError:
        log.exception("failed with api_key=supersecret1")
    stop_logging()
    text = text_of(tmp_path)
    assert "key [hidden sk_key] in an argument" in text
    assert "ValueError: Authorization: Bearer [hidden bearer]" in text
    assert "abcdefghijklmnop" not in text
    assert "supersecret1" not in text


def test_only_hermes_speaks_below_warning(tmp_path: Path) -> None:
    start_logging(tmp_path, level="debug")
    logging.getLogger("hermes.turn").debug("ours")
    logging.getLogger("httpx").info("theirs, with an address")
    logging.getLogger("httpx").warning("their warning")
    stop_logging()
    assert "ours" in text_of(tmp_path)
    assert "their warning" in text_of(tmp_path)
    assert "with an address" not in text_of(tmp_path)


def test_the_file_is_for_the_user_alone(tmp_path: Path) -> None:
    start_logging(tmp_path, level="warning")
    mode = stat.S_IMODE((tmp_path / "logs" / "hermes.log").stat().st_mode)
    assert os.name == "nt" or mode == 0o600


def test_it_rotates_at_its_size_and_keeps_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES", 2_000)
    start_logging(tmp_path, level="warning")
    for number in range(200):
        logging.getLogger("hermes").warning("line %d %s", number, "x" * 80)
    stop_logging()
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert files == ["hermes.log", "hermes.log.1", "hermes.log.2", "hermes.log.3"]
    assert all(path.stat().st_size <= 2_000 for path in (tmp_path / "logs").iterdir())


def test_a_home_that_cannot_be_written_costs_one_line_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "home"
    blocked.write_text("a file where the directory should be", encoding="utf-8")
    problem = start_logging(blocked, level="info")
    logging.getLogger("hermes").error("still running")
    assert problem is not None
    assert problem.startswith("no log is written: ")
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_prints_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "hermes.log").symlink_to("/dev/full")
    start_logging(tmp_path, level="info")
    logging.getLogger("hermes").error("lost")
    stop_logging()
    assert capsys.readouterr().err == ""


def test_B062_a_lone_surrogate_is_written_not_raised(tmp_path: Path) -> None:
    start_logging(tmp_path, level="info")
    logging.getLogger("hermes").info("bold \ud835 text")
    stop_logging()
    assert r"bold \ud835 text" in text_of(tmp_path)


def test_B022_the_log_is_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    start_logging(tmp_path, level="info")
    logging.getLogger("hermes").info("◕‿◕ 名前")
    stop_logging()
    assert "◕‿◕ 名前" in text_of(tmp_path)
