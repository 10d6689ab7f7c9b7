"""Ask for cache lines before they are needed, in compiled loops that gather rows of a large table.

A row that is not in the cache costs some hundred nanoseconds, more than the work on it; asked for while the row before
it is worked on, it costs next to nothing. This is a hint: it changes no result and faults on no address. Import this
module only from ``cpu.py`` files: it imports numba.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from tacenda.kernels.machinery.memory import LINE

__all__ = ["prefetch"]

_BYTE, _INT32, _INT64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)


@intrinsic
def prefetch(typing_context: Any, array: Any, offset: Any, n: Any) -> Any:
    """``prefetch(array, offset, n)``: ask for ``array.ravel()[offset : offset + n]`` of an array in C order."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        raise TypingError(f"only arrays in C order can be asked for by offset, not {array}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        first = builder.bitcast(builder.gep(data, [arguments[1]]), _BYTE)
        size = builder.mul(arguments[2], ir.Constant(_INT64, array.dtype.bitwidth // 8))
        kind = ir.FunctionType(ir.VoidType(), [_BYTE, _INT32, _INT32, _INT32])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, every_cache, data_not_code = (ir.Constant(_INT32, n) for n in (0, 3, 1))
        lines = builder.sdiv(
            builder.add(size, ir.Constant(_INT64, LINE - 1)), ir.Constant(_INT64, LINE)
        )
        with cgutils.for_range(builder, lines) as loop:
            line = builder.gep(first, [builder.mul(loop.index, ir.Constant(_INT64, LINE))])
            builder.call(hint, [line, read, every_cache, data_not_code])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate
