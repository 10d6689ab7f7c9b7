"""The inner loop of the epoch in vectors of 16 float32: both factors of a rating, and the next scalar product.

A plain numba loop over columns asks at every rating whether the rows overlap, and does what is left of a width
like 100 one column at a time. Here LLVM IR is emitted instead. The last vector always ends at the last column:
it is read before the others are written and written after them, so that columns it shares with the one before
come out the same twice. LLVM lowers the vectors to whatever the machine has; ``fmuladd`` may fuse, so results may
differ in the last bit between machines, never between runs.

Addresses are plain integers: ``cpu.py`` has checked every index, and sees to it that rows are at least `LANES`
wide and do not overlap. numba keeps compiled code by the callers' file: after a change here, touch ``cpu.py``.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""float32 elements in one vector: the least width."""

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)
_NUMBERS = ir.VectorType(_I64, LANES)
_ZERO = ir.Constant(_VECTOR, None)


class _Rows(NamedTuple):
    """Addresses; ``side`` and ``sums`` are None without conditioning."""

    x: ir.Value
    q: ir.Value
    after: ir.Value
    side: ir.Value | None
    sums: ir.Value | None


class _Scales(NamedTuple):
    """1 - rate penalty, rate e, and e, each in every lane."""

    keep: ir.Value
    step: ir.Value
    error: ir.Value | None


def _all_lanes(builder: ir.IRBuilder, scalar: ir.Value, kind: ir.VectorType) -> ir.Value:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_I32, 0))
    lanes = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, first, lanes)


def _at(builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
    address = builder.add(row, builder.mul(column, ir.Constant(_I64, 4)))
    return builder.inttoptr(address, _VECTOR.as_pointer())


def _load(builder: ir.IRBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
    return builder.load(_at(builder, row, column), align=4)


def _multiply_add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    name = f"llvm.fmuladd.v{LANES}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def _sum(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    kind = ir.FunctionType(_F32, [_F32, _VECTOR])
    name = f"llvm.vector.reduce.fadd.v{LANES}f32"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [ir.Constant(_F32, 0.0), vector], fastmath=("reassoc",))


def _updated(
    builder: ir.IRBuilder, rows: _Rows, scales: _Scales, column: ir.Value
) -> list[tuple[ir.Value, ir.Value]]:
    """What belongs at ``column`` of x, q and the sums: (where, vector), x first."""
    x, q = _load(builder, rows.x, column), _load(builder, rows.q, column)
    keep, step, error = scales
    new_q = _multiply_add(builder, step, x, builder.fmul(keep, q))
    kept = builder.fmul(keep, x)
    if rows.side is not None:
        kept = _multiply_add(builder, keep, x, _load(builder, rows.side, column))
    new_x = _multiply_add(builder, step, q, kept)
    found = [(_at(builder, rows.x, column), new_x), (_at(builder, rows.q, column), new_q)]
    if rows.sums is not None:
        sums = _multiply_add(builder, error, q, _load(builder, rows.sums, column))
        found.append((_at(builder, rows.sums, column), sums))
    return found


def _emit(builder: ir.IRBuilder, rows: _Rows, scales: _Scales | None, width: ir.Value) -> ir.Value:
    """The update, unless ``scales`` is None, and the product of x with ``after``."""
    one, lanes = ir.Constant(_I64, 1), ir.Constant(_I64, LANES)
    whole = builder.udiv(builder.sub(width, one), lanes)  # vectors before the last one
    last = builder.sub(width, lanes)
    at_end = [] if scales is None else _updated(builder, rows, scales, last)
    end_x = at_end[0][1] if at_end else _load(builder, rows.x, last)
    entry = builder.block
    loop, done = builder.append_basic_block("vectors"), builder.append_basic_block("last")
    builder.cbranch(builder.icmp_unsigned(">", whole, ir.Constant(_I64, 0)), loop, done)

    builder.position_at_end(loop)
    index, before = builder.phi(_I64), builder.phi(_VECTOR)
    column = builder.mul(index, lanes)
    written = [] if scales is None else _updated(builder, rows, scales, column)
    x = written[0][1] if written else _load(builder, rows.x, column)
    for pointer, vector in written:
        builder.store(vector, pointer, align=4)
    product = _multiply_add(builder, x, _load(builder, rows.after, column), before)
    following = builder.add(index, one)
    for phi, start, value in ((index, ir.Constant(_I64, 0), following), (before, _ZERO, product)):
        phi.add_incoming(start, entry)
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, whole), loop, done)

    builder.position_at_end(done)
    total = builder.phi(_VECTOR)
    total.add_incoming(_ZERO, entry)
    total.add_incoming(product, loop)
    for pointer, vector in at_end:
        builder.store(vector, pointer, align=4)
    # lanes of the last vector that the one before has counted
    counted = builder.sub(builder.mul(whole, lanes), last)
    numbers = ir.Constant(_NUMBERS, list(range(LANES)))
    new = builder.icmp_unsigned(">=", numbers, _all_lanes(builder, counted, _NUMBERS))
    after = builder.select(new, _load(builder, rows.after, last), _ZERO)
    return _sum(builder, _multiply_add(builder, end_x, after, total))


