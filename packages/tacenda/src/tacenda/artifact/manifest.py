"""``model.json``: what a saved model says about itself, and the rules it is checked by.

The manifest is JSON of a bounded size, without NaN and without repeated keys. File names in it must
have exactly the form the writer gives them, so that a path in a hostile manifest leads nowhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from tacenda.errors import ArtifactError

FORMAT = "tacenda artifact"
FORMAT_VERSION = 1
MAX_BYTES = 32 << 20
MAX_DEPTH = 8

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TENSOR_FILE = re.compile(r"tensors-[0-9a-f]{32}\.safetensors")
_NESTED_FOLDER = re.compile(r"nested-[A-Za-z0-9][A-Za-z0-9_.-]{0,63}-[0-9a-f]{32}")

_TEXTS = ("kind", "name", "distribution", "version")
_KEYS = {"format", "format_version", *_TEXTS, "config", "fitted_on", "figures", "files", "nested"}


@dataclass(frozen=True)
class Member:
    """A file, or a nested model's manifest, by size in bytes and sha256.

    ``folder`` is where a nested model lies on the disk.
    """

    size: int
    sha256: str
    folder: str = ""

    @classmethod
    def of(cls, data: bytes, folder: str = "") -> Member:
        """Describe some bytes."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), folder)

    def plain(self) -> dict[str, Any]:
        """As the manifest holds it."""
        entry: dict[str, Any] = {"size": self.size, "sha256": self.sha256}
        return {"folder": self.folder, **entry} if self.folder else entry


@dataclass(frozen=True)
class Manifest:
    """The content of ``model.json``."""

    kind: str
    name: str
    distribution: str
    version: str
    config: dict[str, Any]
    fitted_on: dict[str, Any]
    figures: list[dict[str, Any]]
    files: dict[str, Member] = field(default_factory=dict)
    nested: dict[str, Member] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The bytes of ``model.json``; raises `ArtifactError` for what JSON cannot hold exactly."""
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **{key: _text(getattr(self, key), key) for key in _TEXTS},
            "config": plain(self.config, "config"),
            "fitted_on": plain(self.fitted_on, "fitted_on"),
            "figures": plain(self.figures, "figures"),
            "files": {name: member.plain() for name, member in sorted(self.files.items())},
            "nested": {name: member.plain() for name, member in sorted(self.nested.items())},
        }
        data = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if len(data) > MAX_BYTES:
            raise ArtifactError(
                f"config, fitted_on and figures take {len(data)} bytes as JSON, of {MAX_BYTES} "
                "allowed: keep large values in arrays"
            )
        return data


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
    return Manifest(
        **{key: _text(document[key], key) for key in _TEXTS},
        config=document["config"],
        fitted_on=document["fitted_on"],
        figures=figures,
        files={name: _member(name, entry) for name, entry in document["files"].items()},
        nested={
            checked_name(name): _member(name, entry) for name, entry in document["nested"].items()
        },
    )


def checked_name(name: str) -> str:
    """A nested model's name, if it can stand in a folder's; raises `ArtifactError` otherwise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArtifactError(
            f"{name!r} cannot name a nested model: use letters, digits, '_', '.', '-'"
        )
    return name


def tensor_file(member: Member) -> str:
    """The name of a file of tensors: its content's."""
    return f"tensors-{member.sha256[:32]}.safetensors"


def in_folder(name: str, head: Member) -> Member:
    """A nested model whose manifest is ``head``, with the name of its folder."""
    return replace(head, folder=f"nested-{checked_name(name)}-{head.sha256[:32]}")


def is_member_name(name: str) -> bool:
    """Whether a file or folder is named as the writer names them."""
    return bool(_TENSOR_FILE.fullmatch(name) or _NESTED_FOLDER.fullmatch(name))


def check_names(manifest: Manifest) -> None:
    """Raise `ArtifactError` unless every part is named by its content: no name leads elsewhere."""
    for name, member in manifest.files.items():
        if name != tensor_file(member):
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

    Raises `ArtifactError` for anything that would not come back as it was: NaN and infinities, keys
    that are not text, and objects.
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
        document = json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"model.json is damaged: {error}") from error
    if not isinstance(document, dict):
        raise ArtifactError("model.json is damaged: it must be an object")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} appears twice")
    return document


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


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
