"""Fetch a dataset into a data folder: download, verify, unpack, and record what came.

Everything is made in a temporary folder, which takes the dataset's name at the end (see `tacenda.store`), so
that a kill at any moment leaves the dataset as it was or as it shall be. The manifest, ``tacenda-dataset.json`` in
the folder, records every download (address, bytes, sha256, and whether a hash known beforehand
vouched for it) and the sha256 of every file. Where no hash is known beforehand, a later fetch
compares with the recorded one.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacenda import store
from tacenda.datasets import places
from tacenda.datasets.download import Receipt, download
from tacenda.datasets.extract import extract
from tacenda.datasets.registry import DatasetSpec, Download, get
from tacenda.errors import DataError

MANIFEST = "tacenda-dataset.json"
_FORMAT = 1


@dataclass(frozen=True)
class Fetched:
    """What `fetch` did."""

    dataset: places.Dataset
    receipts: tuple[Receipt, ...]
    """One for each download; empty if the dataset was here already."""
    recorded: dict[str, str]
    """The sha256 of each file by name, as an earlier fetch recorded it."""


def fetch(
    name: str,
    output: str | Path | None = None,
    *,
    force: bool = False,
    accept_changed: bool = False,
    timeout: float = 30.0,
    attempts: int = 3,
) -> Fetched:
    """Fetch a dataset from its official address, unless it is there already.

    One that is there is checked against its manifest. Nothing is asked: show the user
    ``get(name).licence_text`` first.

    Parameters
    ----------
    name
        As ``tacenda data list`` shows it.
    output
        The data folder to put it in, under its name; None means the cache.
    force
        Fetch it again even if it is there.
    accept_changed
        Accept a file that differs from the one recorded by an earlier fetch.
    timeout
        Seconds without a byte after which an attempt has failed.
    attempts
        How often each address is asked.

    Raises
    ------
    DataError
        The dataset is unknown, has no free download, cannot be fetched or unpacked,
        differs from its hash or from the recorded one, or lacks a file it should have.
    """
    spec = get(name)
    if not spec.downloads:
        raise DataError(f"the dataset {name} has no free official download: {spec.obtain}")
    here = places.data_root() if output is None and not force else None
    if here is not None and (dataset := places.find_in(spec, here, places.DATA_VARIABLE)):
        return Fetched(dataset, (), {})
    options = {"timeout": timeout, "attempts": attempts}
    root = (
        store.path_of(output, DataError).expanduser() if output is not None else places.cache_root()
    )
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = root / f".{name}.lock"
        lock.touch()
        with store.locked(lock, wait=False):
            return _fetch(spec, root, force, accept_changed, options)
    except BlockingIOError as error:
        raise DataError(f"another process is fetching {name}: wait for it to end") from error
    except OSError as error:
        raise DataError(f"{root} cannot hold the dataset {name}: {error}") from error


def _fetch(
    spec: DatasetSpec, root: Path, force: bool, accept_changed: bool, options: dict[str, Any]
) -> Fetched:
    target, old = root / spec.name, root / f".{spec.name}.old"
    if old.exists():  # an earlier run was killed while it exchanged the two
        if target.exists():
            store.remove(old)
        else:
            old.replace(target)
    recorded = _recorded(target)
    if target.exists() and not (target / MANIFEST).exists():
        raise DataError(
            f"{target} is there and was not fetched by Tacenda: move it, or use --output"
        )
    if target.exists() and not force:
        verify(target)
        return Fetched(_complete(spec, target, root), (), recorded)
    work = root / f".{spec.name}.downloads"  # kept after a failure, so that the next run resumes
    receipts = tuple(_download(d, work, recorded, accept_changed, options) for d in spec.downloads)
    store.sweep(root, (), store.is_temporary)
    with store.temporary(root) as fresh:
        for item in spec.downloads:
            _install(item, work, fresh)
        _complete(spec, fresh, root)
        _write_manifest(spec, fresh, receipts)
        if target.exists():
            target.replace(old)
        store.commit(fresh, target)
    store.remove(old)
    store.remove(work)
    return Fetched(_complete(spec, target, root), receipts, recorded)


def _complete(spec: DatasetSpec, folder: Path, root: Path) -> places.Dataset:
    dataset = places.find_within(spec, folder, str(root))
    if dataset is None:
        wanted = "; ".join(" or ".join(names) for names in spec.files.values())
        raise DataError(f"what was fetched as {spec.name} lacks files it should have ({wanted})")
    return dataset


def _download(
    item: Download,
    work: Path,
    recorded: dict[str, str],
    accept_changed: bool,
    options: dict[str, Any],
) -> Receipt:
    receipt = download(
        item.urls,
        work / item.filename,
        expected=item.hash,
        max_bytes=item.max_bytes,
        **options,
    )
    before = recorded.get(item.filename)
    if before not in (None, receipt.sha256) and not receipt.verified and not accept_changed:
        (work / item.filename).unlink()
        raise DataError(
            f"{item.filename} from {receipt.url} has sha256 {receipt.sha256}, and an earlier fetch "
            f"recorded {before}: the file was changed; to take the new one, use --accept-changed"
        )
    return receipt


def _install(item: Download, work: Path, fresh: Path) -> None:
    """Copy or unpack a download into the new folder. Two downloads may share folders, but no file."""
    source = work / item.filename
    if not item.unpack:
        shutil.copyfile(source, fresh / item.filename)
        return
    limits = {"max_bytes": item.max_bytes, "max_files": item.max_files}
    with store.temporary(fresh) as scratch:
        unpacked = scratch / "unpacked"
        for name in extract(source, unpacked, members=item.members, **limits):
            place = fresh / name
            if place.exists():
                raise DataError(f"two downloads hold a file {name}: the dataset's entry is wrong")
            place.parent.mkdir(parents=True, exist_ok=True)
            (unpacked / name).replace(place)


def _write_manifest(spec: DatasetSpec, folder: Path, receipts: tuple[Receipt, ...]) -> None:
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": store.sha256_of(path),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {
        "format": _FORMAT,
        "name": spec.name,
        "licence": spec.licence,
        "homepage": spec.homepage,
        "downloads": [asdict(receipt) for receipt in receipts],
        "files": files,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a fetched dataset; None if the folder has none.

    Raises
    ------
    DataError
        It is damaged.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        manifest = store.read_json(path)
        for entry in manifest["downloads"]:
            _ = str(entry["filename"]), str(entry["sha256"])
        for name, entry in manifest["files"].items():
            _ = str(name), str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error!r}): remove the folder and fetch it") from error
    return dict(manifest)


def _recorded(folder: Path) -> dict[str, str]:
    manifest = read_manifest(folder) if folder.is_dir() else None
    return {
        entry["filename"]: entry["sha256"] for entry in (manifest or {"downloads": []})["downloads"]
    }


def verify(folder: Path) -> int:
    """Compare the files of a fetched dataset with its manifest; return how many were compared.

    Raises
    ------
    DataError
        A file is missing or differs.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return 0
    for name, entry in manifest["files"].items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise DataError(f"{folder / MANIFEST} names {name!r}, outside the folder: remove it")
        if not path.is_file() or store.sha256_of(path) != entry["sha256"]:
            state = "differs from what was fetched" if path.is_file() else "is missing"
            raise DataError(f"{path} {state}: fetch it again with --force")
    return len(manifest["files"])
