"""`hermes plugins new` writes a project that builds, installs beside a wheel of hermes, and whose tool a run calls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes.kernel.cli.app import run_app
from hermes.kernel.cli.newplugin import TEMPLATE_FILES, TEMPLATE_NAME

CHECKOUT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def _run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_list_of_template_files_is_the_tree() -> None:
    template = CHECKOUT / "plugin-template"
    there = {str(file.relative_to(template)) for file in template.rglob("*") if file.is_file()}
    assert {file for file in there if "__pycache__" not in file} == set(TEMPLATE_FILES)


def test_a_new_plugin_bears_its_name_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "made"
    assert run_app(["plugins", "new", "star-chart", "--directory", str(target)]) == 0
    assert str(target) in capsys.readouterr().out
    files = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    assert {"hermes_plugin_star_chart.py", "tests/test_star_chart.py", "pyproject.toml", ".gitignore"} <= files
    for file in files:
        assert TEMPLATE_NAME not in (target / file).read_text(encoding="utf-8")
    project = tomllib.loads((target / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == "hermes-plugin-star-chart"
    assert project["project"]["entry-points"]["hermes.tools"] == {"star-chart": "hermes_plugin_star_chart"}
    for file in files:
        if file.endswith(".py"):
            compile((target / file).read_text(encoding="utf-8"), file, "exec")


@pytest.mark.parametrize("name", ["Bad", "a b", "../up", "", "1st", "x-", "install;rm"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_app(["plugins", "new", name]) == 2
    assert list(tmp_path.iterdir()) == []


def test_files_in_the_way_are_left_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    assert run_app(["plugins", "new", "x", "--directory", str(tmp_path)]) == 2
    assert "README.md" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]


def test_the_plugin_itself_is_at_most_6_lines_beside_its_function() -> None:
    source = (CHECKOUT / "plugin-template" / f"hermes_plugin_{TEMPLATE_NAME}.py").read_text(encoding="utf-8")
    function = source[source.index("def count_words") : source.index("@hookimpl")]
    rest = [line for line in source.replace(function, "").splitlines() if line.strip() and not line.startswith('"""')]
    assert len(rest) <= 6


# ---- In an environment of its own -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which setuptools>=77 can be imported: this one's, else one that pip fetches."""
    code = "import setuptools; assert int(setuptools.__version__.split('.')[0]) >= 77"
    if subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0:
        return dict(os.environ)
    place = tmp_path_factory.mktemp("backend")
    fetched = subprocess.run(
        [*PIP, "install", "--target", str(place), "setuptools>=77"], capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        pytest.skip(f"no setuptools>=77 here, and pip cannot fetch it: {fetched.stderr.strip()[-300:]}")
    return {**os.environ, "PYTHONPATH": str(place)}


def _wheel(source: Path, out: Path, environment: dict[str, str]) -> Path:
    """Build a wheel from a copy: setuptools leaves build/ and an egg-info behind."""
    ignored = shutil.ignore_patterns(".*cache", ".git", ".typing", "*.egg-info", "__pycache__", "build", "dist")
    copy = out / f"src-{source.name}"
    shutil.copytree(source, copy, ignore=ignored)
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    _run(sys.executable, "-c", code, out, cwd=copy, env=environment)
    (wheel,) = out.glob(f"{copy_name(copy)}*.whl")
    return wheel


def copy_name(source: Path) -> str:
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["name"]).replace("-", "_")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, backend: dict[str, str]) -> Path:
    """The python of a fresh environment with wheels of hermes and of a new plugin `words`.

    Their dependencies are those of the environment that runs the tests, so nothing is fetched for them.
    """
    place = tmp_path_factory.mktemp("fresh")
    assert run_app(["plugins", "new", "words", "--directory", str(place / "words")]) == 0
    (place / "wheels").mkdir()
    wheels = [_wheel(source, place / "wheels", backend) for source in (CHECKOUT, place / "words")]
    _run(sys.executable, "-m", "venv", "--without-pip", place / "venv")
    python = place / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    _run(*PIP, "--python", python, "install", "--no-deps", "--no-index", *wheels)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(_run(python, "-c", code).stdout.strip())
    # a path added by a .pth file comes last, and .pth files in it are not read: an editable hermes there is not found
    dependencies = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "dependencies.pth").write_text("\n".join(dependencies) + "\n", encoding="utf-8")
    where = _run(python, "-P", "-c", "import hermes; print(hermes.__file__)").stdout
    assert str(site) in where
    return python


def test_the_wheel_of_hermes_holds_the_template_and_no_tests(installed: Path) -> None:
    (wheel,) = (installed.parents[2] / "wheels").glob("hermes_kernel*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"hermes/plugin-template/{file}" for file in TEMPLATE_FILES} <= names
    assert not [name for name in names if name.startswith(("hermes/tests/", "hermes/benchmarks/")) or ".pyc" in name]


def test_hermes_lists_the_installed_plugin(installed: Path) -> None:
    listed = _run(installed, "-m", "hermes", "plugins", "list", "--json", cwd=installed.parent)
    rows = {(row["group"], row["name"]): row for row in json.loads(listed.stdout)}
    assert rows["hermes.tools", "words"]["distribution"] == "hermes-plugin-words"
    assert rows["hermes.tools", "words"]["problem"] == ""


def test_a_new_plugin_can_be_written_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    _run(installed, "-m", "hermes", "plugins", "new", "again", cwd=tmp_path)
    assert (tmp_path / "hermes-plugin-again" / "hermes_plugin_again.py").exists()


def test_hermes_run_with_the_scripted_model_calls_the_installed_tool(
    installed: Path, scripted: Any, hermes_home: Path, tmp_path: Path
) -> None:
    from hermes.testing import call, scripted_settings, text

    scripted.add(call("count_words", text="one two three"), text("There are three."))
    (hermes_home / "hermes.yaml").write_text(json.dumps(scripted_settings(scripted)), encoding="utf-8")
    done = _run(installed, "-m", "hermes", "run", "how many words?", cwd=tmp_path)
    assert done.stdout == "There are three.\n"
    assert "3 words" in json.dumps(scripted.requests[1].messages)
    assert "new plugin hermes-plugin-words 0.1.0: adds toolset words" in done.stderr


def test_the_tests_of_the_new_plugin_pass_there(installed: Path) -> None:
    project = installed.parents[2] / "words"
    _run(installed, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
