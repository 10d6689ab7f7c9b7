"""Which data sets there are, and where they are on this machine.

The core describes its own in ``catalogue.toml``. A distribution registers further ones under the entry-point group
``tacenda.datasets``: an entry is a `DatasetSpec` or a list of them. A plugin that fails to load hides only its own data
sets, and a name that two distributions claim is an error when somebody asks for it.

A data set is looked for in the folder that ``TACENDA_DATA`` names, then in the cache of fetched ones. Within either it
may be under its own name, or where its official archive or the usual collections put it (``ml-100k/u.data``,
``UD_English-EWT/...``); its entry lists those places.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tacenda import plugins
from tacenda.errors import DataError, PluginError, warn

DATA_VARIABLE = "TACENDA_DATA"
CACHE_VARIABLE = "TACENDA_CACHE"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*\Z")
_HASH = re.compile(r"(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})\Z")


@dataclass(frozen=True, kw_only=True)
class Download:
    """One file to fetch. Raises DataError for an address that is not http or https, and a malformed name or hash."""

    urls: tuple[str, ...]
    """The official address first, then others that hold the same file; tried in order."""
    filename: str = ""
    """A plain file name under which it is stored or unpacked; by default the last part of the first address."""
    size: int | None = None
    """Bytes, where known; for information."""
    hash: str | None = None
    """``sha256:...`` or ``md5:...`` in lower-case hexadecimal; None where nobody published it."""
    confirmed: bool = True
    """Whether a second source confirmed the first address when the entry was written."""
    unpack: bool = False
    """Whether the file is an archive to unpack: zip, tar (plain, gz, xz, bz2), gz or xz."""
    members: tuple[str, ...] = ()
    """`fnmatch` patterns of the members to unpack; none means all of them."""
    max_bytes: int = 512 << 20
    """The largest size the file may have, packed and unpacked."""
    max_files: int = 10_000

    def __post_init__(self) -> None:
        """Refuse what could not be fetched safely."""
        try:
            schemes = {urlsplit(url).scheme for url in self.urls}
        except (AttributeError, TypeError, ValueError):  # the last for half a pair of brackets
            schemes = {""}
        if not self.urls or not schemes <= {"http", "https"}:
            raise DataError(f"give a tuple of http or https addresses, not {self.urls!r:.80}")
        if isinstance(self.members, str):
            raise DataError(f"give a tuple of patterns of members, not {self.members!r:.80}")
        object.__setattr__(self, "filename", self.filename or self.urls[0].rpartition("/")[2])
        if not _FILENAME.match(self.filename):
            raise DataError(f"the file name {self.filename!r} must be plain: letters, digits, .+_-")
        if self.hash is not None and not _HASH.match(self.hash):
            raise DataError(
                f"the hash {self.hash!r} must be sha256: or md5: and hexadecimal digits"
            )


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A data set: its terms, where it officially lives, and what its files are called.

    Raises DataError if the name is not plain, no file is named, or there is neither a download nor a word on how to
    obtain the data.
    """

    kind: ClassVar[str] = "datasets"

    name: str
    title: str
    license: str
    """The name of the license, for the listing."""
    license_text: str
    """The terms, as a user must know them before fetching."""
    homepage: str
    files: Mapping[str, tuple[str, ...]]
    """Role (``train``, ``ratings``...) to the paths it may have within the folder, best first."""
    folders: tuple[str, ...] = ()
    """Where the folder may be within a data folder, besides ``name``; ``*`` is allowed."""
    downloads: tuple[Download, ...] = ()
    obtain: str = ""
    """How to obtain data that cannot be downloaded, as an imperative sentence."""
    optional: Set[str] = frozenset()
    """Roles that a folder may lack."""

    def __post_init__(self) -> None:
        """Refuse an entry that could be neither fetched nor found."""
        if not _NAME.match(self.name):
            raise DataError(
                f"the dataset name {self.name!r} must be lower-case letters, digits, ._-"
            )
        if not self.files or not all(self.files.values()):
            raise DataError(f"the dataset {self.name} names no files for a role")
        if str in map(type, (self.folders, self.optional, *self.files.values())):
            raise DataError(f"the dataset {self.name} has a string where a tuple or set is needed")
        if isinstance(self.downloads, Download):
            raise DataError(f"the dataset {self.name} has a download where a tuple is needed")
        if not self.downloads and not self.obtain:
            raise DataError(f"the dataset {self.name} needs a download or a word on obtaining it")

    @property
    def size(self) -> int | None:
        """Bytes to download, or None if one of the sizes is not known."""
        sizes = [download.size for download in self.downloads if download.size is not None]
        return sum(sizes) if sizes and len(sizes) == len(self.downloads) else None


def _read_catalogue() -> list[DatasetSpec]:
    text = files("tacenda.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8")

    def tuples(table: dict[str, Any]) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}

    specs = []
    for name, entry in tomllib.loads(text).items():
        entry["files"] = tuples(entry["files"])
        entry["optional"] = frozenset(entry.get("optional", ()))
        entry["downloads"] = [Download(**tuples(item)) for item in entry.get("downloads", ())]
        specs.append(DatasetSpec(name=name, **tuples(entry)))
    return specs


