"""Find plugins by their entry points, without importing anything of theirs.

Reads `entry_points.txt` along `sys.path` as `importlib.metadata` would (first distribution wins, by normalised name)
without importing it, which costs as much as click, yaml and sqlite3 together. The working directory is left out: an
agent lives in other people's checkouts, and a `x.egg-info/` there would be code of theirs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hermes.kernel.errors import PluginError
from hermes.kernel.requirements import normalised

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

OWN = "hermes-kernel"
DATA_GROUPS = frozenset({"hermes.profiles", "hermes.settings"})
"""Groups whose value is a file, `package:file.json`, read without running the package's code."""


class Distribution:
    """One installed distribution, read as far as it is asked: its directory's name first, METADATA when needed."""

    def __init__(self, files: _Files, folder: str) -> None:
        stem = folder.rpartition(".")[0]
        name, _, version = stem.partition("-")
        self.name = normalised(name)
        self.where = os.path.join(files.path, folder)
        self._files, self._folder = files, folder
        # an egg-info folder often bears no version, and "-py3.11" after the one it bears
        self._version = version if folder.endswith(".dist-info") else ""
        self._metadata: dict[str, list[str]] | None = None

    @property
    def version(self) -> str:
        return self._version or next(iter(self.metadata.get("version", [])), "")

    @property
    def requires(self) -> tuple[str, ...]:
        """The `Requires-Dist` values."""
        return tuple(self.metadata.get("requires-dist", ()))

    @property
    def metadata(self) -> Mapping[str, list[str]]:
        """The header fields of METADATA by lower-case name; {} when it cannot be read."""
        if self._metadata is None:
            text = self._read("METADATA") or self._read("PKG-INFO") or ""
            self._metadata = {}
            for line in text.splitlines():
                if not line:
                    break
                key, colon, value = line.partition(": ")
                if colon and not key[:1].isspace():
                    self._metadata.setdefault(key.lower(), []).append(value.strip())
        return self._metadata

    def entry_points_text(self) -> str | None:
        return self._read("entry_points.txt")

    def _read(self, name: str) -> str | None:
        data = self._files.read(self._folder, name)
        return None if data is None else data.decode("utf-8-sig", "replace")


class EntryPoint(NamedTuple):
    """One line of an entry_points.txt. `value` is a module, `module:object`, or `package:file.json`."""

    group: str
    name: str
    value: str
    source: Distribution

    @property
    def distribution(self) -> str:
        return self.source.name

    @property
    def version(self) -> str:
        return self.source.version

    @property
    def requires(self) -> tuple[str, ...]:
        return self.source.requires

    @property
    def kind(self) -> str:
        """The group's last word: `tools` of `hermes.tools`."""
        return self.group.partition(".")[2]

    @property
    def label(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def is_own(self) -> bool:
        return self.source.name == OWN

    def __str__(self) -> str:
        return f"plugin {self.name} ({self.group}, {self.distribution} {self.version})"


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that more than one distribution claims, or one object claimed for two kinds: none of them is loaded."""

    rivals: tuple[EntryPoint, ...]
    text: str

    def __str__(self) -> str:
        return self.text


class Catalogue:
    """Every entry point in groups `hermes.*`, in name order, and the claims that cannot all be met."""

    def __init__(self, entry_points: Iterable[EntryPoint]) -> None:
        self.entry_points = tuple(sorted(entry_points, key=_by_name))
        groups: dict[str, list[EntryPoint]] = {}
        for entry_point in self.entry_points:
            groups.setdefault(entry_point.group, []).append(entry_point)
        self._groups = {group: tuple(members) for group, members in groups.items()}
        self.claims: tuple[Claim, ...] = (*_rival_names(self._groups), *_shared_objects(self.entry_points))

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(sorted(self._groups))

    def group(self, group: str) -> tuple[EntryPoint, ...]:
        return self._groups.get(group, ())

    def find(self, group: str, name: str) -> EntryPoint | None:
        return next((e for e in self.group(group) if e.name == name), None)

    def claim_on(self, entry_point: EntryPoint) -> Claim | None:
        return next((c for c in self.claims if entry_point in c.rivals), None)


def scan(path: Sequence[str] | None = None) -> Catalogue:
    """Read the entry points of every distribution along `path` (None: sys.path)."""
    seen: set[str] = set()
    found: list[EntryPoint] = []
    for distribution in _distributions(sys.path if path is None else path):
        if distribution.name in seen:
            continue
        seen.add(distribution.name)
        text = distribution.entry_points_text()
        if text is not None and "hermes." in text:
            found.extend(_entry_points(text, distribution))
    return Catalogue(found)


def read_data(entry_point: EntryPoint) -> bytes:
    """The bytes of the file that a data entry point names, through the package's loader; runs none of its code.

    Only the top-level package is looked up: finding `a.b` would import `a`. Raises PluginError.
    """
    package, _, resource = entry_point.value.partition(":")
    top, *folders = package.strip().split(".")
    pieces = resource.strip().split(".")
    if len(pieces) < 2 or not all(pieces):
        raise _data_error(entry_point, "it is not of the form package:file.json")
    relative = os.path.join(*folders, *pieces[:-2], ".".join(pieces[-2:]))
    spec = _find_spec(top)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if spec is None or not locations:
        why = "is a single module, which can carry no file" if spec else "is not installed"
        raise _data_error(entry_point, f"the package {top} {why}")
    problem: OSError | None = None
    for location in locations:
        path = os.path.join(location, relative)
        try:
            if get_data := getattr(spec.loader, "get_data", None):
                return bytes(get_data(path))
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            problem = error
    raise _data_error(entry_point, f"{relative} in the package {top} cannot be read: {problem}")


def _data_error(entry_point: EntryPoint, cause: str) -> PluginError:
    return PluginError(
        f"{entry_point}: value {entry_point.value!r}: {cause}; reinstall or remove {entry_point.distribution}",
        plugin=entry_point.name,
        distribution=entry_point.distribution,
    )


def _find_spec(top: str) -> ModuleSpec | None:
    """As importlib.util.find_spec for a top-level name, without importing importlib.util."""
    if (module := sys.modules.get(top)) is not None and module.__spec__ is not None:
        return module.__spec__
    for finder in sys.meta_path:
        if (spec := finder.find_spec(top, None)) is not None:
            return spec
    return None


# ---- Where distributions lie ----------------------------------------------------------------------------------------


class _Files:
    """A directory of sys.path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self) -> list[str]:
        return os.listdir(self.path)

    def read(self, folder: str, name: str) -> bytes | None:
        try:
            with open(f"{self.path}/{folder}/{name}", "rb", buffering=0) as file:
                return file.read()
        except OSError:
            return None


class _ZipFiles(_Files):
    """A zip file on sys.path."""

    def __init__(self, path: str) -> None:
        import zipfile

        super().__init__(path)
        with zipfile.ZipFile(path) as archive:
            self._texts = {
                tuple(name.split("/")): archive.read(name)
                for name in archive.namelist()
                if name.count("/") == 1 and name.endswith(("/entry_points.txt", "/METADATA", "/PKG-INFO"))
            }

    def names(self) -> list[str]:
        return list({folder for folder, _ in self._texts})

    def read(self, folder: str, name: str) -> bytes | None:
        return self._texts.get((folder, name))


def _distributions(path: Sequence[str]) -> Iterator[Distribution]:
    for directory in _without_working_directory(path):
        if (files := _open(directory)) is None:
            continue
        try:
            # listdir's order differs between machines
            folders = sorted(n for n in files.names() if n.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
        for folder in folders:
            yield Distribution(files, folder)


def _open(directory: str) -> _Files | None:
    if not os.path.isfile(directory):
        return _Files(directory)
    import zipfile

    try:
        return _ZipFiles(directory)
    except (OSError, zipfile.BadZipFile):
        return None


def _without_working_directory(path: Sequence[str]) -> Iterator[str]:
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was deleted
        here = ""
    for directory in dict.fromkeys(path):
        if directory and directory != "." and os.path.realpath(directory) != here:
            yield directory


def _entry_points(text: str, distribution: Distribution) -> Iterator[EntryPoint]:
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] == "#":
            continue
        if line[0] == "[" and line[-1] == "]":
            group = line[1:-1].strip()
        elif group.startswith("hermes."):
            name, equals, value = line.partition("=")
            if equals:
                yield EntryPoint(group, name.strip(), value.partition("[")[0].strip(), distribution)


# ---- Claims ---------------------------------------------------------------------------------------------------------


def _by_name(entry_point: EntryPoint) -> tuple[str, str, str]:
    return entry_point.group, entry_point.name, entry_point.source.name


def _rival_names(groups: Mapping[str, tuple[EntryPoint, ...]]) -> Iterator[Claim]:
    """Two claims on one name in one group. `Files` and `files` are one module where the file system is case-blind."""
    for group, members in groups.items():
        by_name: dict[str, list[EntryPoint]] = {}
        for entry_point in members:
            by_name.setdefault(entry_point.name.casefold(), []).append(entry_point)
        for rivals in by_name.values():
            if len(rivals) > 1:
                who = " and ".join(f"{e.distribution} {e.version} ({e.value})" for e in rivals)
                text = f"{rivals[0].name} in {group} is claimed by {who}: none is loaded; uninstall one of them"
                yield Claim(tuple(rivals), text)


def _shared_objects(entry_points: Iterable[EntryPoint]) -> Iterator[Claim]:
    """One object in two groups: its hooks of the other kind would be silently dead in one of them."""
    by_object: dict[tuple[str, str], list[EntryPoint]] = {}
    for entry_point in entry_points:
        if entry_point.group not in DATA_GROUPS:
            by_object.setdefault((entry_point.source.name, entry_point.value), []).append(entry_point)
    for (distribution, value), rivals in by_object.items():
        if len({e.group for e in rivals}) > 1:
            where = " and ".join(f"{e.name} in {e.group}" for e in rivals)
            remedy = "give each its own object, or use the group hermes.plugins alone"
            yield Claim(tuple(rivals), f"{distribution} gives {value} as {where}: none is loaded; {remedy}")
