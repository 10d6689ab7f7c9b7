"""The decorator `operation`: the body of a function is the specification, which the best installed backend replaces.

    @operation
    def adagrad(
        table: Float[Array, "all width", in_place],
        sums: Float[Array, "all", in_place],
        rows: Int[Array, "some", below("all")],
        gradient: Float[Array, "some width"],
        rate: float,
    ) -> Any:
        '''...'''
        for j, g in zip(rows, gradient): ...      # a plain loop in float64, with the letters of the paper

A call checks the arguments once, for all backends, by their annotations (see `tacenda.kernels.machinery.arguments`),
and passes them by position. Without a better backend the body runs, as the backend ``reference``.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, overload

import numpy as np

from tacenda import plugins
from tacenda.arrays import KINDS, Cuts, below
from tacenda.errors import KernelError
from tacenda.kernels import dispatch
from tacenda.kernels.machinery import arguments

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LIKE = "<dtype>"  # an entry of the sizes that is no dimension


@overload
def operation(specification: _Function) -> _Function: ...


@overload
def operation(
    *, prepare: Callable[..., Mapping[str, Any] | None]
) -> Callable[[_Function], _Function]: ...


def operation(
    specification: Any = None, *, prepare: Callable[..., Mapping[str, Any] | None] | None = None
) -> Any:
    """Make a function the specification of the operation of its name, and of the functions that replace it.

    A function defined again replaces the first, as in a notebook. Raises KernelError if another module has an operation
    of this name, or if ``prepare`` has a parameter that is neither an argument of the operation nor optional.

    Parameters
    ----------
    specification
        The function; left out when ``prepare`` is given.
    prepare
        Takes checked arguments, those that its parameters name. It raises KernelError for what annotations cannot say,
        and may return arguments to use instead, by name.
    """
    if specification is None:
        return functools.partial(operation, prepare=prepare)
    name, module = specification.__name__, specification.__module__
    if (home := getattr(dispatch.OPERATIONS.get(name), "__module__", module)) != module:
        raise KernelError(f"{home} and {module} both define the operation {name}: rename one")
    taken = [] if prepare is None else _list_taken(prepare, specification)
    space: dict[str, Any] = {}
    call: Any = functools.wraps(specification)(FunctionType(_write_and_call.__code__, space))

    def write() -> Any:
        quick = _write_quick(specification, prepare, taken)
        space.update(quick.__globals__)
        # the code last: another thread may call in between
        call.__defaults__, call.__code__ = quick.__defaults__, quick.__code__
        return call

    space["_write"] = write
    call.specification = specification
    dispatch.OPERATIONS[name] = call
    dispatch.resolved.clear()  # which may have an earlier function of this name
    return call


def _write_and_call(*args: Any, **kwargs: Any) -> Any:
    """Run as every public function until its first call, which replaces this code by that written for the operation.

    To write it takes half a millisecond, too long for all operations of a module that is imported.
    """
    return _write()(*args, **kwargs)  # type: ignore[name-defined]


def _list_taken(prepare: Callable[..., Any], specification: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that ``prepare`` takes. Raises KernelError if it requires any other."""
    names = inspect.signature(specification).parameters
    taken = inspect.signature(prepare).parameters
    strange = [
        name for name in taken if name not in names and taken[name].default is taken[name].empty
    ]
    if strange:
        raise KernelError(
            f"the operation {specification.__name__} has the arguments {', '.join(names)}, and its prepare takes "
            f"{', '.join(strange)}: name its parameters like arguments"
        )
    return [name for name in taken if name in names]


# -- the code of public functions --------------------------------------------------------------------
#
# A call on numpy arrays exactly as declared, which most are, should cost little more than the compiled loop: half a
# microsecond for a step of one row. So code is written for each operation that tests this, as dataclasses write their
# methods; all other calls take the checks of `tacenda.kernels.machinery.arguments`.

