"""Unpack an untrusted archive, without letting it reach outside its folder.

Absolute names, ``..``, drive letters and backslashes, names that occur twice, symbolic and hard links, devices and
encrypted members are refused before anything of them is written. The number of files and the bytes actually
produced (not those the archive claims) are bounded. Everything goes to a temporary folder beside the destination,
which takes its name only when it is complete.
"""

import bz2
import fnmatch
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from tacenda import store
from tacenda.errors import DataError

_CHUNK = 1 << 16
_TAR = re.compile(r"\.(tar|tgz|txz|tbz2?)(\.(gz|xz|bz2))?\Z")
_FAULTS = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError,
           NotImplementedError, RuntimeError, UnicodeError)  # fmt: skip


class _Writer:
    """The folder an archive is unpacked into, which counts and checks what is written."""

    def __init__(
        self, archive: Path, folder: Path, members: tuple[str, ...], max_bytes: int, max_files: int
    ) -> None:
        self.archive, self.folder, self.members = archive, folder, members
        self.max_bytes, self.max_files = max_bytes, max_files
        self.n_bytes = 0
        self.names: dict[str, str] = {}

    def fault(self, message: str) -> DataError:
        return DataError(f"{self.archive.name} is refused: {message}; nothing was unpacked")

    def wanted(self, name: str) -> bool:
        plain = name.removeprefix("./")
        return not self.members or any(fnmatch.fnmatchcase(plain, m) for m in self.members)

    def write(self, name: str, source: IO[bytes]) -> None:
        parts = self._parts(name)
        key = "/".join(parts).casefold()  # two names that one file system would take for one
        if key in self.names:
            raise self.fault(f"it holds {name!r} twice")
        self.names[key] = "/".join(parts)
        if len(self.names) > self.max_files:
            raise self.fault(f"it holds more than {self.max_files} files")
        target = self.folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            while chunk := source.read(_CHUNK):
                self.n_bytes += len(chunk)
                if self.n_bytes > self.max_bytes:
                    raise self.fault(f"it unpacks to more than {self.max_bytes:,} bytes")
                stream.write(chunk)

    def _parts(self, name: str) -> list[str]:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        unsafe = name.startswith("/") or "\\" in name or "\0" in name or ":" in name
        if unsafe or not parts or ".." in parts:
            raise self.fault(f"the name {name!r} in it is unsafe")
        return parts


class _Bounded:
    """A stream that fails after ``limit`` bytes, which bounds what `tarfile` reads besides the members."""

    def __init__(self, stream: IO[bytes], limit: int, fault: Callable[[str], DataError]) -> None:
        self.stream, self.left, self.limit, self.fault = stream, limit, limit, fault

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise self.fault(f"it unpacks to more than {self.limit:,} bytes")
        return data


def extract(
    archive: str | Path,
    folder: str | Path,
    *,
    members: tuple[str, ...] = (),
    max_bytes: int,
    max_files: int,
) -> list[str]:
    """Unpack ``archive`` into the new folder ``folder``; return the names of the files, sorted.

    Parameters
    ----------
    archive
        A ``.zip``, a tar file (``.tar``, ``.tgz``, ``.tar.gz``, ``.tar.xz``...) or one
        compressed file (``.gz``, ``.xz``, ``.bz2``), told by its name.
    folder
        Must not exist; it appears only when everything is unpacked.
    members
        `fnmatch` patterns of the members to unpack (``*`` matches ``/`` too); none means
        all. Others are neither written nor checked, but count towards the bytes of a tar file.
    max_bytes
        The most that may be unpacked.
    max_files
        The most files that may be unpacked.

    Raises
    ------
    DataError
        The archive is unsafe, damaged, too large, of an unknown kind, or holds none of
        the members; or ``folder`` exists.
    """
    archive, folder = Path(archive), Path(folder)
    if folder.exists():
        raise DataError(f"{folder} exists already: remove it or choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with store.temporary(folder.parent) as scratch:
        writer = _Writer(archive, scratch, members, max_bytes, max_files)
        try:
            _unpack(archive, writer)
        except _FAULTS as error:
            raise DataError(
                f"{archive} cannot be unpacked ({error}): "
                "fetch it again, and mind the space on the disk"
            ) from error
        if not writer.names:
            raise writer.fault("none of the files looked for is in it")
        store.commit(scratch, folder)
    return sorted(writer.names.values())


def _unpack(archive: Path, writer: _Writer) -> None:
    name = archive.name.lower()
    if name.endswith(".zip"):
        _unpack_zip(archive, writer)
    elif _TAR.search(name):
        _unpack_tar(archive, writer)
    elif archive.suffix.lower() in {".gz", ".xz", ".bz2"}:
        with _decompressed(archive) as stream:
            writer.write(archive.stem, stream)
    else:
        raise DataError(f"{archive.name} is of no kind that can be unpacked: zip, tar, gz, xz, bz2")


def _decompressed(archive: Path) -> IO[bytes]:
    suffix = archive.suffix.lower()
    if suffix in {".gz", ".tgz"}:
        return cast("IO[bytes]", gzip.open(archive, "rb"))
    if suffix in {".xz", ".txz"}:
        return cast("IO[bytes]", lzma.open(archive, "rb"))
    if suffix in {".bz2", ".tbz", ".tbz2"}:
        return cast("IO[bytes]", bz2.open(archive, "rb"))
    return archive.open("rb")


def _unpack_zip(archive: Path, writer: _Writer) -> None:
    with zipfile.ZipFile(archive) as source:
        for info in source.infolist():
            # The name as stored: ZipInfo.filename has been cut at a null byte and cleaned.
            name = info.orig_filename
            if not writer.wanted(name) or name.endswith("/"):
                continue
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise writer.fault(f"{name!r} in it is a link or a device")
            if info.flag_bits & 0x1:
                raise writer.fault(f"{name!r} in it is encrypted")
            with source.open(info) as member:
                writer.write(name, member)


def _unpack_tar(archive: Path, writer: _Writer) -> None:
    # Every member costs up to a block of header and one of padding, and skipped ones count as well.
    limit = writer.max_bytes + 1024 * (writer.max_files + 20)
    with _decompressed(archive) as raw:
        bounded = cast("IO[bytes]", _Bounded(raw, limit, writer.fault))
        with tarfile.open(fileobj=bounded, mode="r|") as source:
            for member in source:
                if not writer.wanted(member.name) or member.isdir():
                    continue
                stream = source.extractfile(member) if member.isreg() else None
                if stream is None:
                    raise writer.fault(f"{member.name!r} in it is a link or a device")
                with stream:
                    writer.write(member.name, stream)
