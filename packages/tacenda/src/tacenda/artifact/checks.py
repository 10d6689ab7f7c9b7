"""What a model checks before it trusts the arrays of an artefact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError

__all__ = ["require"]


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
        Whether NaN and infinities are refused.
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
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ArtifactError(f"the array {name!r} holds NaN or infinite values")
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
