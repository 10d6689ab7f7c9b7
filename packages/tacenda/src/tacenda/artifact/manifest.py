r"""`Artifact`, its manifest ``model.json``, and the rules that a manifest must follow.

The manifest is JSON of a bounded size, without NaN and without repeated keys. File names in it must have exactly the
form the writer gives them, so that a path in a hostile manifest leads nowhere.

An artefact as bytes is the folder of `tacenda.artifact.folder` in one piece::

    b"TACENDA\x01", the manifest's length (8 bytes, little-endian), the manifest,
    each file the manifest names, each nested model in the same form

with files and nested models in the order of the manifest, which holds their sizes and sha256.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy.typing as npt

from tacenda import store
from tacenda.artifact import arrays as named_arrays
from tacenda.errors import ArtifactError

MAGIC = b"TACENDA\x01"
FORMAT = "tacenda artifact"
FORMAT_VERSION = 1
MAX_BYTES = store.LARGEST_JSON
MAX_DEPTH = 8

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TENSOR_FILE = re.compile(r"(tensors|mapped)-[0-9a-f]{32}\.safetensors")
_NESTED_FOLDER = re.compile(r"nested-[A-Za-z0-9][A-Za-z0-9_.-]{0,63}-[0-9a-f]{32}")

_TEXTS = ("kind", "name", "distribution", "version")
_KEYS = {"format", "format_version", *_TEXTS, "config", "fitted_on", "figures", "files", "nested"}


@dataclass(frozen=True)
class Member:
    """The size in bytes and the sha256 of a file, or of the manifest of a nested model.

    ``folder`` is the folder in which a nested model lies on disk.
    """

    size: int
    sha256: str
    folder: str = ""

    @classmethod
    def of(cls, data: bytes, folder: str = "") -> Member:
        """Describe the content of a file."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), folder)

    def plain(self) -> dict[str, Any]:
        """Return the JSON object that the manifest holds."""
        entry: dict[str, Any] = {"size": self.size, "sha256": self.sha256}
        return {"folder": self.folder, **entry} if self.folder else entry


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
        ``{"measure": "perplexity", "value": 123.4, "protocol": "..."}``.
    fitted_on
        What the model was fitted on, in JSON values.
    nested
        The models of which this one is made, by name; each is a complete artefact.
    mapped
        Names of arrays that a folder holds in a file of their own, which is mapped when it is read: large ones of
        which a model needs a few places at a time.
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
        """Return the artefact in one piece. Raises ArtifactError for content that cannot be saved."""
        return _encode(self, depth=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        """Read what `to_bytes` gave, checking sizes, hashes and every rule of the folder form."""
        return _decode(bytes(data), depth=0)

    def manifest(self, files: Mapping[str, Member], nested: Mapping[str, Member]) -> bytes:
        """Return the bytes of ``model.json``; raises `ArtifactError` for what JSON cannot hold exactly."""
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **{key: _text(getattr(self, key), key) for key in _TEXTS},
            "config": plain(self.config, "config"),
            "fitted_on": plain(self.fitted_on, "fitted_on"),
            "figures": plain(self.figures, "figures"),
            "files": {name: member.plain() for name, member in sorted(files.items())},
            "nested": {name: member.plain() for name, member in sorted(nested.items())},
        }
        data = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if len(data) > MAX_BYTES:
            raise ArtifactError(
                f"config, fitted_on and figures take {len(data)} bytes as JSON, of {MAX_BYTES} "
                "allowed: keep large values in arrays"
            )
        return data


class Manifest(NamedTuple):
    """The content of ``model.json``: an artefact without its parts, and the parts."""

    artifact: Artifact
    files: dict[str, Member]
    nested: dict[str, Member]


def decode(data: bytes) -> Manifest:
    """Read and check the bytes of ``model.json``; raises `ArtifactError`."""
    document = _parse(data)
    if document.get("format") != FORMAT:
        raise ArtifactError(
            "model.json was not written by Tacenda: this folder holds some other model"
        )
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ArtifactError(f"model.json has an invalid format_version {version!r}")
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"model.json has format version {version} and this release reads up to "
            f"{FORMAT_VERSION}: upgrade tacenda"
        )
    if document.keys() != _KEYS:
        odd = ", ".join(sorted(map(str, document.keys() ^ _KEYS)))
        raise ArtifactError(f"model.json lacks or adds keys: {odd}")
    for key in ("config", "fitted_on", "files", "nested"):
        if not isinstance(document[key], dict):
            raise ArtifactError(f"model.json: {key} must be an object")
    figures = document["figures"]
    if not isinstance(figures, list) or not all(isinstance(figure, dict) for figure in figures):
        raise ArtifactError("model.json: figures must be a list of objects")
    texts: dict[str, Any] = {key: _text(document[key], key) for key in _TEXTS}
    artifact = Artifact(
        **texts,
        config=document["config"],
        fitted_on=document["fitted_on"],
        figures=figures,
        arrays={},
    )
    files = {name: _member(name, entry) for name, entry in document["files"].items()}
    nested = {
        checked_name(name): _member(name, entry) for name, entry in document["nested"].items()
    }
    return Manifest(artifact, files, nested)


