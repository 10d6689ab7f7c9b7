"""Find datasets on this machine: in the folder that ``TACENDA_DATA`` names, or in the cache of fetched ones.

Both folders are searched alike. Within one, a dataset may lie under its own name, or where its
official archive or the usual collections put it (``ml-100k/u.data``, ``UD_English-EWT/...``); the
registry's entry lists those places.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tacenda.datasets.registry import DatasetSpec, get
from tacenda.errors import DataError

DATA_VARIABLE = "TACENDA_DATA"
CACHE_VARIABLE = "TACENDA_CACHE"


@dataclass(frozen=True)
class Dataset:
    """A dataset that is here."""

    name: str
    path: Path
    """The folder its files are in."""
    files: Mapping[str, Path]
    """The file of each role; in a few datasets, a folder of files."""
    source: str
    """``TACENDA_DATA`` or ``cache``: which of the two folders holds it."""

    def __getitem__(self, role: str) -> Path:
        """Return the file of a role. Raises DataError if this copy has none."""
        try:
            return self.files[role]
        except KeyError:
            have = ", ".join(self.files)
            raise DataError(
                f"{self.path} has no {role!r} file of {self.name}: it has {have}"
            ) from None


def cache_root() -> Path:
    """Return the folder that `fetch` puts datasets into unless it is told another.

    ``TACENDA_CACHE`` if set, with ``datasets`` below it, or else the platform's cache folder for
    users.
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
    """Return the folder that ``TACENDA_DATA`` names, or None if it is not set.

    Raises
    ------
    DataError
        It is set and is not a folder.
    """
    chosen = os.environ.get(DATA_VARIABLE)
    if not chosen:
        return None
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise DataError(f"{DATA_VARIABLE} names {root}, which is not a folder: correct or unset it")
    return root


def locate(name: str) -> Dataset:
    """Find a dataset in ``TACENDA_DATA`` or, failing that, in the cache.

    Raises
    ------
    DataError
        The dataset is unknown, or it is not here; the message says how to get it.
    """
    spec = get(name)
    found = find(spec)
    if found is None:
        raise DataError(_absent(spec))
    return found


def find(spec: DatasetSpec) -> Dataset | None:
    """Find a dataset as `locate` does; None if it is not here."""
    root = data_root()
    if root is not None and (found := find_in(spec, root, DATA_VARIABLE)):
        return found
    return find_in(spec, cache_root(), "cache")


def find_in(spec: DatasetSpec, root: Path, source: str) -> Dataset | None:
    """Find a dataset in one data folder; None if no place in it holds all the files it must have."""
    places = _matches(root, spec.folders)
    found = next((d for place in places if (d := _dataset(spec, place, source))), None)
    return found or find_within(spec, root / spec.name, source)


def find_within(spec: DatasetSpec, folder: Path, source: str) -> Dataset | None:
    """Find a dataset in its own folder, in which its archive may have brought further folders."""
    places = (folder, *_matches(folder, spec.folders))
    return next((d for place in places if (d := _dataset(spec, place, source))), None)


def _dataset(spec: DatasetSpec, folder: Path, source: str) -> Dataset | None:
    files = {
        role: path
        for role, candidates in spec.files.items()
        if (path := _first(folder, candidates)) is not None
    }
    if not files or not spec.files.keys() - files.keys() <= spec.optional:
        return None
    return Dataset(spec.name, folder, MappingProxyType(files), source)


def _matches(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        if "*" in pattern:
            yield from sorted(root.glob(pattern), key=_natural, reverse=True)
        else:
            yield root / pattern


def _natural(path: Path) -> list[int]:
    """Return the numbers of a path in order, so that release 2.16 counts as later than 2.9."""
    return [int(digits) for digits in re.findall(r"[0-9]+", path.as_posix())]


def _first(folder: Path, candidates: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in candidates if (folder / name).exists()), None)


def _absent(spec: DatasetSpec) -> str:
    where = f"in {DATA_VARIABLE} or " if os.environ.get(DATA_VARIABLE) else ""
    if spec.downloads:
        remedy = f"run `tacenda data fetch {spec.name}`, or set {DATA_VARIABLE} to a folder with it"
    else:
        remedy = spec.obtain
    return f"the dataset {spec.name} is not {where}in the cache: {remedy}"
