"""Small acts on files and folders, from which `tacenda.artifact.folder` is made."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from tacenda.artifact.manifest import Member
from tacenda.errors import ArtifactError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Keep other writers out of a folder; yields False where the system has no such lock."""
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            alone = True
        except OSError:  # some network file systems
            alone = False
        yield alone
    finally:
        os.close(handle)


@contextlib.contextmanager
def temporary(folder: Path) -> Iterator[Path]:
    """A fresh name in the folder, removed at the end if it is still there."""
    path = folder / f".tacenda-{uuid.uuid4().hex}"
    try:
        yield path
    finally:
        remove(path)


def sync(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk."""
    if path.is_dir():
        with contextlib.suppress(OSError):  # not every system can do this for a folder
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder if it can be removed."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def regular_size(path: Path) -> int:
    """Size in bytes of a file that is neither a link nor anything special."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise ArtifactError(f"{path.name} is missing") from None
    if stat.S_ISLNK(status.st_mode):
        raise ArtifactError(
            f"{path.name} is a symbolic link: copy the model with links resolved (cp -rL)"
        )
    if not stat.S_ISREG(status.st_mode):
        raise ArtifactError(f"{path.name} is not a file")
    return status.st_size


def measure(path: Path) -> Member:
    """Size and sha256 of a file, which is read in pieces."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return Member(file.tell(), digest.hexdigest())


def verify(path: Path, member: Member) -> None:
    """Raise `ArtifactError` unless a file is there and has the size and sha256 it should have."""
    size = regular_size(path)
    if size != member.size:
        raise ArtifactError(f"{path.name} has {size} bytes and model.json says {member.size}")
    if measure(path).sha256 != member.sha256:
        raise ArtifactError(f"{path.name} was altered: its sha256 is not the one in model.json")
