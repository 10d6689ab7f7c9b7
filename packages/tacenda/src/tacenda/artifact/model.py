r"""The artefact in memory: a fitted model's tensors and metadata, and its form as bytes.

The bytes are the folder of `tacenda.artifact.folder` in one piece::

    b"TACENDA\x01", the manifest's length (8 bytes, little-endian), the manifest,
    each file the manifest names, each nested model in the same form

with files and nested models in the order of the manifest, their sizes and sha256 standing in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from tacenda.artifact import arrays as named_arrays
from tacenda.artifact import manifest as manifests
from tacenda.artifact.manifest import Manifest, Member
from tacenda.errors import ArtifactError

MAGIC = b"TACENDA\x01"


@dataclass(frozen=True)
class Artifact:
    """A fitted model without its class: what is saved, and all that is needed to load it again.

    Attributes
    ----------
    kind, name, distribution, version
        The plugin that loads it, by its entry point, and the distribution's version that saved it.
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
        Models this one is made of, by name; each is a complete artefact.

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

    def to_bytes(self) -> bytes:
        """The artefact in one piece; raises `ArtifactError` for what cannot be saved."""
        return _encode(self, depth=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        """Read what `to_bytes` gave, checking sizes, hashes and every rule of the folder form."""
        return _decode(bytes(data), depth=0)


def manifest_of(
    artifact: Artifact, files: dict[str, Member], nested: dict[str, Member]
) -> Manifest:
    """The manifest of an artefact whose parts are written."""
    return Manifest(
        kind=artifact.kind,
        name=artifact.name,
        distribution=artifact.distribution,
        version=artifact.version,
        config=artifact.config,
        fitted_on=artifact.fitted_on,
        figures=artifact.figures,
        files=files,
        nested=nested,
    )


def assemble(
    manifest: Manifest, arrays: dict[str, npt.NDArray[Any]], nested: dict[str, Artifact]
) -> Artifact:
    """The artefact of a manifest whose parts are read."""
    return Artifact(
        kind=manifest.kind,
        name=manifest.name,
        distribution=manifest.distribution,
        version=manifest.version,
        config=manifest.config,
        arrays=arrays,
        figures=manifest.figures,
        fitted_on=manifest.fitted_on,
        nested=nested,
    )


def merge(arrays: dict[str, npt.NDArray[Any]], more: dict[str, npt.NDArray[Any]]) -> None:
    """Add the arrays of one more file; raises `ArtifactError` for a name that is there already."""
    twice = arrays.keys() & more.keys()
    if twice:
        raise ArtifactError(f"two tensor files hold an array {min(twice)!r}")
    arrays.update(more)


def check_depth(depth: int) -> None:
    """Raise `ArtifactError` where models are nested too deep, as in a hostile or cyclic one."""
    if depth > manifests.MAX_DEPTH:
        raise ArtifactError(f"models are nested more than {manifests.MAX_DEPTH} deep")


def _encode(artifact: Artifact, depth: int) -> bytes:
    check_depth(depth)
    blobs: list[bytes] = []
    files: dict[str, Member] = {}
    nested: dict[str, Member] = {}
    arrays = named_arrays.checked(artifact.arrays)
    if arrays:
        blobs.append(named_arrays.encode(arrays))
        member = Member.of(blobs[0])
        files[manifests.tensor_file(member)] = member
    for name, part in sorted(artifact.nested.items()):
        blobs.append(_encode(part, depth + 1))
        nested[manifests.checked_name(name)] = Member.of(blobs[-1])
    head = manifest_of(artifact, files, nested).encode()
    return b"".join([MAGIC, len(head).to_bytes(8, "little"), head, *blobs])


def _decode(data: bytes, depth: int) -> Artifact:
    check_depth(depth)
    start = len(MAGIC) + 8
    if data[: len(MAGIC)] != MAGIC or len(data) < start:
        raise ArtifactError("these bytes are not a Tacenda model")
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if end > len(data):
        raise ArtifactError("the model's bytes are cut short")
    manifest = manifests.decode(data[start:end])
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
    return assemble(manifest, arrays, nested)
