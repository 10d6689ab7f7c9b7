r"""`Artifact`, a fitted model without its class, as a folder and as bytes.

A folder, in which a kill at any moment leaves the old model or the new one::

    model.json                     the manifest, written last: the only commit point
    tensors-<sha256>.safetensors   arrays, named by content: a new model never touches an old file
    mapped-<sha256>.safetensors    arrays that are mapped when the model is read
    nested-<name>-<sha256>/        a nested model, a complete artifact, named by its own model.json

Everything is written and renamed by `tacenda.store`. What the manifest no longer names is removed afterwards; files of
other names are never touched. The manifest is JSON of a bounded size, without NaN and without repeated keys. Names in
it must be exactly those that the writer gives, so that a path in a hostile manifest leads nowhere.

The bytes are a folder in one piece, for a pickle or a database::

    b"TACENDA\x01", the manifest's length (8 bytes, little-endian), the manifest,
    each file the manifest names, each nested model in the same form

with files and nested models in the order of the manifest, which holds their sizes and sha256.

The manifest has a seal too: a hash of the settings, of numbers from every array, and of the seals of nested models.
Parts of several models are refused by it, even where sizes and hashes were made to fit. It stops accidents, not
attackers: `write` seals whatever it is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import reading, store
from tacenda.artifact import arrays as named_arrays
from tacenda.artifact.by_name import MANIFEST, locate
from tacenda.errors import ArtifactError

FORMAT_VERSION = 1

_FORMAT = "tacenda artifact"
_MAGIC = b"TACENDA\x01"
_MAX_DEPTH = 8  # of nested models, because a hostile or cyclic artifact may be nested endlessly
_TOO_DEEP = f"models are nested more than {_MAX_DEPTH} deep"
#: A larger mapped file is read where it is used, so its sha256 is compared only if `read` is asked to.
_HASHED_BYTES = 1 << 22

_WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_FILE = re.compile(r"(?:tensors|mapped)-([0-9a-f]{32})\.safetensors")
_PART = re.compile(rf"{_FILE.pattern}|nested-{_WORD}-[0-9a-f]{{32}}")
_TEXTS = ("kind", "name", "distribution", "version")
_VALUES = ("config", "fitted_on", "figures")
_KEYS = {"format", "format_version", *_TEXTS, *_VALUES, "files", "nested"}
_SEAL = "seal"  # a key that folders of older versions lack
#: The most numbers of an array that are in a seal, and the most of an array of more than `_HASHED_BYTES`.
_SEALED_NUMBERS = 1024, 64


@dataclass(frozen=True)
class Artifact:
    """A fitted model without its class: what is saved, and all that is needed to load it again.

    Attributes
    ----------
    kind, name, distribution, version
        The entry point of the plugin that loads it, and the version of the distribution that saved it.
    config
        The model's settings; JSON values only.
    arrays
        numpy arrays of bool, integers or float16/32/64, by name.
    figures
        Measured results, each with its protocol, such as
        ``{"measure": "perplexity", "value": 123.4, "protocol": "..."}``, or the course of a fit (`History.figure`),
        which has the keys ``name``, ``criterion`` and ``best`` instead.
    fitted_on
        Facts about the training data, in JSON values.
    nested
        The component models, by name; each is a complete artifact.
    mapped
        Names of arrays that a folder holds in a separate file, which is mapped when it is read: large arrays, when
        a model needs only a few places at a time.
    """

    kind: str
    name: str
    distribution: str
    version: str
    config: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    figures: list[dict[str, Any]] = field(default_factory=list)
    fitted_on: dict[str, Any] = field(default_factory=dict)
    nested: dict[str, Artifact] = field(default_factory=dict)
    mapped: frozenset[str] = frozenset()

    def to_bytes(self) -> bytes:
        """Return the artifact in one piece. Raises ArtifactError for content that cannot be saved."""
        return _to_bytes(_prepare(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        """Read what `to_bytes` gave, checking sizes, hashes and every rule of the folder form. Raises ArtifactError."""
        try:
            memoryview(data)  # `bytes` would make zeros of a number
        except TypeError:
            raise ArtifactError(f"a model is read from bytes, not from {data!r:.80}") from None
        return _from_bytes(bytes(data), depth=0)


class _Member(NamedTuple):
    """The size in bytes and sha256 of a file, or of the manifest of a nested model; and the latter's folder."""

    size: int
    sha256: str
    folder: str = ""

    @classmethod
    def of(cls, data: bytes) -> _Member:
        return cls(len(data), hashlib.sha256(data).hexdigest())

    def file_name(self, mapped: bool) -> str:
        return f"{'mapped' if mapped else 'tensors'}-{self.sha256[:32]}.safetensors"

    def in_folder(self, name: str) -> _Member:
        return self._replace(folder=f"nested-{name}-{self.sha256[:32]}")


class _Manifest(NamedTuple):
    """The content of ``model.json``: an artifact without its parts, and the parts."""

    artifact: Artifact
    files: dict[str, _Member]
    nested: dict[str, _Member]
    seal: str = ""

    def complete(
        self,
        files: Iterable[Mapping[str, npt.NDArray[Any]]],
        nested: dict[str, Artifact],
        mapped: frozenset[str] = frozenset(),
    ) -> Artifact:
        """Return the artifact with the arrays of its files and its nested models.

        Raises ArtifactError if two files hold an array of one name, or these are not the parts that were sealed.
        """
        arrays: dict[str, npt.NDArray[Any]] = {}
        for some in files:
            if twice := arrays.keys() & some.keys():
                raise ArtifactError(f"two tensor files hold an array {min(twice)!r}")
            arrays |= some
        found = replace(self.artifact, arrays=arrays, nested=nested, mapped=mapped)
        if self.seal and self.seal != _seal(found):
            raise ArtifactError(
                "its settings, arrays or nested models are not those that were saved together: it was altered, or is "
                "made of several models; copy the whole folder of one"
            )
        return found


# ---- a folder ----


def write(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Save an artifact into the folder ``path``, creating it, or replacing an existing model.

    Raises `ArtifactError` if the artifact cannot be saved, if ``path`` is something other than a
    folder that is empty or holds a model, or if writing fails; a model that was there is then still
    whole. Of two writers at once, one waits for the other, and the last one wins.
    """
    folder = reading.path_of(path, ArtifactError)
    try:
        artifact = _prepare(artifact)
        created = not os.path.lexists(folder)
        if created:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            check_replaceable(folder)
        with store.locked(folder) as alone:
            try:
                _write_into(folder, artifact)
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
            f"cannot save {folder}: {reason}; an existing model there is unchanged"
        ) from error


def read(path: str | os.PathLike[str], *, whole: bool = False) -> Artifact:
    """Read and check the artifact in the folder ``path``; its plugin is not needed.

    A bare name, where no such folder exists, means an installed model (`tacenda.artifact.by_name`). The arrays are
    copies or mapped, so the folder may be replaced or removed afterwards. Of a mapped file of more than a few megabytes
    a few numbers are read, unless ``whole`` asks to compare its bytes with their hash. Raises `ArtifactError`, naming
    the path, if anything is missing, damaged, altered or of a newer format.
    """
    folder = locate(path)
    attempts = 20
    while True:
        head = b""
        try:
            head = _read_head(folder)
            return _read_parts(folder, head, 0, whole)
        except (ArtifactError, OSError) as error:
            # a save may have replaced the model during the reading: then, and only then, try again
            now = b""
            with contextlib.suppress(ArtifactError, OSError):
                now = _read_head(folder)
            if now != head and attempts:
                attempts -= 1
                continue
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ArtifactError(f"cannot read {folder}: {reason or error}") from error


def check_name(name: str) -> None:
    """Raise `ArtifactError` unless a folder can be named after this name of a nested model."""
    if not isinstance(name, str) or not re.fullmatch(_WORD, name):
        raise ArtifactError(
            f"{name!r} cannot name a nested model: use letters, digits, '_', '.', '-'"
        )


def check_replaceable(folder: Path) -> None:
    """Raise ArtifactError unless what is there is a model, or an empty folder; OSError if it cannot be read."""
    if not folder.is_dir():
        raise ArtifactError("it is not a folder, and models are saved in folders")
    if os.path.lexists(folder / MANIFEST):
        head = _read_head(folder)
        if not head.startswith(b"{") or _FORMAT.encode() not in head[:200]:
            raise ArtifactError("its model.json is not Tacenda's: choose another folder")
        return
    for name in (entry.name for entry in folder.iterdir()):
        # a killed save leaves parts, and a manifest that is there by now is that of a writer who has just finished
        if not (name == MANIFEST or store.is_temporary(name) or _PART.fullmatch(name)):
            raise ArtifactError(
                "it holds other files and no model: choose an empty or a new folder"
            )


def _write_into(folder: Path, artifact: Artifact) -> bytes:
    """Write an artifact, its manifest last; return the manifest's bytes."""
    manifest, arrays = _Manifest(artifact, {}, {}, _seal(artifact)), artifact.arrays
    for mapped in (False, True):
        some = {name: a for name, a in arrays.items() if (name in artifact.mapped) == mapped}
        if some:
            with store.temporary(folder) as scratch:
                path = scratch / "tensors"
                named_arrays.write(some, path)
                member = _Member(path.stat().st_size, store.sha256_of(path))
                name = member.file_name(mapped)
                store.commit(path, folder / name)
                manifest.files[name] = member
    for name, part in sorted(artifact.nested.items()):
        with store.temporary(folder) as scratch:
            head = _Member.of(_write_into(scratch, part))
            manifest.nested[name] = head.in_folder(name)
            target = folder / manifest.nested[name].folder
            if not _is_whole(target, head):
                store.remove(target)  # it is damaged, and so is a model that names it
                store.commit(scratch, target)
    data = _encode(manifest)
    store.write_file(folder / MANIFEST, data)
    return data


def _read_head(folder: Path) -> bytes:
    """Return the bytes of ``model.json``, of a file that is too large only as many as `_decode` refuses."""
    if not os.path.lexists(folder):
        raise ArtifactError("there is no such folder")
    if not folder.is_dir():
        raise ArtifactError("it is not a folder, as a model is")
    if not os.path.lexists(folder / MANIFEST):
        raise ArtifactError(
            "it holds no model.json, so it is not a model, or its saving was interrupted"
        )
    _verify(folder / MANIFEST)
    with (folder / MANIFEST).open("rb") as file:
        return file.read(reading.LARGEST_JSON + 1)


def _read_parts(folder: Path, head: bytes, depth: int, whole: bool) -> Artifact:
    """Return the artifact of a folder whose ``model.json`` is ``head``, ``depth`` models within another."""
    if depth > _MAX_DEPTH:
        raise ArtifactError(_TOO_DEEP)
    manifest = _decode(head, in_folder=True)
    files: list[dict[str, npt.NDArray[Any]]] = []
    mapped: set[str] = set()
    for name, member in manifest.files.items():
        is_mapped = name.startswith("mapped-")
        _verify(folder / name, member, whole or not is_mapped or member.size <= _HASHED_BYTES)
        some = named_arrays.read(folder / name)
        if is_mapped:
            mapped.update(some)
        else:  # copied, so that the file may be removed
            some = {name: np.array(array) for name, array in some.items()}
        files.append(some)
    nested: dict[str, Artifact] = {}
    for name, member in manifest.nested.items():
        part = folder / member.folder
        if not part.is_dir() or part.is_symlink():
            raise ArtifactError(f"the nested model {member.folder} is missing")
        inner = _read_head(part)
        if _Member.of(inner)[:2] != member[:2]:
            raise ArtifactError(f"{member.folder}/{MANIFEST} was altered")
        nested[name] = _read_parts(part, inner, depth + 1, whole)
    return manifest.complete(files, nested, frozenset(mapped))


def _is_whole(folder: Path, head: _Member) -> bool:
    """Return whether the folder already holds a nested model of this content, undamaged."""
    try:
        data = _read_head(folder)
        manifest = _decode(data, in_folder=True)
        for name, member in manifest.files.items():
            # only the hash, because tables need not fit into memory twice
            _verify(folder / name, member)
    except (ArtifactError, OSError):
        return False
    inner = ((folder / part.folder, part._replace(folder="")) for part in manifest.nested.values())
    is_same = _Member.of(data) == head and not folder.is_symlink()
    return is_same and all(_is_whole(*part) for part in inner)


def _sweep(folder: Path, alone: bool) -> None:
    """Remove what earlier or interrupted saves left, by name; what cannot be removed stays."""
    keep: set[str] = set()
    with contextlib.suppress(ArtifactError, OSError):
        if os.path.lexists(folder / MANIFEST):
            manifest = _decode(_read_head(folder))
            keep = {*manifest.files, *(member.folder for member in manifest.nested.values())}
        store.sweep(folder, keep, _PART.fullmatch, alone=alone)


def _verify(path: Path, member: _Member | None = None, whole: bool = True) -> None:
    """Raise ArtifactError unless this is a file, and no link, with the size and, if ``whole``, sha256 of the member."""
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
    if member is None:
        return
    if status.st_size != member.size:
        raise ArtifactError(
            f"{path.name} has {status.st_size} bytes and model.json says {member.size}"
        )
    if whole and store.sha256_of(path) != member.sha256:
        raise ArtifactError(f"{path.name} was altered: its sha256 is not the one in model.json")


# ---- bytes ----


def _to_bytes(artifact: Artifact) -> bytes:
    """Return an artifact that `_prepare` returned in one piece."""
    blobs: list[bytes] = []
    manifest = _Manifest(artifact, {}, {}, _seal(artifact))
    if artifact.arrays:
        blobs.append(named_arrays.encode(artifact.arrays))
        member = _Member.of(blobs[0])
        manifest.files[member.file_name(mapped=False)] = member
    for name, part in sorted(artifact.nested.items()):
        blobs.append(_to_bytes(part))
        manifest.nested[name] = _Member.of(blobs[-1])
    head = _encode(manifest)
    return b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *blobs])


