"""Arrays, declared once: what is checked, saved, copied and moved to a device follows from the declaration.

    class Parameters(Arrays):
        words: Float32[Array, "types width"]
        codes: Int32[Array, "nodes", below("types")]
        starts: Probabilities[Array, "classes states"]

    parameters = Parameters.from_arrays(arrays, types=len(vocabulary), width=100)  # checked, or ArtifactError
    arrays = parameters.to_arrays()
    parameters = parameters.to("cuda")

The text in an annotation names the dimensions of an array, one word each. A dimension has one size in all arrays of a
class; "1" is a size, "rows+1" is one more than a dimension, and ``"*shape"`` is any number of dimensions. Type checkers
see `typing.Annotated`. The same annotations declare the arguments of a kernel: see `tacenda.kernels.operation`.

An array is one of numpy, or a tensor of torch where it is on another device; the functions at the end of this module
take both, and import torch only for tensors.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Self,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from tacenda.errors import ArtifactError, TacendaError
from tacenda.offsets import check_offsets, rises

if TYPE_CHECKING:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Float32
    from typing import Annotated as Float64
    from typing import Annotated as Int
    from typing import Annotated as Int8
    from typing import Annotated as Int32
    from typing import Annotated as Int64
    from typing import Annotated as Offsets
    from typing import Annotated as Probabilities
    from typing import Annotated as UInt8
    from typing import Annotated as UInt64

# without this, type checkers would not let others import what is imported here to them
__all__ = [
    "Bool", "Float", "Float32", "Float64", "Int", "Int8", "Int32", "Int64", "Offsets", "Probabilities",
    "UInt8", "UInt64",
]  # fmt: skip

Array = Any
"""An array of numpy on the CPU, a tensor of torch elsewhere."""

#: No parameter of a model is larger; products of two, summed in float32, stay finite.
LARGEST = 1e15

Sizes = dict[str, Any]
"""Sizes of dimensions by name; a "*shape" has a tuple of sizes."""


# -- declarations ------------------------------------------------------------------------------------


class Constraint(NamedTuple):
    """A condition on the numbers of an array."""

    fault: Callable[[NDArray[Any], Sizes], str | None]  # what is wrong, as the end of a sentence
    largest: float | None = None  # up to which floats are plausible, if not `LARGEST`


class below(NamedTuple):  # noqa: N801 - as an annotation reads
    """Require integers from ``lowest`` that are less than the size of a dimension."""

    dimension: str
    lowest: int = 0

    def fault(self, array: NDArray[Any], sizes: Sizes) -> str | None:
        """Return what is wrong, or None."""
        n = sizes[self.dimension]
        if not array.size or self.lowest <= array.min() <= array.max() < n:
            return None
        allowed = f"{self.lowest} to {n - 1}"
        return f"holds {array.min()} to {array.max()}, and must hold numbers from {allowed}"


class Cuts(NamedTuple):
    """Offsets that cut the items of a dimension into pieces."""

    dimension: str

    def fault(self, array: NDArray[Any], sizes: Sizes) -> str | None:
        """Return what is wrong, or None."""
        try:
            check_offsets(array, sizes[self.dimension], what="is wrong: offsets", advice=" ")
        except TacendaError as error:
            return str(error).strip()
        return None


class named(NamedTuple):  # noqa: N801 - as above
    """Save the array under a name other than that of its field."""

    name: str


def over(*axes: int) -> Constraint:
    """Require numbers that are not negative and whose sums over some axes are one; without axes, the sum of all."""

    def fault(array: NDArray[Any], sizes: Sizes) -> str | None:
        sums = array.sum(axes or None, dtype=np.float64)
        close = 1e-6 if array.dtype == np.float64 else 1e-3
        if (array >= 0).all() and np.allclose(sums, 1.0, rtol=0, atol=close):
            return None
        return "does not hold probabilities that sum to one"

    return Constraint(fault)


def within(low: float, high: float) -> Constraint:
    """Require numbers from ``low`` to ``high``."""

    def fault(array: NDArray[Any], sizes: Sizes) -> str | None:
        if ((array >= low) & (array <= high)).all():
            return None
        return f"holds a number that is not between {low:g} and {high:g}"

    return Constraint(fault)


def at_least(low: float) -> Constraint:
    """Require numbers of at least ``low``."""
    fault = "holds a negative number" if not low else f"holds a number below {low:g}"
    return Constraint(lambda array, sizes: None if (array >= low).all() else fault)


def up_to(largest: float) -> Constraint:
    """Take numbers as large as ``largest``: more than others, as variances, or less, as weights of a logarithm."""
    return Constraint(lambda array, sizes: None, largest)


#: Require numbers above zero.
positive = Constraint(
    lambda array, sizes: None if (array > 0).all() else "holds a number that is not positive"
)
#: Require numbers each of which is above the one before it.
ascending = Constraint(
    lambda array, sizes: None if rises(array, strictly=True) else "does not ascend"
)


@dataclasses.dataclass(frozen=True)
class Spec:
    """An array as its annotation declares it."""

    kind: str  # "float", "int", or the name of a dtype of numpy
    dims: tuple[str, ...]
    constraints: tuple[Any, ...]
    name: str | None = None

    def bind(self, shape: tuple[int, ...], sizes: Sizes) -> bool:
        """Return whether a shape is as declared, and enter the dimensions it adds into ``sizes``."""
        open_ended = bool(self.dims) and self.dims[-1][0] == "*"
        missing = len(self.dims) - len(shape)
        if missing > open_ended or (missing < 0 and not open_ended):
            return False
        fits = True
        bound: Sizes = {}
        for at, dim in enumerate(self.dims):
            name, _, more = dim.partition("+")
            size: Any = tuple(shape[at:]) if dim[0] == "*" else int(shape[at]) - int(more or 0)
            wanted = int(name) if name.isdigit() else sizes.get(name, bound.setdefault(name, size))
            fits = fits and size == wanted and (dim[0] == "*" or size >= 0)
        if fits:
            sizes.update(bound)
        return fits

    def fault(self, array: Any, sizes: Sizes) -> str | None:
        """Return what is wrong with the type or shape of a numpy array, or None."""
        kinds = _KINDS.get(self.kind)
        if array.dtype.kind not in kinds if kinds else array.dtype != np.dtype(self.kind):
            return f"is {array.dtype} and must be {self.kind}"
        if not self.bind(array.shape, sizes):
            known = (f"{dim}={sizes[dim]}" if dim in sizes else dim for dim in self.dims)
            return f"has shape {array.shape} and must have ({', '.join(known)})"
        return None


_KINDS = {"float": "f", "int": "iu"}


class _Kind:
    """``Float32[Array, "types width", below("types")]``: `typing.Annotated` with a `Spec`."""

    def __init__(self, kind: str, *constraints: Any, offsets: bool = False) -> None:
        self._kind, self._constraints, self._offsets = kind, constraints, offsets

    def __getitem__(self, item: tuple[Any, ...]) -> Any:
        from typing import Annotated

        array, text, *constraints = item
        dims = tuple(text.split())
        name = next((each.name for each in constraints if isinstance(each, named)), None)
        conditions = [each for each in constraints if not isinstance(each, named)]
        if self._offsets:
            pieces, items = dims
            dims, conditions = (f"{pieces}+1",), [Cuts(items)]
        return Annotated[
            array, Spec(self._kind, dims, tuple(conditions) or self._constraints, name)
        ]


if not TYPE_CHECKING:
    #: float32 or float64; the arguments of a kernel are all of the same.
    Float = _Kind("float")
    Int = _Kind("int")
    Bool, UInt8, UInt64 = _Kind("bool"), _Kind("uint8"), _Kind("uint64")
    Float32, Float64 = _Kind("float32"), _Kind("float64")
    Int8, Int32, Int64 = _Kind("int8"), _Kind("int32"), _Kind("int64")
    #: float32 that sum to one over the last axis, or over the axes that `over` names.
    Probabilities = _Kind("float32", over(-1))
    #: ``Offsets[Array, "pieces items"]``: int64 (pieces + 1,) that ascend from 0 to the number of items.
    Offsets = _Kind("int64", offsets=True)


def spec_of(annotation: Any) -> tuple[Spec | None, bool]:
    """Return what an evaluated annotation declares, None if no array, and whether None is allowed."""
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, Spec):
            return each, False
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if len(parts) == 1 and len(get_args(annotation)) == 2:
        return spec_of(parts[0])[0], True
    return None, False


def take(
    arrays: Mapping[str, NDArray[Any]], name: str, declared: Any, sizes: Sizes
) -> NDArray[Any]:
    """Return one array of a saved model, in C order, if it is as declared.

    Parameters
    ----------
    arrays
        The arrays of a saved model.
    name
        Which one.
    declared
        Its annotation, such as ``Float32[Array, "types width"]``, or the `Spec` in it.
    sizes
        Sizes of dimensions by name. The sizes of the array are added.

    Raises
    ------
    ArtifactError
        In one sentence: which array is missing or wrong, and what was expected.
    """
    spec = declared if isinstance(declared, Spec) else spec_of(declared)[0]
    if spec is None:
        raise TypeError(f"{declared!r} declares no array")
    array = _take(arrays, name, spec, sizes)
    _check_numbers(name, array, spec, sizes)
    return array


def _take(arrays: Mapping[str, NDArray[Any]], name: str, spec: Spec, sizes: Sizes) -> NDArray[Any]:
    """Return one array in C order. Raises ArtifactError unless it is there and its type and shape are as declared."""
    array = arrays.get(name)
    if array is None:
        listed = ", ".join(sorted(arrays)) or "none"
        raise ArtifactError(f"the array {name!r} is missing; there are: {listed}")
    fault = spec.fault(array, sizes)
    if fault:
        raise ArtifactError(f"the array {name!r} {fault}: the model is damaged")
    return np.asarray(array, order="C")


def _check_numbers(name: str, array: NDArray[Any], spec: Spec, sizes: Sizes) -> None:
    """Raise ArtifactError for numbers that are not as declared, once all dimensions are in ``sizes``."""
    fault = None
    given = (getattr(each, "largest", None) for each in spec.constraints)
    largest = next((each for each in given if each is not None), LARGEST)
    # no copy of the array: it may be half of the memory; a NaN is its least and its largest number
    if (
        array.dtype.kind == "f"
        and array.size
        and not (-largest <= float(array.min()) <= float(array.max()) <= largest)
    ):
        fault = f"holds NaN, infinite or implausibly large (above {largest:.0e}) values".replace(
            "e+", "e"
        )
    for constraint in spec.constraints:
        fault = fault or constraint.fault(array, sizes)
    if fault:
        raise ArtifactError(f"the array {name!r} {fault}: the model is damaged")


# -- classes of arrays -------------------------------------------------------------------------------


class _Field(NamedTuple):
    """One field of a class of arrays: an array, other `Arrays`, or anything else."""

    name: str
    key: str  # in a saved model
    spec: Spec | None
    nested: type[Arrays] | None
    optional: bool


@dataclass_transform(frozen_default=True, eq_default=False)
class Arrays:
    """Base of classes whose fields are declared arrays; a subclass is a dataclass, frozen by default.

    A field may also be another class of arrays, whose names then follow that of the field and a dot, or anything else,
    which is neither saved nor moved. Fields declared ``| None`` may be absent.
    """

    def __init_subclass__(cls, *, frozen: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=frozen, eq=False, repr=False)(cls)

    def __repr__(self) -> str:
        shapes = (f"{name}{tuple(array.shape)}" for name, array in self.items())
        return f"{type(self).__name__}({', '.join(shapes)})"

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str = "", **known: Any
    ) -> Self:
        """Check and take the arrays of a saved model; they are not copied if they are in C order.

        Parameters
        ----------
        arrays
            At least the declared arrays, by name.
        prefix
            What their names begin with.
        known
            Sizes of dimensions, such as ``types=len(vocabulary)``, and values of fields that are no arrays.

        Raises
        ------
        ArtifactError
            In one sentence: which array is missing or wrong, and what was expected.
        """
        others = {each.name for each in _fields(cls) if each.spec is None and each.nested is None}
        values = {name: known.pop(name) for name in others & known.keys()}
        taken: list[tuple[str, NDArray[Any], Spec]] = []
        made = cls._take_fields(arrays, prefix, known, values, taken)
        for name, array, spec in taken:  # now that the sizes of all dimensions are known
            _check_numbers(name, array, spec, known)
        return made

    @classmethod
    def _take_fields(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        prefix: str,
        sizes: Sizes,
        values: dict[str, Any],
        taken: list[tuple[str, NDArray[Any], Spec]],
    ) -> Self:
        """Make one of arrays whose types and shapes are as declared; note them in ``taken``."""
        for name, key, spec, nested, optional in _fields(cls):
            full = prefix + key
            is_there = (
                any(each.startswith(f"{full}.") for each in arrays) if nested else full in arrays
            )
            if (spec or nested) and optional and not is_there:
                values[name] = None
            elif nested is not None:
                values[name] = nested._take_fields(arrays, f"{full}.", sizes, {}, taken)
            elif spec is not None:
                values[name] = _take(arrays, full, spec, sizes)
                taken.append((full, values[name], spec))
        return cls(**values)

    def items(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """Yield the names and arrays that are set, also within fields that are `Arrays`."""
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, Arrays):
                yield from value.items(f"{prefix}{field.key}.")
            elif field.spec is not None and value is not None:
                yield prefix + field.key, value

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Return the arrays by name, as arrays of numpy in C order; on the CPU they are not copied."""
        return {name: np.asarray(to_numpy(a), order="C") for name, a in self.items(prefix)}

    def map(self, function: Callable[[Array], Array]) -> Self:
        """Return an object whose arrays are what a function makes of each."""
        values = {}
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, Arrays):
                value = value.map(function)
            elif field.spec is not None and value is not None:
                value = function(value)
            values[field.name] = value
        return type(self)(**values)

    def copy(self) -> Self:
        """Return a copy of all arrays, where they are."""
        return self.map(copy)

    def to(self, device: str) -> Self:
        """Return the same on a device, as kernels take it: "cpu" leaves arrays of numpy as they are."""
        return self.map(to_numpy if device == "cpu" else lambda a: to_device(a, device))

    def assign(self, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
        """Copy arrays into the arrays of this object, in place; ``arrays`` may hold more under other prefixes.

        Raises ValueError unless those whose name begins with ``prefix`` have exactly the names, shapes and types of
        this object's.
        """
        own = dict(self.items(prefix))
        given = {name for name in arrays if name.startswith(prefix)}
        if odd := sorted(given ^ set(own)):
            raise ValueError(f"these arrays are missing, or are too many: {', '.join(odd[:5])}")
        for name, target in own.items():
            array, dtype = arrays[name], str(target.dtype).removeprefix("torch.")
            if array.shape != tuple(target.shape) or str(array.dtype) != dtype:
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape} and must be {dtype} {tuple(target.shape)}"
                )
        for name, target in own.items():
            assign(target, arrays[name])

    @property
    def bytes(self) -> int:
        """The size of all arrays."""
        return sum(int(array.nbytes) for _, array in self.items())

    def fingerprint(self) -> str:
        """Return a hash of names, types, shapes and numbers: 32 hexadecimal digits."""
        found = hashlib.blake2b(digest_size=16)
        for name, array in self.to_arrays().items():
            found.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
            found.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
        return found.hexdigest()


