"""The arguments of operations: how annotations declare them, and the checks of a call.

The marks below are constraints of an annotation, as in ``Float[Array, "all width", in_place]``. Arrays are brought into
C order, and lists become arrays. ``Float`` arguments are float32 or float64, all of one dtype and on one device;
``Int32`` and ``Int64`` ones are converted from other integers, and are arrays or tensors; offsets become int64 on the
host. Numbers declared as ``float`` or ``int`` become these. Arguments may be named tuples of arrays and numbers, and
objects of a dataclass. Any other difference from the declaration raises a KernelError.
"""

import inspect
import numbers
import operator
import sys
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from tacenda.array_ops import to_numpy, to_tensors
from tacenda.arrays import KINDS, Cuts, Spec, below, spec_of
from tacenda.errors import KernelError
from tacenda.offsets import check_offsets

_Sizes = dict[str, Any]
_Check = Callable[[Any, _Sizes], Any]

#: The array is changed: it is neither copied nor converted.
in_place = "in place"
#: The dtype may differ from that of the other arguments.
any_dtype = "any dtype"
#: The array need not be in C order.
any_layout = "any layout"
#: The array is converted to the dtype of the other floating arguments, or to the declared one.
cast = "cast"
#: The array is on the device of the other arguments, or on the host.
anywhere = "anywhere"
#: The array is on the host, wherever the other arguments are.
host = "host"

#: The numbers that an argument so annotated may be.
_NUMBERS: dict[Any, Any] = {
    float: (numbers.Real, "a number"),
    int: (numbers.Integral, "a whole number"),
}
_LIKE, _DEVICE = "<dtype>", "<device>"  # entries of the sizes that are not dimensions
FLOATS = np.dtype(np.float32), np.dtype(np.float64)

#: Compiled loops of `tacenda.kernels.machinery.compiled`, once something has imported that.
loops = SimpleNamespace(within=lambda *_: False, cuts=lambda *_: False)


class Part(NamedTuple):
    """The declaration of an array, number or object: an argument, or a field of an argument that is a named tuple."""

    name: str
    #: The array, or the class of the number or object.
    kind: Spec | type
    optional: bool  # it or its named tuple may be None
    check: _Check
    #: The order of checks: numbers, floats, floats that are cast to their dtype, ids of their rows, then offsets.
    rank: int
    at: int  # the place of the argument
    field: int | None

    @property
    def converts(self) -> bool:
        """Whether the quick test accepts int32 and int64: their range is tested, so that no number wraps around."""
        if isinstance(self.kind, type) or self.field is not None:
            return False
        is_limited = any(isinstance(each, below) for each in self.kind.constraints)
        return self.kind.kind in ("int32", "int64") and is_limited