def _from_bytes(data: bytes, depth: int) -> Artifact:
    """Return the artifact of `_to_bytes`, ``depth`` models within another."""
    if depth > _MAX_DEPTH:
        raise ArtifactError(_TOO_DEEP)
    start = len(_MAGIC) + 8
    if data[: len(_MAGIC)] != _MAGIC or len(data) < start:
        raise ArtifactError("these bytes are not a Tacenda model")
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    if end > len(data):
        raise ArtifactError("the model's bytes are cut short")
    manifest = _decode(data[start:end])
    files: list[dict[str, npt.NDArray[Any]]] = []
    nested: dict[str, Artifact] = {}
    for members in (manifest.files, manifest.nested):
        for name, member in members.items():
            blob, end = data[end : end + member.size], end + member.size
            if _Member.of(blob)[:2] != member[:2]:
                raise ArtifactError(f"the bytes of {name!r} are cut short or altered")
            if members is manifest.files:
                files.append(named_arrays.decode(blob))
            else:
                nested[name] = _from_bytes(blob, depth + 1)
    if end != len(data):
        raise ArtifactError(f"{len(data) - end} bytes follow the end of the model")
    return manifest.complete(files, nested)


# ---- the manifest ----


def _prepare(artifact: Artifact, *names: str) -> Artifact:
    """Return an artifact that can be saved, whose arrays are as `named_arrays.check` makes them.

    Raises ArtifactError, which names the nested model, for what cannot be saved, or is nested too deep.
    """
    if len(names) > _MAX_DEPTH:
        raise ArtifactError(_TOO_DEEP)
    try:
        if not isinstance(artifact, Artifact):
            raise ArtifactError(
                f"it is a {type(artifact).__name__}, not an Artifact, such as to_artifact() returns"
            )
        arrays = named_arrays.check(artifact.arrays)
        _encode(_Manifest(artifact, {}, {}))
        for name in artifact.nested:
            check_name(name)
    except ArtifactError as error:
        if not names:
            raise
        raise ArtifactError(f"in the nested model {'/'.join(names)!r}, {error}") from error
    nested = {name: _prepare(part, *names, name) for name, part in artifact.nested.items()}
    return replace(artifact, arrays=arrays, nested=nested)