# The sizes are None at first: no condition names the size of an optional array that is not given.
_QUICK = """\
def {name}({signature}):
    {sizes} = None
    {unpacked}
    if not ({conditions}):
        return _check({names})
    {converted}
    _run, _others = _resolved.get(("{name}", "cpu", _chosen.get(), _plugins.generation)) or _choose("{name}")
    try:
        return _run({names})
    except _UnsupportedShape as _declined:
        return _others(_declined, {names})
"""
_UNPACKED = """
    if {group}.__class__ is _kind_{at}:
        {fields}, = {group}
    {otherwise}:
        return _check({names})
"""
_SPACE: dict[str, Any] = {
    "_choose": dispatch.choose,
    "_resolved": dispatch.resolved,
    "_chosen": dispatch.chosen,
    "_UnsupportedShape": dispatch.UnsupportedShape,
    "_plugins": plugins,
    "_loops": arguments.loops,
    "_ndarray": np.ndarray,
    "_floats": arguments.FLOATS,
    "_converted": (np.dtype(np.int32), np.dtype(np.int64)),
    # in the byte order of the machine, for which loops are compiled
    "_int": frozenset(map(np.dtype, "bhilqBHILQ")),
    "_number": frozenset(map(np.dtype, "bhilqBHILQfd")),
    "_bool": (np.dtype(bool),),
    **{f"_{kind}": np.dtype(kind) for kind in ("float32", "float64", "int32", "int64")},
}


def _write_quick(
    specification: Callable[..., Any], prepare: Any, taken: list[str]
) -> Callable[..., Any]:
    """Return the public function of an operation; ``prepare``, if there is one, is given the arguments ``taken``."""
    name, declared = specification.__name__, arguments.Declared(specification)
    order = [parameter.name for parameter in declared.parameters]
    names = ", ".join(order)
    check = _make_check(declared, prepare, taken)
    space = {**_SPACE, "_check": check, "_prepare": prepare, "_names": order}
    signature, unpacked, conditions, converted = [], [], [], []
    for parameter in declared.parameters:
        space[f"_default_{parameter.name}"] = parameter.default
        default = "" if parameter.default is parameter.empty else f"=_default_{parameter.name}"
        signature.append(f"{parameter.name}{default}")
    for at, (kind, optional) in declared.groups.items():
        space[f"_kind_{at}"], group = kind, declared.parameters[at].name
        fields = ", ".join(f"_{group}_{field}" for field in kind._fields)
        otherwise = f"elif {group} is not None" if optional else "else"
        unpacked.append(
            _UNPACKED.format(group=group, at=at, fields=fields, otherwise=otherwise, names=names)
        )
    sizes: dict[str, str] = {}
    # required arrays first, as their sizes are compared with those of optional ones
    for part in sorted(declared.parts, key=lambda part: (part.optional, part.rank)):
        value = group = declared.parameters[part.at].name
        if part.field is not None:
            value = f"_{group}_{part.name}"
        if isinstance(part.kind, type):
            space[f"_class_of_{value}"] = part.kind
        condition = _write_condition(value, part, sizes)
        if part.optional:
            condition = f"({group} is None or {value} is None or {condition})"
        conditions.append(condition)
        if part.converts:
            dtype = f"_{part.kind.kind}"  # type: ignore[union-attr]
            there = f"{value} is not None and " if part.optional else ""
            converted.append(
                f"if {there}{value}.dtype is not {dtype}: {value} = {value}.astype({dtype})"
            )
    if prepare is not None:
        converted += [
            f"_changed = _prepare({', '.join(f'{argument}={argument}' for argument in taken)})",
            f"if _changed: {names}, = map(_changed.get, _names, ({names},))",
        ]
    text = _QUICK.format(
        name=name,
        signature=", ".join(signature),
        sizes=" = ".join(["_like", *sizes.values()]),
        unpacked="".join(unpacked),
        conditions=" and ".join(conditions) or "True",
        converted="\n    ".join(converted),
        names=names,
    )
    exec(compile(text, f"<{name} of {specification.__module__}>", "exec"), space)
    quick: Callable[..., Any] = space[name]
    return quick


