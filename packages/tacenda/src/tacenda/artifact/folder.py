"""The artefact as a folder: a kill at any moment leaves the old model or the new one.

::

    model.json                     the manifest, written last: the only commit point
    tensors-<sha256>.safetensors   arrays, named by content: a new model never touches an old file
    mapped-<sha256>.safetensors    arrays that are mapped when the model is read
    nested-<name>-<sha256>/        a nested model, a complete artefact, named by its own model.json

Everything is written and renamed by `tacenda.store`. What the manifest no longer names is removed afterwards;
files of other names are never touched.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tacenda import store
from tacenda.artifact import arrays as named_arrays
from tacenda.artifact import manifest as manifests
from tacenda.artifact.by_name import locate
from tacenda.artifact.manifest import Artifact, Member, check_depth, merge
from tacenda.errors import ArtifactError

MANIFEST = "model.json"

_HASHED = 1 << 22
"""A mapped file of more bytes is read where it is used, so its sha256 is compared only where `read` is asked to."""


def write(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Save an artefact into the folder ``path``, creating it, or replacing the model that is there.

    Raises `ArtifactError` if the artefact cannot be saved, if ``path`` is something other than a
    folder that is empty or holds a model, or if writing fails; a model that was there is then still
    whole. Of two writers at once, one waits for the other, and the last one wins.
    """
    folder = store.path_of(path, ArtifactError)
    try:
        created = _prepare(folder)
        with store.locked(folder) as alone:
            try:
                _write_into(folder, artifact, depth=0)
            except BaseException:
                _sweep(folder, alone)
                if created:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                raise
            _sweep(folder, alone)
    except ArtifactError as error:
        raise ArtifactError(f"cannot save {folder}: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtifactError(
            f"cannot save {folder}: {reason}; a model that was there is unchanged"
        ) from error


def read(path: str | os.PathLike[str], *, whole: bool = False) -> Artifact:
    """Read and check the artefact in the folder ``path``; its plugin is not needed.

    A bare name, where no such folder exists, is that of an installed model (`tacenda.artifact.by_name`).
    The arrays are in memory of their own or mapped, so the folder may be replaced or removed afterwards. Of a mapped
    file of more than a few megabytes nothing is read, unless ``whole`` asks to compare its bytes with their hash too.
    Raises `ArtifactError`, naming the path, if anything is missing, damaged, altered or of a newer
    format.
    """
    folder = locate(path)
    for last in [False] * 20 + [True]:
        head = _head_or_nothing(folder)
        try:
            return _read_parts(folder, head or _head(folder), 0, whole)
        except (ArtifactError, OSError) as error:
            # A save may have replaced the model during the reading: then, and only then, try again.
            if _head_or_nothing(folder) != head and not last:
                continue
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ArtifactError(f"cannot read {folder}: {reason or error}") from error
    raise AssertionError("unreachable")


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
            raise ArtifactError("its model.json is not Tacenda's: choose another folder")
    # a manifest that is there by now is another writer's, who has just finished
    elif any(
        not (
            entry.name == MANIFEST
            or store.is_temporary(entry.name)
            or manifests.is_member_name(entry.name)
        )
        for entry in folder.iterdir()
    ):
        raise ArtifactError("it holds other files and no model: choose an empty or a new folder")
    return False


def _write_into(folder: Path, artifact: Artifact, depth: int) -> bytes:
    """Write an artefact, its manifest last; returns the manifest's bytes."""
    check_depth(depth)
    arrays = named_arrays.checked(artifact.arrays)
    artifact.manifest({}, {})  # what cannot be saved fails before anything is written
    written: dict[str, Member] = {}
    nested: dict[str, Member] = {}
    for mapped in (False, True):
        some = {name: a for name, a in arrays.items() if (name in artifact.mapped) == mapped}
        if not some:
            continue
        with store.temporary(folder) as scratch:
            path = scratch / "tensors"
            (named_arrays.write_mapped if mapped else named_arrays.write)(some, path)
            member = Member(path.stat().st_size, store.sha256_of(path))
            name = manifests.tensor_file(member, mapped)
            store.commit(path, folder / name)
            written[name] = member
    for name, part in sorted(artifact.nested.items()):
        manifests.checked_name(name)
        with store.temporary(folder) as scratch:
            head = Member.of(_write_into(scratch, part, depth + 1))
            nested[name] = manifests.in_folder(name, head)
            target = folder / nested[name].folder
            if not _is_whole(target, head):
                store.remove(target)  # it is damaged, and so is a model that names it
                store.commit(scratch, target)
    head_bytes = artifact.manifest(written, nested)
    store.write_file(folder / MANIFEST, head_bytes)
    return head_bytes


def _read_parts(folder: Path, head: bytes, depth: int, whole: bool) -> Artifact:
    check_depth(depth)
    manifest = manifests.decode(head)
    manifests.check_names(manifest)
    arrays: dict[str, npt.NDArray[Any]] = {}
    mapped: set[str] = set()
    for name, member in manifest.files.items():
        is_mapped = manifests.is_mapped(name)
        _verify(folder / name, member, whole or not is_mapped or member.size <= _HASHED)
        some = (named_arrays.mapped if is_mapped else named_arrays.read)(folder / name)
        merge(arrays, some)
        mapped.update(some if is_mapped else ())
    nested: dict[str, Artifact] = {}
    for name, member in manifest.nested.items():
        part = folder / member.folder
        if not part.is_dir() or part.is_symlink():
            raise ArtifactError(f"the nested model {member.folder} is missing")
        inner = _head(part)
        if Member.of(inner, member.folder) != member:
            raise ArtifactError(f"{member.folder}/{MANIFEST} was altered")
        nested[name] = _read_parts(part, inner, depth + 1, whole)
    return replace(manifest.artifact, arrays=arrays, nested=nested, mapped=frozenset(mapped))


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


def _sweep(folder: Path, alone: bool) -> None:
    """Remove what earlier or interrupted saves left, by name; never a file that is not ours.

    What cannot be removed stays: the model is whole with it or without it.
    """
    keep: set[str] = set()
    with contextlib.suppress(ArtifactError, OSError):
        if os.path.lexists(folder / MANIFEST):
            manifest = manifests.decode(_head(folder))
            keep = {*manifest.files, *(member.folder for member in manifest.nested.values())}
        store.sweep(folder, keep, manifests.is_member_name, alone=alone)


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


def _verify(path: Path, member: Member, whole: bool = True) -> None:
    """Raise `ArtifactError` unless a file is there and has the size and, if ``whole``, the sha256 it should have."""
    size = _regular_size(path)
    if size != member.size:
        raise ArtifactError(f"{path.name} has {size} bytes and model.json says {member.size}")
    if whole and store.sha256_of(path) != member.sha256:
        raise ArtifactError(f"{path.name} was altered: its sha256 is not the one in model.json")
