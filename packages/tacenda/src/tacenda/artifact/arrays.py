"""Named numpy arrays of an artifact in the safetensors format: checked, and as files and bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from tacenda.artifact.precision import FORMS, MARK, Array
from tacenda.errors import ArtifactError

#: The element types an artifact holds, by safetensors' names.
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"{kind}{8 * n}": np.dtype(f"{kind.lower()}{n}") for kind in "UI" for n in (1, 2, 4, 8)},
    **{f"F{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
}
_DAMAGE = (safetensors.SafetensorError, ValueError, KeyError, OverflowError, TypeError)
_CODES = {dtype: code for code, dtype in DTYPES.items()}


def check(arrays: Mapping[str, Any]) -> dict[str, Array]:
    """Make arrays fit to be saved: C-contiguous and little-endian; copies only what is not.

    Raises `ArtifactError` for anything but numpy arrays of bool, integers or float16/32/64.
    """
    ready: dict[str, Array] = {}
    for name, array in arrays.items():
        if not _can_name_array(name):
            raise ArtifactError(
                f"{name!r} cannot name an array: use other text, without {MARK!r} and not '__metadata__'"
            )
        if not isinstance(array, np.ndarray):
            kind = f"{type(array).__module__}.{type(array).__qualname__}"
            raise ArtifactError(f"array {name!r} is a {kind}: convert it to a numpy array first")
        dtype = array.dtype.newbyteorder("=")
        if dtype not in _CODES:
            raise ArtifactError(
                f"array {name!r} has dtype {array.dtype}: only bool, integers and float16, 32 and 64 can be saved"
            )
        ready[name] = np.asarray(array, dtype=dtype, order="C")
    return ready


def _can_name_array(name: Any) -> bool:
    """Tell whether a safetensors file can hold an array of this name."""
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):  # not a text, or a lone surrogate
        return False
    _, mark, form = name.rpartition(MARK)
    return name not in ("", "__metadata__") and (not mark or form in FORMS)


def encode(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays of the `DTYPES` as the bytes of a safetensors file."""
    # the library scrambles arrays that are not in C order
    return safetensors.numpy.save({k: np.asarray(a, order="C") for k, a in arrays.items()})


def write(arrays: Mapping[str, Array], path: Path) -> None:
    """Write arrays that `check` has passed, each where it suits its type; raises `OSError`, as on a full disk."""
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, Any] = {}
    at = 0
    for name, array in ordered:
        entry = {"dtype": _CODES[array.dtype], "shape": list(array.shape)}
        header[name] = entry | {"data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            file.write(little.reshape(-1).view(np.uint8).data)


def decode(data: bytes) -> dict[str, Array]:
    """Return the arrays in the bytes of a safetensors file, each in separate memory."""
    arrays: dict[str, Array] = {}
    try:
        # the library checks that offsets, shapes and the length of the data agree
        for name, item in safetensors.deserialize(data):  # type: ignore[no-untyped-call]
            if item["dtype"] not in DTYPES:
                raise _refuse_dtype(name, item["dtype"])
            flat = np.frombuffer(item["data"], DTYPES[item["dtype"]])
            arrays[name] = flat.reshape(item["shape"]).copy()
    except _DAMAGE as error:
        raise ArtifactError(f"its tensors are damaged: {error}") from error
    return arrays


def read(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file as read-only memory maps; only its header is read."""
    arrays: dict[str, Array] = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:  # which checks the header
            names = list(file.keys())
        with path.open("rb") as raw:
            size = int.from_bytes(raw.read(8), "little")
            header = json.loads(raw.read(size))
        for name in names:
            if header[name]["dtype"] not in DTYPES:
                raise _refuse_dtype(name, header[name]["dtype"])
            dtype = DTYPES[header[name]["dtype"]].newbyteorder("<")
            shape = tuple(header[name]["shape"])
            offset = 8 + size + header[name]["data_offsets"][0]
            if offset % dtype.itemsize:
                raise ValueError(
                    f"array {name!r} begins at byte {offset}, which does not suit its type"
                )
            if 0 in shape:  # nothing cannot be mapped
                arrays[name] = np.empty(shape, dtype)
            else:
                arrays[name] = np.memmap(path, dtype, "r", offset, shape)
    except _DAMAGE as error:
        raise ArtifactError(f"its tensors are damaged: {error}") from error
    return arrays


def _refuse_dtype(name: str, code: Any) -> ArtifactError:
    return ArtifactError(f"array {name!r} has the element type {code}, which numpy does not have")
