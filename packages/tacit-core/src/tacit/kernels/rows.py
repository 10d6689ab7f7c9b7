"""Sums over rows that lie anywhere in a large table, in vectors, by address.

numba counts references to every view of a row, with a locked instruction that costs more than the work on the row;
and it does not find the processor's products of small whole numbers. Here the loops over columns are written in
LLVM's own vectors, which it turns into what the processor has (AVX-512 or four times as many NEON instructions).

Nothing is checked: addresses must be those of arrays that live on. Rows of any width will do; multiples of 16 do best.
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

__all__ = ["adagrad", "blame", "blame_four", "four_dots", "four_products", "mix", "predict", "predict_four", "whole"]

_TOGETHER = 8  # sums that are kept in registers at a time

_INT8, _INT16, _INT32, _INT64 = (ir.IntType(n) for n in (8, 16, 32, 64))
_FLOAT = ir.FloatType()
_KINDS = (WIDE, 4, 1)  # columns of float32 at a time: most of a row, and what is left of it
_FLOATS, _INTS = ir.VectorType(_FLOAT, WIDE), ir.VectorType(_INT32, WIDE)
_FUSED = ("contract",)


class _Code:
    """What the loops below are written in: addresses are whole numbers, as numba passes them."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def at(self, base: Any, *terms: Any) -> Any:
        """Base plus terms; a pair is a product."""
        base = self.whole(base)
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
        """A vector of n times the same number; the number itself for 1."""
        if n == 1:
            return value
        nothing = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(_INT32, 0))
        return self.pick(one, one, [0] * n)

    def add_product(self, total: Any, x: Any, y: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(x, y, flags=_FUSED), flags=_FUSED)

    @contextmanager
    def count(self, n: Any) -> Iterator[Any]:
        with cgutils.for_range(self.builder, self.whole(n)) as loop:
            yield loop.index

    def over(self, width: Any, most: int, block: Any) -> None:
        """Calls ``block(offset, kind, vectors)`` for all columns: at ``offset`` bytes of a row lie so many numbers of a
        kind, vectors of float32 or single ones.
        """
        done: Any = self.whole(0)
        for columns in _KINDS:
            kind = ir.VectorType(_FLOAT, columns) if columns > 1 else _FLOAT
            for vectors in sorted({most, min(most, 4), 1} if columns == WIDE else {1})[::-1]:
                at_once = columns * vectors
                n = self.builder.udiv(self.builder.sub(width, done), self.whole(at_once))
                with self.count(n) as i:
                    block(self.at(0, (self.at(done, (i, at_once)), 4)), kind, vectors)
                done = self.at(done, (n, at_once))

    def widened(self, value: Any) -> Any:
        """The same elements and zeros behind them, a whole vector."""
        if self.columns(value.type) == WIDE:
            return value
        nothing = ir.Constant(_FLOATS, None)
        if self.columns(value.type) == 1:
            return self.builder.insert_element(nothing, value, ir.Constant(_INT32, 0))
        return self.pick(value, ir.Constant(value.type, None), [0, 1, 2, 3, *[4] * (WIDE - 4)])

    def quarter(self, vector: Any) -> Any:
        """The sums of every fourth element, four of them."""
        exact = isinstance(vector.type.element, ir.IntType)
        add = self.builder.add if exact else self.builder.fadd
        half = add(self.pick(vector, vector, range(8)), self.pick(vector, vector, range(8, 16)))
        return add(self.pick(half, half, range(4)), self.pick(half, half, range(4, 8)))

    def size_of(self, kind: Any) -> int:
        return 4 * self.columns(kind)

    def columns(self, kind: Any) -> int:
        return int(getattr(kind, "count", 1))

    def reduced(self, how: str, vector: Any) -> Any:
        kind = ir.FunctionType(vector.type.element, [vector.type])
        name = f"llvm.vector.reduce.{how}.v{vector.type.count}i32"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [vector])

    def keep_larger(self, place: Any, floats: Any) -> None:
        """The larger magnitudes, as bits, of what is kept there and of these floats."""
        kind = place.type.pointee
        if isinstance(floats.type, ir.VectorType) and not isinstance(kind, ir.VectorType):
            for i in range(floats.type.count):
                self.keep_larger(
                    place, self.builder.extract_element(floats, ir.Constant(_INT32, i))
                )
            return
        count = getattr(kind, "count", 0)
        mask = ir.Constant(kind, [0x7FFFFFFF] * count if count else 0x7FFFFFFF)
        bits = self.builder.and_(self.builder.bitcast(floats, kind), mask)
        kept = self.builder.load(place)
        larger = self.builder.icmp_signed(">", bits, kept)
        self.builder.store(self.builder.select(larger, bits, kept), place)

    def variable(self, value: Any) -> Any:
        place = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, place)
        return place


