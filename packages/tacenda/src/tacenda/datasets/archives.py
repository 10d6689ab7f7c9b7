"""Unpack archives that are not trusted: names that leave the folder, links, and bombs are refused."""

from __future__ import annotations

import bz2
import fnmatch
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tacenda import store
from tacenda.errors import DataError

_CHUNK_BYTES = 1 << 16
_TAR = re.compile(r"\.(tar|tgz|txz|tbz2?)(\.(gz|xz|bz2))?\Z")
_OPENERS: dict[str, Any] = {
    ".gz": gzip.open, ".tgz": gzip.open, ".xz": lzma.open, ".txz": lzma.open,
    ".bz2": bz2.open, ".tbz": bz2.open, ".tbz2": bz2.open,
}  # fmt: skip
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError,
           NotImplementedError, RuntimeError, UnicodeError)  # fmt: skip


def extract(
    archive: str | Path,
    folder: str | Path,
    *,
    members: tuple[str, ...] = (),
    max_bytes: int,
    max_files: int,
) -> list[str]:
    """Unpack an untrusted archive into the new folder ``folder``; return the names of the files, sorted.

    Absolute names, ``..``, drive letters and backslashes, names that occur twice, links, devices and encrypted members
    are refused before anything of them is written. The folder appears only when everything is unpacked.

    The archive is a ``.zip``, a tar file (``.tar``, ``.tgz``, ``.tar.gz``, ``.tar.xz``...) or one compressed file
    (``.gz``, ``.xz``, ``.bz2``), told by its name. ``members`` are `fnmatch` patterns of the members to unpack (``*``
    matches ``/`` too); none means all. Others are neither written nor checked, but count towards the bytes of a tar
    file. ``max_bytes`` and ``max_files`` bound what is really produced, not what the archive claims.

    Raises DataError if the archive is unsafe, damaged, too large, of an unknown kind, or holds none of the members; or
    if ``folder`` exists.
    """
    archive, folder = Path(archive), Path(folder)
    fault = partial(_describe_fault, archive)
    if folder.exists():
        raise DataError(f"{folder} exists already: remove it or choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    written: dict[str, str] = {}
    n_bytes = 0
    with store.temporary(folder.parent) as scratch:
        try:
            for name, source in _open_members(archive, members, max_bytes, max_files):
                if isinstance(source, str):
                    raise fault(f"{name!r} in it is {source}")
                path = PurePosixPath(name)
                is_plain = path.parts and not path.is_absolute() and ".." not in path.parts
                if not is_plain or not set(name).isdisjoint("\\\0:"):
                    raise fault(f"the name {name!r} in it is unsafe")
                key = str(path).casefold()  # two names that one file system would take for one
                if key in written:
                    raise fault(f"it holds {name!r} twice")
                written[key] = str(path)
                if len(written) > max_files:
                    raise fault(f"it holds more than {max_files} files")
                target = scratch / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with source, target.open("xb") as stream:
                    while chunk := source.read(_CHUNK_BYTES):
                        n_bytes += len(chunk)
                        if n_bytes > max_bytes:
                            raise fault(f"it unpacks to more than {max_bytes:,} bytes")
                        stream.write(chunk)
        except _DAMAGE as error:
            raise DataError(
                f"{archive} cannot be unpacked ({error}): fetch it again, and mind the space on the disk"
            ) from error
        if not written:
            raise fault("none of the files looked for is in it")
        store.commit(scratch, folder)
    return sorted(written.values())


def _open_members(
    archive: Path, patterns: tuple[str, ...], max_bytes: int, max_files: int
) -> Iterator[tuple[str, IO[bytes] | str]]:
    """Yield the name of each wanted file with its stream, or with what it is instead of a file."""

    def is_wanted(name: str) -> bool:
        plain = name.removeprefix("./")
        return not patterns or any(fnmatch.fnmatchcase(plain, each) for each in patterns)

    name = archive.name.lower()
    if name.endswith(".zip"):
        with zipfile.ZipFile(archive) as source:
            for info in source.infolist():
                # the name as stored: ZipInfo.filename has been cut at a null byte and cleaned
                if not is_wanted(info.orig_filename) or info.orig_filename.endswith("/"):
                    continue
                if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                    yield info.orig_filename, "a link or a device"
                elif info.flag_bits & 0x1:
                    yield info.orig_filename, "encrypted"
                else:
                    yield info.orig_filename, source.open(info)
    elif _TAR.search(name):
        # every member costs up to a block of header and one of padding, and skipped ones count as well
        limit = max_bytes + 1024 * (max_files + 20)
        with _OPENERS.get(archive.suffix.lower(), open)(archive, "rb") as raw:
            bounded = cast("IO[bytes]", _Bounded(archive, raw, limit))
            with tarfile.open(fileobj=bounded, mode="r|") as tar:
                for member in tar:
                    if is_wanted(member.name) and not member.isdir():
                        stream = tar.extractfile(member) if member.isreg() else None
                        yield member.name, stream or "a link or a device"
    elif opener := _OPENERS.get(archive.suffix.lower()):
        if is_wanted(archive.stem):
            yield archive.stem, opener(archive, "rb")
    else:
        raise DataError(f"{archive.name} is of no kind that can be unpacked: zip, tar, gz, xz, bz2")


def _describe_fault(archive: Path, message: str) -> DataError:
    return DataError(f"{archive.name} is refused: {message}; nothing was unpacked")


class _Bounded:
    """A stream that fails after ``limit`` bytes, which bounds what `tarfile` reads besides the members."""

    def __init__(self, archive: Path, stream: IO[bytes], limit: int) -> None:
        self.archive, self.stream, self.left, self.limit = archive, stream, limit, limit

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise _describe_fault(self.archive, f"it unpacks to more than {self.limit:,} bytes")
        return data