class Declared:
    """The arguments of a function as its annotations declare them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self.parameters = list(inspect.signature(function).parameters.values())
        # classes of named tuples and whether they may be None, by place
        self.groups: dict[int, tuple[Any, bool]] = {}
        self.parts: list[Part] = []
        hints = get_type_hints(function, include_extras=True)
        for at, parameter in enumerate(self.parameters):
            hint = hints.get(parameter.name)
            # a named tuple may be annotated with marks for all its arrays, or be optional
            marks, optional = getattr(hint, "__metadata__", ()), type(None) in get_args(hint)
            kinds = [getattr(hint, "__origin__", hint), *(get_args(hint) if optional else ())]
            kind = next((each for each in kinds if hasattr(each, "_fields")), None)
            fields = get_type_hints(kind, include_extras=True) if kind else {}
            of_fields = [
                self._find_part(field, fields[field], at, n, marks, optional)
                for n, field in enumerate(getattr(kind, "_fields", ()))
            ]
            if any(of_fields):
                self.groups[at] = kind, optional
            found = of_fields if any(of_fields) else [self._find_part(parameter.name, hint, at)]
            self.parts += [part for part in found if part]
        self.parts.sort(key=lambda part: part.rank)

    def check(self, args: tuple[Any, ...]) -> tuple[list[Any], str]:
        """Return all arguments, by position, as declared, and their device. Raises KernelError."""
        if compiled := sys.modules.get("tacenda.kernels.machinery.compiled"):
            loops.within, loops.cuts = compiled.within, compiled.cuts
        values, sizes = list(args), dict[str, Any]()
        for at, (kind, optional) in self.groups.items():
            given: Any = [None] * len(kind._fields) if optional and args[at] is None else args[at]
            if not isinstance(given, tuple | list) or len(given) != len(kind._fields):
                raise KernelError(
                    f"{self.name}: {self.parameters[at].name} must be a {kind.__name__} of "
                    f"{', '.join(kind._fields)}, not {_shorten(given)}"
                )
            values[at] = list(given)
        for part in self.parts:
            holder, key = (values, part.at)
            if part.field is not None:
                holder, key = values[part.at], part.field
            if not (part.optional and holder[key] is None):
                holder[key] = part.check(holder[key], sizes)
        for at, (kind, _) in self.groups.items():
            # a new named tuple is made only if one of its fields was converted
            same = isinstance(args[at], kind) and all(map(operator.is_, args[at], values[at]))
            values[at] = args[at] if same or args[at] is None else kind(*values[at])
        return values, sizes.get(_DEVICE, "cpu")

    def _find_part(
        self,
        name: str,
        hint: Any,
        at: int,
        field: int | None = None,
        marks: Any = (),
        optional: bool = False,
    ) -> Part | None:
        """Return the array, number or object that an annotation declares; None if anything is accepted."""
        path = name if field is None else f"{self.parameters[at].name}.{name}"
        label = f"{self.name}: {path}"
        spec, absent = spec_of(hint)
        if spec is None:
            if not isinstance(hint, type) or not (hint in _NUMBERS or is_dataclass(hint)):
                return None
            return Part(name, hint, optional, _make_class_check(label, hint), -1, at, field)
        spec = replace(spec, constraints=(*spec.constraints, *marks))
        if any(isinstance(each, Cuts) for each in spec.constraints):
            rank, check = 3, _make_offsets_check(label, spec)
        elif spec.kind.startswith("float"):
            later = cast in spec.constraints or anywhere in spec.constraints
            rank, check = int(later), _make_float_check(label, spec)
        else:
            rank, check = 2, _make_number_check(label, spec)
        return Part(name, spec, optional or absent, check, rank, at, field)


def _make_class_check(name: str, kind: Any) -> _Check:
    """Make the check of a number, which becomes a float or an int, or of an object of a class."""
    accepted, wanted = _NUMBERS.get(kind, (kind, f"a {kind.__name__}"))

    def check(value: Any, sizes: _Sizes) -> Any:
        # Python's booleans are whole numbers, but NumPy takes none as a size
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise KernelError(f"{name} must be {wanted}, not {_shorten(value)}")
        return kind(value) if kind in _NUMBERS else value

    return check


def _make_float_check(name: str, spec: Spec) -> _Check:
    """Make the check of a floating array: its device, dtype, shape and layout."""
    fixed = np.dtype(spec.kind) if spec.kind != "float" else None
    on_host_only = host in spec.constraints
    is_own_dtype = on_host_only or any_dtype in spec.constraints
    is_any_layout, is_anywhere = any_layout in spec.constraints, anywhere in spec.constraints
    writes = in_place in spec.constraints
    converts = cast in spec.constraints and not writes

    def check(value: Any, sizes: _Sizes) -> Any:
        if value.__class__ is np.ndarray:
            device = "cpu"
        elif hasattr(value, "detach"):
            device = f"{value.device.type}:{value.device.index or 0}"
        elif writes and not isinstance(value, np.ndarray):
            raise KernelError(f"{name} is written into: give an array, not {_shorten(value)}")
        else:
            value, device = _to_array(name, value), "cpu"
        if on_host_only:
            value = to_numpy(value)
        elif sizes.setdefault(_DEVICE, device) != device and not is_anywhere:
            raise KernelError(_describe_device(name, value, device, sizes))
        dtype, like = value.dtype, fixed
        if like is None:
            if dtype not in FLOATS and str(dtype) not in ("torch.float32", "torch.float64"):
                raise KernelError(
                    _describe_mismatch(name, value, "float32 or float64", spec, sizes)
                )
            like = dtype if is_own_dtype else sizes.setdefault(_LIKE, dtype)
        if dtype is not like and _name_dtype(dtype) != _name_dtype(like):
            if not converts:
                raise KernelError(_describe_mismatch(name, value, like, spec, sizes))
            value = convert(value, like)
        if not spec.bind(value.shape, sizes):
            raise KernelError(_describe_mismatch(name, value, like, spec, sizes))
        if not is_any_layout and not _is_in_c_order(value):
            if writes:
                raise KernelError(_describe_mismatch(name, value, like, spec, sizes))
            value = value.contiguous() if hasattr(value, "detach") else np.ascontiguousarray(value)
        if writes and device == "cpu" and not value.flags.writeable:
            raise KernelError(f"{name} is written into, but is read-only: give a copy of it")
        return value

    return check


def _make_number_check(name: str, spec: Spec) -> _Check:
    """Make the check of an array of integers, booleans or any numbers: its dtype, shape and range."""
    dtype = None if spec.kind in KINDS else np.dtype(spec.kind)
    kinds, on_host_only = KINDS.get(spec.kind, "iu"), host in spec.constraints
    wanted = {"bool": "bool", "number": "numbers"}.get(spec.kind, "integers")
    limits = next((each for each in spec.constraints if isinstance(each, below)), None)

    def check(value: Any, sizes: _Sizes) -> Any:
        if value.__class__ is not np.ndarray and (on_host_only or not hasattr(value, "detach")):
            value = _to_array(name, value)
        kind = getattr(value.dtype, "kind", None) or _name_dtype(value.dtype).lstrip("u")[0]
        if not spec.bind(value.shape, sizes) or (kind not in kinds and len(value)):
            raise KernelError(_describe_mismatch(name, value, wanted, spec, sizes))
        is_array = isinstance(value, np.ndarray)
        value = convert(value, value.dtype.newbyteorder("=") if is_array else value.dtype)
        if limits is not None and len(value):
            check_range(value, sizes[limits.dimension], name, limits.lowest)
        # an empty list is an array of float64
        target = dtype or (value.dtype if kind in kinds else np.dtype(np.int64))
        if value.dtype is not target:
            converted = convert(value, target)
            # a number beyond the dtype wraps around
            if limits is None and not (converted == value).all():
                raise KernelError(
                    f"{name} holds {value[converted != value][0]}, which {target} cannot hold"
                )
            return converted
        return value

    return check


def _make_offsets_check(name: str, spec: Spec) -> _Check:
    """Make the check of offsets, which become int64 on the host."""
    pieces = spec.dims[0].partition("+")[0]
    items = next(each.dimension for each in spec.constraints if isinstance(each, Cuts))

    def check(value: Any, sizes: _Sizes) -> Any:
        known = sizes.get(pieces)
        value = check_offsets(
            _to_array(name, value), sizes[items], what=name, pieces=known, error=KernelError
        )
        sizes[pieces] = len(value) - 1
        return value

    return check


def check_range(ids: Any, n: int, name: str, lowest: int = 0) -> None:
    """Raise KernelError unless all ids are from ``lowest`` to ``n - 1``, which compiled loops do not check again."""
    if not len(ids):
        return
    if not isinstance(ids, np.ndarray):
        import torch

        least, most = torch.stack(ids.aminmax()).tolist()  # a single wait for the device
    elif ids.ndim == 1 and loops.within(ids, lowest, n):
        return
    else:
        least, most = ids.min(), ids.max()
    if least < lowest or most >= n:
        raise KernelError(f"{name} run from {int(least)} to {int(most)}, and there are {n} rows")


def convert(array: Any, dtype: Any) -> Any:
    """Return an array or a tensor in C order and in a dtype of NumPy or torch."""
    if array.__class__ is np.ndarray:
        return np.ascontiguousarray(array, _name_dtype(dtype))
    import torch

    return array.to(getattr(torch, _name_dtype(dtype))).contiguous()


def convert_like(name: str, array: Any, dtype: Any, like: Any) -> Any:
    """Return an array, a tensor or a number in C order, in a dtype of NumPy, on the device of ``like``.

    Raises KernelError, which says the name, for anything else.
    """
    if not hasattr(array, "detach"):
        array = _to_array(name, array)
        if not isinstance(like, np.ndarray):
            (array,) = to_tensors((array,), like.device)
    elif isinstance(like, np.ndarray):
        array = to_numpy(array)
    else:
        array = array.to(like.device)
    return convert(array, np.dtype(dtype))


def _is_in_c_order(array: Any) -> bool:
    """Tell whether an array or a tensor is in C order."""
    return bool(
        array.flags.c_contiguous if isinstance(array, np.ndarray) else array.is_contiguous()
    )


def _to_array(name: str, value: Any) -> Any:
    """Return an array, a tensor or a list as a numpy array. Raises KernelError for anything else."""
    try:
        array = np.asarray(to_numpy(value))
    except (TypeError, ValueError):  # as for lists of different lengths
        array = None
    if array is None or array.dtype.kind not in "biufc":
        raise KernelError(f"{name} must be an array of numbers, not {_shorten(value)}")
    return array


def _shorten(value: object) -> str:
    """Return the beginning of the text of an object, in one line."""
    return f"{' '.join(repr(value).split()):.60}"


def _name_dtype(dtype: object) -> str:
    """Return the name of a dtype of NumPy or torch."""
    return str(dtype).removeprefix("torch.")


def _describe_mismatch(name: str, value: Any, wanted: Any, spec: Spec, sizes: _Sizes) -> str:
    """Return a sentence on how an argument is and how it must be."""
    writes = ", to be changed in place," if in_place in spec.constraints else ""
    found = f"{_name_dtype(value.dtype)} {tuple(value.shape)}"
    if not _is_in_c_order(value):
        found += " in another order"
    wanted = f"{_name_dtype(wanted)} ({spec.describe_shape(sizes)})"
    return f"{name} must be {wanted} in C order{writes or ','} not {found}"


def _describe_device(name: str, value: Any, device: str, sizes: _Sizes) -> str:
    """Return a sentence on the device of an argument and that of the others."""
    if (device == "cpu") != (sizes[_DEVICE] == "cpu"):
        return f"{name} is a {type(value).__name__} and others are not: give all as numpy arrays or all as tensors"
    return f"{name} is on {device} and others on {sizes[_DEVICE]}: move one of them"