@intrinsic
def product(typing_context: Any, x: Any, q: Any, width: Any) -> Any:
    """``product(x, q, width)``: the scalar product of two rows."""
    word = types.uintp

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _emit(builder, _Rows(args[0], args[1], args[1], None, None), None, args[2])

    return types.float32(word, word, types.intp), generate


@intrinsic
def update(
    typing_context: Any, x: Any, q: Any, after: Any, width: Any, keep: Any, step: Any
) -> Any:
    """``update(x, q, after, width, keep, step)``: x, q = keep x + step q, keep q + step x; then x . after."""
    word, real = types.uintp, types.float32

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, q, after, width, *numbers = args
        keep, step = (_all_lanes(builder, number, _VECTOR) for number in numbers)
        return _emit(builder, _Rows(x, q, after, None, None), _Scales(keep, step, None), width)

    return real(word, word, word, types.intp, real, real), generate


@intrinsic
def update_with_side(
    typing_context: Any,
    x: Any,
    q: Any,
    after: Any,
    side: Any,
    sums: Any,
    width: Any,
    keep: Any,
    step: Any,
    error: Any,
) -> Any:
    """The same with x = keep x + step q + side, and sums += error q."""
    word, real = types.uintp, types.float32

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scales = _Scales(*(_all_lanes(builder, a, _VECTOR) for a in args[6:]))
        return _emit(builder, _Rows(*args[:5]), scales, args[5])

    return real(word, word, word, word, word, types.intp, real, real, real), generate


@intrinsic
def combine(typing_context: Any, a: Any, b: Any, width: Any, keep: Any, step: Any) -> Any:
    """``combine(a, b, width, keep, step)``: a = keep a + step b."""
    word, real = types.uintp, types.float32

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        keep, step = (_all_lanes(builder, number, _VECTOR) for number in args[3:])
        lanes, width = ir.Constant(_I64, LANES), args[2]

        def at(column: ir.Value) -> ir.Value:
            kept = builder.fmul(keep, _load(builder, args[0], column))
            return _multiply_add(builder, step, _load(builder, args[1], column), kept)

        last = builder.sub(width, lanes)
        at_end = at(last)
        whole = builder.udiv(builder.sub(width, ir.Constant(_I64, 1)), lanes)
        with cgutils.for_range(builder, whole, intp=_I64) as loop:
            column = builder.mul(loop.index, lanes)
            builder.store(at(column), _at(builder, args[0], column), align=4)
        builder.store(at_end, _at(builder, args[0], last), align=4)
        return context.get_dummy_value()

    return types.void(word, word, types.intp, real, real), generate