#: What the entry point ``builtin`` of the group ``tacenda.datasets`` names.
BUILTIN: list[DatasetSpec] = _read_catalogue()


def available() -> list[DatasetSpec]:
    """Return all registered data sets in order of their names; those that cannot be loaded cause a warning."""
    return sorted((spec for _, spec in _list_specs()), key=lambda spec: spec.name)


def get(name: str) -> DatasetSpec:
    """Return the data set of a name. Raises DataError if nobody registered it, or two distributions did."""
    registered = _list_specs()
    claims = [(owner, spec) for owner, spec in registered if spec.name == name]
    if not claims:
        close = difflib.get_close_matches(
            str(name), sorted({spec.name for _, spec in registered}), n=1
        )
        hint = f"did you mean {close[0]}?" if close else "`tacenda data list` shows those there are"
        raise DataError(f"there is no dataset {name!r}: {hint}")
    if len(claims) > 1:
        owners = " and ".join(sorted(owner for owner, _ in claims))
        raise DataError(f"the dataset {name!r} is registered by {owners}: uninstall one of them")
    return claims[0][1]


def _list_specs() -> list[tuple[str, DatasetSpec]]:
    found: list[tuple[str, DatasetSpec]] = []
    for record in plugins.available("datasets"):
        try:
            entry = plugins.get("datasets", record.name, distribution=record.distribution)
        except PluginError as error:
            if record.status == "not loaded":  # otherwise it was said before
                warn(f"datasets left out: {error}")
            continue
        specs = [entry] if isinstance(entry, DatasetSpec) else entry
        found.extend((record.distribution, spec) for spec in specs)
    return found


# ---- where they are on this machine ----


@dataclass(frozen=True)
class Dataset:
    """A data set that is here."""

    name: str
    path: Path
    """The folder its files are in."""
    files: Mapping[str, Path]
    """The file of each role; in a few data sets, a folder of files."""
    source: str
    """``TACENDA_DATA`` or ``cache``: which of the two folders holds it; or the folder that `fetch` was given."""

    def __getitem__(self, role: str) -> Path:
        """Return the file of a role. Raises DataError if this copy has none."""
        if role not in self.files:
            have = ", ".join(self.files)
            raise DataError(f"{self.path} has no {role!r} file of {self.name}: it has {have}")
        return self.files[role]


def cache_root() -> Path:
    """Return the folder that `fetch` puts data sets into unless it is told another.

    ``TACENDA_CACHE`` if set, with ``datasets`` below it, or else the platform's cache folder for users.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser() / "datasets"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "tacenda" / "datasets"


def data_root() -> Path | None:
    """Return the folder that ``TACENDA_DATA`` names, or None if it is not set; DataError if it is no folder."""
    chosen = os.environ.get(DATA_VARIABLE)
    if not chosen:
        return None
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise DataError(f"{DATA_VARIABLE} names {root}, which is not a folder: correct or unset it")
    return root


def locate(name: str) -> Dataset:
    """Find a data set in ``TACENDA_DATA`` or, failing that, in the cache.

    Raises DataError, which says how to get it, if it is unknown or not here.
    """
    spec = get(name)
    found = find(spec)
    if found is not None:
        return found
    where = f"in {DATA_VARIABLE} or " if os.environ.get(DATA_VARIABLE) else ""
    remedy = f"run `tacenda data fetch {name}`, or set {DATA_VARIABLE} to a folder with it"
    raise DataError(
        f"the dataset {name} is not {where}in the cache: {remedy if spec.downloads else spec.obtain}"
    )


def find(spec: DatasetSpec) -> Dataset | None:
    """Find a data set as `locate` does; None if it is not here."""
    root = data_root()
    found = find_in(spec, root, DATA_VARIABLE) if root is not None else None
    return found or find_in(spec, cache_root(), "cache")


def find_in(spec: DatasetSpec, root: Path, source: str) -> Dataset | None:
    """Find a data set in one data folder; None if no place in it holds all the files it must have."""
    return _find(spec, _expand(root, spec.folders), source) or find_within(
        spec, root / spec.name, source
    )


def find_within(spec: DatasetSpec, folder: Path, source: str) -> Dataset | None:
    """Find a data set in its own folder, in which its archive may have brought further folders."""
    return _find(spec, [folder, *_expand(folder, spec.folders)], source)


def _find(spec: DatasetSpec, places: list[Path], source: str) -> Dataset | None:
    for folder in places:
        found = {
            role: next((folder / name for name in names if (folder / name).exists()), None)
            for role, names in spec.files.items()
        }
        roles = {role: path for role, path in found.items() if path is not None}
        if roles and found.keys() - roles.keys() <= spec.optional:
            return Dataset(spec.name, folder, MappingProxyType(roles), source)
    return None


def _expand(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    def numbers(path: Path) -> list[int]:  # release 2.16 counts as later than 2.9
        return [int(digits) for digits in re.findall(r"[0-9]+", path.as_posix())]

    found: list[Path] = []
    for pattern in patterns:
        matching = sorted(root.glob(pattern), key=numbers, reverse=True)
        found += matching if "*" in pattern else [root / pattern]
    return found
