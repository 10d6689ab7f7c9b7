"""What loops over columns are written in: LLVM's instructions, with addresses as numba passes them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from tacenda.kernels.machinery.memory import WIDE

TOGETHER = 8  # sums that are kept in registers at a time

INT8, INT16, INT32, INT64 = (ir.IntType(n) for n in (8, 16, 32, 64))
FLOAT = ir.FloatType()
KINDS = (WIDE, 4, 1)  # columns of float32 at a time: most of a row, and what is left of it
FLOATS, INTS = ir.VectorType(FLOAT, WIDE), ir.VectorType(INT32, WIDE)
FUSED = ("contract",)


class Code:
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
        return ir.Constant(INT64, value) if isinstance(value, int) else value

    def load(self, address: Any, kind: Any) -> Any:
        found = self.builder.load(self.builder.inttoptr(address, kind.as_pointer()))
        found.align = 1
        return found

    def store(self, value: Any, address: Any) -> None:
        place = self.builder.inttoptr(address, value.type.as_pointer())
        self.builder.store(value, place).align = 1

    def pick(self, x: Any, y: Any, places: Iterable[int]) -> Any:
        mask = ir.Constant(ir.VectorType(INT32, len(list(places))), list(places))
        return self.builder.shuffle_vector(x, y, mask)

    def spread(self, value: Any, n: int = WIDE) -> Any:
        """A vector of n times the same number; the number itself for 1."""
        if n == 1:
            return value
        nothing = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(INT32, 0))
        return self.pick(one, one, [0] * n)

    def add_product(self, total: Any, x: Any, y: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(x, y, flags=FUSED), flags=FUSED)

    @contextmanager
    def count(self, n: Any) -> Iterator[Any]:
        with cgutils.for_range(self.builder, self.whole(n)) as loop:
            yield loop.index

    def over(self, width: Any, most: int, block: Any) -> None:
        """Calls ``block(offset, kind, vectors)`` for all columns: at ``offset`` bytes of a row lie so many numbers of a
        kind, vectors of float32 or single ones.
        """
        done: Any = self.whole(0)
        for columns in KINDS:
            kind = ir.VectorType(FLOAT, columns) if columns > 1 else FLOAT
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
        nothing = ir.Constant(FLOATS, None)
        if self.columns(value.type) == 1:
            return self.builder.insert_element(nothing, value, ir.Constant(INT32, 0))
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
                self.keep_larger(place, self.builder.extract_element(floats, ir.Constant(INT32, i)))
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
