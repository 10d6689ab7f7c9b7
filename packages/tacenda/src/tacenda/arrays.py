"""Arrays, declared once: checks, saving, copying and moves to a device follow from the declaration.

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

An array is one of NumPy on the CPU and a tensor of torch on any other device; `tacenda.array_ops` has functions that
take both.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from tacenda.array_ops import Array, copy, to_device, to_numpy
from tacenda.errors import ArtifactError, DataError
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
    from typing import Annotated as Number
    from typing import Annotated as Offsets
    from typing import Annotated as Probabilities
    from typing import Annotated as UInt8
    from typing import Annotated as UInt64

# type checkers see these names as imports, which other modules may import from here only if they are listed
__all__ = [
    "Array", "Bool", "Float", "Float32", "Float64", "Int", "Int8", "Int32", "Int64", "Number", "Offsets",
    "Probabilities", "UInt8", "UInt64",
]  # fmt: skip

#: The largest plausible parameter of a model: products of two, summed in float32, stay finite.
LARGEST = 1e15

Sizes = dict[str, Any]
"""Sizes of dimensions by name; a "*shape" has a tuple of sizes."""


# -- declarations ------------------------------------------------------------------------------------


class Constraint(NamedTuple):
    """A condition on the numbers of an array."""

    #: Returns what is wrong, as the end of a sentence that begins with the name of the array, or None.
    fault: Callable[[NDArray[Any], Sizes], str | None]
    #: The largest plausible number, if not `LARGEST`.
    largest: float | None = None
    #: Whether it replaces the constraints of the kind of array.
    replaces: bool = False


class below(NamedTuple):  # noqa: N801 - it reads as part of an annotation
    """Require integers from ``lowest`` that are less than the size of a dimension."""

    dimension: str
    lowest: int = 0

    def fault(self, array: NDArray[Any], sizes: Sizes) -> str | None:
        """Return what is wrong, or None."""
        n = sizes[self.dimension]
        if not array.size or self.lowest <= array.min() <= array.max() < n:
            return None
        return f"holds {array.min()} to {array.max()}, and must hold numbers from {self.lowest} to {n - 1}"


class Cuts(NamedTuple):
    """Offsets that cut the items of a dimension into pieces."""

    dimension: str

    def fault(self, array: NDArray[Any], sizes: Sizes) -> str | None:
        """Return what is wrong, or None."""
        try:
            check_offsets(array, sizes[self.dimension], what="is wrong: offsets")
        except DataError as error:
            return str(error)
        return None


class named(NamedTuple):  # noqa: N801 - it reads as part of an annotation
    """Save the array under a name other than that of its field; ``named("")`` saves other `Arrays` without a prefix."""

    name: str


def over(*axes: int) -> Constraint:
    """Require numbers of at least zero that sum to one over some axes; without axes, over all of them."""

    def fault(array: NDArray[Any], sizes: Sizes) -> str | None:
        sums = array.sum(axes or None, dtype=np.float64)
        tolerance = 1e-6 if array.dtype == np.float64 else 1e-3
        if (array >= 0).all() and np.allclose(sums, 1.0, rtol=0, atol=tolerance):
            return None
        return "does not hold probabilities that sum to one"

    return Constraint(fault, replaces=True)


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
    """Replace `LARGEST` as the largest plausible number: by more for variances, by less for weights of logarithms."""
    return Constraint(lambda array, sizes: None, largest)


#: Require at least one number.
not_empty = Constraint(lambda array, sizes: None if array.size else "is empty")
#: Require numbers above zero.
positive = Constraint(
    lambda array, sizes: None if (array > 0).all() else "holds a number that is not positive"
)
#: Require numbers (n,) that strictly ascend.
ascending = Constraint(
    lambda array, sizes: None if rises(array, strictly=True) else "does not ascend"
)


@dataclasses.dataclass(frozen=True)
class Spec:
    """The declaration of an array in its annotation."""

    kind: str  # "float", "int", or the name of a dtype of NumPy
    dims: tuple[str, ...]
    constraints: tuple[Any, ...]
    name: str | None = None

    def bind(self, shape: tuple[int, ...], sizes: Sizes) -> bool:
        """Return whether a shape is as declared; if it is, add the sizes of its new dimensions to ``sizes``."""
        # "*shape" stands for any number of dimensions
        is_open = bool(self.dims) and self.dims[-1].startswith("*")
        n_fixed = len(self.dims) - is_open
        if len(shape) < n_fixed or (len(shape) > n_fixed and not is_open):
            return False
        new: Sizes = {self.dims[-1]: tuple(shape[n_fixed:])} if is_open else {}
        for dim, length in zip(self.dims, shape[:n_fixed], strict=False):
            name, _, more = dim.partition("+")
            size = int(length) - int(more or 0)
            expected = int(name) if name.isdigit() else new.setdefault(name, size)
            if size < 0 or size != expected:
                return False
        if any(size != sizes.get(name, size) for name, size in new.items()):
            return False
        sizes.update(new)
        return True

    def describe_shape(self, sizes: Sizes) -> str:
        """Return the declared dimensions, with the sizes that are known."""
        parts = []
        for dim in self.dims:
            name, plus, more = dim.partition("+")
            parts.append(f"{name}={sizes[name]}{plus}{more}" if name in sizes else dim)
        return ", ".join(parts)


#: The kinds of dtypes, as NumPy abbreviates them, that a declared kind allows.
KINDS = {"float": "f", "int": "iu", "number": "fiu", "bool": "b"}


class _Kind:
    """A maker of annotations: ``Float32[Array, "types width", below("types")]`` is `Annotated` with a `Spec`."""

    def __init__(self, kind: str, *constraints: Any, offsets: bool = False) -> None:
        self._kind, self._constraints, self._offsets = kind, constraints, offsets

    def __getitem__(self, item: tuple[Any, ...]) -> Any:
        array, text, *constraints = item
        dims = tuple(text.split())
        name = next((mark.name for mark in constraints if isinstance(mark, named)), None)
        conditions = [mark for mark in constraints if not isinstance(mark, named)]
        if self._offsets:
            if conditions:
                raise TypeError("Offsets take no constraints")
            pieces, items = dims
            dims, conditions = (f"{pieces}+1",), [Cuts(items)]
        if not any(getattr(mark, "replaces", False) for mark in conditions):
            conditions += self._constraints
        return Annotated[array, Spec(self._kind, dims, tuple(conditions), name)]


if not TYPE_CHECKING:
    #: float32 or float64; the arguments of a kernel are all of the same.
    Float = _Kind("float")
    Int, Number = _Kind("int"), _Kind("number")
    Bool, UInt8, UInt64 = _Kind("bool"), _Kind("uint8"), _Kind("uint64")
    Float32, Float64 = _Kind("float32"), _Kind("float64")
    Int8, Int32, Int64 = _Kind("int8"), _Kind("int32"), _Kind("int64")
    #: float32 that sum to one over the last axis, or over the axes that `over` names.
    Probabilities = _Kind("float32", over(-1))
    #: ``Offsets[Array, "pieces items"]``: int64 (pieces + 1,) that ascend from 0 to the number of items.
    Offsets = _Kind("int64", offsets=True)


def spec_of(annotation: Any) -> tuple[Spec | None, bool]:
    """Return the array that an evaluated annotation declares, or None, and whether the value may be None."""
    for mark in getattr(annotation, "__metadata__", ()):
        if isinstance(mark, Spec):
            return mark, False
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
    array = _find_array(arrays, name, spec, sizes)
    _check_numbers(name, array, spec, sizes)
    return array


def _find_array(
    arrays: Mapping[str, NDArray[Any]], name: str, spec: Spec, sizes: Sizes
) -> NDArray[Any]:
    """Return one array in C order. Raises ArtifactError if it is missing or its type or shape is not as declared."""
    array = arrays.get(name)
    if array is None:
        listed = ", ".join(sorted(arrays)) or "none"
        raise ArtifactError(f"the array {name!r} is missing; there are: {listed}")
    kinds, fault = KINDS.get(spec.kind), ""
    if not (array.dtype.kind in kinds if kinds else array.dtype == np.dtype(spec.kind)):
        fault = f"is {array.dtype} and must be {spec.kind}"
    elif not spec.bind(array.shape, sizes):
        fault = f"has shape {array.shape} and must have ({spec.describe_shape(sizes)})"
    if fault:
        raise ArtifactError(f"the array {name!r} {fault}: the model is damaged")
    return np.asarray(array, order="C")


def _check_numbers(name: str, array: NDArray[Any], spec: Spec, sizes: Sizes) -> None:
    """Raise ArtifactError for numbers that are not as declared; ``sizes`` has all dimensions."""
    limits = (getattr(constraint, "largest", None) for constraint in spec.constraints)
    largest = next((limit for limit in limits if limit is not None), LARGEST)
    fault, is_float = None, array.dtype.kind == "f" and array.size
    # min and max copy nothing, as the array may fill half of the memory; both are NaN if any number is
    if is_float and not -largest <= float(array.min()) <= float(array.max()) <= largest:
        fault = f"holds NaN, infinite or implausibly large (above {largest:g}) values"
    for constraint in spec.constraints:
        fault = fault or constraint.fault(array, sizes)
    if fault:
        raise ArtifactError(f"the array {name!r} {fault}: the model is damaged")


# -- classes of arrays -------------------------------------------------------------------------------


class _Field(NamedTuple):
    """One field of a class of arrays: an array, other `Arrays`, or anything else."""

    name: str
    key: str  # in a saved model; of other `Arrays`, the beginning of the names of their arrays
    spec: Spec | None
    nested: type[Arrays] | None
    optional: bool


@dataclass_transform(frozen_default=True, eq_default=False)
class Arrays:
    """Base of classes whose fields are declared arrays; a subclass is a dataclass, frozen by default.

    A field may also be another subclass of `Arrays`, whose arrays are saved as "field.name", or as "name" if it is
    ``Annotated[Other, named("")]``; or anything else, which is neither saved nor moved. Fields declared ``| None`` may
    be absent, unless they are ``named("")``. A subclass overrides `check_saved` for what no annotation can refuse.
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
        """Make an object of the arrays of a saved model, checked; they are not copied if they are in C order.

        Parameters
        ----------
        arrays
            The declared arrays, by name, and possibly others.
        prefix
            The beginning of their names.
        known
            Sizes of dimensions, such as ``types=len(vocabulary)``, and fields that are no arrays, nested ones too.

        Raises
        ------
        ArtifactError
            In one sentence: which array is missing or wrong, and what was expected.
        """
        checks: list[Callable[[], None]] = []
        instance = cls._take_fields(arrays, prefix, known, dict(known), checks)
        # only now are the sizes of all dimensions known
        for check in checks:
            check()
        return instance

    @classmethod
    def _take_fields(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        prefix: str,
        known: Mapping[str, Any],
        sizes: Sizes,
        checks: list[Callable[[], None]],
    ) -> Self:
        """Make an object of arrays whose types and shapes are as declared; append the checks of their numbers.

        The sizes of their dimensions are added to ``sizes``; the other fields are taken from ``known``.
        """
        values: dict[str, Any] = {}
        for name, key, spec, nested, optional in _fields(cls):
            full = prefix + key
            is_saved = any(each.startswith(full) for each in arrays) if nested else full in arrays
            if (spec or nested) and optional and not is_saved:
                values[name] = None
            elif nested is not None:
                values[name] = nested._take_fields(arrays, full, known, sizes, checks)
            elif spec is not None:
                values[name] = _find_array(arrays, full, spec, sizes)
                checks.append(partial(_check_numbers, full, values[name], spec, sizes))
            elif name in known:
                values[name] = known[name]
        instance = cls(**values)
        checks.append(instance.check_saved)
        return instance

    def check_saved(self) -> None:
        """Raise ArtifactError for what no annotation can refuse.

        `from_arrays` calls it after the checks of the object's own arrays, and of the objects that it holds.
        """

    def items(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """Yield the names and arrays that are not None, also of fields that are `Arrays`."""
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, Arrays):
                yield from value.items(prefix + field.key)
            elif field.spec is not None and value is not None:
                yield prefix + field.key, value

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Return the arrays by name, as arrays of NumPy in C order; on the CPU they are not copied."""
        return {name: np.asarray(to_numpy(a), order="C") for name, a in self.items(prefix)}

    def map(self, function: Callable[[Array], Array]) -> Self:
        """Return an object with the results of a function of each array."""
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
        """Return an object with the arrays on a device; for "cpu", arrays of NumPy are not copied."""
        return self.map(lambda array: to_device(array, device))

    @property
    def nbytes(self) -> int:
        """The size of all arrays, in bytes."""
        return sum(int(array.nbytes) for _, array in self.items())

    def fingerprint(self) -> str:
        """Return a hash of the names, dtypes, shapes and numbers of all arrays: 32 hexadecimal digits."""
        digest = hashlib.blake2b(digest_size=16)
        for name, array in self.to_arrays().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
            if array.size:
                digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def _evaluate_fields(cls: type[Any]) -> tuple[_Field, ...]:
    """Return the fields of a class, with their annotations evaluated."""
    hints = get_type_hints(cls, include_extras=True)
    fields = []
    for name in (field.name for field in dataclasses.fields(cls)):
        kinds = [hints[name]]
        # the list grows, as `Annotated` may be in a union, and a union in `Annotated`
        for kind in kinds:
            if get_origin(kind) in (Annotated, Union, UnionType):
                kinds += get_args(kind)
        spec, _ = spec_of(hints[name])
        classes = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Arrays)]
        nested = classes[0] if len(classes) == 1 else None
        marks = [kind.name for kind in kinds if isinstance(kind, named)]
        key = marks[0] if marks else spec.name if spec is not None and spec.name else name
        optional = type(None) in kinds
        if nested is not None and optional and not key:
            raise TypeError(
                f"{cls.__name__}.{name} may be None, so its arrays need a prefix that says whether they are saved: "
                'leave out named("")'
            )
        if nested is not None and key:
            key += "."
        fields.append(_Field(name, key, spec, nested, optional))
    return tuple(fields)


#: The fields of a class, evaluated at first use: an annotation may be a string that names a class defined later.
_fields: Callable[[Any], tuple[_Field, ...]] = cache(_evaluate_fields)