def checked_name(name: str) -> str:
    """Return the name of a nested model, if a folder can be named after it; raises `ArtifactError` otherwise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArtifactError(
            f"{name!r} cannot name a nested model: use letters, digits, '_', '.', '-'"
        )
    return name


def tensor_file(member: Member, mapped: bool = False) -> str:
    """Return the name of a file of tensors, which its content determines; ``mapped`` if it is to be mapped."""
    return f"{'mapped' if mapped else 'tensors'}-{member.sha256[:32]}.safetensors"


def is_mapped(name: str) -> bool:
    """Tell whether a file of this name is mapped into memory, and read where it is used."""
    return name.startswith("mapped-")


def in_folder(name: str, head: Member) -> Member:
    """Return the entry of a nested model whose manifest is ``head``, with the name of its folder."""
    return replace(head, folder=f"nested-{checked_name(name)}-{head.sha256[:32]}")


def is_member_name(name: str) -> bool:
    """Tell whether a file or folder has a name that the writer could have given it."""
    return bool(_TENSOR_FILE.fullmatch(name) or _NESTED_FOLDER.fullmatch(name))


def check_names(manifest: Manifest) -> None:
    """Raise `ArtifactError` unless every part is named after its content, so that no name leads elsewhere."""
    for name, member in manifest.files.items():
        if name != tensor_file(member, is_mapped(name)):
            raise ArtifactError(
                f"model.json names a file {name!r:.80}, which no tensor file can have"
            )
    for name, member in manifest.nested.items():
        if member != in_folder(name, member):
            raise ArtifactError(
                f"model.json names a folder {member.folder!r:.80}, which no nested model can have"
            )


def plain(value: Any, where: str) -> Any:
    """Copy a value as JSON gives it back: tuples become lists, numpy scalars Python's.

    Raises `ArtifactError` for anything that would not come back unchanged: NaN and infinities, keys that are not
    text, and objects.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ArtifactError(f"{where} has the key {key!r}: keys must be text")
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if (
        not isinstance(value, str | int | float | None)
        and hasattr(value, "item")
        and not value.shape
    ):
        value = value.item()
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        raise ArtifactError(f"{where} is {value!r}, which JSON cannot hold: use None or a text")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ArtifactError(f"{where} is of type {type(value).__name__}: only JSON values can be saved")


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise ArtifactError(f"model.json has {len(data)} bytes; more than {MAX_BYTES} are not read")
    try:
        document = store.parse_json(data)
    except ValueError as error:
        raise ArtifactError(f"model.json is damaged: {error}") from error
    if not isinstance(document, dict):
        raise ArtifactError("model.json is damaged: it must be an object")
    return document


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or len(value) > 200 or (not value and key != "version"):
        raise ArtifactError(f"{key} must be a short text, not {value!r:.80}")
    return value


def _member(name: str, entry: Any) -> Member:
    if not isinstance(entry, dict) or not {"size", "sha256"} <= entry.keys() <= {
        "size",
        "sha256",
        "folder",
    }:
        raise ArtifactError(f"model.json: the entry of {name!r:.80} is damaged")
    size, sha256, folder = entry["size"], entry["sha256"], entry.get("folder", "")
    whole = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    if not whole or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ArtifactError(f"model.json: the size or sha256 of {name!r:.80} is damaged")
    return Member(size, sha256, folder)


def merge(arrays: dict[str, npt.NDArray[Any]], more: dict[str, npt.NDArray[Any]]) -> None:
    """Add the arrays of another file. Raises ArtifactError if two arrays have the same name."""
    twice = arrays.keys() & more.keys()
    if twice:
        raise ArtifactError(f"two tensor files hold an array {min(twice)!r}")
    arrays.update(more)


def check_depth(depth: int) -> None:
    """Raise `ArtifactError` if models are nested too deeply, as in a hostile or cyclic artefact."""
    if depth > MAX_DEPTH:
        raise ArtifactError(f"models are nested more than {MAX_DEPTH} deep")


def _encode(artifact: Artifact, depth: int) -> bytes:
    check_depth(depth)
    blobs: list[bytes] = []
    files: dict[str, Member] = {}
    nested: dict[str, Member] = {}
    arrays = named_arrays.checked(artifact.arrays)
    if arrays:
        blobs.append(named_arrays.encode(arrays))
        member = Member.of(blobs[0])
        files[tensor_file(member)] = member
    for name, part in sorted(artifact.nested.items()):
        blobs.append(_encode(part, depth + 1))
        nested[checked_name(name)] = Member.of(blobs[-1])
    head = artifact.manifest(files, nested)
    return b"".join([MAGIC, len(head).to_bytes(8, "little"), head, *blobs])


def _decode(data: bytes, depth: int) -> Artifact:
    check_depth(depth)
    start = len(MAGIC) + 8
    if data[: len(MAGIC)] != MAGIC or len(data) < start:
        raise ArtifactError("these bytes are not a Tacenda model")
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if end > len(data):
        raise ArtifactError("the model's bytes are cut short")
    manifest = decode(data[start:end])
    arrays: dict[str, npt.NDArray[Any]] = {}
    nested: dict[str, Artifact] = {}
    for members in (manifest.files, manifest.nested):
        for name, member in members.items():
            blob, end = data[end : end + member.size], end + member.size
            if Member.of(blob) != Member(member.size, member.sha256):
                raise ArtifactError(f"the bytes of {name!r} are cut short or altered")
            if members is manifest.files:
                merge(arrays, named_arrays.decode(blob))
            else:
                nested[name] = _decode(blob, depth + 1)
    if end != len(data):
        raise ArtifactError(f"{len(data) - end} bytes follow the end of the model")
    return replace(manifest.artifact, arrays=arrays, nested=nested)
