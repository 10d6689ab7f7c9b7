"""The two inner loops of the sparse product, with a row's accumulators held in vector registers.

A plain numba loop over columns loads and stores the accumulator at every nonzero. Here LLVM IR is
emitted for each panel of 1 .. `MAX_VECTORS` vectors of 16 float32, so that gathering costs one load
and one multiply-add per vector and nonzero. LLVM lowers the 16-lane vectors to whatever the
machine has. No fast-math flag is set: NaN and infinity propagate as IEEE 754 says; ``fmuladd`` may
fuse, so results may differ in the last bit between machines, never between runs.

Addresses are plain integers: the callers in ``cpu_loops.py`` have checked every index. numba keeps
compiled code by the callers' file: after a change here, touch ``cpu_loops.py``.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""float32 elements in one vector; tables are padded to a multiple of it."""

_WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
MAX_VECTORS = 16 if _WIDE else 6
"""Vectors in one panel: as many accumulators as fit the registers (32 of 64 bytes, or 16 of 32)."""

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)
_Emit = Callable[..., None]


def _broadcast(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    lanes = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, lanes)


def _vectors(builder: ir.IRBuilder, address: ir.Value, n: int) -> list[ir.Value]:
    base = builder.inttoptr(address, _VECTOR.as_pointer())
    return [builder.gep(base, [ir.Constant(_I64, j)]) for j in range(n)]


def _element(builder: ir.IRBuilder, address: ir.Value, p: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.load(builder.gep(builder.inttoptr(address, kind.as_pointer()), [p]))


def _multiply_add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    name = f"llvm.fmuladd.v{LANES}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def _emit(
    builder: ir.IRBuilder, n: int, integer: bool, scatter: bool, args: tuple[ir.Value, ...]
) -> None:
    """One loop over nonzeros for a panel of ``n`` vectors; ``count`` is at least 1."""
    row, table, stride, indices, data, count, scale = args
    row_pointers = _vectors(builder, row, n)
    before = [builder.load(pointer, align=4) for pointer in row_pointers]
    entry = builder.block
    loop = builder.append_basic_block(f"nonzeros.{n}")
    done = builder.append_basic_block(f"done.{n}")
    builder.branch(loop)

    builder.position_at_end(loop)
    p = builder.phi(_I64)
    p.add_incoming(ir.Constant(_I64, 0), entry)
    accumulators = [builder.phi(_VECTOR) for _ in range(0 if scatter else n)]
    index = builder.sext(_element(builder, indices, p, _I32), _I64)
    value = _element(builder, data, p, _I32 if integer else _F32)
    if integer:
        value = builder.sitofp(value, _F32)
    value = _broadcast(builder, builder.fmul(value, scale))
    cells = _vectors(builder, builder.add(table, builder.mul(index, stride)), n)
    after = []
    for j, cell in enumerate(cells):
        loaded = builder.load(cell, align=4)
        if scatter:
            builder.store(_multiply_add(builder, value, before[j], loaded), cell, align=4)
        else:
            after.append(_multiply_add(builder, value, loaded, accumulators[j]))
    following = builder.add(p, ir.Constant(_I64, 1))
    p.add_incoming(following, loop)
    for j, accumulator in enumerate(accumulators):
        accumulator.add_incoming(before[j], entry)
        accumulator.add_incoming(after[j], loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)

    builder.position_at_end(done)
    for value, pointer in zip(after, row_pointers, strict=False):
        builder.store(value, pointer, align=4)


def _make(scatter: bool) -> Any:
    def typed(
        context: Any,
        n: Any,
        row: Any,
        table: Any,
        stride: Any,
        indices: Any,
        data: Any,
        count: Any,
        scale: Any,
        counts: Any,
    ) -> tuple[Any, _Emit]:
        word = types.int64
        signature = types.void(
            word, types.uintp, types.uintp, word, types.uintp, types.uintp, word, types.float32,
            counts,
        )  # fmt: skip
        integer = isinstance(counts.dtype, types.Integer)

        def generate(target: Any, builder: Any, _: Any, values: Any) -> Any:
            end = builder.append_basic_block("end")
            switch = builder.switch(values[0], end)
            for vectors in range(1, MAX_VECTORS + 1):
                block = builder.append_basic_block(f"panel.{vectors}")
                switch.add_case(ir.Constant(_I64, vectors), block)
                builder.position_at_end(block)
                _emit(builder, vectors, integer, scatter, values[1:-1])
                builder.branch(end)
            builder.position_at_end(end)
            return target.get_dummy_value()

        return signature, generate

    return intrinsic(typed)


gather = _make(scatter=False)
"""``gather(n, row, table, stride, indices, data, count, scale, counts)``.

row[0 : 16 n] += sum_p scale data[p] table[indices[p]]; ``stride`` in bytes; ``counts`` is the array
behind ``data``, for its dtype (int32 or float32)."""

scatter = _make(scatter=True)
"""The same arguments: table[indices[p]] += scale data[p] row[0 : 16 n] for every p."""
