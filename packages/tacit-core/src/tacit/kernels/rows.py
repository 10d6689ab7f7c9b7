"""Sums over rows that lie anywhere in a large table, in vectors, by address.

numba counts references to every view of a row, with a locked instruction that costs more than the work on the row;
and it does not find the processor's products of small whole numbers. Here the loops over columns are written in
LLVM's own vectors, which it turns into what the processor has (AVX-512 or four times as many NEON instructions).

Nothing is checked: addresses must be those of arrays that live on, rows `WIDE` columns or a multiple of them.
Import this only from ``cpu.py`` files: it imports numba.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tacit.kernels.memory import CHUNK, LINE, WIDE

__all__ = ["four_products", "predict", "predict_four", "whole"]

_TOGETHER = 8  # sums that are kept in registers at a time

_INT8, _INT16, _INT32, _INT64 = (ir.IntType(n) for n in (8, 16, 32, 64))
_FLOAT = ir.FloatType()
_FLOATS, _INTS = ir.VectorType(_FLOAT, WIDE), ir.VectorType(_INT32, WIDE)
_FUSED = ("contract",)


class _Code:
    """What the loops below are written in: addresses are whole numbers, as numba passes them."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def at(self, base: Any, *terms: Any) -> Any:
        """Base plus terms; a pair is a product."""
        for term in terms:
            if isinstance(term, tuple):
                term = self.builder.mul(*map(self.whole, term))
            base = self.builder.add(base, self.whole(term))
        return base

    def whole(self, value: Any) -> Any:
        return ir.Constant(_INT64, value) if isinstance(value, int) else value

    def load(self, address: Any, kind: Any) -> Any:
        found = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        found.align = 1
        return found

    def store(self, value: Any, address: Any) -> None:
        place = self.builder.inttoptr(address, value.type.as_pointer())
        self.builder.store(value, place).align = 1

    def pick(self, x: Any, y: Any, places: Iterable[int]) -> Any:
        mask = ir.Constant(ir.VectorType(_INT32, len(list(places))), list(places))
        return self.builder.shuffle_vector(x, y, mask)

    def spread(self, value: Any, n: int = WIDE) -> Any:
        """A vector of n times the same number."""
        nothing = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(_INT32, 0))
        return self.pick(one, one, [0] * n)

    def add_product(self, total: Any, x: Any, y: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(x, y, flags=_FUSED), flags=_FUSED)

    @contextmanager
    def count(self, n: Any) -> Iterator[Any]:
        with cgutils.for_range(self.builder, self.whole(n)) as loop:
            yield loop.index

    def reduced(self, how: str, vector: Any) -> Any:
        kind = ir.FunctionType(vector.type.element, [vector.type])
        name = f"llvm.vector.reduce.{how}.v{vector.type.count}i32"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [vector])

    def variable(self, value: Any) -> Any:
        place = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, place)
        return place


def _predicting(tokens: int) -> Any:
    """The intrinsic below for so many tokens in a row, which share what they read."""

    def predict(  # type: ignore[no-untyped-def]
        typing_context, out, most, bias, tails, u, weights_of_tails, rates, leaving, n, table, weights, last, width
    ):  # fmt: skip
        """Predicted vectors of `tacit.kernels.context_sum` for tokens t = 0 .. and what the tails become before each.

            u_k = rates_k u_k + leaving_t,    out_t = bias + sum_k weights_of_tails_k u_k + sum_i weights_i r_(t - i)

        Tails are k = 0 .. tails - 1, positions i = 0 .. n - 1; r_j is the row of the table for the int32 number at
        ``last`` plus j, so that ``last`` is the address of the word before the first token. ``leaving`` holds the
        addresses of rows. All but ``tails``, ``n`` and ``width`` are addresses; rows are ``width`` float32. ``most``
        takes the largest magnitude in each out, int32, as the bits of a float32 (of NaN or infinity if there is one).
        """
        signature = types.void(
            *[types.uintp] * 3, types.intp, *[types.uintp] * 4, types.intp, *[types.uintp] * 3, types.intp
        )  # fmt: skip
        return signature, lambda context, builder, signature, args: _predict(
            context, builder, tokens, *args
        )

    return intrinsic(predict)


predict, predict_four = _predicting(1), _predicting(4)


