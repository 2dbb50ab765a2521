"""Discovery finds what importlib.metadata finds, from files alone, and says which claims cannot all be met."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.discovery import Catalogue, read_data, scan
from hermes.kernel.errors import PluginError
from hermes.kernel.requirements import meets, normalised, requirement_on

Site = Any  # tests/conftest.py


def _theirs(path: list[str] | None = None) -> set[tuple[str, str, str, str]]:
    """What importlib.metadata finds, with its own rule: the first distribution of a name wins."""
    seen: set[str] = set()
    found = set()
    for each in importlib.metadata.distributions(**({} if path is None else {"path": path})):
        name = normalised(each.metadata["Name"] or "")
        if name in seen:
            continue
        seen.add(name)
        found |= {(e.group, e.name, e.value, name) for e in each.entry_points if e.group.startswith("hermes.")}
    return found


def _ours(path: list[str] | None = None) -> set[tuple[str, str, str, str]]:
    return {(e.group, e.name, e.value, e.distribution) for e in scan(path).entry_points}


def test_it_finds_what_importlib_metadata_finds_in_this_environment() -> None:
    path = [each for each in sys.path if each and os.path.realpath(each) != os.path.realpath(os.getcwd())]
    assert _ours(path) == _theirs(path)
    assert ("hermes.tools", "files", "hermes.plugins.tools.files", "hermes-kernel") in _ours(path)


def test_it_finds_what_importlib_metadata_finds_in_a_generated_environment(site: Site, tmp_path: Path) -> None:
    for number in range(40):
        site.distribution(f"Dist.{number}_x", {"hermes.tools": {f"t{number}": f"mod{number}:obj"}, "other": {"a": "b"}})
    site.distribution("old-egg", {"hermes.plugins": {"egg": "egg"}}, folder="old_egg.egg-info")
    info = site.distribution("messy", {})
    (info / "entry_points.txt").write_text(
        "# a comment\n\n[console_scripts]\nx = y:z\n\n[hermes.tools]\n  spaced   =   some.module : thing [extra]\n"
        "with:colon = m\n\n[hermes.memory]\nm=n\n",
        encoding="utf-8",
    )
    second = tmp_path / "second"
    again = type(site)(second)
    again.distribution("messy", {"hermes.tools": {"hidden": "by_the_first"}})
    again.distribution("later", {"hermes.tools": {"later": "later"}})
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed-2.0.dist-info/METADATA", "Name: packed\nVersion: 2.0\n")
        archive.writestr("packed-2.0.dist-info/entry_points.txt", "[hermes.tools]\nzipped = zipped\n")
    path = [str(site.directory), str(second), str(tmp_path / "packed.zip"), str(tmp_path / "not-there")]
    ours, theirs = _ours(path), _theirs(path)
    assert ours == {(group, key, value.partition("[")[0].strip(), who) for group, key, value, who in theirs}
    assert {name for _, name, _, _ in ours} >= {"spaced", "with:colon", "zipped", "later", "egg", "t39"}
    assert "hidden" not in {name for _, name, _, _ in ours}


def test_the_working_directory_supplies_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = tmp_path / "evil.egg-info"
    evil.mkdir()
    (evil / "entry_points.txt").write_text("[hermes.plugins]\nusage = evil\n", encoding="utf-8")
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path)
    for spelled in ("", ".", str(tmp_path), str(tmp_path / "inside" / "..")):
        assert scan([spelled]).entry_points == ()


def test_a_deleted_working_directory_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert scan([str(tmp_path)]).entry_points == ()


def test_the_listing_is_in_name_order_whatever_the_directory_says(site: Site) -> None:
    for name in ("zeta", "alpha", "Mid", "beta"):
        site.distribution(f"d-{name}", {"hermes.tools": {name: f"m_{name}"}})
    names = [e.name for e in scan([str(site.directory)]).group("hermes.tools")]
    assert names == sorted(names)


def test_version_and_requirements_come_from_the_metadata_header_only(site: Site) -> None:
    site.distribution("acme", {"hermes.tools": {"a": "a"}}, version="3.1", requires=["hermes-kernel>=1,<2", "click"])
    site.distribution("egg", {"hermes.tools": {"b": "b"}}, version="0.9", folder="egg.egg-info")
    catalogue = scan([str(site.directory)])
    acme, egg = catalogue.find("hermes.tools", "a"), catalogue.find("hermes.tools", "b")
    assert acme is not None
    assert egg is not None
    assert (acme.version, acme.requires) == ("3.1", ("hermes-kernel>=1,<2", "click"))
    assert egg.version == "0.9"


def test_a_byte_order_mark_and_broken_text_stop_nothing(site: Site) -> None:
    info = site.distribution("bom", {})
    (info / "entry_points.txt").write_bytes(b"\xef\xbb\xbf[hermes.tools]\nbom = m\nbad\xff = n\n")
    assert "bom" in {e.name for e in scan([str(site.directory)]).entry_points}


def test_two_distributions_claiming_one_name_are_both_named_before_any_import(site: Site) -> None:
    site.distribution("acme-one", {"hermes.tools": {"files": "nothing_like_it"}})
    site.distribution("acme-two", {"hermes.tools": {"Files": "nothing_either"}})
    catalogue = scan([str(site.directory)])
    (claim,) = catalogue.claims
    assert "acme-one" in str(claim)
    assert "acme-two" in str(claim)
    entry_point = catalogue.find("hermes.tools", "files")
    assert entry_point is not None
    assert catalogue.claim_on(entry_point) is claim


def test_one_object_for_two_kinds_is_refused_from_metadata(site: Site) -> None:
    site.distribution("acme", {"hermes.tools": {"x": "acme.all"}, "hermes.memory": {"x": "acme.all"}})
    (claim,) = scan([str(site.directory)]).claims
    assert "hermes.memory" in str(claim)
    assert "hermes.tools" in str(claim)


def test_the_same_name_in_two_groups_is_natural(site: Site) -> None:
    site.distribution("acme", {"hermes.tools": {"files": "acme.tools"}, "hermes.memory": {"files": "acme.memory"}})
    assert scan([str(site.directory)]).claims == ()


def _package(directory: Path, *, init: str = "raise RuntimeError('code was run')") -> None:
    (directory / "data_pkg_b" / "inner").mkdir(parents=True)
    (directory / "data_pkg_b" / "__init__.py").write_text(init, encoding="utf-8")
    (directory / "data_pkg_b" / "settings.json").write_text('{"a": 1}', encoding="utf-8")
    (directory / "data_pkg_b" / "inner" / "rows.json").write_text("[]", encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("data_pkg_b:settings.json", b'{"a": 1}'),
        ("data_pkg_b:inner.rows.json", b"[]"),
        ("data_pkg_b.inner:rows.json", b"[]"),
    ],
)
def test_data_is_read_without_running_the_package(site: Site, value: str, content: bytes) -> None:
    _package(site.directory)
    site.distribution("data-dist", {"hermes.settings": {"x": value}})
    entry_point = scan([str(site.directory)]).find("hermes.settings", "x")
    assert entry_point is not None
    assert read_data(entry_point) == content
    assert "data_pkg_b" not in sys.modules


def test_data_is_read_from_a_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("zip_pkg_b/__init__.py", "raise RuntimeError")
        archive.writestr("zip_pkg_b/settings.json", "{}")
        archive.writestr("z-1.dist-info/METADATA", "Name: z\nVersion: 1\n")
        archive.writestr("z-1.dist-info/entry_points.txt", "[hermes.settings]\nz = zip_pkg_b:settings.json\n")
    monkeypatch.syspath_prepend(str(tmp_path / "z.zip"))
    entry_point = scan([str(tmp_path / "z.zip")]).find("hermes.settings", "z")
    assert entry_point is not None
    assert read_data(entry_point) == b"{}"


def test_our_own_data_is_read_the_same_way() -> None:
    for entry_point in scan().group("hermes.profiles"):
        if entry_point.is_own:
            assert read_data(entry_point).lstrip().startswith(b"{")


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("data_pkg_b:missing.json", "missing.json"),
        ("no_such_package_b:x.json", "not installed"),
        ("lonely_b:x.json", "single module"),
        ("data_pkg_b", "package:file.json"),
        ("data_pkg_b:plain", "package:file.json"),
    ],
)
def test_data_that_cannot_be_read_names_plugin_distribution_and_cause(site: Site, value: str, cause: str) -> None:
    _package(site.directory)
    (site.directory / "lonely_b.py").write_text("", encoding="utf-8")
    site.distribution("data-dist", {"hermes.settings": {"x": value}})
    entry_point = scan([str(site.directory)]).find("hermes.settings", "x")
    assert entry_point is not None
    with pytest.raises(PluginError) as caught:
        read_data(entry_point)
    for word in ("x", "data-dist", cause):
        assert word in str(caught.value)


def test_scanning_imports_neither_plugins_nor_importlib_metadata(site: Site) -> None:
    site.plugin("loud", "raise SystemExit('imported')", group="hermes.tools")
    code = textwrap.dedent("""
        import sys
        from hermes.kernel.discovery import scan
        assert scan().find("hermes.tools", "loud")
        assert not {"importlib.metadata", "email", "zipfile", "pluggy"} & set(sys.modules)
    """)
    environment = {**os.environ, "PYTHONPATH": str(site.directory)}
    # -I would drop PYTHONPATH; the editable finder of hermes itself is a .pth and stays
    subprocess.run([sys.executable, "-P", "-c", code], env=environment, check=True, timeout=60)


def test_an_empty_catalogue_answers_everything() -> None:
    catalogue = Catalogue([])
    assert (catalogue.groups, catalogue.group("hermes.tools"), catalogue.find("x", "y")) == ((), (), None)


@pytest.mark.parametrize(
    ("version", "clauses", "is_met"),
    [
        ("1.2.3", ">=1,<2", True),
        ("2.0", ">=1,<2", False),
        ("0.1.0", ">=1", False),
        ("1.4.5", "~=1.4", True),
        ("2.0", "~=1.4", False),
        ("1.4.5", "~=1.4.2", True),
        ("1.5.0", "~=1.4.2", False),
        ("1.0", "==1", True),
        ("1.0.1", "==1.0.*", True),
        ("1.1", "!=1.1.0", False),
        ("1.1", "!=1.0.*", True),
        ("1.10", ">1.9", True),
        ("1.2", "===1.2", True),
        ("1.2", "", True),
        ("1.2", "@ https://example.com/x.whl", True),
    ],
)
def test_version_clauses_mean_what_pep_440_says(version: str, clauses: str, is_met: bool) -> None:
    assert meets(version, clauses) is is_met


def test_only_our_own_requirement_is_read_and_not_one_of_an_extra() -> None:
    wanted = [
        "Hermes_Kernel[local]>=1,<2; python_version > '3'",
        "hermes-kernel (==9) ; extra == 'x'",
        "hermes-kernelx>5",
    ]
    assert requirement_on("hermes-kernel", wanted) == (">=1,<2",)
