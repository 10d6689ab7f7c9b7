"""`operation`: a function whose body is the specification, and which the best backend installed replaces.

    @operation
    def adagrad(
        table: Float[Array, "all width", in_place],
        sums: Float[Array, "all", in_place],
        rows: Int32[Array, "some", below("all")],
        gradient: Float[Array, "some width"],
        rate: float,
    ) -> Any:
        '''...'''
        for j, g in zip(rows, gradient): ...      # a plain loop in float64, with the letters of the paper

A call checks the arguments once, for all backends, by their annotations (see `tacenda.arrays`), and hands all of them
on by position. Arrays are brought into C order, lists made arrays. ``Float`` arguments are float32 or float64, all of
one dtype and on one device; ``Int32`` and ``Int64`` ones are converted from other integers, and are numpy arrays or
tensors; offsets become int64 on the host. Arguments may be named tuples of such arrays. Whatever else is not as
declared is a KernelError. Without a better backend the body runs, as the backend ``reference``.
"""

import functools
import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, get_args, get_type_hints, overload

import numpy as np

from tacenda.arrays import Below, Cuts, Spec, spec_of, to_tensors
from tacenda.errors import KernelError
from tacenda.kernels.dispatch import OPERATIONS, resolve
from tacenda.offsets import checked_offsets

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Sizes = dict[str, Any]
_Check = Callable[[Any, _Sizes], Any]

#: Written into: neither copied nor converted.
in_place = "in place"
#: Of a dtype of its own.
any_dtype = "any dtype"
#: Of any layout.
any_layout = "any layout"
#: Converted to the dtype of the other floating arguments, or to the one declared.
cast = "cast"
#: Where the other arguments are, or on the host.
anywhere = "anywhere"
#: On the host, wherever the other arguments are.
host = "host"

_LIKE, _DEVICE = "<dtype>", "<device>"  # entries of the sizes that are no dimensions
_FLOATS = np.dtype(np.float32), np.dtype(np.float64)


@overload
def operation(specification: _Function) -> _Function: ...


@overload
def operation(
    *, prepare: Callable[..., tuple[Any, ...] | None]
) -> Callable[[_Function], _Function]: ...


def operation(
    specification: Any = None, *, prepare: Callable[..., tuple[Any, ...] | None] | None = None
) -> Any:
    """Make a function the specification of the operation of its name, and of the functions that replace it.

    Parameters
    ----------
    specification
        The function; left out when ``prepare`` is given.
    prepare
        Takes the checked arguments, all of them by position. It raises KernelError for what annotations cannot say,
        and may return arguments to use instead.
    """
    if specification is None:
        return functools.partial(operation, prepare=prepare)
    name = specification.__name__
    plan: Any = None

    @functools.wraps(specification)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal plan
        if plan is None:
            plan = _plan(specification)
        values, sizes = _checked(args, kwargs, plan)
        if prepare is not None:
            values = prepare(*values) or values  # type: ignore[assignment]
        return resolve(name, sizes.get(_DEVICE, "cpu"))(*values)

    call.specification = specification  # type: ignore[attr-defined]
    OPERATIONS[name] = call
    return call


def check_arguments(function: _Function) -> _Function:
    """Check the arguments of a function that is no operation by its annotations, as `operation` does."""
    plan = functools.cache(lambda: _plan(function))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*_checked(args, kwargs, plan())[0])

    return call  # type: ignore[return-value]


def _checked(args: tuple[Any, ...], kwargs: dict[str, Any], plan: Any) -> tuple[list[Any], _Sizes]:
    """Return all arguments by position, as declared, and the sizes of dimensions by name."""
    parameters, groups, checks = plan
    values = list(args)
    if len(values) != len(parameters):
        _complete(values, kwargs, parameters)
    sizes: _Sizes = {}
    given = [values[at] for at, _ in groups]
    for (at, _), group in zip(groups, given, strict=True):
        values[at] = None if group is None else list(group)
    for at, field, check in checks:
        if field is None:
            values[at] = check(values[at], sizes)
        elif (parts := values[at]) is not None:
            parts[field] = check(parts[field], sizes)
    for (at, kind), group in zip(groups, given, strict=True):
        # a named tuple is made anew only where one of its arrays was converted
        if group is not None:
            same = isinstance(group, kind) and all(map(operator.is_, group, values[at]))
            values[at] = group if same else kind(*values[at])
    return values, sizes


def _complete(values: list[Any], kwargs: dict[str, Any], parameters: list[Any]) -> None:
    """Append arguments given by name, and defaults."""
    for parameter in parameters[len(values) :]:
        value = kwargs.pop(parameter.name, parameter.default)
        if value is parameter.empty:
            raise TypeError(f"the argument {parameter.name!r} is missing")
        values.append(value)
    if kwargs:
        raise TypeError(f"there is no argument {next(iter(kwargs))!r} that is not given already")


# -- checks ------------------------------------------------------------------------------------------


def _plan(specification: Callable[..., Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return parameters, those that are named tuples with their classes, and checks in their order.

    A check is of the argument at a position, or of one field of it. Floats come first, then those that are cast to
    their dtype, then ids, which count rows of them, then offsets.
    """
    hints = get_type_hints(specification, include_extras=True)
    parameters = list(inspect.signature(specification).parameters.values())
    groups: list[Any] = []
    checks: list[Any] = []
    for at, name in enumerate(parameter.name for parameter in parameters):
        hint = hints.get(name)
        if check := _check_of(name, hint):
            checks.append((*check, at, None))
            continue
        parts = (getattr(hint, "__origin__", hint), *get_args(hint))
        kinds = [part for part in parts if isinstance(part, type) and hasattr(part, "_fields")]
        if not kinds:
            continue
        markers, of_fields = (
            getattr(hint, "__metadata__", ()),
            get_type_hints(kinds[0], include_extras=True),
        )
        found = [
            (*check, at, n)
            for n, field in enumerate(kinds[0]._fields)
            if (check := _check_of(field, of_fields[field], markers))
        ]
        if found:
            checks += found
            groups.append((at, kinds[0]))
    checks.sort(key=lambda each: each[0])
    return parameters, groups, [(at, field, check) for _, check, at, field in checks]


def _check_of(name: str, hint: Any, markers: tuple[Any, ...] = ()) -> tuple[int, _Check] | None:
    """Return the check of an array and its rank in the order of checks; None if no array is declared."""
    spec, optional = spec_of(hint)
    if spec is None:
        return None
    spec = replace(spec, constraints=(*spec.constraints, *markers))
    if any(isinstance(each, Cuts) for each in spec.constraints):
        rank, check = 3, _offsets_check(name, spec)
    elif spec.kind.startswith("float"):
        later = cast in spec.constraints or anywhere in spec.constraints
        rank, check = int(later), _floats_check(name, spec)
    else:
        rank, check = 2, _integers_check(name, spec)
    return rank, _optional(check) if optional else check


def _optional(check: _Check) -> _Check:
    return lambda value, sizes: None if value is None else check(value, sizes)


def _floats_check(name: str, spec: Spec) -> _Check:
    fixed = np.dtype(spec.kind) if spec.kind != "float" else None
    here, bind = host in spec.constraints, _binder(spec)
    of_its_own = here or any_dtype in spec.constraints
    loose, wandering = any_layout in spec.constraints, anywhere in spec.constraints
    writes = in_place in spec.constraints
    converted = cast in spec.constraints and not writes

    def check(value: Any, sizes: _Sizes) -> Any:
        if value.__class__ is np.ndarray:
            device = "cpu"
        elif hasattr(value, "detach"):
            device = f"{value.device.type}:{value.device.index or 0}"
        elif writes and not isinstance(value, np.ndarray):
            raise KernelError(
                f"{name} is written into: give an array, not a {type(value).__name__}"
            )
        else:
            value, device = np.asarray(value), "cpu"
        if here:
            value = on_host(value)
        elif sizes.setdefault(_DEVICE, device) != device and not wandering:
            raise KernelError(_elsewhere(name, value, device, sizes))
        dtype, like = value.dtype, fixed
        if like is None:
            if dtype not in _FLOATS and str(dtype) not in ("torch.float32", "torch.float64"):
                raise KernelError(_unlike(name, value, "float32 or float64", spec, sizes))
            like = dtype if of_its_own else sizes.setdefault(_LIKE, dtype)
        if dtype is not like and dtype != like and not _same(dtype, like):
            if not converted:
                raise KernelError(_unlike(name, value, like, spec, sizes))
            value = convert(value, like)
        if not bind(value.shape, sizes):
            raise KernelError(_unlike(name, value, like, spec, sizes))
        if not loose and not _in_c_order(value):
            if writes:
                raise KernelError(_unlike(name, value, like, spec, sizes))
            value = value.contiguous() if hasattr(value, "detach") else np.ascontiguousarray(value)
        return value

    return check


def _integers_check(name: str, spec: Spec) -> _Check:
    dtype = None if spec.kind in ("int", "bool") else np.dtype(spec.kind)
    kinds, bind, alone = (
        "b" if spec.kind == "bool" else "iu",
        _binder(spec),
        host in spec.constraints,
    )
    limits = next((each for each in spec.constraints if isinstance(each, Below)), None)

    def check(value: Any, sizes: _Sizes) -> Any:
        if value.__class__ is not np.ndarray and (alone or not hasattr(value, "detach")):
            value = on_host(value)
        kind = (
            getattr(value.dtype, "kind", None)
            or str(value.dtype).removeprefix("torch.").lstrip("u")[0]
        )
        if kind not in kinds and len(value):
            raise KernelError(
                _unlike(name, value, "integers" if kinds == "iu" else "bool", spec, sizes)
            )
        if not bind(value.shape, sizes):
            raise KernelError(_unlike(name, value, "integers", spec, sizes))
        if limits is not None and len(value):
            check_range(value, sizes[limits.dimension], name, limits.lowest)
        if dtype is not None and value.dtype is not dtype:
            value = convert(value, dtype)
        return value

    return check


def _offsets_check(name: str, spec: Spec) -> _Check:
    pieces, cuts = spec.dims[0].partition("+")[0], spec.constraints[0].dimension

    def check(value: Any, sizes: _Sizes) -> Any:
        known = sizes.get(pieces)
        value = checked_offsets(
            on_host(value), sizes[cuts], what=name, pieces=known, error=KernelError
        )
        sizes[pieces] = len(value) - 1
        return value

    return check


def _binder(spec: Spec) -> Callable[[Any, _Sizes], bool]:
    """Return a `Spec.bind` that is quick where all dimensions have plain names."""
    dims = spec.dims
    if not all(dim.isidentifier() for dim in dims):
        return spec.bind
    n = len(dims)

    def bind(shape: Any, sizes: _Sizes) -> bool:
        if len(shape) != n:
            return False
        for dim, size in zip(dims, shape, strict=True):  # noqa: SIM110 - all() takes twice as long
            if sizes.setdefault(dim, size) != size:
                return False
        return True

    return bind


def check_range(ids: Any, n: int, name: str, lowest: int = 0) -> None:
    """Raise KernelError unless all ids are from ``lowest`` to ``n - 1``: compiled loops do not look at them again."""
    if not len(ids):
        return
    if not isinstance(ids, np.ndarray):
        import torch

        least, most = torch.stack(ids.aminmax()).tolist()  # a device is waited for once
    elif ids.ndim == 1 and (compiled := sys.modules.get("tacenda.kernels.machinery.compiled")):
        least, most = compiled.extremes(
            np.asarray(ids)
        )  # a fifth of the time of numpy's two, where ids are few
    else:
        least, most = ids.min(), ids.max()
    if least < lowest or most >= n:
        raise KernelError(f"{name} run from {int(least)} to {int(most)}, and there are {n} rows")


def convert(array: Any, dtype: Any) -> Any:
    """Return an array or a tensor in C order and a dtype of numpy's or torch's."""
    if array.__class__ is np.ndarray:
        return np.ascontiguousarray(array, str(dtype).removeprefix("torch."))
    import torch

    return array.to(getattr(torch, str(dtype).removeprefix("torch."))).contiguous()


def convert_like(array: Any, dtype: Any, like: Any) -> Any:
    """Return an array, a tensor or a number in C order and in a dtype of numpy's, where ``like`` is."""
    if not hasattr(array, "detach"):
        array = np.asarray(array)
        if not isinstance(like, np.ndarray):
            (array,) = to_tensors((array,), like.device)
    elif isinstance(like, np.ndarray):
        array = on_host(array)
    else:
        array = array.to(like.device)
    return convert(array, np.dtype(dtype))


def _in_c_order(array: Any) -> bool:
    return bool(
        array.flags.c_contiguous if isinstance(array, np.ndarray) else array.is_contiguous()
    )


def on_host(array: Any) -> Any:
    """Return an array, a tensor or a list as a numpy array."""
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)


def _same(a: Any, b: Any) -> bool:
    return str(a).removeprefix("torch.") == str(b).removeprefix("torch.")


def _unlike(name: str, value: Any, wanted: Any, spec: Spec, sizes: _Sizes) -> str:
    """Say what an argument is and what it must be."""
    wanted = str(wanted).removeprefix("torch.")
    known = ", ".join(f"{dim}={sizes[dim]}" if dim in sizes else dim for dim in spec.dims)
    writes = ", to be changed in place," if in_place in spec.constraints else ""
    found = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if not _in_c_order(value):
        found += " in another order"
    return f"{name} must be {wanted} ({known}) in C order{writes or ','} not {found}"


def _elsewhere(name: str, value: Any, device: str, sizes: _Sizes) -> str:
    """Say on which device an argument is, and on which the others are."""
    if (device == "cpu") != (sizes[_DEVICE] == "cpu"):
        return f"{name} is a {type(value).__name__} and others are not: give all as numpy arrays or all as tensors"
    return f"{name} is on {device} and others on {sizes[_DEVICE]}: move one of them"
