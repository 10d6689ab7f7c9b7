"""Compact forms of arrays: the rows of large tables in 8 or 16 bits a number, the rest in no more bits than it needs.

The name of an array in a compact form says how it is restored:

===============  ============================================================================================
``NAME#rows``    int8 (rows, columns); float32 again when multiplied by the row's scale in ``NAME#scales``, float32
                 (rows,)
``NAME#f4``      a narrower type, restored to float32; likewise ``#f8`` to float64 and ``#i8`` to int64
``NAME#steps``   the differences of a sequence that begins with 0 and never decreases, such as offsets; int64
===============  ============================================================================================

Compact forms are stable: what was restored and is saved again in the same form has the same bytes. For that the scale
of a row is rounded up to 17 significant bits, so that 127 times the scale is exact in float32.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError

__all__ = ["PRECISIONS", "Precision", "compact", "precision_of", "restored"]

Array = npt.NDArray[Any]
Precision = Literal["full", "float16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("full", "float16", "int8")

_MARK = "#"
_TYPES: dict[str, np.dtype[Any]] = {
    "f4": np.dtype(np.float32),
    "f8": np.dtype(np.float64),
    "i8": np.dtype(np.int64),
}
_LARGEST = 127
_LOW = np.uint32(0x7F)  # the bits of a float32 that a scale does not use
_TOO_SMALL = 1e-30  # rows of smaller numbers are rows of zeros


def compact(
    arrays: Mapping[str, Array], tables: Collection[str], precision: Precision
) -> dict[str, Array]:
    """Return a compact form of the arrays.

    Parameters
    ----------
    arrays
        The arrays of a model, by name.
    tables
        Which of them are tables (rows, columns) of float32 or float64 that bear to be rounded.
    precision
        ``"int8"``: 8 bits for each number of a table, and a scale for each row; the error is at most 1/254 of the row's
        largest number. ``"float16"``: 16 bits; the error is at most 1/2,048 of the number.

    Returns
    -------
    The arrays under names that `restored` understands. Tables come back as float32; other float64 arrays were
    rounded to float32; integers are what they were.

    Raises
    ------
    ArtifactError
        A table holds a number that float16 cannot hold, or NaN or infinity.
    """
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if name not in tables:
            found |= _narrowed(name, array)
        elif precision == "int8":
            found |= _rows(name, array)
        else:
            found[f"{name}{_MARK}f4"] = _halved(name, array)
    return found


def restored(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays as their model wants them. Raises ArtifactError for a form that `compact` does not write."""
    found: dict[str, Array] = {}
    for stored, array in arrays.items():
        name, mark, form = stored.rpartition(_MARK)
        if not mark:
            name, value = stored, array
        elif form == "rows":
            value = _from_rows(name, array, arrays.get(f"{name}{_MARK}scales"))
        elif form == "scales":
            if f"{name}{_MARK}rows" not in arrays:
                raise ArtifactError(f"the array {stored!r} has no rows that it belongs to")
            continue
        elif form == "steps" and array.ndim == 1 and array.dtype.kind == "u":
            value = np.concatenate([[0], np.cumsum(array, dtype=np.int64)])
        elif form in _TYPES and np.can_cast(array.dtype, _TYPES[form]):
            value = array.astype(_TYPES[form])
        else:
            raise ArtifactError(
                f"the array {stored!r} ({array.dtype}) is in no form that this release knows"
            )
        if name in found:
            raise ArtifactError(f"the array {name!r} is there in two forms")
        found[name] = value
    return found


def precision_of(arrays: Mapping[str, Array]) -> Precision:
    """Return the precision in which arrays are stored."""
    if any(name.endswith(f"{_MARK}rows") for name in arrays):
        return "int8"
    halves = (a for name, a in arrays.items() if name.endswith(f"{_MARK}f4"))
    return "float16" if any(a.dtype == np.float16 for a in halves) else "full"


def _rows(name: str, table: Array) -> dict[str, Array]:
    table = _finite(name, table)
    largest = np.abs(table).max(axis=1, initial=0)
    exact = np.where(largest < _TOO_SMALL, 0, largest) / np.float32(_LARGEST)
    scales = ((exact.view(np.uint32) + _LOW) & ~_LOW).view(np.float32)
    divisors = np.where(scales == 0, np.float32(np.inf), scales)
    rows = np.rint(table / divisors[:, None]).astype(np.int8)
    return {f"{name}{_MARK}rows": rows, f"{name}{_MARK}scales": scales}


def _from_rows(name: str, rows: Array, scales: Array | None) -> Array:
    if (
        rows.dtype != np.int8
        or rows.ndim != 2
        or scales is None
        or scales.dtype != np.float32
        or scales.shape != rows.shape[:1]
    ):
        raise ArtifactError(f"the rows of the table {name!r} and their scales do not fit")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise ArtifactError(f"a scale of the table {name!r} is negative, infinite or NaN")
    return rows * scales[:, None]


def _halved(name: str, table: Array) -> Array:
    with np.errstate(over="ignore"):
        half = _finite(name, table).astype(np.float16)
    if not np.isfinite(half).all():
        raise ArtifactError(
            f"the table {name!r} holds numbers above 65,504, the largest of float16: use int8"
        )
    return half


def _finite(name: str, table: Array) -> npt.NDArray[np.float32]:
    narrow = table.astype(np.float32, copy=False)
    if not np.isfinite(narrow).all():
        raise ArtifactError(f"the table {name!r} holds NaN or infinite values")
    return narrow


def _narrowed(name: str, array: Array) -> dict[str, Array]:
    if array.dtype == np.float64:
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        fits = np.isfinite(narrow).all() or not np.isfinite(array).all()
        return {f"{name}{_MARK}f8": narrow} if fits else {name: array}
    if array.dtype != np.int64 or array.size == 0:
        return {name: array}
    if array.ndim == 1 and array[0] == 0 and len(array) > 1 and (array[1:] >= array[:-1]).all():
        steps = np.diff(array)
        return {f"{name}{_MARK}steps": steps.astype(np.min_scalar_type(int(steps.max())))}
    kind = np.result_type(
        np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max()))
    )
    if kind.itemsize >= array.dtype.itemsize:
        return {name: array}
    return {f"{name}{_MARK}i8": array.astype(kind)}
