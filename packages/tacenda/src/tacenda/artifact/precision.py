"""The precision in which a model is saved: `compact` and `restore` its arrays.

In a compact form the rows of large tables take 8 or 16 bits a number, and the rest no more bits than it needs. The name
of an array says how it is restored:

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

Array = npt.NDArray[Any]
Precision = Literal["full", "float16", "int8"]
Rounded = Literal["float16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("full", "float16", "int8")

#: The mark between the name of an array and its form.
MARK = "#"
_TYPES: dict[str, np.dtype[Any]] = {code: np.dtype(code) for code in ("f4", "f8", "i8")}
FORMS = {*_TYPES, "rows", "scales", "steps"}
_INT8_MAX = 127
_UNUSED_SCALE_BITS = np.uint32(0x7F)  # the bits of a float32 that a scale does not use
_ZERO_BELOW = 1e-30  # rows of smaller numbers are rows of zeros


def compact(
    arrays: Mapping[str, Array], tables: Collection[str], precision: Rounded
) -> dict[str, Array]:
    """Return a compact form of the arrays of a model, under names that `restore` understands.

    ``tables`` names those that are tables (rows, columns) of float32 or float64 that bear to be rounded. With
    ``"int8"`` a number of a table takes 8 bits, and a row a scale more; the error is at most 1/254 of the row's largest
    number, or 1e-30, because rows of smaller numbers become zeros. With ``"float16"`` it takes 16 bits; the error is at
    most 1/2,048 of the number, or 3e-8 for numbers below 6.1e-5. Tables come back as float32; other float64 arrays were
    rounded to float32, unless one of their numbers is beyond it; integers are what they were.

    Raises ArtifactError if a table holds a number that float16 or float32 cannot hold, or NaN or infinity.
    """
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if name not in tables:
            found |= _narrow(name, array)
        elif precision == "int8":
            table = _finite(name, array)
            largest = np.abs(table).max(axis=1, initial=0)
            exact = np.where(largest < _ZERO_BELOW, 0, largest) / np.float32(_INT8_MAX)
            # rounded up, so that 127 times the scale is exact, and a restored table is rounded to itself
            scales = ((exact.view(np.uint32) + _UNUSED_SCALE_BITS) & ~_UNUSED_SCALE_BITS).view(
                np.float32
            )
            divisors = np.where(scales == 0, np.float32(np.inf), scales)
            found[f"{name}{MARK}rows"] = np.rint(table / divisors[:, None]).astype(np.int8)
            found[f"{name}{MARK}scales"] = scales
        else:
            with np.errstate(over="ignore"):
                half = found[f"{name}{MARK}f4"] = _finite(name, array).astype(np.float16)
            if not np.isfinite(half).all():
                raise ArtifactError(
                    f"the table {name!r} holds numbers above 65,504, the largest of float16: use int8"
                )
    return found


def restore(arrays: Mapping[str, Array]) -> tuple[dict[str, Array], Precision]:
    """Return the arrays as their model wants them, and the precision in which they are stored.

    Raises ArtifactError for a form that `compact` does not write.
    """
    found: dict[str, Array] = {}
    precision: Precision = "full"
    for stored, array in arrays.items():
        name, mark, form = stored.rpartition(MARK)
        if not mark:
            name, value = stored, array
        elif form == "rows":
            scales = arrays.get(f"{name}{MARK}scales", np.empty(0))
            fit = array.dtype == np.int8 and array.ndim == 2 and scales.dtype == np.float32
            if not fit or scales.shape != array.shape[:1]:
                raise ArtifactError(f"the rows of the table {name!r} and their scales do not fit")
            if not (np.isfinite(scales) & (scales >= 0)).all():
                raise ArtifactError(f"a scale of the table {name!r} is negative, infinite or NaN")
            value, precision = array * scales[:, None], "int8"
        elif form == "scales":
            if f"{name}{MARK}rows" not in arrays:
                raise ArtifactError(f"the array {stored!r} has no rows that it belongs to")
            continue
        elif form == "steps" and array.ndim == 1 and array.dtype.kind == "u":
            value = np.concatenate([[0], np.cumsum(array, dtype=np.int64)])
        elif form in _TYPES and np.can_cast(array.dtype, _TYPES[form]):
            value = array.astype(_TYPES[form])
            if array.dtype == np.float16 and precision == "full" and form == "f4":
                precision = "float16"
        else:
            raise ArtifactError(
                f"the array {stored!r} ({array.dtype}) is in no form that this release knows"
            )
        if name in found:
            raise ArtifactError(f"the array {name!r} is there in two forms")
        found[name] = value
    return found, precision


def _finite(name: str, table: Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        narrow = table.astype(np.float32, copy=False)
    if not np.isfinite(narrow).all():
        is_large = np.isfinite(table).all()
        held = "numbers beyond float32" if is_large else "NaN or infinite values"
        raise ArtifactError(f"the table {name!r} holds {held}")
    return narrow


def _narrow(name: str, array: Array) -> dict[str, Array]:
    if array.dtype == np.float64:
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        fits = np.array_equal(np.isfinite(narrow), np.isfinite(array))
        return {f"{name}{MARK}f8": narrow} if fits else {name: array}
    if array.dtype != np.int64 or array.size == 0:
        return {name: array}
    if array.ndim == 1 and array[0] == 0 and len(array) > 1 and (array[1:] >= array[:-1]).all():
        steps = np.diff(array)
        return {f"{name}{MARK}steps": steps.astype(np.min_scalar_type(int(steps.max())))}
    kind = np.result_type(
        np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max()))
    )
    if kind.itemsize >= array.dtype.itemsize:
        return {name: array}
    return {f"{name}{MARK}i8": array.astype(kind)}