def _over_tokens(tokens: int, generate: Any) -> Any:
    """An intrinsic for so many tokens in a row, which share what they read; see the lines below."""

    def run(  # type: ignore[no-untyped-def]
        typing_context, out, most, bias, tails, u, weights_of_tails, rates, leaving, n, table, weights, last, width
    ):  # fmt: skip
        signature = types.void(
            *[types.uintp] * 3, types.intp, *[types.uintp] * 4, types.intp, *[types.uintp] * 3, types.intp
        )  # fmt: skip
        return signature, lambda context, builder, signature, args: (
            generate(_Code(builder), tokens, *args) or context.get_dummy_value()
        )

    return intrinsic(run)


class _Window:
    """The rows of the words before each of some tokens, one position after another."""

    def __init__(self, code: _Code, tokens: int, table: Any, last: Any, n: Any, size: Any) -> None:
        self.code, self.tokens, self.table, self.last, self.n, self.size = code, tokens, table, last, n, size  # fmt: skip

    def row_of(self, place: Any) -> Any:
        number = self.code.builder.sext(self.code.load(place, _INT32), _INT64)
        return self.code.at(self.table, (number, self.size))

    def over(self, work: Any) -> None:
        """Calls ``work(i, rows)`` with the addresses of the i-th last words' rows."""
        code, builder = self.code, self.code.builder
        rows = [code.variable(self.row_of(code.at(self.last, 4 * t))) for t in range(self.tokens)]
        with code.count(self.n) as i:
            work(i, [builder.load(row) for row in rows])
            for t in reversed(range(1, self.tokens)):  # one further back: the row of the token before
                builder.store(builder.load(rows[t - 1]), rows[t])
            further = builder.icmp_signed("<", code.at(i, 1), self.n)  # else there may be no word
            place = code.at(self.last, (builder.select(further, code.at(i, 1), i), -4))
            builder.store(self.row_of(place), rows[0])


