"""The artefact as a folder, written so that a kill at any moment leaves the old model or the new one.

::

    model.json                       the manifest, written last: the only commit point
    tensors-<sha256>.safetensors     arrays, named by content, so that a new model never touches an old file
    nested-<name>-<sha256>/          a nested model, a complete artefact, named by its own model.json

Everything is written under a temporary name, brought to the disk (fsync) and renamed. What the manifest
no longer names is removed afterwards; files that Tacit does not name like this are never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tacit.artifact import manifest as manifests
from tacit.artifact import tensors
from tacit.artifact.manifest import Member
from tacit.artifact.model import Artifact, assemble, check_depth, manifest_of, merge
from tacit.errors import ArtifactError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MANIFEST = "model.json"
_TEMPORARY = re.compile(r"\.tacit-[0-9a-f]{32}")
_ABANDONED_SECONDS = 3600.0


def write(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Save an artefact into the folder ``path``, creating it, or replacing the model that is there.

    Raises `ArtifactError` if the artefact cannot be saved, if ``path`` is something other than a folder
    that is empty or holds a model, or if writing fails; a model that was there is then still whole.
    """
    folder = Path(path)
    try:
        created = _prepare(folder)
        with _locked(folder) as alone:
            try:
                _write_into(folder, artifact, depth=0)
            finally:
                with contextlib.suppress(OSError, ArtifactError):
                    _sweep(folder, alone)
                if created:
                    with contextlib.suppress(OSError):  # it is not empty: the model is there
                        folder.rmdir()
    except ArtifactError as error:
        raise ArtifactError(f"cannot save {folder}: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtifactError(
            f"cannot save {folder}: {reason}; a model that was there is unchanged"
        ) from error


def read(path: str | os.PathLike[str]) -> Artifact:
    """Read and check the artefact in the folder ``path``; its plugin is not needed.

    The arrays are in memory of their own. Raises `ArtifactError`, naming the path, if anything is missing,
    damaged, altered or of a newer format.
    """
    folder = Path(path)
    head = b""
    while True:
        try:
            before, head = head, _head(folder)
            return _read_parts(folder, head, depth=0)
        except (ArtifactError, OSError) as error:
            # A save may have replaced the model during the reading: then, and only then, try again.
            if before != head and _head_or_nothing(folder) != head:
                continue
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ArtifactError(f"cannot read {folder}: {reason or error}") from error