def _predict(  # type: ignore[no-untyped-def]
    context, builder, tokens, out, most, bias, tails, u, of_tails, rates, leaving, n, table, weights, last, width
):  # fmt: skip
    code = _Code(builder)
    size = builder.mul(width, code.whole(4))
    largest = [code.variable(ir.Constant(_INTS, [0] * WIDE)) for _ in range(tokens)]
    left = [code.load(code.at(leaving, 8 * t), _INT64) for t in range(tokens)]
    magnitude = ir.Constant(_INTS, [0x7FFFFFFF] * WIDE)

    def row_of(place: Any) -> Any:
        return code.at(table, (builder.sext(code.load(place, _INT32), _INT64), size))

    def block(offset: Any, vectors: int) -> None:
        offsets = [code.at(offset, LINE * v) for v in range(vectors)]
        totals = {
            (t, v): code.variable(code.load(code.at(bias, offsets[v]), _FLOATS))
            for t in range(tokens)
            for v in range(vectors)
        }
        new = {(t, v): code.load(code.at(left[t], offsets[v]), _FLOATS) for t, v in totals}

        def add(key: tuple[int, int], x: Any, weight: Any) -> None:
            sum_ = code.add_product(builder.load(totals[key]), x, weight)
            builder.store(sum_, totals[key])

        with code.count(tails) as k:
            rate = code.spread(code.load(code.at(rates, (k, 4)), _FLOAT))
            for v in range(vectors):
                place = code.at(u, (k, size), offsets[v])
                weight = code.load(code.at(of_tails, (k, size), offsets[v]), _FLOATS)
                tail = code.load(place, _FLOATS)
                for t in range(tokens):
                    tail = code.add_product(new[t, v], rate, tail)
                    add((t, v), tail, weight)
                code.store(tail, place)
        rows = [code.variable(row_of(code.at(last, 4 * t))) for t in range(tokens)]
        with code.count(n) as i:
            for v in range(vectors):
                weight = code.load(code.at(weights, (i, size), offsets[v]), _FLOATS)
                for t in range(tokens):
                    add((t, v), code.load(code.at(builder.load(rows[t]), offsets[v]), _FLOATS), weight)  # fmt: skip
            for t in reversed(range(1, tokens)):  # one word further back: the row of the token before
                builder.store(builder.load(rows[t - 1]), rows[t])
            further = builder.icmp_signed("<", code.at(i, 1), n)  # there may be no word before the last
            place = code.at(last, (builder.select(further, code.at(i, 1), i), -4))
            builder.store(row_of(place), rows[0])
        for (t, v), total in totals.items():
            found = builder.load(total)
            code.store(found, code.at(out, (size, t), offsets[v]))
            bits = builder.and_(builder.bitcast(found, _INTS), magnitude)
            above = builder.load(largest[t])
            larger = builder.icmp_signed(">", bits, above)
            builder.store(builder.select(larger, bits, above), largest[t])

    together = max(1, _TOGETHER // tokens)
    groups = builder.udiv(width, code.whole(together * WIDE))
    with code.count(groups) as g:
        block(builder.mul(g, code.whole(together * LINE)), together)
    done = builder.mul(groups, code.whole(together))
    with code.count(builder.sub(builder.udiv(width, code.whole(WIDE)), done)) as g:
        block(builder.mul(builder.add(done, g), code.whole(LINE)), 1)
    for t in range(tokens):
        code.store(code.reduced("smax", builder.load(largest[t])), code.at(most, 4 * t))
    return context.get_dummy_value()


@intrinsic
def whole(typing_context, row, factor, out, width):  # type: ignore[no-untyped-def]
    """Out = row times factor, rounded to int16; ``row`` and ``out`` are addresses, the row ``width`` float32."""
    signature = types.void(types.uintp, types.float32, types.uintp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(builder)
        row, factor, out, width = args
        factors = code.spread(factor)
        kind = ir.FunctionType(_FLOATS, [_FLOATS])
        nearest = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.v{WIDE}f32")
        with code.count(builder.udiv(width, code.whole(WIDE))) as g:
            scaled = builder.fmul(code.load(code.at(row, (g, LINE)), _FLOATS), factors)
            numbers = builder.fptosi(builder.call(nearest, [scaled]), _INTS)
            shorts = builder.trunc(numbers, ir.VectorType(_INT16, WIDE))
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
        code = _Code(builder)
        x, chunks, unit, *rows, out = args
        shorts = ir.VectorType(_INT16, CHUNK)
        bytes_, wide = ir.VectorType(_INT8, CHUNK), ir.VectorType(_INT32, CHUNK)
        sums = [code.variable(ir.Constant(_INTS, [0] * WIDE)) for _ in rows]
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
        tails = [
            code.load(code.at(row, (chunks, CHUNK)), ir.VectorType(_FLOAT, 2)) for row in rows
        ]
        pairs = [code.pick(*tails[i : i + 2], (0, 2, 1, 3)) for i in (0, 2)]
        scales, biases = code.pick(*pairs, (0, 1, 4, 5)), code.pick(*pairs, (2, 3, 6, 7))
        floats = builder.sitofp(exact, ir.VectorType(_FLOAT, 4))
        scaled = builder.fmul(scales, code.spread(unit, 4))
        code.store(code.add_product(biases, floats, scaled), out)
        return context.get_dummy_value()

    return signature, generate


def _summed_up(code: _Code, vectors: list[Any]) -> Any:
    """The sums of the elements of four vectors, side by side: half the steps that one after the other would take."""
    add = code.builder.add
    lanes = range(0, WIDE, 4)

    def joined(x: Any, y: Any, first: tuple[int, ...], second: tuple[int, ...]) -> Any:
        return add(*(code.pick(x, y, [lane + i for lane in lanes for i in each]) for each in (first, second)))  # fmt: skip

    y = WIDE  # where the elements of the second vector are counted from
    two = [
        joined(*vectors[i : i + 2], (0, y, 1, y + 1), (2, y + 2, 3, y + 3)) for i in (0, 2)
    ]
    four = joined(*two, (0, 1, y, y + 1), (2, 3, y + 2, y + 3))
    half = add(code.pick(four, four, range(8)), code.pick(four, four, range(8, 16)))
    return add(code.pick(half, half, range(4)), code.pick(half, half, range(4, 8)))