def _predict(  # type: ignore[no-untyped-def]
    code, tokens, out, most, bias, tails, u, of_tails, rates, leaving, n, table, weights, last, width
):  # fmt: skip
    builder, size = code.builder, code.at(0, (width, 4))
    largest = {
        kind: [code.variable(ir.Constant(kind, None)) for _ in range(tokens)]
        for kind in (_INTS, _INT32)
    }
    left = [code.load(code.at(leaving, 8 * t), _INT64) for t in range(tokens)]
    window = _Window(code, tokens, table, last, n, size)

    def block(offset: Any, kind: Any, vectors: int) -> None:
        offsets = [code.at(offset, code.size_of(kind) * v) for v in range(vectors)]
        keys = [(t, v) for t in range(tokens) for v in range(vectors)]
        totals = {
            (t, v): code.variable(code.load(code.at(bias, offsets[v]), kind)) for t, v in keys
        }
        new = {(t, v): code.load(code.at(left[t], offsets[v]), kind) for t, v in keys}

        def add(key: tuple[int, int], x: Any, weight: Any) -> None:
            sum_ = code.add_product(builder.load(totals[key]), x, weight)
            builder.store(sum_, totals[key])

        with code.count(tails) as k:
            rate = code.spread(code.load(code.at(rates, (k, 4)), _FLOAT), code.columns(kind))
            for v in range(vectors):
                place = code.at(u, (k, size), offsets[v])
                weight = code.load(code.at(of_tails, (k, size), offsets[v]), kind)
                tail = code.load(place, kind)
                for t in range(tokens):
                    tail = code.add_product(new[t, v], rate, tail)
                    add((t, v), tail, weight)
                code.store(tail, place)

        def add_words(i: Any, rows: list[Any]) -> None:
            for v in range(vectors):
                weight = code.load(code.at(weights, (i, size), offsets[v]), kind)
                for t in range(tokens):
                    add((t, v), code.load(code.at(rows[t], offsets[v]), kind), weight)

        window.over(add_words)
        for (t, v), total in totals.items():
            found = builder.load(total)
            code.store(found, code.at(out, (size, t), offsets[v]))
            code.keep_larger(largest[_INTS if code.columns(kind) == WIDE else _INT32][t], found)

    code.over(width, max(1, _TOGETHER // tokens), block)
    for t in range(tokens):
        wide, single = (builder.load(largest[kind][t]) for kind in (_INTS, _INT32))
        wide = code.reduced("smax", wide)
        larger = builder.icmp_signed(">", wide, single)
        code.store(builder.select(larger, wide, single), code.at(most, 4 * t))


def _blame(  # type: ignore[no-untyped-def]
    code, tokens, grad, most, d_bias, tails, u, d_tails, rates, leaving, n, table, d_weights, last, width
):  # fmt: skip
    builder, size = code.builder, code.at(0, (width, 4))
    left = [code.load(code.at(leaving, 8 * t), _INT64) for t in range(tokens)]
    window = _Window(code, tokens, table, last, n, size)

    def block(offset: Any, kind: Any, vectors: int) -> None:
        offsets = [code.at(offset, code.size_of(kind) * v) for v in range(vectors)]
        keys = [(t, v) for t in range(tokens) for v in range(vectors)]
        g = {(t, v): code.load(code.at(grad, (size, t), offsets[v]), kind) for t, v in keys}
        new = {(t, v): code.load(code.at(left[t], offsets[v]), kind) for t, v in keys}
        for v, o in enumerate(offsets):
            total = code.load(code.at(d_bias, o), kind)
            for t in range(tokens):
                total = builder.fadd(total, g[t, v])
            code.store(total, code.at(d_bias, o))
        with code.count(tails) as k:
            rate = code.spread(code.load(code.at(rates, (k, 4)), _FLOAT), code.columns(kind))
            for v, o in enumerate(offsets):
                place, sum_ = code.at(u, (k, size), o), code.at(d_tails, (k, size), o)
                tail, total = code.load(place, kind), code.load(sum_, kind)
                for t in range(tokens):
                    tail = code.add_product(new[t, v], rate, tail)
                    total = code.add_product(total, g[t, v], tail)
                code.store(tail, place)
                code.store(total, sum_)

        def add_words(i: Any, rows: list[Any]) -> None:
            for v, o in enumerate(offsets):
                sum_ = code.at(d_weights, (i, size), o)
                total = code.load(sum_, kind)
                for t in range(tokens):
                    total = code.add_product(total, g[t, v], code.load(code.at(rows[t], o), kind))
                code.store(total, sum_)

        window.over(add_words)

    code.over(width, max(1, _TOGETHER // tokens), block)


predict, predict_four = _over_tokens(1, _predict), _over_tokens(4, _predict)
"""Predicted vectors of `tacit.kernels.context_sum` for tokens t = 0 .. and what the tails become before each.

    u_k = rates_k u_k + leaving_t,    out_t = bias + sum_k weights_of_tails_k u_k + sum_i weights_i r_(t - i)

Tails are k = 0 .. tails - 1, positions i = 0 .. n - 1; r_j is the row of the table for the int32 number at ``last``
plus j, so that ``last`` is the address of the word before the first token. ``leaving`` holds the addresses of rows. All
but ``tails``, ``n`` and ``width`` are addresses; rows are ``width`` float32. ``most`` takes the largest magnitude in
each out, int32, as the bits of a float32 (of NaN or infinity if there is one).
"""

blame, blame_four = _over_tokens(1, _blame), _over_tokens(4, _blame)
"""The gradients of bias and weights, with the same arguments: ``out`` is the gradient by the predicted vectors, and to
``bias``, ``weights_of_tails`` and ``weights`` their gradients are added. ``most`` is not touched.
"""


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


@intrinsic
def four_dots(typing_context, x, width, row0, row1, row2, row3, out):  # type: ignore[no-untyped-def]
    """``out[j] = x . row_j`` for four rows of ``width`` float32; addresses otherwise."""
    signature = types.void(types.uintp, types.intp, *[types.uintp] * 5)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(builder)
        x, width, *rows, out = args
        sums = [code.variable(ir.Constant(_FLOATS, None)) for _ in rows]

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
        code = _Code(builder)
        out, weights, table, numbers, n, width = args
        size = builder.mul(width, code.whole(4))

        def block(offset: Any, kind: Any, vectors: int) -> None:
            offsets = [code.at(offset, code.size_of(kind) * v) for v in range(vectors)]
            totals = [code.variable(ir.Constant(kind, None)) for _ in offsets]
            with code.count(n) as j:
                number = builder.sext(code.load(code.at(numbers, (j, 4)), _INT32), _INT64)
                row = code.at(table, (number, size))
                weight = code.load(code.at(weights, (j, 4)), _FLOAT)
                weight = code.spread(weight, code.columns(kind))
                for o, total in zip(offsets, totals, strict=True):
                    x = code.load(code.at(row, o), kind)
                    builder.store(code.add_product(builder.load(total), weight, x), total)
            for o, total in zip(offsets, totals, strict=True):
                code.store(builder.load(total), code.at(out, o))

        code.over(width, _TOGETHER, block)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def adagrad(typing_context, row, sum_, gradient, rate, epsilon, width):  # type: ignore[no-untyped-def]
    """One step of `tacit.kernels.row_steps` on a row of ``width`` float32, whose accumulator is at ``sum_``."""
    signature = types.void(*[types.uintp] * 3, types.float32, types.float32, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = _Code(builder)
        row, sum_, gradient, rate, epsilon, width = args
        squares = code.variable(ir.Constant(_FLOATS, None))

        def add_square(offset: Any, kind: Any, vectors: int) -> None:
            g = code.widened(code.load(code.at(gradient, offset), kind))
            builder.store(code.add_product(builder.load(squares), g, g), squares)

        code.over(width, 1, add_square)
        quarters = code.quarter(builder.load(squares))
        square: Any = ir.Constant(_FLOAT, 0)
        for i in range(4):
            square = builder.fadd(square, builder.extract_element(quarters, ir.Constant(_INT32, i)))
        mean = builder.fdiv(square, builder.sitofp(width, _FLOAT))
        total = builder.fadd(code.load(sum_, _FLOAT), mean)
        code.store(total, sum_)
        kind = ir.FunctionType(_FLOAT, [_FLOAT])
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


def _summed_up(code: _Code, vectors: list[Any]) -> Any:
    """The sums of the elements of four vectors, side by side: half the steps that one after the other would take."""
    exact = isinstance(vectors[0].type.element, ir.IntType)
    add = code.builder.add if exact else code.builder.fadd
    lanes = range(0, WIDE, 4)

    def joined(x: Any, y: Any, first: tuple[int, ...], second: tuple[int, ...]) -> Any:
        return add(*(code.pick(x, y, [lane + i for lane in lanes for i in each]) for each in (first, second)))  # fmt: skip

    y = WIDE  # where the elements of the second vector are counted from
    two = [
        joined(*vectors[i : i + 2], (0, y, 1, y + 1), (2, y + 2, 3, y + 3)) for i in (0, 2)
    ]
    four = joined(*two, (0, 1, y, y + 1), (2, 3, y + 2, y + 3))
    return code.quarter(four)