def _encode(manifest: _Manifest) -> bytes:
    """Return the bytes of ``model.json``; raise `ArtifactError` for what JSON cannot hold exactly."""

    def entry(member: _Member) -> dict[str, Any]:
        head = {"folder": member.folder} if member.folder else {}
        return {**head, "size": member.size, "sha256": member.sha256}

    artifact = manifest.artifact
    try:
        values = {key: reading.copy_json(getattr(artifact, key), key) for key in _VALUES}
    except ValueError as error:
        raise ArtifactError(str(error)) from error
    document = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        **{key: getattr(artifact, key) for key in _TEXTS},
        **values,
        "files": {name: entry(member) for name, member in sorted(manifest.files.items())},
        "nested": {name: entry(member) for name, member in sorted(manifest.nested.items())},
    }
    _check_values(document)
    document[_SEAL] = manifest.seal
    data = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    if len(data) > reading.LARGEST_JSON:
        raise ArtifactError(
            f"config, fitted_on and figures take {len(data)} bytes as JSON, of {reading.LARGEST_JSON} "
            "allowed: keep large values in arrays"
        )
    return data


def _decode(data: bytes, in_folder: bool = False) -> _Manifest:
    """Read and check the bytes of ``model.json``; raise `ArtifactError`.

    Every file must be named after its content, and with ``in_folder`` every nested folder too, so that no name leads
    elsewhere.
    """
    if len(data) > reading.LARGEST_JSON:
        raise ArtifactError(
            f"model.json is too large: more than {reading.LARGEST_JSON} bytes are not read"
        )
    try:
        document = reading.parse_json(data)
    except ValueError as error:
        raise ArtifactError(f"model.json is damaged: {error}") from error
    if not isinstance(document, dict):
        raise ArtifactError("model.json is damaged: it must be an object")
    if document.get("format") != _FORMAT:
        raise ArtifactError(
            "model.json was not written by Tacenda: this folder holds some other model"
        )
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise ArtifactError(f"model.json has an invalid format_version {version!r}")
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"model.json has format version {version} and this release reads up to {FORMAT_VERSION}: upgrade tacenda"
        )
    if document.keys() - {_SEAL} != _KEYS:
        odd = ", ".join(sorted(map(str, (document.keys() - {_SEAL}) ^ _KEYS)))
        raise ArtifactError(f"model.json lacks or adds keys: {odd}")
    _check_values(document)
    described = {key: document[key] for key in (*_TEXTS, *_VALUES)}
    manifest = _Manifest(Artifact(**described, arrays={}), {}, {}, document.get(_SEAL, ""))
    for name, entry in document["files"].items():
        file = manifest.files[name] = _read_entry(name, entry, {"size", "sha256"})
        found = _FILE.fullmatch(name)
        if not found or found[1] != file.sha256[:32]:
            raise ArtifactError(
                f"model.json names a file {name!r:.80}, which no tensor file can have"
            )
    for name, entry in document["nested"].items():
        check_name(name)
        part = manifest.nested[name] = _read_entry(name, entry, {"size", "sha256", "folder"})
        if in_folder and part != part.in_folder(name):
            raise ArtifactError(
                f"model.json names a folder {part.folder!r:.80}, which no nested model can have"
            )
    return manifest