def _evaluate_fields(cls: type[Any]) -> tuple[_Field, ...]:
    """Return what a class declares; evaluated when first needed, since annotations may be texts."""
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for name in (field.name for field in dataclasses.fields(cls)):
        kinds = hints[name], *get_args(hints[name])
        spec, _ = spec_of(hints[name])
        others = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Arrays)]
        nested = others[0] if len(others) == 1 else None
        key = spec.name if spec is not None and spec.name else name
        found.append(_Field(name, key, spec, nested, type(None) in kinds))
    return tuple(found)


#: What a class declares, evaluated once.
_fields: Callable[[Any], tuple[_Field, ...]] = functools.cache(_evaluate_fields)


# -- arrays that may be elsewhere --------------------------------------------------------------------


def to_device(array: Any, device: str) -> Any:
    """Return a numpy array as the kernels of a device take it: itself on the CPU, else a tensor there."""
    if device == "cpu":
        return array
    import torch

    return to_tensors((array,), torch.device(device))[0]


_PINNED = 1 << 20  # bytes: of more, torch would keep too much memory that cannot be swapped out


def to_tensors(arrays: Iterable[Any], device: Any) -> list[Any]:
    """Return arrays of numpy, and tensors that are elsewhere, as tensors on a device of torch.

    Small arrays go to a CUDA device by way of pinned memory, so that nobody waits until it has done what came before.
    """
    import torch

    def there(array: Any) -> Any:
        if isinstance(array, torch.Tensor):
            return array.to(device)
        array = np.ascontiguousarray(array)
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        if torch.device(device).type == "cuda" and array.nbytes <= _PINNED:
            return tensor.pin_memory().to(device, non_blocking=True)
        return tensor.to(device)

    return [there(array) for array in arrays]