def _prepare(folder: Path) -> bool:
    """Make sure that ``folder`` may be written to; True if it was created."""
    if not os.path.lexists(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return True
    if not folder.is_dir():
        raise ArtifactError("it is not a folder, and a model is saved as a folder")
    if os.path.lexists(folder / MANIFEST):
        head = _head(folder)
        if not head.startswith(b"{") or manifests.FORMAT.encode() not in head[:200]:
            raise ArtifactError("its model.json is not Tacit's: choose another folder")
    elif any(not _is_ours(entry.name) for entry in folder.iterdir()):
        raise ArtifactError("it holds other files and no model: choose an empty or a new folder")
    return False


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
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


def _write_into(folder: Path, artifact: Artifact, depth: int) -> bytes:
    """Write an artefact, its manifest last; returns the manifest's bytes."""
    check_depth(depth)
    arrays = tensors.checked(artifact.arrays)
    manifest_of(artifact, {}, {}).encode()  # what cannot be saved fails before anything is written
    files: dict[str, Member] = {}
    nested: dict[str, Member] = {}
    if arrays:
        with _temporary(folder) as temporary:
            tensors.write(arrays, temporary)
            _sync(temporary)
            member = _member(temporary)
            name = manifests.tensor_file(member)
            temporary.replace(folder / name)
            files[name] = member
    for name, part in sorted(artifact.nested.items()):
        manifests.checked_name(name)
        with _temporary(folder) as temporary:
            temporary.mkdir()
            head = Member.of(_write_into(temporary, part, depth + 1))
            nested[name] = manifests.in_folder(name, head)
            target = folder / nested[name].folder
            if not _is_whole(target, head):
                _remove(target)
                temporary.replace(target)
    head_bytes = manifest_of(artifact, files, nested).encode()
    _sync(folder)
    with _temporary(folder) as temporary:
        temporary.write_bytes(head_bytes)
        _sync(temporary)
        temporary.replace(folder / MANIFEST)
    _sync(folder)
    return head_bytes


def _read_parts(folder: Path, head: bytes, depth: int) -> Artifact:
    check_depth(depth)
    manifest = manifests.decode(head)
    manifests.check_names(manifest)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, member in manifest.files.items():
        _verify(folder / name, member)
        merge(arrays, tensors.read(folder / name))
    nested: dict[str, Artifact] = {}
    for name, member in manifest.nested.items():
        part = folder / member.folder
        if not part.is_dir() or part.is_symlink():
            raise ArtifactError(f"the nested model {member.folder} is missing")
        inner = _head(part)
        if Member.of(inner, member.folder) != member:
            raise ArtifactError(f"{member.folder}/{MANIFEST} was altered")
        nested[name] = _read_parts(part, inner, depth + 1)
    return assemble(manifest, arrays, nested)


def _head(folder: Path) -> bytes:
    """The bytes of a folder's manifest."""
    path = folder / MANIFEST
    if not os.path.lexists(folder):
        raise ArtifactError("there is no such folder")
    if not folder.is_dir():
        raise ArtifactError("it is not a folder, and a model is a folder")
    if not os.path.lexists(path):
        raise ArtifactError(
            "it holds no model.json, so it is not a model, or its saving was interrupted"
        )
    size = _regular_size(path)
    if size > manifests.MAX_BYTES:
        raise ArtifactError(
            f"model.json has {size} bytes; more than {manifests.MAX_BYTES} are not read"
        )
    return path.read_bytes()


def _head_or_nothing(folder: Path) -> bytes:
    try:
        return _head(folder)
    except (ArtifactError, OSError):
        return b""


def _regular_size(path: Path) -> int:
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


def _verify(path: Path, member: Member) -> None:
    size = _regular_size(path)
    if size != member.size:
        raise ArtifactError(f"{path.name} has {size} bytes and model.json says {member.size}")
    if _member(path).sha256 != member.sha256:
        raise ArtifactError(f"{path.name} was altered: its sha256 is not the one in model.json")


def _member(path: Path) -> Member:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return Member(file.tell(), digest.hexdigest())


def _is_whole(folder: Path, head: Member) -> bool:
    """Whether a nested model of this content lies there already, undamaged."""
    try:
        data = _head(folder)
        manifest = manifests.decode(data)
        manifests.check_names(manifest)
        for name, member in manifest.files.items():
            _verify(folder / name, member)
    except (ArtifactError, OSError):
        return False
    parts = manifest.nested.values()
    return Member.of(data) == head and all(
        _is_whole(folder / part.folder, Member(part.size, part.sha256)) for part in parts
    )


@contextlib.contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """A fresh name in the folder, removed at the end if it is still there."""
    path = folder / f".tacit-{uuid.uuid4().hex}"
    try:
        yield path
    finally:
        _remove(path)


def _sync(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk."""
    if path.is_dir():
        with contextlib.suppress(
            OSError
        ):  # not every system lets a folder be opened and synchronized
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _sweep(folder: Path, alone: bool) -> None:
    """Remove what earlier or interrupted saves left, by name; never a file that is not ours."""
    keep: set[str] = set()
    if os.path.lexists(folder / MANIFEST):
        manifest = manifests.decode(_head(folder))
        keep = {*manifest.files, *(member.folder for member in manifest.nested.values())}
    for path in folder.iterdir():
        if path.name in keep or not _is_ours(path.name):
            continue
        # Without a lock, what is young may belong to another writer.
        if alone or time.time() - path.lstat().st_mtime > _ABANDONED_SECONDS:
            _remove(path)


def _is_ours(name: str) -> bool:
    return bool(_TEMPORARY.fullmatch(name)) or manifests.is_member_name(name)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
