"""Products with rows of a table, sums of rows, and steps on them."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tacenda.kernels.machinery.memory import CHUNK, LINE, WIDE
from tacenda.kernels.machinery.rows.code import (
    FLOAT,
    FLOATS,
    INT8,
    INT16,
    INT32,
    INT64,
    INTS,
    TOGETHER,
    Code,
)

__all__ = ["adagrad", "four_dots", "four_products", "mix", "whole"]


@intrinsic
def whole(typing_context, row, factor, out, width):  # type: ignore[no-untyped-def]
    """Out = row times factor, rounded to int16; ``row`` and ``out`` are addresses, the row ``width`` float32."""
    signature = types.void(types.uintp, types.float32, types.uintp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        row, factor, out, width = args
        factors = code.spread(factor)
        kind = ir.FunctionType(FLOATS, [FLOATS])
        nearest = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.v{WIDE}f32")
        with code.count(builder.udiv(width, code.whole(WIDE))) as g:
            scaled = builder.fmul(code.load(code.at(row, (g, LINE)), FLOATS), factors)
            numbers = builder.fptosi(builder.call(nearest, [scaled]), INTS)
            shorts = builder.trunc(numbers, ir.VectorType(INT16, WIDE))
            code.store(shorts, code.at(out, (g, LINE // 2)))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def four_products(typing_context, x, chunks, unit, row0, row1, row2, row3, out):  # type: ignore[no-untyped-def]
    """``out[j] = (x . row_j) unit scale_j + bias_j`` for four rows, exact but for the last two operations.

    x are ``chunks`` times 32 int16, a row as many int8 and after them its scale and its bias, float32; ``unit`` is a
    float32, all else addresses. Sums are int32: the caller sees to it that none overflows.
    """
    signature = types.void(types.uintp, types.intp, types.float32, *[types.uintp] * 5)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        x, chunks, unit, *rows, out = args
        shorts = ir.VectorType(INT16, CHUNK)
        bytes_, wide = ir.VectorType(INT8, CHUNK), ir.VectorType(INT32, CHUNK)
        sums = [code.variable(ir.Constant(INTS, [0] * WIDE)) for _ in rows]
        with code.count(chunks) as c:
            left = builder.sext(code.load(code.at(x, (c, 2 * CHUNK)), shorts), wide)
            for row, total in zip(rows, sums, strict=True):
                right = builder.sext(code.load(code.at(row, (c, CHUNK)), bytes_), wide)
                products = builder.mul(left, right)
                even = code.pick(products, products, range(0, CHUNK, 2))
                odd = code.pick(products, products, range(1, CHUNK, 2))
                pairs = builder.add(even, odd)  # one instruction, with the product: vpdpwssd
                builder.store(builder.add(builder.load(total), pairs), total)
        exact = _summed_up(code, [builder.load(total) for total in sums])
        tails = [code.load(code.at(row, (chunks, CHUNK)), ir.VectorType(FLOAT, 2)) for row in rows]
        pairs = [code.pick(tails[i], tails[i + 1], (0, 2, 1, 3)) for i in (0, 2)]
        scales = code.pick(pairs[0], pairs[1], (0, 1, 4, 5))
        biases = code.pick(pairs[0], pairs[1], (2, 3, 6, 7))
        floats = builder.sitofp(exact, ir.VectorType(FLOAT, 4))
        scaled = builder.fmul(scales, code.spread(unit, 4))
        code.store(code.add_product(biases, floats, scaled), out)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def four_dots(typing_context, x, width, row0, row1, row2, row3, out):  # type: ignore[no-untyped-def]
    """``out[j] = x . row_j`` for four rows of ``width`` float32; addresses otherwise."""
    signature = types.void(types.uintp, types.intp, *[types.uintp] * 5)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        x, width, *rows, out = args
        sums = [code.variable(ir.Constant(FLOATS, None)) for _ in rows]

        def block(offset: Any, kind: Any, vectors: int) -> None:
            left = code.widened(code.load(code.at(x, offset), kind))
            for row, total in zip(rows, sums, strict=True):
                right = code.widened(code.load(code.at(row, offset), kind))
                builder.store(code.add_product(builder.load(total), left, right), total)

        code.over(width, 1, block)
        total = _summed_up(code, [builder.load(total) for total in sums])
        code.store(total, out)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def mix(typing_context, out, weights, table, numbers, n, width):  # type: ignore[no-untyped-def]
    """``out = sum_j weights[j] table[numbers[j]]``, j = 0 .. n - 1, in this order; ``numbers`` int32, the rest float32.
    ``n`` and ``width`` are numbers and all else addresses.
    """
    signature = types.void(*[types.uintp] * 4, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        out, weights, table, numbers, n, width = args
        size = builder.mul(width, code.whole(4))

        def block(offset: Any, kind: Any, vectors: int) -> None:
            offsets = [code.at(offset, code.size_of(kind) * v) for v in range(vectors)]
            totals = [code.variable(ir.Constant(kind, None)) for _ in offsets]
            with code.count(n) as j:
                number = builder.sext(code.load(code.at(numbers, (j, 4)), INT32), INT64)
                row = code.at(table, (number, size))
                weight = code.load(code.at(weights, (j, 4)), FLOAT)
                weight = code.spread(weight, code.columns(kind))
                for o, total in zip(offsets, totals, strict=True):
                    x = code.load(code.at(row, o), kind)
                    builder.store(code.add_product(builder.load(total), weight, x), total)
            for o, total in zip(offsets, totals, strict=True):
                code.store(builder.load(total), code.at(out, o))

        code.over(width, TOGETHER, block)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def adagrad(typing_context, row, sum_, gradient, rate, epsilon, width):  # type: ignore[no-untyped-def]
    """One step of `shared.row_steps` on a row of ``width`` float32, whose accumulator is at ``sum_``."""
    signature = types.void(*[types.uintp] * 3, types.float32, types.float32, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        row, sum_, gradient, rate, epsilon, width = args
        squares = code.variable(ir.Constant(FLOATS, None))

        def add_square(offset: Any, kind: Any, vectors: int) -> None:
            g = code.widened(code.load(code.at(gradient, offset), kind))
            builder.store(code.add_product(builder.load(squares), g, g), squares)

        code.over(width, 1, add_square)
        quarters = code.quarter(builder.load(squares))
        square: Any = ir.Constant(FLOAT, 0)
        for i in range(4):
            square = builder.fadd(square, builder.extract_element(quarters, ir.Constant(INT32, i)))
        mean = builder.fdiv(square, builder.sitofp(width, FLOAT))
        total = builder.fadd(code.load(sum_, FLOAT), mean)
        code.store(total, sum_)
        kind = ir.FunctionType(FLOAT, [FLOAT])
        root = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.f32")
        step = builder.fdiv(rate, builder.fadd(builder.call(root, [total]), epsilon))
        down = builder.fneg(step)

        def move(offset: Any, kind: Any, vectors: int) -> None:
            place, g = code.at(row, offset), code.load(code.at(gradient, offset), kind)
            scale = code.spread(down, code.columns(kind))
            code.store(code.add_product(code.load(place, kind), scale, g), place)

        code.over(width, 1, move)
        return context.get_dummy_value()

    return signature, generate


def _summed_up(code: Code, vectors: list[Any]) -> Any:
    """The sums of the elements of four vectors, side by side: half the steps that one after the other would take."""
    exact = isinstance(vectors[0].type.element, ir.IntType)
    add = code.builder.add if exact else code.builder.fadd
    lanes = range(0, WIDE, 4)

    def joined(x: Any, y: Any, first: tuple[int, ...], second: tuple[int, ...]) -> Any:
        parts = ([lane + i for lane in lanes for i in each] for each in (first, second))
        return add(*(code.pick(x, y, part) for part in parts))

    y = WIDE  # where the elements of the second vector are counted from
    two = [
        joined(vectors[i], vectors[i + 1], (0, y, 1, y + 1), (2, y + 2, 3, y + 3)) for i in (0, 2)
    ]
    four = joined(two[0], two[1], (0, 1, y, y + 1), (2, 3, y + 2, y + 3))
    return code.quarter(four)