def _read_entry(name: str, entry: Any, known: set[str]) -> _Member:
    """Read what the manifest says of a file or a nested model; raise `ArtifactError`."""
    if not isinstance(entry, dict) or not {"size", "sha256"} <= entry.keys() <= known:
        raise ArtifactError(f"model.json: the entry of {name!r:.80} is damaged")
    size, sha256 = entry["size"], entry["sha256"]
    hexadecimal = isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256)
    if type(size) is not int or size < 0 or not hexadecimal:
        raise ArtifactError(f"model.json: the size or sha256 of {name!r:.80} is damaged")
    return _Member(size, sha256, entry.get("folder", ""))


def _seal(artifact: Artifact) -> str:
    """Return a hash of what belongs together, of which a few numbers of every array are read."""
    head = [artifact.kind, artifact.name, reading.copy_json(artifact.config, "config")]
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for name, array in sorted(artifact.arrays.items()):
        step = -(-array.size // _SEALED_NUMBERS[array.nbytes > _HASHED_BYTES]) or 1
        some = array.reshape(-1)[::step]
        digest.update(f"{name} {array.dtype.str[1:]} {array.shape}\0".encode())
        digest.update(some.astype(some.dtype.newbyteorder("<"), copy=False).tobytes())
    for name, part in sorted(artifact.nested.items()):
        digest.update(f"{name} {_seal(part)}\0".encode())
    return digest.hexdigest()


def _check_values(document: Mapping[str, Any]) -> None:
    """Raise ArtifactError for a manifest whose values are not of the right types."""
    for key in sorted(document.keys() & {*_TEXTS, _SEAL}):
        value = document[key]
        is_short = isinstance(value, str) and len(value) <= 200 and value.isprintable()
        if not is_short or (not value and key != "version"):
            raise ArtifactError(f"{key} must be a short printable text, not {value!r:.80}")
    for key in ("config", "fitted_on", "files", "nested"):
        if not isinstance(document[key], dict):
            raise ArtifactError(f"{key} must be an object")
    figures = document["figures"]
    if not isinstance(figures, list) or not all(isinstance(figure, dict) for figure in figures):
        raise ArtifactError("figures must be a list of objects")
