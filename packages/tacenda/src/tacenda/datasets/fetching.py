"""Fetch a data set into a data folder: download, verify, unpack, and record what came.

pooch (the extra ``tacenda[data]``) downloads, retries, compares hashes and moves the finished file into place. What it
does not do is done here: several addresses are tried in turn, a body may not be longer than it is allowed or shorter
than it was announced, and redirects lead to http or https only, never from https to http.

Everything is made in a temporary folder, which takes the data set's name at the end (see `tacenda.store`), so that a
kill leaves no half of a data set. ``tacenda-dataset.json`` in the folder records every download: address, bytes,
sha256, and whether a hash known beforehand vouched for it. Where there is none, a later fetch compares with the
recorded one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tacenda
from tacenda import reading, store
from tacenda.datasets import catalogue
from tacenda.datasets.archives import extract
from tacenda.datasets.catalogue import Dataset, DatasetSpec, Download
from tacenda.errors import DataError, check_whole, importing
from tacenda.progress import Progress, track

MANIFEST = "tacenda-dataset.json"
_FORMAT = 1
#: Statuses of a server that another attempt may overcome.
_RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504}
_CHUNK_BYTES = 1 << 16
_WEB_PAGE = re.compile(rb"\s*<(!doctype html|html)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Receipt:
    """One file that was downloaded."""

    url: str
    filename: str
    bytes: int
    sha256: str
    verified: bool
    """Whether the file was compared with a hash known beforehand."""


@dataclass(frozen=True)
class Fetched:
    """The outcome of `fetch`."""

    dataset: Dataset
    receipts: tuple[Receipt, ...]
    """One for each download; empty if the data set was here already."""
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
    """Fetch a data set from its official address, unless it has been fetched before.

    Nothing is asked: show the user ``get(name).license_text`` first.

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
        Seconds without a byte after which an attempt has failed, 1e6 at most.
    attempts
        How often each address is asked.

    Raises
    ------
    DataError
        The data set is unknown, has no free download, cannot be fetched or unpacked, differs from its hash or from
        the recorded one, or lacks a file it should have.
    """
    check_whole("attempts", attempts, error=DataError)
    if not isinstance(timeout, Real) or isinstance(timeout, bool) or not 0 < timeout <= 1e6:
        raise DataError(f"timeout is {timeout!r:.40}; give seconds, more than 0 and at most 1e6")
    spec = catalogue.get(name)
    if not spec.downloads:
        raise DataError(f"the dataset {name} has no free official download: {spec.obtain}")
    here = catalogue.data_root() if output is None and not force else None
    if here is not None and (found := catalogue.find_in(spec, here, catalogue.DATA_VARIABLE)):
        return Fetched(found, (), {})
    root, source = catalogue.cache_root(), "cache"
    if output is not None:
        root = reading.path_of(output, DataError).expanduser()
        source = str(root)
    target, lock = root / name, root / f".{name}.lock"
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.touch()
        with store.locked(lock, wait=False):
            recorded = _read_record(target)
            if target.exists() and not force:
                return Fetched(_require_complete(spec, target, source), (), recorded)
            work = root / f".{name}.downloads"  # kept after a failure, so that the next run resumes
            receipts = _download_all(spec, work, recorded, accept_changed, timeout, attempts)
            _replace(spec, root, work, receipts)
            return Fetched(_require_complete(spec, target, source), receipts, recorded)
    except BlockingIOError as error:
        raise DataError(f"another process is fetching {name}: wait for it to end") from error
    except OSError as error:
        raise DataError(f"{root} cannot hold the dataset {name}: {error}") from error


def _download_all(
    spec: DatasetSpec,
    work: Path,
    recorded: dict[str, str],
    accept_changed: bool,
    timeout: float,
    attempts: int,
) -> tuple[Receipt, ...]:
    """Download the files of a data set into ``work``. Raises DataError for one that is not as ``recorded`` before."""
    receipts = []
    for item in spec.downloads:
        path = work / item.filename
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            store.remove(path)  # a pipe, a link or a folder
        receipt = download(item, path, timeout, attempts)
        before = recorded.get(item.filename, receipt.sha256)
        if before != receipt.sha256 and not receipt.verified and not accept_changed:
            path.unlink()
            raise DataError(
                f"{item.filename} from {receipt.url} has sha256 {receipt.sha256}, and an earlier fetch "
                f"recorded {before}: the file was changed; to take the new one, use --accept-changed"
            )
        receipts.append(receipt)
    return tuple(receipts)


def _replace(spec: DatasetSpec, root: Path, work: Path, receipts: Sequence[Receipt]) -> None:
    """Replace the existing data set by the files that were downloaded into ``work``."""
    store.sweep(root, (), store.is_temporary)
    with store.temporary(root) as fresh:
        try:
            for item in spec.downloads:
                _install(item, work, fresh)
            _require_complete(spec, fresh)
        except DataError as error:
            # the next fetch asks the server again, unless the files are as published, or could not be written here
            if getattr(error.__cause__, "errno", None) is None:
                for item in spec.downloads:
                    if item.hash is None:
                        store.remove(work / item.filename)
            raise
        record = {
            "format": _FORMAT,
            "name": spec.name,
            "license": spec.license,
            "homepage": spec.homepage,
            "downloads": [asdict(receipt) for receipt in receipts],
        }
        (fresh / MANIFEST).write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        target = root / spec.name
        store.sync(fresh)  # slow, and before the only moment at which there is neither
        with store.temporary(root) as aside:
            try:
                if target.exists():
                    target.replace(aside / spec.name)
                store.commit(fresh, target)
            except BaseException:  # a signal too
                if (aside / spec.name).exists() and not target.exists():
                    (aside / spec.name).replace(target)
                raise
    store.remove(work)


def _read_record(folder: Path) -> dict[str, str]:
    """Return the sha256 of each download of a data set, by file name; {} if it is not there.

    Raises DataError if the folder is not one that `fetch` made, or its record is damaged.
    """
    path = folder / MANIFEST
    if not folder.exists():
        return {}
    if not path.exists():
        raise DataError(
            f"{folder} exists, but Tacenda did not download it: move it, or use --output"
        )
    try:
        return {str(e["filename"]): str(e["sha256"]) for e in reading.read_json(path)["downloads"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error!r}): remove the folder and fetch it") from error


def _require_complete(spec: DatasetSpec, folder: Path, source: str = "") -> Dataset:
    dataset = catalogue.find_within(spec, folder, source)
    if dataset is None:
        wanted = "; ".join(" or ".join(names) for names in spec.files.values())
        raise DataError(f"what was fetched as {spec.name} lacks files it should have ({wanted})")
    return dataset


def _install(item: Download, work: Path, fresh: Path) -> None:
    """Copy or unpack a download into the new folder. Two downloads may share folders, but no file."""
    source = work / item.filename
    if not item.unpack:
        shutil.copyfile(source, fresh / item.filename)
        return
    limits: dict[str, Any] = {"max_bytes": item.max_bytes, "max_files": item.max_files}
    with store.temporary(fresh) as scratch:
        for name in extract(source, scratch / "unpacked", members=item.members, **limits):
            place = fresh / name
            if place.exists():
                raise DataError(f"two downloads hold a file {name}: the dataset's entry is wrong")
            place.parent.mkdir(parents=True, exist_ok=True)
            (scratch / "unpacked" / name).replace(place)


# ---- one file ----


class _RefusedError(Exception):
    """An address will not serve the file, however often it is asked."""


def download(item: Download, target: Path, timeout: float, attempts: int) -> Receipt:
    """Fetch a file from the first of its addresses that serves it, unless it is there with its hash.

    Without a hash, an existing file is used as it is. Raises DataError if pooch is not installed, no
    address served the file, it is too long, or its hash is another one.
    """
    with importing("fetching a dataset needs pooch", "tacenda[data]", error=DataError):
        import pooch
        import requests
    pooch.get_logger().setLevel("WARNING")
    causes: list[str] = []
    for url in item.urls:
        files = pooch.create(
            target.parent,
            base_url="",
            registry={target.name: item.hash},
            urls={target.name: url},
            retry_if_failed=attempts - 1,
        )
        try:
            files.fetch(
                target.name,
                downloader=lambda url, path, _: _stream(url, path, item, timeout),
            )
        except (_RefusedError, ValueError, requests.RequestException) as error:
            causes.append(f"{url}: {error}")
            continue
        except OSError as error:
            raise DataError(f"{target} cannot be written: {error.strerror or error}") from error
        sha256 = store.sha256_of(target)
        return Receipt(url, target.name, target.stat().st_size, sha256, item.hash is not None)
    raise DataError(f"{target.name} could not be fetched ({'; '.join(causes)}): try again later")


def _stream(url: str, path: str, item: Download, timeout: float) -> None:
    """Fetch an address into a file once; what may succeed another time is raised as a RequestException."""
    import requests

    headers = {"User-Agent": f"tacenda/{tacenda.__version__}", "Accept-Encoding": "identity"}
    hooks = {"response": _refuse_unsafe_redirect}
    with (
        Path(path).open("wb") as stream,
        requests.get(url, stream=True, timeout=timeout, headers=headers, hooks=hooks) as response,
    ):
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            if response.status_code in _RETRIED_STATUSES:
                raise
            raise _RefusedError(str(error)) from error
        # some servers call a .tgz encoded; it is stored as it was published, not decoded
        response.raw.headers.pop("content-encoding", None)
        announced = reading.whole_number(response.headers.get("content-length", ""))
        if (announced or 0) > item.max_bytes:
            raise _RefusedError(
                f"it is {announced:,} bytes long and {item.max_bytes:,} is the most expected"
            )
        size, may_be_page = 0, item.filename.endswith((".html", ".htm"))
        bar: Progress[object] = track(None, f"fetching {item.filename}", total=announced, unit="B")
        with closing(bar):
            for chunk in response.iter_content(_CHUNK_BYTES):
                if not size and _WEB_PAGE.match(chunk) and not may_be_page:
                    raise _RefusedError(
                        "a web page came instead of the file, such as that of a network that asks for a login"
                    )
                size += len(chunk)
                if size > item.max_bytes:
                    raise _RefusedError(
                        f"it is longer than {item.max_bytes:,} bytes, the most expected"
                    )
                stream.write(chunk)
                bar.update(len(chunk))
    if announced not in (None, size):
        raise requests.RequestException(
            f"the connection ended after {size:,} of {announced:,} bytes"
        )


def _refuse_unsafe_redirect(response: Any, **_: Any) -> None:
    if response.is_redirect:
        location = response.headers["location"]
        scheme = urlsplit(location).scheme or urlsplit(response.url).scheme
        if scheme != "https" and (scheme != "http" or response.url.startswith("https:")):
            raise _RefusedError(f"it redirects to {location}, which is not safe to follow")