def from_tensor(tensor: Any) -> Any:
    """Return a tensor on the CPU as an array that shares its memory, another one as it is, and None as None."""
    if tensor is None:
        return tensor
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def as_tensor(array: Any) -> Any:
    """Return what a kernel has returned, an array or a tensor, as a tensor that shares its memory."""
    import torch

    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def to_numpy(array: Any) -> Any:
    """Return an array of any device as numpy has it; on the CPU the array itself."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def copy(array: Array) -> Array:
    """Return a copy of an array of any device, where it is."""
    return array.clone() if hasattr(array, "clone") else array.copy()


def assign(target: Array, array: Any) -> None:
    """Copy a numpy array over an array of any device, of the same shape."""
    if not hasattr(target, "copy_"):
        target[...] = array
        return
    import torch

    target.copy_(torch.from_numpy(array.copy() if not array.flags.writeable else array))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros of the dtype and on the device of another array."""
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


def empty(shape: tuple[int, ...], like: Array) -> Array:
    """Return an array to be filled, of the dtype and on the device of another."""
    return np.empty(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_empty(shape)


def in_c_order(array: Array, dtype: Any = None) -> Array:
    """Return an array of any device in C order, in another dtype if one is given; copied only where it must be."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array, dtype)
    return array.to(dtype or array.dtype).contiguous()


def library(array: Array) -> Any:
    """Return the module whose functions take the array: numpy, or torch.

    Much of numpy has the same name and the same arguments in torch, which takes ``axis`` and ``keepdims`` too: code
    that uses no more than that runs on any device.
    """
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def append_column(matrix: Array, value: float) -> Array:
    """Return a copy of a matrix of any device with one more column, filled with ``value``."""
    if isinstance(matrix, np.ndarray):
        return np.append(matrix, np.full((len(matrix), 1), value, matrix.dtype), axis=1)
    import torch

    return torch.cat([matrix, matrix.new_full((len(matrix), 1), value)], dim=1)


def merge_rows(ids: Array, *arrays: Array) -> tuple[Array, list[Array]]:
    """Return the distinct ids in ascending order, and the sums of the rows of each, added in their order.

    ``ids`` (rows,) are integers, and the arrays (rows, ...) are on their device. No atomics are used, so that sums are
    the same in every run.
    """
    if not len(ids):
        return ids, [array[:0] for array in arrays]
    order = library(ids).argsort(ids, stable=True)
    ordered = ids[order]
    if isinstance(ids, np.ndarray):
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))
        return ordered[begins], [np.add.reduceat(array[order], begins, axis=0) for array in arrays]
    import torch

    found, lengths = torch.unique_consecutive(ordered, return_counts=True)
    how: dict[str, Any] = {"lengths": lengths, "axis": 0, "initial": 0, "unsafe": True}
    return found, [torch.segment_reduce(array[order], "sum", **how) for array in arrays]


def multiply_into(left: Array, right: Array, out: Array) -> None:
    """Write the product of two matrices into ``out``, which may be some columns of a larger matrix."""
    if isinstance(left, np.ndarray):
        np.matmul(left, right, out=out)
        return
    import torch

    torch.mm(left, right, out=out)
