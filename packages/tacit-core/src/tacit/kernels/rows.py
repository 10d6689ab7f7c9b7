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

__all__ = ["four_products", "predict"]

_TOGETHER = 4  # vectors of a row summed up at a time

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

    def variable(self, value: Any) -> Any:
        place = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, place)
        return place


@intrinsic
def predict(  # type: ignore[no-untyped-def]
    typing_context, out, bias, tails, u, weights_of_tails, rates, leaving, n, table, weights, last, width
):  # fmt: skip
    """One predicted vector, of `tacit.kernels.context_sum`, and what its tails become before that.

        u_k = rates_k u_k + leaving,    out = bias + sum_k weights_of_tails_k u_k + sum_i weights_i table[last[-i]]

    Tails are k = 0 .. tails - 1, positions i = 0 .. n - 1; ``last`` is the address of the int32 number of the last
    word, after those before it. All but ``tails``, ``n`` and ``width`` are addresses; rows are ``width`` float32.
    Returns the largest magnitude in out, as the bits of a float32 (one of NaN or infinity where there is one).
    """
    signature = types.int32(*[types.uintp] * 2, types.intp, *[types.uintp] * 4, types.intp, *[types.uintp] * 3, types.intp)  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(builder)
        out, bias, tails, u, of_tails, rates, leaving, n, table, weights, last, width = args
        size = builder.mul(width, code.whole(4))
        most = code.variable(ir.Constant(_INTS, [0] * WIDE))
        magnitude = ir.Constant(_INTS, [0x7FFFFFFF] * WIDE)

        def block(vectors: int, offset: Any) -> None:
            offsets = [code.at(offset, LINE * j) for j in range(vectors)]
            totals = [code.variable(code.load(code.at(bias, o), _FLOATS)) for o in offsets]

            def add(j: int, x: Any, weight: Any) -> None:
                builder.store(code.add_product(builder.load(totals[j]), x, weight), totals[j])

            new = [code.load(code.at(leaving, o), _FLOATS) for o in offsets]
            with code.count(tails) as k:
                rate = code.spread(code.load(code.at(rates, (k, 4)), _FLOAT))
                for j, o in enumerate(offsets):
                    place = code.at(u, (k, size), o)
                    faded = code.add_product(new[j], rate, code.load(place, _FLOATS))
                    code.store(faded, place)
                    add(j, faded, code.load(code.at(of_tails, (k, size), o), _FLOATS))
            with code.count(n) as i:
                word = builder.sext(code.load(code.at(last, (i, -4)), _INT32), _INT64)
                row, weight = code.at(table, (word, size)), code.at(weights, (i, size))
                for j, o in enumerate(offsets):
                    add(j, code.load(code.at(row, o), _FLOATS), code.load(code.at(weight, o), _FLOATS))  # fmt: skip
            for o, total in zip(offsets, totals, strict=True):
                found = builder.load(total)
                code.store(found, code.at(out, o))
                bits = builder.and_(builder.bitcast(found, _INTS), magnitude)
                above = builder.load(most)
                larger = builder.icmp_signed(">", bits, above)
                builder.store(builder.select(larger, bits, above), most)

        groups = builder.udiv(width, code.whole(_TOGETHER * WIDE))
        with code.count(groups) as g:
            block(_TOGETHER, builder.mul(g, code.whole(_TOGETHER * LINE)))
        done = builder.mul(groups, code.whole(_TOGETHER))
        with code.count(builder.sub(builder.udiv(width, code.whole(WIDE)), done)) as g:
            block(1, builder.mul(builder.add(done, g), code.whole(LINE)))
        name = f"llvm.vector.reduce.smax.v{WIDE}i32"
        kind = ir.FunctionType(_INT32, [_INTS])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, name), [builder.load(most)]
        )

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
