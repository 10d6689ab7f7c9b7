"""Named numpy arrays of an artefact: to and from the safetensors format, and the checks a model makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from tacenda.arrays import LARGEST
from tacenda.errors import ArtifactError

Array = npt.NDArray[Any]

#: The element types an artefact holds, by safetensors' names.
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
_ALLOWED = frozenset(DTYPES.values())


def checked(arrays: Mapping[str, Any]) -> dict[str, Array]:
    """Make arrays fit to be saved: C-contiguous and little-endian; copies only what is not.

    Raises `ArtifactError` for anything but numpy arrays of bool, integers or float16/32/64.
    """
    ready: dict[str, Array] = {}
    for name, array in arrays.items():
        if not isinstance(name, str) or not name or name == "__metadata__":
            raise ArtifactError(
                f"{name!r} cannot name an array: use a text other than '__metadata__'"
            )
        if not isinstance(array, np.ndarray):
            kind = f"{type(array).__module__}.{type(array).__qualname__}"
            raise ArtifactError(f"array {name!r} is a {kind}: convert it to a numpy array first")
        dtype = array.dtype.newbyteorder("=")
        if dtype not in _ALLOWED:
            raise ArtifactError(
                f"array {name!r} has dtype {array.dtype}: only bool, integers and "
                "float16, 32 and 64 can be saved"
            )
        ready[name] = np.asarray(array, dtype=dtype, order="C")
    return ready


def encode(arrays: Mapping[str, Array]) -> bytes:
    """Arrays that `checked` has passed, as the bytes of a safetensors file."""
    return safetensors.numpy.save(dict(arrays))


def write(arrays: Mapping[str, Array], path: Path) -> None:
    """Write arrays that `checked` has passed; raises `OSError`, as on a full disk."""
    try:
        safetensors.numpy.save_file(dict(arrays), path)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error


def decode(data: bytes) -> dict[str, Array]:
    """Arrays from the bytes of a safetensors file, each in memory of its own."""
    try:
        # The library checks that offsets, shapes and the length of the data agree.
        items = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        arrays: dict[str, Array] = {}
        for name, item in items:
            flat = np.frombuffer(item["data"], _dtype(name, item["dtype"]))
            arrays[name] = flat.reshape(item["shape"]).copy()
    except (safetensors.SafetensorError, ValueError, OverflowError, TypeError) as error:
        raise ArtifactError(f"its tensors are damaged: {error}") from error
    return arrays


def read(path: Path) -> dict[str, Array]:
    """Arrays of a safetensors file, each in memory of its own, so that the file may go away."""
    arrays: dict[str, Array] = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                _dtype(name, file.get_slice(name).get_dtype())
                arrays[name] = file.get_tensor(name)
    except (safetensors.SafetensorError, ValueError, OverflowError, TypeError) as error:
        raise ArtifactError(f"its tensors are damaged: {error}") from error
    return arrays


def write_mapped(arrays: Mapping[str, Array], path: Path) -> None:
    """As `write`, without a copy of the arrays in memory, each at a place that suits its type."""
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    codes = {dtype: code for code, dtype in DTYPES.items()}
    header: dict[str, Any] = {}
    at = 0
    for name, array in ordered:
        entry = {"dtype": codes[array.dtype], "shape": list(array.shape)}
        header[name] = entry | {"data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            file.write(little.reshape(-1).view(np.uint8).data)


def mapped(path: Path) -> dict[str, Array]:
    """Arrays of a safetensors file as read-only memory maps: nothing is read but what says where they lie."""
    arrays: dict[str, Array] = {}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            names = list(
                file.keys()
            )  # the library has checked that offsets, shapes and length agree
        with path.open("rb") as raw:
            size = int.from_bytes(raw.read(8), "little")
            header = json.loads(raw.read(size))
        for name in names:
            dtype = _dtype(name, header[name]["dtype"]).newbyteorder("<")
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
    except (safetensors.SafetensorError, ValueError, KeyError, OverflowError, TypeError) as error:
        raise ArtifactError(f"its tensors are damaged: {error}") from error
    return arrays


def _dtype(name: str, code: Any) -> np.dtype[Any]:
    dtype = DTYPES.get(code)
    if dtype is None:
        raise ArtifactError(
            f"array {name!r} has the element type {code}, which numpy does not have"
        )
    return dtype


def require(
    arrays: Mapping[str, npt.NDArray[Any]],
    name: str,
    *,
    shape: Sequence[int | str] | None = None,
    dtype: npt.DTypeLike | None = None,
    finite: bool = False,
    dims: dict[str, int] | None = None,
) -> npt.NDArray[Any]:
    """Return ``arrays[name]`` if it is what the model needs.

    Parameters
    ----------
    arrays
        The arrays of an artefact.
    name
        Which one.
    shape
        Its shape: an integer stands for itself, a word for a dimension of that name.
    dtype
        Its element type, exactly.
    finite
        Whether NaN, infinities and numbers beyond `LARGEST` in magnitude are refused.
    dims
        Named dimensions so far: a word already in it must have that size, a new one is added. Give
        the same dictionary to every call, and begin with what the configuration settles, such as
        ``{"states": 200}``.

    Raises
    ------
    ArtifactError
        In one sentence: which array is missing or wrong, and what was expected.

    """
    array = arrays.get(name)
    if array is None:
        listed = ", ".join(sorted(arrays)) or "none"
        raise ArtifactError(f"the array {name!r} is missing; there are: {listed}")
    if dtype is not None and array.dtype != np.dtype(dtype):
        raise ArtifactError(f"the array {name!r} is {array.dtype} and must be {np.dtype(dtype)}")
    if shape is not None:
        _bind(name, array.shape, shape, dims if dims is not None else {})
    if finite and array.dtype.kind == "f" and not (np.abs(array) <= np.float64(LARGEST)).all():
        raise ArtifactError(
            f"the array {name!r} holds NaN, infinite or implausibly large (above 1e15) values"
        )
    return array


def _bind(
    name: str, found: tuple[int, ...], shape: Sequence[int | str], dims: dict[str, int]
) -> None:
    bound = dict(dims)
    fits = len(found) == len(shape)
    for size, wanted in zip(found, shape, strict=False):
        fits &= size == (wanted if isinstance(wanted, int) else bound.setdefault(wanted, size))
    if not fits:
        expected = ", ".join(
            f"{wanted}={dims[wanted]}" if wanted in dims else str(wanted) for wanted in shape
        )
        raise ArtifactError(f"the array {name!r} has shape {found} and must have ({expected})")
    dims.update(bound)
