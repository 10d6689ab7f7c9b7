"""Instructions that numba lacks, for compiled loops: SIMD vectors, prefetching, copies of 16 bytes and counts of bits.

Vectors of 16 float32, or of 16 int32 sums, are for the few loops that numba does not vectorize well enough.
A vector is a value of a compiled function, like a number: it can be assigned to a variable, passed and returned. LLVM
turns it into registers of the processor: one with AVX-512, two with AVX2, four with NEON or SSE.

    @njit
    def dot(x, y):                                           # rows of any width, float32
        total = spread(0)
        for d in range(0, len(x), LANES):
            n = len(x) - d                                   # remaining columns
            total = multiply_add(load(x, d, n), load(y, d, n), total)
        return add_up(total)

Vectors are read from arrays and written to them at an offset counted in elements from the first one of the array, so
that ``i * table.shape[1] + d`` is column d of row i. The arrays must be float32 in C order, and not read-only where
they are written, which is checked when the loop is compiled; offsets, like all indices in compiled code, are not
checked. ``n`` is the number of elements from the offset on: lanes past it are neither read nor written.

LLVM may not reorder operations or assume that numbers are finite: NaN and infinity propagate as in IEEE 754.
Products and sums may be fused, so that results may differ in the last bit between machines, but not between runs.

`prefetch` is for loops that gather rows of a large table. A row that is not in the cache costs some hundred
nanoseconds, more than the work on it; prefetched during the work on the row before it, it costs next to nothing.
Import this module only from ``cpu.py`` files: it imports numba.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

from tacenda.kernels.machinery.memory import LINE

LANES = 16
_COPIED_BYTES = 16  # by `copy_bytes`

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_LANES_OF_FLOAT = ir.VectorType(_FLOAT, LANES)
_LANES_OF_INT32 = ir.VectorType(_INT32, LANES)
# of a float32: the first bit of its exponent, and the number added to it
_EXPONENT, _BIAS = 23, 127
_NAME = f"v{LANES}f32"  # as LLVM writes the type in the names of its own functions


class Vector(types.Type):
    """The numba type of a vector."""

    def __init__(self, element: str) -> None:
        self.element = element
        super().__init__(name=f"{element}x{LANES}")


vector, whole_vector = Vector("float32"), Vector("int32")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    """The model of a vector in LLVM: a single value, which is held in registers."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        lanes = _LANES_OF_FLOAT if kind.element == "float32" else _LANES_OF_INT32
        super().__init__(manager, kind, lanes)


def _check_array(array: Any, dtype: Any = types.float32, writes: bool = False) -> None:
    """Raise TypingError, while a loop is compiled, for an array of another dtype or order, or one that is read-only."""
    if not (isinstance(array, types.Array) and array.dtype == dtype and array.layout == "C"):
        raise TypingError(f"only {dtype} arrays in C order are read and written here, not {array}")
    if writes and not array.mutable:
        raise TypingError(f"{array} cannot be written into")


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    """Build a vector of one value: insert it into lane 0 and pick that lane sixteen times."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_INT32, 0))
    lane_0 = ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, lane_0)


def _point_to(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    """Build the address of the element at ``offset``, as a pointer to a vector."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _LANES_OF_FLOAT.as_pointer())


def _fills_vector(builder: Any, n: Any) -> Any:
    """Build the test whether ``n`` elements fill a vector."""
    return builder.icmp_signed(">=", n, ir.Constant(_INT64, LANES))


def _mask_below(builder: Any, n: Any) -> Any:
    """Build the mask of the lanes below ``n``, a number less than `LANES`."""
    numbers = ir.Constant(_LANES_OF_INT32, list(range(LANES)))
    return builder.icmp_signed(
        "<", numbers, _spread(builder, builder.trunc(n, _INT32), _LANES_OF_INT32)
    )


def _call(builder: Any, name: str, result: Any, arguments: list[Any], **flags: Any) -> Any:
    """Call a function that LLVM provides."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(
        cgutils.get_or_insert_function(builder.module, kind, name), arguments, **flags
    )


@intrinsic
def load(typing_context: Any, array: Any, offset: Any, n: Any) -> Any:
    """``load(array, offset, n)``: the vector of ``array.ravel()[offset : offset + n]``, zero in lanes from n on."""
    _check_array(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, n = _point_to(context, builder, array, *arguments[:2]), arguments[2]
        # LLVM turns this into a loop over whole vectors without masks, and one pass with a mask for the last
        with builder.if_else(_fills_vector(builder, n)) as (whole, part):
            with whole:
                all_lanes = builder.load(place, align=4)
                of_whole = builder.block
            with part:
                zeros, align = ir.Constant(_LANES_OF_FLOAT, None), ir.Constant(_INT32, 4)
                masked = [place, align, _mask_below(builder, n), zeros]
                some_lanes = _call(builder, f"llvm.masked.load.{_NAME}.p0", _LANES_OF_FLOAT, masked)
                of_part = builder.block
        loaded = builder.phi(_LANES_OF_FLOAT)
        loaded.add_incoming(all_lanes, of_whole)
        loaded.add_incoming(some_lanes, of_part)
        return loaded

    return vector(array, types.int64, types.int64), generate


@intrinsic
def store(typing_context: Any, value: Any, array: Any, offset: Any, n: Any) -> Any:
    """``store(vector, array, offset, n)``: ``array.ravel()[offset : offset + n]`` = the first n lanes."""
    _check_array(array, writes=True)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, _, _, n = arguments
        place = _point_to(context, builder, array, *arguments[1:3])
        with builder.if_else(_fills_vector(builder, n)) as (whole, part):
            with whole:
                builder.store(value, place, align=4)
            with part:
                masked = [value, place, ir.Constant(_INT32, 4), _mask_below(builder, n)]
                _call(builder, f"llvm.masked.store.{_NAME}.p0", ir.VoidType(), masked)
        return context.get_dummy_value()

    return types.void(vector, array, types.int64, types.int64), generate


def _make_instruction(result: Any, *given: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function for compiled loops, of these types, from a function that generates its code."""

    def decorate(emit: Callable[..., Any]) -> Any:
        @intrinsic
        @wraps(emit)
        def define(typing_context: Any, *_: Any) -> Any:
            return result(*given), lambda _, builder, __, arguments: emit(builder, *arguments)

        return define

    return decorate