def _make_check(declared: arguments.Declared, prepare: Any, taken: list[str]) -> Callable[..., Any]:
    """Make the function for all other calls: it checks and prepares any arguments, and runs the operation."""

    def check(*args: Any) -> Any:
        values, device = declared.check(args)
        if prepare is not None:
            names = (parameter.name for parameter in declared.parameters)
            given = dict(zip(names, values, strict=True))
            changed = prepare(**{argument: given[argument] for argument in taken})
            values = [*(given | dict(changed or {})).values()]
        return dispatch.resolve(declared.name, device)(*values)

    return check


def _write_condition(value: str, part: arguments.Part, sizes: dict[str, str]) -> str:
    """Write the code that tests whether ``value`` is as declared, and that names its dimensions."""
    if isinstance(part.kind, type):
        return f"{value}.__class__ is _class_of_{value}"
    spec, marks = part.kind, part.kind.constraints

    def fits(dim: str, size: str) -> str:
        dim, _, more = dim.partition("+")
        size += f" - {more}" if more else ""
        if dim.isdigit():
            return f"{size} == {dim}"
        if dim in sizes:
            return f"{size} == {sizes[dim]}"
        sizes[dim] = f"_n_{dim.replace('*', 'rest_')}"
        return f"({sizes[dim]} := {size}) {'>= 0' if more else 'is not None'}"

    asked = [f"{value}.__class__ is _ndarray"]
    if cuts := next((each for each in marks if isinstance(each, Cuts)), None):
        items = sizes.get(cuts.dimension, "None")
        asked += [f"{value}.dtype is _int64", f"{value}.ndim == 1", f"{items} is not None"]
        pieces = fits(spec.dims[0], f"len({value})")
        return " and ".join([*asked, f"_loops.cuts({value}, {items})", pieces])
    if spec.kind == "float" and (arguments.any_dtype in marks or arguments.host in marks):
        asked.append(f"{value}.dtype in _floats")
    elif spec.kind == "float" and _LIKE not in sizes:
        sizes[_LIKE] = "_like"
        asked.append(f"(_like := {value}.dtype) in _floats")
    elif spec.kind == "float":
        asked.append(f"{value}.dtype is _like")
    elif spec.kind in KINDS:
        asked.append(f"{value}.dtype in _{spec.kind}")
    elif part.converts:
        asked.append(f"{value}.dtype in _converted")
    else:
        asked.append(f"{value}.dtype is _{spec.kind}")
    if arguments.in_place in marks:
        asked.append(f"{value}.flags.{'behaved' if arguments.any_layout in marks else 'carray'}")
    elif arguments.any_layout not in marks:
        asked.append(f"{value}.flags.c_contiguous")
    rest = [dim for dim in spec.dims[-1:] if dim.startswith("*")]
    dims = spec.dims[: len(spec.dims) - len(rest)]
    if len(spec.dims) == len(dims) == 1:  # without a tuple of the shape
        asked += [f"{value}.ndim == 1", fits(dims[0], f"len({value})")]
    else:
        asked.append(f"len(_shape := {value}.shape) {'>=' if rest else '=='} {len(dims)}")
        asked += [fits(dim, f"_shape[{n}]") for n, dim in enumerate(dims)]
        asked += [fits(dim, f"_shape[{len(dims)}:]") for dim in rest]
    if limits := next((each for each in marks if isinstance(each, below)), None):
        n = sizes.get(limits.dimension, "None")
        if part.optional or n == "None":  # the size of a required array is known by now
            asked.append(f"{n} is not None")
        asked.append(f"_loops.within({value}, {limits.lowest}, {n})")
    return f"({' and '.join(asked)})"
