"""Predicted vectors and their gradients: sums over the words before each of some tokens."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tacenda.kernels.machinery.memory import WIDE
from tacenda.kernels.machinery.rows.code import FLOAT, INT32, INT64, INTS, TOGETHER, Code

__all__ = ["blame", "blame_four", "predict", "predict_four"]


def _over_tokens(tokens: int, generate: Any) -> Any:
    """An intrinsic for so many tokens in a row, which share what they read; see the lines below."""

    def run(  # type: ignore[no-untyped-def]
        typing_context, out, most, bias, tails, u, weights_of_tails, rates, leaving, n, table, weights, last, width
    ):  # fmt: skip
        signature = types.void(
            *[types.uintp] * 3, types.intp, *[types.uintp] * 4, types.intp, *[types.uintp] * 3, types.intp
        )  # fmt: skip
        return (
            signature,
            lambda context, builder, signature, args: (
                generate(Code(builder), tokens, *args) or context.get_dummy_value()
            ),
        )

    return intrinsic(run)


class _Window:
    """The rows of the words before each of some tokens, one position after another."""

    def __init__(self, code: Code, tokens: int, table: Any, last: Any, n: Any, size: Any) -> None:
        self.code, self.tokens = code, tokens
        self.table, self.last, self.n, self.size = table, last, n, size

    def row_of(self, place: Any) -> Any:
        number = self.code.builder.sext(self.code.load(place, INT32), INT64)
        return self.code.at(self.table, (number, self.size))

    def over(self, work: Any) -> None:
        """Calls ``work(i, rows)`` with the addresses of the i-th last words' rows."""
        code, builder = self.code, self.code.builder
        rows = [code.variable(self.row_of(code.at(self.last, 4 * t))) for t in range(self.tokens)]
        with code.count(self.n) as i:
            work(i, [builder.load(row) for row in rows])
            for t in reversed(
                range(1, self.tokens)
            ):  # one further back: the row of the token before
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
        for kind in (INTS, INT32)
    }
    left = [code.load(code.at(leaving, 8 * t), INT64) for t in range(tokens)]
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
            rate = code.spread(code.load(code.at(rates, (k, 4)), FLOAT), code.columns(kind))
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
            code.keep_larger(largest[INTS if code.columns(kind) == WIDE else INT32][t], found)

    code.over(width, max(1, TOGETHER // tokens), block)
    for t in range(tokens):
        wide, single = (builder.load(largest[kind][t]) for kind in (INTS, INT32))
        wide = code.reduced("smax", wide)
        larger = builder.icmp_signed(">", wide, single)
        code.store(builder.select(larger, wide, single), code.at(most, 4 * t))


def _blame(  # type: ignore[no-untyped-def]
    code, tokens, grad, most, d_bias, tails, u, d_tails, rates, leaving, n, table, d_weights, last, width
):  # fmt: skip
    builder, size = code.builder, code.at(0, (width, 4))
    left = [code.load(code.at(leaving, 8 * t), INT64) for t in range(tokens)]
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
            rate = code.spread(code.load(code.at(rates, (k, 4)), FLOAT), code.columns(kind))
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

    code.over(width, max(1, TOGETHER // tokens), block)


predict, predict_four = _over_tokens(1, _predict), _over_tokens(4, _predict)
"""Predicted vectors of `log_bilinear.context_sum` for tokens t = 0 .. and what the tails become before each.

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