@_make_instruction(vector, types.float32)
def spread(builder: Any, x: Any) -> Any:
    """``spread(x)``: a vector of sixteen times the number x."""
    return _spread(builder, x, _LANES_OF_FLOAT)


@_make_instruction(vector, vector, vector)
def add(builder: Any, x: Any, y: Any) -> Any:
    """``add(x, y)``: x + y, lane by lane."""
    return builder.fadd(x, y)


@_make_instruction(vector, vector, vector)
def multiply(builder: Any, x: Any, y: Any) -> Any:
    """``multiply(x, y)``: x y, lane by lane."""
    return builder.fmul(x, y)


@_make_instruction(vector, vector, vector, vector)
def multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """``multiply_add(x, y, z)``: x y + z, lane by lane, in one instruction where the processor has it."""
    return _call(builder, f"llvm.fmuladd.{_NAME}", _LANES_OF_FLOAT, [x, y, z])


@_make_instruction(types.float32, vector)
def add_up(builder: Any, x: Any) -> Any:
    """``add_up(x)``: the sum of all lanes, a float32; halves are added, then quarters and so on."""
    # unless it may reorder, LLVM adds one lane after the other
    name, given = f"llvm.vector.reduce.fadd.{_NAME}", [ir.Constant(_FLOAT, 0.0), x]
    return _call(builder, name, _FLOAT, given, fastmath=("reassoc",))


@_make_instruction(whole_vector)
def no_sums(builder: Any) -> Any:
    """``no_sums()``: sixteen int32 zeros, for `add_exponents` to begin with."""
    return ir.Constant(_LANES_OF_INT32, [0] * LANES)


@_make_instruction(whole_vector, whole_vector, vector)
def add_exponents(builder: Any, sums: Any, x: Any) -> Any:
    """``add_exponents(sums, x)``: sums + floor(log2 x), lane by lane, of numbers that are positive and normal."""
    bits = builder.bitcast(x, _LANES_OF_INT32)
    exponents = builder.lshr(bits, ir.Constant(_LANES_OF_INT32, [_EXPONENT] * LANES))
    bias = ir.Constant(_LANES_OF_INT32, [_BIAS] * LANES)
    return builder.add(sums, builder.sub(exponents, bias))


@_make_instruction(vector, vector)
def mantissas(builder: Any, x: Any) -> Any:
    """``mantissas(x)``: x / 2 ** floor(log2 x), from 1 to 2, lane by lane, of numbers that are positive and normal."""
    bits = builder.bitcast(x, _LANES_OF_INT32)
    digits = ir.Constant(_LANES_OF_INT32, [(1 << _EXPONENT) - 1] * LANES)
    one = ir.Constant(_LANES_OF_INT32, [_BIAS << _EXPONENT] * LANES)
    return builder.bitcast(builder.or_(builder.and_(bits, digits), one), _LANES_OF_FLOAT)


@_make_instruction(vector, whole_vector)
def as_floats(builder: Any, sums: Any) -> Any:
    """``as_floats(sums)``: sixteen int32 as float32."""
    return builder.sitofp(sums, _LANES_OF_FLOAT)


@_make_instruction(types.uint64, types.uint64)
def trailing_zeros(builder: Any, bits: Any) -> Any:
    """``trailing_zeros(bits)``: the place of the lowest set bit of a uint64 that is not zero."""
    return builder.cttz(bits, ir.Constant(ir.IntType(1), 1))


@intrinsic
def prefetch(typing_context: Any, array: Any, offset: Any, n: Any) -> Any:
    """``prefetch(array, offset, n)``: ask for ``array.ravel()[offset : offset + n]`` of an array in C order.

    This is a hint: it changes no result and faults on no address.
    """
    if not (isinstance(array, types.Array) and array.layout == "C"):
        raise TypingError(f"only arrays in C order can be asked for by offset, not {array}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        byte, line = ir.IntType(8).as_pointer(), ir.Constant(_INT64, LINE)
        first = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        size = builder.mul(arguments[2], ir.Constant(_INT64, array.dtype.bitwidth // 8))
        read, every_cache, data_not_code = (ir.Constant(_INT32, n) for n in (0, 3, 1))
        lines = builder.sdiv(builder.add(size, ir.Constant(_INT64, LINE - 1)), line)
        with cgutils.for_range(builder, lines) as loop:
            place = builder.gep(first, [builder.mul(loop.index, line)])
            hint = [place, read, every_cache, data_not_code]
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), hint)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def copy_bytes(typing_context: Any, source: Any, begin: Any, target: Any, at: Any) -> Any:
    """``copy_bytes(source, begin, target, at)``: copy 16 bytes from a place of an array of bytes to one of an array."""
    _check_array(source, types.uint8)
    _check_array(target, types.uint8, writes=True)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), _COPIED_BYTES).as_pointer()
        read, write = (
            builder.bitcast(
                builder.gep(context.make_array(each)(context, builder, array).data, [place]), kind
            )
            for each, array, place in ((source, *arguments[:2]), (target, *arguments[2:]))
        )
        builder.store(builder.load(read, align=1), write, align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate
